//! The oracle of the malloc: callers, and beside them the simple truth about what they were given.
//!
//! ```text
//! Claims        which bytes somebody has, by 64 KiB unit; shared by all callers
//! Object        a block, what was asked for, and the pattern that fills it to its last usable byte
//! ShadowMalloc  one thread's calls on a few caches of its own
//! ```
//!
//! Several caches in one thread are as good as several threads in everything but timing: their frees of each other's
//! blocks travel the same way, and a failure can be repeated and shrunk. Threads of their own add the timing.

use crate::malloc_programs::Call;
use freehold_core::machine::Machine;
use freehold_core::malloc::units::UNIT;
use freehold_core::malloc::{Cache, NodeHeap};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Requests beyond this must be refused by any machine.
const ABSURD: usize = 1 << 47;
/// Up to this a block is filled and read word by word; of longer ones, samples on every page.
const DENSE: usize = 2048;
/// Distance of samples, in words.
const SAMPLE: usize = 61;
const SHARDS: usize = 64;
/// Caches of one caller.
pub const CACHES: usize = 3;

fn demand(holds: bool, lie: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(lie()) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which bytes have an owner: start and end of every piece, by the unit that it lies in.
#[derive(Debug)]
pub struct Claims {
    shards: [Mutex<BTreeMap<usize, usize>>; SHARDS],
}

impl Default for Claims {
    fn default() -> Claims {
        Claims { shards: [const { Mutex::new(BTreeMap::new()) }; SHARDS] }
    }
}

impl Claims {
    /// The pieces of a range, none of which crosses the edge of a unit.
    fn pieces(at: usize, end: usize) -> impl Iterator<Item = (usize, usize)> {
        let first = at & !(UNIT - 1);
        (first..end).step_by(UNIT).map(move |unit| (unit.max(at), (unit + UNIT).min(end)))
    }

    fn shard(&self, at: usize) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        lock(&self.shards[at / UNIT % SHARDS])
    }

    /// Nobody had any byte of the range; now the caller has.
    fn take(&self, at: usize, end: usize) -> Result<(), String> {
        for (at, end) in Claims::pieces(at, end) {
            let mut shard = self.shard(at);
            let below = shard.range(..end).next_back().map(|(&at, &end)| (at, end));
            demand(below.is_none_or(|(_, other_end)| other_end <= at), || {
                format!("{at:#x}..{end:#x} was given out, but {below:x?} is in use")
            })?;
            shard.insert(at, end);
        }
        Ok(())
    }

    /// The caller gives the range up.
    fn give(&self, at: usize, end: usize) {
        for (at, _) in Claims::pieces(at, end) {
            self.shard(at).remove(&at);
        }
    }
}

/// A block in use.
#[derive(Debug)]
pub struct Object {
    at: usize,
    size: usize,
    usable: usize,
    seed: u64,
}

