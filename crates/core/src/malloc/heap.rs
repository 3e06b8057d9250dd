//! [`NodeHeap`]: the heap of many threads. Its entry points, and the threads that come and go.
//!
//! On a machine with several memories, every cache belongs to one ([`Home`]), and so does all memory that it hands out;
//! a block that another thread frees returns to its slab's owner, hence home. A thread that now runs on another node
//! takes a cache of that node ([`NodeHeap::is_stray`]).
//!
//! A cache is never unmapped: when its thread exits it goes idle with all its slabs and stacks. The next new thread takes it
//! as it is; until then other threads adopt slabs from it, and the purger empties it.
//!
//! Lock order: purging, registry, the units'. No lock is held while the heap
//! hands out or takes back a program's block; nothing here calls back into the caller.

use super::block::Block;
use super::cache::{Cache, Freed};
use super::found::Kind;
use super::large;
use super::misuse::Misuse;
use super::registry::Registry;
use super::reserve::arrivals::SHORT_CLASSES;
use super::shared::Shared;
use super::slabs::sparse;
use super::slabs::{give_word, slab::Slab};
use super::tag::{Owner, SHARED, SPARSE, Tag};
use super::units::region::{Region, Run};
use super::units::{UNIT, UnitCount, UnitLayout, Usage};
use crate::machine::Machine;
use crate::place::{Home, NodeId};
use crate::size_class::{MAX_CLASS_SIZE, SizeClass, class_of, class_of_aligned, class_of_resized};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

/// How often in a row a thread is seen on another node before it takes a cache there.
const STRAYS: u8 = 2;
/// Slabs cut for each of which a thread asks whether it has got a memory policy.
const LOOK_CLOSELY: u8 = 16;

/// The malloc. See the module. All-zero but for the machine. In this order, so that what every process touches lies
/// together.
#[repr(C)]
pub struct NodeHeap<M: Machine> {
    pub(super) registry: Registry,
    /// The node that all memory comes from, as number + 1; 0: the calling thread's.
    bound: AtomicU32,
    pub(super) shared: Shared<M>,
}

// SAFETY: the registry is reached under its lock only; everything else is atomic or locks itself.
unsafe impl<M: Machine + Sync> Sync for NodeHeap<M> {}
// SAFETY: caches that it points to are tied to no thread while the heap is moved.
unsafe impl<M: Machine + Send> Send for NodeHeap<M> {}

impl<M: Machine> NodeHeap<M> {
    /// An empty heap; asks nothing of the machine yet.
    pub const fn new(machine: M) -> NodeHeap<M> {
        NodeHeap {
            registry: Registry::new(),
            bound: AtomicU32::new(0),
            shared: Shared::new(machine),
        }
    }

    /// The machine it runs on.
    pub fn machine(&self) -> &M {
        &self.shared.machine
    }

    /// Sets what marks and links are encoded with: a random number, of which one bit is lost. Before the first
    /// [`NodeHeap::attach`].
    pub fn set_key(&self, key: usize) {
        self.shared.set_key(key);
    }

    /// A program error that was noticed long after it happened, by the purger or by an allocation:
    /// for the caller to report when it can. Of several, one.
    #[inline]
    pub fn late_misuse(&self) -> Option<(Misuse, *mut u8)> {
        self.shared.late.get()
    }

    /// Reserves at most `bytes` of address space at a time, a power of two from 4 MiB. Before the first allocation.
    pub fn reserve_at_most(&self, bytes: usize) {
        self.shared.units.reserve_at_most(bytes);
    }

    /// Gives back all addresses that are reserved and not in use, unless a signal came in the middle of a call.
    #[cold]
    pub fn shrink_reservations(&self) {
        if !self.is_locked_here() {
            self.shared.units.shrink(self.machine());
        }
    }

    /// Ends the heap: all its address space goes back to the machine.
    ///
    /// # Safety
    /// Nobody uses the heap, its caches or a block of it from now on.
    pub unsafe fn release(&self) {
        // SAFETY: the caller's.
        unsafe { self.shared.units.release(self.machine()) };
    }

