//! The heap: the state that all its threads share, and the entry points that are not hot.
//!
//! On a machine with several memories, every cache belongs to one ([`Home`]), and so does all memory that it hands out;
//! a block that another thread frees returns to its slab's owner, hence home. A thread that now runs on another node
//! takes a cache of that node ([`NodeHeap::is_stray`]).
//!
//! The heap owns the runs of pages and the registry of caches. A cache is never unmapped: when its thread
//! exits it goes idle with all its slabs and stacks. The next new thread takes it as it is; until then
//! other threads adopt slabs from it, and the purger empties it.
//!
//! Lock order: `purging`, `registry`, the runs'. No lock is held while the heap
//! hands out or takes back a program's block; nothing here calls back into the caller.

use super::cache::{Block, Cache, Freed};
use super::give::stacked;
use super::refill::Busy;
use super::slab::{Held, Slab};
use super::tag::Tag;
use super::walk::Kind;
use crate::machine::Machine;
use crate::malloc::units::{UNIT, region::Run, runs::Runs};
use crate::place::{Home, MAX_NODES, NodeId};
use crate::size_class::{MAX_CLASS_SIZE, SizeClass, class_of, class_of_aligned, class_of_resized};
use crate::sync::Lock;
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// How often in a row a thread is seen on another node before it takes a cache there.
const STRAYS: u8 = 2;
/// Slabs cut for each of which a thread asks whether it has got a memory policy.
const LOOK_CLOSELY: u8 = 16;

/// A program error that was noticed. The caller of the malloc reports it and stops the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misuse {
    /// The block is free already.
    DoubleFree,
    /// The address is not the start of a block of this heap.
    NotABlock,
    /// A free block leads to this address, where no block starts: the middle of a block was freed, or a free block written to.
    Astray,
}

/// Caches with and without threads.
pub(super) struct Registry {
    /// The first cache of the unit of caches that came last.
    pub(super) all: *mut Cache,
    anywhere: Waiting,
}

/// What threads that come to a home find there.
pub(super) struct Waiting {
    /// Caches without a thread, last in first.
    pub(super) idle: *mut Cache,
    /// The first page of the last unit that was not yet made into a cache; where a unit begins: there is none.
    pub(super) fresh: *mut Cache,
    /// Units of which pages were given up, each by its first cache.
    pub(super) gaps: *mut Cache,
}

impl Waiting {
    const NONE: Waiting =
        Waiting { idle: ptr::null_mut(), fresh: ptr::null_mut(), gaps: ptr::null_mut() };
}

/// All of the registry, for the holder of its lock.
pub(super) struct Threads<'a> {
    pub(super) registry: &'a mut Registry,
    of_nodes: &'a mut [Waiting; MAX_NODES],
}

impl Threads<'_> {
    /// What waits at a home.
    pub(super) fn waiting(&mut self, home: Home) -> &mut Waiting {
        let of_node = home.node().and_then(|node| self.of_nodes.get_mut(node.index()));
        of_node.unwrap_or(&mut self.registry.anywhere)
    }

    /// What waits anywhere.
    pub(super) fn each_waiting(&mut self, mut visit: impl FnMut(&mut Waiting)) {
        visit(&mut self.registry.anywhere);
        self.of_nodes.iter_mut().for_each(visit);
    }
}

/// The malloc. See the module. All-zero but for the machine. In this order, so that what every process touches lies
/// on one page: the table of regions, of which most stay unused, and what there is for nodes come last.
#[repr(C)]
pub struct NodeHeap<M: Machine> {
    pub(super) machine: M,
    /// Held while the purger holds blocks or units.
    pub(super) purging: Lock,
    pub(super) registry_lock: Lock,
    pub(super) registry: UnsafeCell<Registry>,
    /// Idle caches, roughly: whether adopting is worth a lock.
    pub(super) idle_len: AtomicUsize,
    key: AtomicUsize,
    /// The node that all memory comes from, as number + 1; 0: the calling thread's.
    bound: AtomicU32,
    /// Units that may be in use or resident; 0 is no limit.
    limit: AtomicUsize,
    /// Bytes given back since the purger last slept.
    pub(super) pressure: AtomicUsize,
    /// Whether rounds of the purger shall end soon.
    hurried: AtomicBool,
    /// A program error found where no caller could get it as a result: the address, and its kind; see
    /// [`NodeHeap::late_misuse`].
    late_at: AtomicUsize,
    late: AtomicU32,
    pub(super) runs: Runs,
    /// What waits at the homes of nodes; under the registry's lock.
    of_nodes: UnsafeCell<[Waiting; MAX_NODES]>,
    /// Blocks that the purger holds; under its lock.
    pub(super) held: UnsafeCell<Held>,
}

