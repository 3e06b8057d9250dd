//! The oracle: a policy, and beside it the simple truth about what it was asked.
//!
//! The shadow knows every live object and fills every payload, to its last usable byte, with a
//! pattern of its own. So it notices when a policy gives memory out twice, outside of its region
//! or badly aligned, when it writes where it must not, loses what a resize must keep, or
//! miscounts. It also watches the probe: a policy that touches a word outside of its region lies.

use crate::memory::SimRegion;
use freehold_blocks::align::Align;
use freehold_blocks::check::Broken;
use freehold_blocks::policy::{BlockInfo, Policy};
use freehold_blocks::probe::{Probe, Step};
use freehold_blocks::{GRANULE, Region};
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// A promise that a policy broke.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// `check` found a structure broken.
    #[error("{0}")]
    Broken(#[from] Broken),
    /// What the policy did or said contradicts what the shadow knows.
    #[error("{0}")]
    Lie(String),
}

fn demand(holds: bool, lie: impl FnOnce() -> String) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(Fault::Lie(lie())) }
}

/// A live object.
#[derive(Clone, Copy, Debug)]
struct Object {
    payload: NonNull<u8>,
    /// Bytes from the start of the region.
    at: u64,
    size: u64,
    usable: u64,
    align: Align,
    seed: u64,
}

/// Counts steps, and looks where they touch.
#[derive(Debug, Default)]
struct Watch {
    len: u64,
    steps: u64,
    outside: Option<u64>,
}

impl Probe for Watch {
    fn step(&mut self, step: Step) {
        self.steps += 1;
        if let Step::Touch { at } = step
            && at >= self.len
        {
            self.outside = Some(at);
        }
    }
}

/// A policy under the eyes of the oracle.
#[derive(Debug)]
pub struct ShadowHeap<P> {
    // Dropped before the memory that it lies in.
    policy: P,
    memory: SimRegion,
    base: usize,
    objects: BTreeMap<u32, Object>,
    /// Where each live object begins, and which it is.
    places: BTreeMap<u64, u32>,
    watch: Watch,
    seeds: u64,
}

impl<P: Policy> ShadowHeap<P> {
    /// A policy over `memory`; `None` when the policy finds it too short.
    pub fn new(memory: SimRegion) -> Option<ShadowHeap<P>> {
        ShadowHeap::with(memory, P::new)
    }