    /// A run of units of `home`, of whose last unit so many bytes are not needed, within the limit. When there is none, what the cache and idle ones hold goes
    /// back first.
    pub(super) fn take_run(
        &self,
        cache: &Cache,
        home: Home,
        layout: UnitLayout,
        tail: usize,
    ) -> Option<(&Region, Run)> {
        let try_it = || {
            let allowed = self.allows(layout.len, tail);
            allowed.then(|| self.shared.units.take(self.machine(), home, layout))?
        };
        let run = try_it().or_else(|| {
            self.give_all(cache);
            self.registry.each_idle(self.machine(), &mut |idle| self.give_all(idle));
            try_it()
        });
        self.give_surplus();
        self.look_at_room(layout.len);
        run
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
        let nodes = self.machine().nodes().filter(|nodes| !nodes.has_policy());
        nodes.and_then(|nodes| nodes.here()).map_or(Home::ANYWHERE, Home::of)
    }

    /// Where a run for the cache's thread shall come from that no cache will own: from where the thread is just now.
    pub(super) fn here(&self, cache: &Cache) -> Home {
        match cache.home.get() {
            Home::ANYWHERE => Home::ANYWHERE,
            home if self.bound().is_some() => home,
            home => self.machine().nodes().and_then(|nodes| nodes.here()).map_or(home, Home::of),
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
            && self.machine().nodes().is_some_and(|nodes| nodes.has_policy())
        {
            cache.strays.set(STRAYS);
        }
    }

    /// Whether the cache's thread belongs to another node now: it should [`NodeHeap::detach`] and attach anew.
    #[inline]
    pub fn is_stray(&self, cache: &Cache) -> bool {
        cache.strays.get() >= STRAYS
    }

    /// Whether any thread has ever had a cache.
    pub fn has_caches(&self) -> bool {
        self.registry.is_used()
    }

    /// A cache for a thread that has none: an idle one, else a new one. `None` when memory is
    /// short. It is the thread's alone until [`NodeHeap::detach`].
    pub fn attach(&self) -> Option<&Cache> {
        let cache = self.registry.take(&self.shared, self.home_of_thread())?;
        self.shared.note_reused(cache.told.take());
        self.refresh(cache);
        Some(cache)
    }

    /// Tells a cache how far the primary region reaches now.
    pub(super) fn refresh(&self, cache: &Cache) {
        let primary = self.shared.units.primary(cache.home.get());
        cache.base.set(primary.base());
        cache.known.set(primary.reach());
        cache.reach.set(if cache.is_metered() { 0 } else { primary.reach() });
    }

    /// The same if the cache does not know of an address in `region` yet.
    pub(super) fn refresh_for(&self, cache: &Cache, region: &Region, address: usize) {
        if address - region.base() >= cache.known.get() {
            self.refresh(cache);
        }
    }

    /// Takes the cache of a thread that exits: sends what it holds for others, frees what holds no block, and
    /// leaves the rest, its stacks as they are, for the next thread, for adoption, and for the purger.
    pub fn detach(&self, cache: &Cache) {
        let changing = cache.changing();
        cache.reserve.parcels.take_all(|parcel| {
            // Blocks given twice are found at once or never.
            let _ = parcel.send(&self.shared, &cache.slabs);
        });
        cache.slabs.receive(&self.shared);
        cache.slabs.retire_free(&self.shared);
        // Should no thread come for it, the purger shall: now is the last time that this one can say so.
        cache.told.set(cache.slabs.given.get().max(0) as usize + cache.stacked());
        self.shared.note_freed(cache.told.get());
        drop(changing);
        self.registry.give(self.machine(), cache);
    }

    /// A block of at least `size` bytes at a multiple of 16; null when memory is short. Tries the
    /// cache's stack first.
    pub fn allocate(&self, cache: &Cache, size: usize) -> *mut u8 {
        match class_of(size).filter(|&class| self.has_slabs(class)) {
            Some(class) => self.allocate_class(cache, class),
            None => self.allocate_large(cache, size, UnitCount::ONE).0,
        }
    }

    /// Whether blocks of `class` lie in slabs: not those that would have a slab each, where a limit counts them.
    #[inline]
    pub fn has_slabs(&self, class: SizeClass) -> bool {
        class.size() <= UNIT / 2 || !self.shared.limits.has_own()
    }

    /// As [`NodeHeap::allocate`], all `size` bytes zero.
    pub fn allocate_zeroed(&self, cache: &Cache, size: usize) -> *mut u8 {
        let (block, zero) = match class_of(size).filter(|&class| self.has_slabs(class)) {
            Some(class) => {
                // A block noted before may have been written to since.
                cache.zero.set(0);
                let block = self.allocate_class(cache, class);
                (block, block.addr() == cache.zero.get())
            }
            None => self.allocate_large(cache, size, UnitCount::ONE),
        };
        if !zero && !block.is_null() {
            large::clear(&self.shared, block, size);
        }
        block
    }

    /// A block of at least `size` bytes at a multiple of `align`, a power of two; null when memory
    /// is short.
    pub fn allocate_aligned(&self, cache: &Cache, size: usize, align: usize) -> *mut u8 {
        debug_assert!(align.is_power_of_two());
        match class_of_aligned(size, align).filter(|&class| self.has_slabs(class)) {
            Some(class) => self.allocate_class(cache, class),
            None => self.allocate_large(cache, size, UnitCount::holding(align)).0,
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

    /// Frees a block: the hot path and what follows from it.
    ///
    /// # Safety
    /// `address` is not a block that someone else still uses.
    pub unsafe fn free(&self, cache: &Cache, address: *mut u8) -> Result<(), Misuse> {
        // SAFETY: the caller's.
        match unsafe { cache.give(address) } {
            Freed::Done => Ok(()),
            Freed::Full(class) => {
                self.overflow(cache, class);
                Ok(())
            }
            // SAFETY: the caller's.
            Freed::Slow => unsafe { self.free_slow(cache, address) },
        }
    }

    /// Frees what [`Cache::give`] answered [`Freed::Slow`] to.
    ///
    /// # Safety
    /// As for [`NodeHeap::free`].
    pub unsafe fn free_slow(&self, cache: &Cache, address: *mut u8) -> Result<(), Misuse> {
        let tag = match cache.tag_of(address) {
            Some(tag) if tag != 0 => tag,
            _ => {
                let (region, tag) = self.shared.tag_at(address.addr())?;
                self.refresh_for(cache, region, address.addr());
                tag
            }
        };
        if tag == 0 {
            return Err(Misuse::NotABlock);
        }
        // SAFETY: the caller's, and the tag is that of the unit.
        unsafe { self.free_tagged(cache, address, tag) }.map(|_| ())
    }

    /// Frees what [`Cache::give`] answered [`Freed::Slow`] to, where the tag of the unit is known ([`Cache::tag_of`]). Asks
    /// nothing else of another thread's slab: its tag seldom changes, and its descriptor would travel from the owner's
    /// processor and back. `false`: the block was only collected, so that there is nothing new for the purger.
    ///
    /// # Safety
    /// As for [`NodeHeap::free`]; and the tag is that.
    #[inline(always)]
    pub unsafe fn free_tagged(
        &self,
        cache: &Cache,
        address: *mut u8,
        tag: u64,
    ) -> Result<bool, Misuse> {
        let Tag::Slab(owner, class) = Tag::decode(tag) else {
            // SAFETY: the caller's.
            return unsafe { self.free_large(cache, address, tag) }.map(|()| true);
        };
        if !class.starts_at(address.addr() & (UNIT - 1)) {
            return Err(Misuse::NotABlock);
        }
        let block: *mut Block = address.cast();
        // SAFETY: as in `Cache::give`: the unit is a slab, hence mapped.
        if unsafe { Block::is_marked(block, cache.key()) } {
            return Err(Misuse::DoubleFree);
        }
        if owner == cache.slabs.owner() || tag & (SHARED | SPARSE) != 0 {
            if self.take_back(cache, block, tag)? {
                return Ok(true);
            }
        } else if class.index() >= SHORT_CLASSES
            // SAFETY: the block is free now, and the caller's.
            && unsafe { self.send_home(cache, owner, block, class) }
        {
            return Ok(true);
        }
        let most = self.shared.decisions().parcel_len(class);
        // SAFETY: the block is free now, and no slab of ours has it.
        match unsafe { cache.reserve.parcels.collect(block, class, most, cache.key()) }? {
            None => Ok(false),
            Some(parcel) => {
                let _changing = cache.changing();
                parcel.send(&self.shared, &cache.slabs).map(|()| true)
            }
        }
    }

    /// Puts a long block where its slab's owner finds it; `false`: there is no room.
    ///
    /// # Safety
    /// The block is of the class, free, and the caller's; the owner is that of its slab's tag.
    #[inline(never)]
    unsafe fn send_home(
        &self,
        cache: &Cache,
        owner: Owner,
        block: *mut Block,
        class: SizeClass,
    ) -> bool {
        let to = ptr::with_exposed_provenance::<Cache>(owner.0);
        let most = self.shared.decisions().arrivals_blocks;
        // SAFETY: a cache, or its page if it gave the slab to another just now and was given up; the block is the caller's.
        let sent = unsafe { (*to).reserve.arrivals.push(block, class, most, cache.key()) };
        if sent {
            cache.slabs.account(&self.shared, class.size());
        }
        sent
    }

    /// Puts a free block of a slab with that tag back into the cache, if the slab is its own, or shared and of its home. Looks
    /// closely where the slab is sparse.
    #[inline(never)]
    fn take_back(&self, cache: &Cache, block: *mut Block, tag: u64) -> Result<bool, Misuse> {
        let Tag::Slab(owner, class) = Tag::decode(tag) else { return Err(Misuse::NotABlock) };
        let own = owner == cache.slabs.owner();
        if tag & SPARSE != 0 {
            let (region, _) = self.shared.tag_at(block.addr())?;
            sparse::check_free(&self.shared, Slab::of(region, block.addr()), block.addr(), own)?;
        }
        let ours = own || (tag & SHARED != 0 && cache.is_at_home_of(owner));
        if ours {
            self.put_back(cache, block, class);
        }
        Ok(ours)
    }

    /// [`NodeHeap::free_tagged`] of what is no block of a slab.
    ///
    /// # Safety
    /// As for that.
    #[inline(never)]
    unsafe fn free_large(&self, cache: &Cache, address: *mut u8, tag: u64) -> Result<(), Misuse> {
        if tag == 0 {
            // SAFETY: the caller's.
            return unsafe { self.free_slow(cache, address) };
        }
        if Tag::decode(tag) != Tag::Large || !address.addr().is_multiple_of(UNIT) {
            return Err(Misuse::NotABlock);
        }
        let _changing = cache.changing();
        let (region, _) = self.shared.tag_at(address.addr())?;
        large::size(region, address.addr())?;
        self.free_large_block(cache, region, address.addr());
        Ok(())
    }

    /// Frees a block for a thread that has no cache, and shall not get one: straight to its slab's bits.
    ///
    /// # Safety
    /// As for [`NodeHeap::free`].
    pub unsafe fn free_without_cache(&self, address: *mut u8) -> Result<(), Misuse> {
        let block = self.examine(address)?;
        let (region, _) = self.shared.tag_at(block.address)?;
        if block.kind == Kind::Large {
            large::free(&self.shared, region, block.address, 0);
            self.shared.note_freed(block.size);
            return Ok(());
        }
        // SAFETY: a small block, which lies in a slab, and is ours until its bit is set.
        unsafe { Block::link(address.cast(), ptr::null_mut(), self.shared.key()) };
        let slab = Slab::of(region, block.address);
        let number = slab.number(block.address).ok_or(Misuse::NotABlock)?;
        give_word(&self.shared, None, slab, number / 64, 1 << (number % 64), 1)
    }

    /// Puts a block of the cache's own slabs, that nobody uses any more, back into the cache.
    pub(super) fn put_back(&self, cache: &Cache, block: *mut Block, class: SizeClass) {
        if cache.is_metered() {
            self.put_aside(cache, block, class);
        } else if !cache.magazines.push(block, class) {
            self.overflow(cache, class);
        }
    }

    /// How many bytes the block at `address` has for its user.
    pub fn usable_size(&self, address: *mut u8) -> Result<usize, Misuse> {
        let (region, tag) = self.shared.tag_at(address.addr())?;
        match Tag::decode(tag) {
            Tag::Slab(_, class) => Ok(class.size()),
            Tag::Large if address.addr().is_multiple_of(UNIT) => {
                large::size(region, address.addr())
            }
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
        let roomy = class_of_resized(have, size, self.shared.decisions().resize_creep)
            .filter(|&class| self.has_slabs(class))
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

    /// Units handed out, and free units.
    pub fn usage(&self) -> Usage {
        self.shared.units.usage(self.machine())
    }

    /// Walks every structure that holds still while nobody allocates; the first broken invariant
    /// is the error. Of slabs: the bits and the count agree.
    pub fn check(&self) -> Result<(), &'static str> {
        let _until_the_end = self.unpurged();
        let units = &self.shared.units;
        units.check(self.machine())?;
        let mut result = Ok(());
        units.each_used(self.machine(), |region, at| {
            // SAFETY: the unit lies in the region.
            let tag = Tag::decode(unsafe { region.tag(at) }.load(Ordering::Relaxed));
            let slab = Slab::of(region, at);
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