impl Object {
    fn word(&self, at: usize) -> u64 {
        (self.seed << 32 | at as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// The words that are written and read back, of the first `len` bytes.
    fn samples(&self, len: usize) -> impl Iterator<Item = usize> {
        let words = len / 8;
        // By the object's own length, so that what was filled is what is read.
        let step = if self.usable <= DENSE { 1 } else { SAMPLE };
        (0..words)
            .step_by(step)
            .chain((self.usable / 8).checked_sub(1).filter(|last| *last < words))
    }

    fn fill(&self) {
        for at in self.samples(self.usable) {
            // SAFETY: the block is the object's, has `usable` bytes, and is 16-aligned.
            unsafe { (self.at as *mut u64).add(at).write(self.word(at)) };
        }
    }

    fn demand_contents(&self, len: usize) -> Result<(), String> {
        for at in self.samples(len.min(self.usable)) {
            // SAFETY: as in `fill`, which wrote all of these.
            let found = unsafe { (self.at as *const u64).add(at).read() };
            demand(found == self.word(at), || {
                format!("{self:x?}: word {at} is {found:#x}, not {:#x}", self.word(at))
            })?;
        }
        Ok(())
    }
}

/// What all callers on one heap share.
pub struct World<M: Machine> {
    /// The malloc.
    pub heap: NodeHeap<M>,
    claims: Claims,
    post: Mutex<Vec<Object>>,
}

impl<M: Machine> World<M> {
    /// A new heap on `machine`.
    pub fn new(machine: M) -> World<M> {
        let heap = NodeHeap::new(machine);
        heap.set_key(0x0123_4567_89ab_cdef);
        World { heap, claims: Claims::default(), post: Mutex::new(Vec::new()) }
    }

    /// What should hold while nobody calls.
    pub fn verify(&self) -> Result<(), String> {
        self.heap.check().map_err(str::to_owned)
    }
}

/// One thread's calls; see the module.
pub struct ShadowMalloc<'a, M: Machine> {
    world: &'a World<M>,
    caches: [Option<&'a Cache>; CACHES],
    active: usize,
    live: Vec<Object>,
    seed: u64,
    may_refuse: bool,
}

impl<'a, M: Machine> ShadowMalloc<'a, M> {
    /// A caller without objects. `seed` tells its patterns from others'. Unless it `may_refuse`, a heap that refuses a
    /// reasonable request lies.
    pub fn new(world: &'a World<M>, seed: u64, may_refuse: bool) -> ShadowMalloc<'a, M> {
        ShadowMalloc {
            world,
            caches: [None; CACHES],
            active: 0,
            live: Vec::new(),
            seed,
            may_refuse,
        }
    }

    /// How many objects live.
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Makes one call and looks at everything that it promises.
    pub fn call(&mut self, call: Call) -> Result<(), String> {
        let Some(cache) = self.cache() else { return Ok(()) };
        let heap = &self.world.heap;
        match call {
            Call::Alloc(size) => self.admit(heap.allocate(cache, size), size, 16),
            Call::Zeroed(size) => {
                let block = heap.allocate_zeroed(cache, size);
                demand_zero(block, size)?;
                self.admit(block, size, 16)
            }
            Call::Aligned(size, log2) => {
                let align = 1 << log2.min(47);
                self.admit(heap.allocate_aligned(cache, size, align), size, align)
            }
            Call::Free(n) => match self.nth(n) {
                Some(at) => {
                    let object = self.live.swap_remove(at);
                    self.free(cache, object)
                }
                None => Ok(()),
            },
            Call::Resize(n, size) => self.nth(n).map_or(Ok(()), |at| self.resize(cache, at, size)),
            Call::Switch(n) => {
                self.active = n as usize % self.caches.len();
                Ok(())
            }
            Call::Leave => {
                self.caches[self.active] = None;
                heap.detach(cache);
                Ok(())
            }
            Call::Send(n) => {
                let sent = self.nth(n).map(|at| self.live.swap_remove(at));
                lock(&self.world.post).extend(sent);
                Ok(())
            }
            Call::Receive => {
                let got = lock(&self.world.post).pop();
                got.map_or(Ok(()), |object| self.free(cache, object))
            }
            Call::Purge(at_once) => {
                heap.purge(at_once);
                Ok(())
            }
            Call::Shrink => {
                heap.shrink_reservations();
                Ok(())
            }
        }
    }

    /// Frees everything and leaves the heap.
    pub fn end(mut self) -> Result<(), String> {
        if let Some(cache) = self.cache() {
            let sent = std::mem::take(&mut *lock(&self.world.post));
            for object in std::mem::take(&mut self.live).into_iter().chain(sent) {
                self.free(cache, object)?;
            }
        }
        for cache in self.caches.into_iter().flatten() {
            self.world.heap.detach(cache);
        }
        Ok(())
    }

    fn cache(&mut self) -> Option<&'a Cache> {
        let cache = &mut self.caches[self.active];
        if cache.is_none() {
            *cache = self.world.heap.attach();
        }
        *cache
    }

    fn nth(&self, n: u32) -> Option<usize> {
        (!self.live.is_empty()).then(|| n as usize % self.live.len())
    }

    /// What came out is aligned, long enough, and nobody else's.
    fn admit(&mut self, block: *mut u8, size: usize, align: usize) -> Result<(), String> {
        if block.is_null() {
            let reasonable = size < 1 << 30 && align < 1 << 30;
            return demand(self.may_refuse || !reasonable, || format!("{size} bytes refused"));
        }
        demand(size < ABSURD, || format!("{size} bytes were granted"))?;
        let at = block.expose_provenance();
        demand(at.is_multiple_of(align.max(16)), || format!("{at:#x} is not aligned to {align}"))?;
        let usable = self.world.heap.usable_size(block);
        let usable = usable.map_err(|why| format!("{at:#x}: usable_size says {why:?}"))?;
        demand(usable >= size, || format!("{at:#x}: {usable} usable bytes of {size}"))?;
        self.world.claims.take(at, at + usable)?;
        self.seed = self.seed.wrapping_add(1);
        let object = Object { at, size, usable, seed: self.seed };
        object.fill();
        self.live.push(object);
        Ok(())
    }

    fn free(&self, cache: &Cache, object: Object) -> Result<(), String> {
        object.demand_contents(object.usable)?;
        let block = std::ptr::with_exposed_provenance_mut(object.at);
        let usable = self.world.heap.usable_size(block);
        demand(usable == Ok(object.usable), || format!("{object:x?} has {usable:?} bytes now"))?;
        self.world.claims.give(object.at, object.at + object.usable);
        // SAFETY: the block is the object's, which is forgotten here.
        let freed = unsafe { self.world.heap.free(cache, block) };
        freed.map_err(|why| format!("{object:x?}: free says {why:?}"))
    }

    fn resize(&mut self, cache: &Cache, at: usize, size: usize) -> Result<(), String> {
        let old = self.live.swap_remove(at);
        old.demand_contents(old.usable)?;
        self.world.claims.give(old.at, old.at + old.usable);
        let block = std::ptr::with_exposed_provenance_mut(old.at);
        // SAFETY: the block is the object's; only the answer is used afterwards, unless it is null.
        let moved = unsafe { self.world.heap.reallocate(cache, block, size) };
        let moved = moved.map_err(|why| format!("{old:x?}: reallocate says {why:?}"))?;
        if moved.is_null() {
            self.world.claims.take(old.at, old.at + old.usable)?;
            old.demand_contents(old.usable)?;
            demand(self.may_refuse || size >= 1 << 30, || format!("resize to {size} refused"))?;
            self.live.push(old);
            return Ok(());
        }
        let here = Object { at: moved.addr(), ..old };
        here.demand_contents(size.min(old.size))?;
        self.admit(moved, size, 16)
    }
}

fn demand_zero(block: *mut u8, size: usize) -> Result<(), String> {
    if block.is_null() || size >= ABSURD {
        return Ok(());
    }
    // SAFETY: the block was just given out and has that many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(block, size) };
    // SAFETY: any bytes are numbers.
    let (_, words, rest) = unsafe { bytes.align_to::<u64>() };
    let zero = words.iter().all(|word| *word == 0) && rest.iter().all(|byte| *byte == 0);
    demand(zero, || format!("{size} zero bytes at {block:p} are not zero"))
}