// SAFETY: the registry is reached under its lock only; everything else is atomic or locks itself.
unsafe impl<M: Machine + Sync> Sync for NodeHeap<M> {}
// SAFETY: caches that it points to are tied to no thread while the heap is moved.
unsafe impl<M: Machine + Send> Send for NodeHeap<M> {}

impl<M: Machine> NodeHeap<M> {
    /// An empty heap; asks nothing of the machine yet.
    pub const fn new(machine: M) -> NodeHeap<M> {
        NodeHeap {
            machine,
            purging: Lock::new(),
            registry_lock: Lock::new(),
            registry: UnsafeCell::new(Registry { all: ptr::null_mut(), anywhere: Waiting::NONE }),
            idle_len: AtomicUsize::new(0),
            key: AtomicUsize::new(0),
            bound: AtomicU32::new(0),
            limit: AtomicUsize::new(0),
            pressure: AtomicUsize::new(0),
            hurried: AtomicBool::new(false),
            late_at: AtomicUsize::new(0),
            late: AtomicU32::new(0),
            runs: Runs::new(),
            of_nodes: UnsafeCell::new([Waiting::NONE; MAX_NODES]),
            held: UnsafeCell::new(Held::NONE),
        }
    }

    /// The machine it runs on.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Sets what marks and links are encoded with: a random number, of which one bit is lost. Before the first
    /// [`NodeHeap::attach`].
    pub fn set_key(&self, key: usize) {
        self.key.store(key, Ordering::Relaxed);
    }

    /// What marks and links are encoded with: an odd number; see `cache`.
    pub(super) fn key(&self) -> usize {
        self.key.load(Ordering::Relaxed) | 1
    }

    /// A program error that was noticed long after it happened, by the purger or by an allocation:
    /// for the caller to report when it can. Of several, one.
    #[inline]
    pub fn late_misuse(&self) -> Option<(Misuse, *mut u8)> {
        let misuse = match self.late.load(Ordering::Acquire) {
            0 => return None,
            1 => Misuse::DoubleFree,
            2 => Misuse::NotABlock,
            _ => Misuse::Astray,
        };
        Some((misuse, ptr::without_provenance_mut(self.late_at.load(Ordering::Relaxed))))
    }

    pub(super) fn note(&self, misuse: Misuse, address: usize) {
        let kind = match misuse {
            Misuse::DoubleFree => 1,
            Misuse::NotABlock => 2,
            Misuse::Astray => 3,
        };
        self.late_at.store(address, Ordering::Relaxed);
        // Release pairs with the Acquire in `late_misuse`: who sees the kind sees an address.
        self.late.store(kind, Ordering::Release);
    }