    /// As [`ShadowHeap::new`], with a policy of other parameters: made by `make`.
    pub fn with(
        mut memory: SimRegion,
        make: impl FnOnce(Region) -> Option<P>,
    ) -> Option<ShadowHeap<P>> {
        // SAFETY: the policy is dropped before the memory (field order), and this is the one call.
        let region = unsafe { memory.region() };
        let base = region.base().addr().get();
        let watch = Watch { len: region.len(), ..Watch::default() };
        let policy = make(region)?;
        let (objects, places) = (BTreeMap::new(), BTreeMap::new());
        Some(ShadowHeap { policy, memory, base, objects, places, watch, seeds: 0 })
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The steps that the policy has reported so far.
    pub fn steps(&self) -> u64 {
        self.watch.steps
    }

    /// How many objects live.
    pub fn live(&self) -> usize {
        self.objects.len()
    }

    /// The `n`th live object, counted round and round; `None` when none lives.
    pub fn nth(&self, n: u32) -> Option<u32> {
        let count = self.objects.len();
        (count > 0).then(|| self.objects.keys().nth(n as usize % count).copied())?
    }

    /// Where object `id` lies, in bytes from the start of the region.
    pub fn place(&self, id: u32) -> Option<u64> {
        self.objects.get(&id).map(|object| object.at)
    }

    /// Every block, as a picture: `[used 64, free 192]`.
    pub fn picture(&self) -> String {
        format!("{:?}", self.blocks())
    }

    /// Every block.
    pub fn blocks(&self) -> Vec<BlockInfo> {
        let mut blocks = Vec::new();
        self.policy.for_each_block(|block| blocks.push(block));
        blocks
    }

    /// Asks for an object, called `id` from now on. `false` when the policy has no room.
    pub fn alloc(&mut self, id: u32, size: u64, align: Align) -> Result<bool, Fault> {
        demand(!self.objects.contains_key(&id), || format!("test error: o{id} lives already"))?;
        let before = self.policy.totals();
        let Some(payload) = self.policy.alloc(size, align, &mut self.watch) else {
            let after = self.policy.totals();
            demand(before == after, || {
                format!("o{id}: an alloc that failed changed {before:?} to {after:?}")
            })?;
            return Ok(false);
        };
        let object = self.admit(id, payload, size, align)?;
        self.fill(&object, 0);
        self.places.insert(object.at, id);
        self.objects.insert(id, object);
        Ok(true)
    }

    /// What came out of `alloc` is inside, aligned, long enough, and nobody else's.
    fn admit(
        &mut self,
        id: u32,
        payload: NonNull<u8>,
        size: u64,
        align: Align,
    ) -> Result<Object, Fault> {
        let address = payload.addr().get();
        // SAFETY: `alloc` just gave it out.
        let usable = unsafe { self.policy.usable(payload) };
        demand(address.is_multiple_of(align.bytes().max(GRANULE) as usize), || {
            format!("o{id} at {address:#x} is not aligned to {align:?}")
        })?;
        demand(usable >= size, || format!("o{id}: {usable} B usable of {size} B asked for"))?;
        demand(address >= self.base, || format!("o{id} lies before the region"))?;
        let at = (address - self.base) as u64;
        let seed = self.seeds;
        self.seeds += 1;
        let object = Object { payload, at, size, usable, align, seed };
        self.demand_room(id, &object)?;
        Ok(object)
    }

    /// The object lies inside the region and overlaps no other.
    fn demand_room(&self, id: u32, object: &Object) -> Result<(), Fault> {
        let Object { at, usable, .. } = *object;
        let end = at.saturating_add(usable);
        let len = self.memory.len() as u64;
        demand(end <= len, || format!("o{id} ends at {end}, the region at {len}"))?;
        let below = self.places.range(..at).next_back();
        let above = self.places.range(at..).find(|&(_, &other)| other != id);
        for (&other_at, other) in below.into_iter().chain(above) {
            let other_end = other_at + self.objects[other].usable;
            demand(end <= other_at || other_end <= at, || {
                format!("o{id} ({at}..{end}) overlaps o{other} ({other_at}..{other_end})")
            })?;
        }
        Ok(())
    }

    /// Gives object `id` back, with its contents as they were left.
    pub fn free(&mut self, id: u32) -> Result<(), Fault> {
        let object = self.known(id)?;
        self.demand_contents(id, &object, object.usable)?;
        self.objects.remove(&id);
        self.places.remove(&object.at);
        // SAFETY: it lived until now, and the shadow just forgot it.
        unsafe { self.policy.free(object.payload, &mut self.watch) };
        Ok(())
    }

    /// Asks to resize object `id` where it lies. `false` when the policy cannot.
    pub fn resize_in_place(&mut self, id: u32, size: u64) -> Result<bool, Fault> {
        let mut object = self.known(id)?;
        let before = self.policy.totals();
        // SAFETY: it lives.
        let done = unsafe { self.policy.resize_in_place(object.payload, size, &mut self.watch) };
        // SAFETY: it still lives.
        let usable = unsafe { self.policy.usable(object.payload) };
        if !done {
            let after = self.policy.totals();
            demand(before == after && usable == object.usable, || {
                format!("o{id}: a resize that failed changed {before:?} to {after:?}")
            })?;
            return Ok(false);
        }
        demand(usable >= size, || format!("o{id}: {usable} B usable after a resize to {size} B"))?;
        let kept = object.usable.min(size);
        self.demand_contents(id, &object, kept)?;
        (object.size, object.usable) = (size, usable);
        self.demand_room(id, &object)?;
        self.fill(&object, kept);
        self.objects.insert(id, object);
        Ok(true)
    }

    /// Resizes object `id` as `realloc` does: where it lies, else by moving. `false` when neither
    /// is possible.
    pub fn resize(&mut self, id: u32, size: u64) -> Result<bool, Fault> {
        if self.resize_in_place(id, size)? {
            return Ok(true);
        }
        let old = self.known(id)?;
        let Some(payload) = self.policy.alloc(size, old.align, &mut self.watch) else {
            return Ok(false);
        };
        let mut new = self.admit(id, payload, size, old.align)?;
        demand(new.at != old.at, || format!("o{id} was given to itself"))?;
        self.demand_contents(id, &old, old.usable)?;
        // SAFETY: both live, neither overlaps the other (`admit`), and each is long enough.
        unsafe { payload.copy_from_nonoverlapping(old.payload, old.usable.min(size) as usize) };
        new.seed = old.seed;
        // SAFETY: the old one lives until here, and nobody uses it any more.
        unsafe { self.policy.free(old.payload, &mut self.watch) };
        self.demand_contents(id, &new, old.usable.min(size))?;
        self.fill(&new, old.usable.min(size));
        self.places.remove(&old.at);
        self.places.insert(new.at, id);
        self.objects.insert(id, new);
        Ok(true)
    }

    /// What should hold between calls, but for the contents of objects. O(blocks).
    pub fn verify(&self) -> Result<(), Fault> {
        if let Some(at) = self.watch.outside {
            return Err(Fault::Lie(format!("byte {at} is outside of the region, but touched")));
        }
        self.policy.check()?;
        self.verify_blocks()?;
        for (&id, object) in &self.objects {
            // SAFETY: it lives.
            let usable = unsafe { self.policy.usable(object.payload) };
            demand(usable == object.usable, || format!("o{id}: usable changed by itself"))?;
        }
        Ok(())
    }

    /// Every live object still holds what was written there. O(live bytes).
    pub fn verify_contents(&self) -> Result<(), Fault> {
        let mut objects = self.objects.iter();
        objects.try_for_each(|(&id, object)| self.demand_contents(id, object, object.usable))
    }

    /// The blocks tile their part of the region, the used ones are the live objects, and the
    /// totals are theirs.
    fn verify_blocks(&self) -> Result<(), Fault> {
        let blocks = self.blocks();
        let totals = self.policy.totals();
        for pair in blocks.windows(2) {
            demand(pair[0].offset + pair[0].size == pair[1].offset, || {
                format!("a hole or an overlap behind {:?} at {}", pair[0], pair[0].offset)
            })?;
        }
        let sum = |free: bool| -> u64 {
            blocks.iter().filter(|block| block.free == free).map(|block| block.size).sum()
        };
        let longest = blocks.iter().filter(|block| block.free).map(|block| block.size).max();
        let start = blocks.first().map_or(0, |block| block.offset);
        let last = blocks.iter().rfind(|block| !block.free);
        let extent = last.map_or(0, |block| block.offset + block.size - start);
        let same = |what: &str, said: u64, is: u64| {
            demand(said == is, || format!("{what}: the policy says {said}, the blocks {is}"))
        };
        same("free bytes", totals.free, sum(true))?;
        same("used bytes", totals.used(), sum(false))?;
        same("used blocks", totals.used_blocks, self.objects.len() as u64)?;
        same("largest free block", self.policy.largest_free(), longest.unwrap_or(0))?;
        same("extent", totals.extent, extent)?;
        let mut used = blocks.iter().filter(|block| !block.free);
        for (&at, id) in &self.places {
            let inside = used.next().is_some_and(|block| {
                block.offset <= at && at + self.objects[id].usable <= block.offset + block.size
            });
            demand(inside, || format!("o{id} at {at} lies in no used block of its own"))?;
        }
        Ok(())
    }

    fn known(&self, id: u32) -> Result<Object, Fault> {
        let object = self.objects.get(&id).copied();
        object.ok_or_else(|| Fault::Lie(format!("test error: o{id} does not live")))
    }

    /// Writes the object's pattern from byte `from` to its last usable one.
    fn fill(&mut self, object: &Object, from: u64) {
        // SAFETY: the payload is the object's, `usable` bytes of it, inside the region
        // (`demand_room`), and nobody else refers to it.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(
                object.payload.as_ptr().cast::<std::mem::MaybeUninit<u8>>(),
                object.usable as usize,
            )
        };
        let whole = bytes.len() & !7;
        for (i, word) in bytes[..whole].chunks_exact_mut(8).enumerate().skip(from as usize / 8) {
            word.write_copy_of_slice(&pattern(object.seed, i));
        }
        let last = pattern(object.seed, whole / 8);
        for (byte, value) in bytes[whole..].iter_mut().zip(last) {
            byte.write(value);
        }
    }

    /// The first `len` bytes still are the object's pattern.
    fn demand_contents(&self, id: u32, object: &Object, len: u64) -> Result<(), Fault> {
        // SAFETY: the object lives, and `fill` wrote all of its usable bytes.
        let bytes = unsafe { std::slice::from_raw_parts(object.payload.as_ptr(), len as usize) };
        let mut words = bytes.chunks(8).enumerate();
        let wrong = words.find(|(i, word)| **word != pattern(object.seed, *i)[..word.len()]);
        demand(wrong.is_none(), || {
            format!("o{id}: bytes from {} on were overwritten", wrong.map_or(0, |(i, _)| 8 * i))
        })
    }
}

/// Word `i` of the pattern of `seed`: neighbouring objects and shifted copies differ.
fn pattern(seed: u64, i: usize) -> [u8; 8] {
    (seed << 32 | i as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}