    /// Limits what the heap may hold of the machine to `bytes`, at least one unit: beyond, requests
    /// are refused. Several threads that ask at the same moment may pass it by what they ask for.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store((bytes / UNIT).max(1), Ordering::Relaxed);
    }

    /// A run of units of `home`, within the limit. When there is none, what the cache and idle ones hold goes
    /// back first.
    pub(super) fn take_run(
        &self,
        cache: &Cache,
        home: Home,
        len: usize,
        align: usize,
    ) -> Option<Run> {
        self.try_run(home, len, align).or_else(|| {
            self.give_all(cache);
            self.drain_idle(true);
            self.try_run(home, len, align)
        })
    }

    fn try_run(&self, home: Home, len: usize, align: usize) -> Option<Run> {
        if self.allows(len) { self.runs.take(&self.machine, home, len, align) } else { None }
    }

    /// From now on all memory comes from one node; with `None`, from the calling thread's.
    pub fn set_home(&self, node: Option<NodeId>) {
        let bound = node.map_or(0, |node| node.index() as u32 + 1);
        self.bound.store(bound, Ordering::Relaxed);
    }

    /// The node that all memory comes from, if the heap is bound to one.
    pub fn bound(&self) -> Option<NodeId> {
        let bound = self.bound.load(Ordering::Relaxed).checked_sub(1)?;
        NodeId::new(bound as usize)
    }

    /// Where the calling thread's memory shall come from.
    fn home_of_thread(&self) -> Home {
        if let Some(node) = self.bound() {
            return Home::of(node);
        }
        let nodes = self.machine.nodes().filter(|nodes| !nodes.has_policy());
        nodes.and_then(|nodes| nodes.here()).map_or(Home::ANYWHERE, Home::of)
    }

    /// Where a run for the cache's thread shall come from that no cache will own: from where the thread is just now.
    pub(super) fn here(&self, cache: &Cache) -> Home {
        match cache.home.get() {
            Home::ANYWHERE => Home::ANYWHERE,
            home if self.bound().is_some() => home,
            home => self.machine.nodes().and_then(|nodes| nodes.here()).map_or(home, Home::of),
        }
    }

    /// Looks whether the cache's thread has moved to another node.
    #[inline]
    pub(super) fn look_around(&self, cache: &Cache) {
        if cache.home.get() != Home::ANYWHERE {
            self.compare_homes(cache);
        }
    }

    #[cold]
    fn compare_homes(&self, cache: &Cache) {
        let away = self.here(cache) != cache.home.get();
        cache.strays.set(if away { cache.strays.get().saturating_add(1) } else { 0 });
    }

    /// The same, and now and then whether the thread has got a memory policy.
    #[cold]
    pub(super) fn look_closely(&self, cache: &Cache) {
        self.look_around(cache);
        cache.cuts.set(cache.cuts.get().wrapping_add(1));
        if cache.cuts.get().is_multiple_of(LOOK_CLOSELY)
            && self.machine.nodes().is_some_and(|nodes| nodes.has_policy())
        {
            cache.strays.set(STRAYS);
        }
    }

    /// Whether the cache's thread belongs to another node now: it should [`NodeHeap::detach`] and attach anew.
    #[inline]
    pub fn is_stray(&self, cache: &Cache) -> bool {
        cache.strays.get() >= STRAYS
    }

    /// Whether `more` units are within the limit; gives dirty ones back if that helps.
    pub(super) fn allows(&self, more: usize) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == 0 {
            return true;
        }
        let usage = self.usage();
        if usage.used + more > limit {
            return false;
        }
        if usage.used + usage.dirty + more > limit {
            self.purge_units(true, &mut Default::default());
        }
        true
    }

    pub(super) fn with_registry<R>(&self, work: impl FnOnce(&mut Threads<'_>) -> R) -> R {
        self.registry_lock.with(&self.machine, || {
            // SAFETY: the lock makes this the only access to both.
            let (registry, of_nodes) =
                unsafe { (&mut *self.registry.get(), &mut *self.of_nodes.get()) };
            work(&mut Threads { registry, of_nodes })
        })
    }

    /// Whether any thread has ever had a cache.
    pub fn has_caches(&self) -> bool {
        // SAFETY: reads one word, which is written under the lock, by one store.
        unsafe { !(&raw const (*self.registry.get()).all).read_volatile().is_null() }
    }

    /// Whether rounds of purging shall end soon, whatever is left to do.
    pub fn hurry(&self, hurried: bool) {
        self.hurried.store(hurried, Ordering::Relaxed);
    }

    pub(super) fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed)
    }

    /// A cache for a thread that has none: an idle one, else a new one. `None` when memory is
    /// short. It is the thread's alone until [`NodeHeap::detach`].
    pub fn attach(&self) -> Option<&Cache> {
        let home = self.home_of_thread();
        let cache = self.with_registry(|threads| {
            let idle = threads.waiting(home).idle;
            let cache = if idle.is_null() { self.new_cache(threads, home) } else { idle };
            // SAFETY: caches live for ever; those without a thread are touched under the lock only.
            let cache = unsafe { cache.as_ref() }?;
            if !idle.is_null() {
                threads.waiting(home).idle = cache.next_idle.get();
                self.idle_len.fetch_sub(1, Ordering::Relaxed);
            }
            cache.attached.set(true);
            cache.given_up.set(false);
            Some(cache)
        })?;
        self.take_back(cache.told.take());
        self.refresh(cache);
        Some(cache)
    }

    /// Subtracts bytes that are in use again from the count that wakes the purger.
    fn take_back(&self, told: usize) {
        let less = |pressure: usize| Some(pressure.saturating_sub(told));
        if told != 0 {
            _ = self.pressure.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Tells a cache how far the primary region reaches now.
    pub(super) fn refresh(&self, cache: &Cache) {
        let primary = self.runs.primary(cache.home.get());
        cache.base.set(primary.base());
        cache.known.set(primary.reach());
        cache.reach.set(if cache.is_metered() { 0 } else { primary.reach() });
    }

    /// Takes the cache of a thread that exits: sends what it holds for others, frees what holds no block, and
    /// leaves the rest, its stacks as they are, for the next thread, for adoption, and for the purger.
    pub fn detach(&self, cache: &Cache) {
        cache.busy.set(true);
        self.send_all(cache);
        self.drain(cache);
        self.retire_free(cache);
        // Should no thread come for it, the purger shall: now is the last time that this one can say so.
        cache.told.set(cache.given.get() + stacked(cache));
        self.pressure.fetch_add(cache.told.get(), Ordering::Relaxed);
        self.with_registry(|threads| {
            cache.attached.set(false);
            cache.metered.set(false);
            cache.busy.set(false);
            cache.strays.set(0);
            let waiting = threads.waiting(cache.home.get());
            cache.next_idle.set(waiting.idle);
            waiting.idle = ptr::from_ref(cache).cast_mut();
            self.idle_len.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// A block of at least `size` bytes at a multiple of 16; null when memory is short. Tries the
    /// cache's stack first.
    pub fn allocate(&self, cache: &Cache, size: usize) -> *mut u8 {
        match class_of(size) {
            Some(class) => self.allocate_class(cache, class),
            None => self.allocate_large(cache, size, 1).0,
        }
    }

    /// As [`NodeHeap::allocate`], all `size` bytes zero.
    pub fn allocate_zeroed(&self, cache: &Cache, size: usize) -> *mut u8 {
        let (block, zero) = match class_of(size) {
            Some(class) => (self.allocate_class(cache, class), false),
            None => self.allocate_large(cache, size, 1),
        };
        if !zero && !block.is_null() {
            self.clear(block, size);
        }
        block
    }

    /// A block of at least `size` bytes at a multiple of `align`, a power of two; null when memory
    /// is short.
    pub fn allocate_aligned(&self, cache: &Cache, size: usize, align: usize) -> *mut u8 {
        debug_assert!(align.is_power_of_two());
        match class_of_aligned(size, align) {
            Some(class) => self.allocate_class(cache, class),
            None => self.allocate_large(cache, size, align.div_ceil(UNIT)).0,
        }
    }

    /// A block of `class`; null when memory is short.
    #[inline]
    pub fn allocate_class(&self, cache: &Cache, class: SizeClass) -> *mut u8 {
        let block = cache.take_class(class);
        if block.is_null() { self.allocate_class_slow(cache, class) } else { block }
    }

    #[cold]
    fn allocate_class_slow(&self, cache: &Cache, class: SizeClass) -> *mut u8 {
        self.refill(cache, class);
        cache.take_class(class)
    }

    /// Frees what [`Cache::give`] answered [`Freed::Slow`] to.
    ///
    /// # Safety
    /// `address` is not a block that someone else still uses.
    pub unsafe fn free_slow(&self, cache: &Cache, address: *mut u8) -> Result<(), Misuse> {
        let at = address.addr();
        let region = self.runs.region_of(at).ok_or(Misuse::NotABlock)?;
        // SAFETY: the region contains the address.
        let tag = unsafe { region.tag(at) }.load(Ordering::Relaxed);
        match Tag::decode(tag) {
            Tag::Slab(owner, class) => {
                if at - region.base() >= cache.known.get() {
                    self.refresh(cache);
                }
                if !class.starts_at(at & (UNIT - 1)) {
                    return Err(Misuse::NotABlock);
                }
                let block: *mut Block = address.cast();
                // SAFETY: as in `Cache::give`: the unit is a slab, hence mapped.
                if unsafe { Block::is_marked(block, cache.key.get()) } {
                    return Err(Misuse::DoubleFree);
                }
                if tag & super::tag::SPARSE != 0 {
                    // SAFETY: the tag says that the unit is a slab.
                    let slab = unsafe { &*region.descriptor(at).cast::<Slab>() };
                    self.look_carefully(slab, at, ptr::eq(owner, cache))?;
                }
                if !ptr::eq(owner, cache) {
                    return self.free_foreign(cache, block, class);
                }
                self.put_back(cache, block, class.index());
                Ok(())
            }
            Tag::Large => {
                if !at.is_multiple_of(UNIT) {
                    return Err(Misuse::NotABlock);
                }
                let _busy = Busy::new(cache);
                self.free_large(region, at);
                Ok(())
            }
            Tag::Nothing => Err(Misuse::NotABlock),
        }
    }

    /// Frees a block for a thread that has no cache, and shall not get one: straight to its slab's bits.
    ///
    /// # Safety
    /// As for [`NodeHeap::free_slow`].
    pub unsafe fn free_without_cache(&self, address: *mut u8) -> Result<(), Misuse> {
        let block = self.examine(address)?;
        let region = self.runs.region_of(block.address).ok_or(Misuse::NotABlock)?;
        if block.kind == Kind::Large {
            self.free_large(region, block.address);
            return Ok(());
        }
        // SAFETY: a small block, which lies in a slab, and is ours until its bit is set.
        let slab = unsafe {
            Block::link(address.cast(), ptr::null_mut(), self.key());
            &*region.descriptor(block.address).cast::<Slab>()
        };
        let number = slab.number(block.address).ok_or(Misuse::NotABlock)?;
        self.give_word(None, slab, number / 64, 1 << (number % 64), 1)
    }

    /// Puts a block of the cache's own slabs, that nobody uses any more, back into the cache.
    fn put_back(&self, cache: &Cache, block: *mut Block, class: usize) {
        if cache.is_metered() {
            self.put_aside(cache, block, class);
        } else if let Freed::Full(class) = cache.push(block, class) {
            self.overflow(cache, class);
        }
    }

    /// How many bytes the block at `address` has for its user.
    pub fn usable_size(&self, address: *mut u8) -> Result<usize, Misuse> {
        let at = address.addr();
        let region = self.runs.region_of(at).ok_or(Misuse::NotABlock)?;
        // SAFETY: the region contains the address.
        match Tag::decode(unsafe { region.tag(at) }.load(Ordering::Relaxed)) {
            Tag::Slab(_, class) => Ok(class.size()),
            Tag::Large if at.is_multiple_of(UNIT) => Ok(self.large_size(region, at)),
            _ => Err(Misuse::NotABlock),
        }
    }

    /// Resizes a block, keeping its contents up to the smaller size, in place where that wastes
    /// less than half. Null when memory is short: then the block is as it was.
    ///
    /// # Safety
    /// `address` is a block in use, and the caller's; afterwards only the answer is.
    pub unsafe fn reallocate(
        &self,
        cache: &Cache,
        address: *mut u8,
        size: usize,
    ) -> Result<*mut u8, Misuse> {
        let have = self.examine(address)?.size;
        let large = have > MAX_CLASS_SIZE;
        if !large && size <= have && size >= have / 2 {
            return Ok(address);
        }
        if large && size > MAX_CLASS_SIZE {
            let resized = self.resize_large(cache, address.addr(), size);
            return Ok(ptr::with_exposed_provenance_mut(resized));
        }
        let roomy = class_of_resized(have, size)
            .map_or(ptr::null_mut(), |class| self.allocate_class(cache, class));
        // Without memory for a block with room, one without.
        let new = if roomy.is_null() { self.allocate(cache, size) } else { roomy };
        if !new.is_null() {
            // SAFETY: both blocks are the caller's, have that many bytes, and do not overlap.
            unsafe { ptr::copy_nonoverlapping(address, new, have.min(size)) };
            // SAFETY: the caller gives the old block up.
            unsafe { self.free(cache, address)? };
        }
        Ok(new)
    }

    /// Frees a block: the hot path and what follows from it.
    ///
    /// # Safety
    /// As for [`NodeHeap::free_slow`].
    pub unsafe fn free(&self, cache: &Cache, address: *mut u8) -> Result<(), Misuse> {
        // SAFETY: the caller's.
        match unsafe { cache.give(address) } {
            Freed::Done => Ok(()),
            Freed::Full(class) => {
                self.overflow(cache, class);
                Ok(())
            }
            // SAFETY: the caller's.
            Freed::Slow => unsafe { self.free_other(cache, address) },
        }
    }

    /// Units handed out, and free units.
    pub fn usage(&self) -> crate::malloc::units::runs::Usage {
        self.runs.usage(&self.machine)
    }

    /// Walks every structure that holds still while nobody allocates; the first broken invariant
    /// is the error. Of slabs: the bits and the count agree.
    pub fn check(&self) -> Result<(), &'static str> {
        let _until_the_end = self.unpurged();
        self.runs.check(&self.machine)?;
        let mut result = Ok(());
        self.runs.each_used(&self.machine, |region, at| {
            // SAFETY: the unit lies in the region.
            let tag = Tag::decode(unsafe { region.tag(at) }.load(Ordering::Relaxed));
            // SAFETY: descriptors of committed units are readable and valid when zero.
            let slab = unsafe { &*region.descriptor(at).cast::<Slab>() };
            let found = match tag {
                Tag::Slab(..) if !slab.vacancy.is_alive() => Err("a tagged slab is not alive"),
                Tag::Slab(_, class) if slab.class() != class => Err("tag and slab disagree"),
                Tag::Slab(..) if slab.count_free() != slab.vacancy.free() => {
                    Err("a slab's count disagrees with its bits")
                }
                Tag::Large | Tag::Nothing if slab.vacancy.is_alive() => Err("a slab has no tag"),
                _ => Ok(()),
            };
            if result.is_ok() {
                result = found;
            }
        });
        result
    }
}
