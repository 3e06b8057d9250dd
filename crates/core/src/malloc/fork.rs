//! Repairs the heap in a forked child, although the fork waited for no thread.
//!
//! A fork takes no lock and waits for no thread, so it may interrupt other threads anywhere: half way through a list, with
//! blocks in their registers. These threads do not exist in the child; their half-done changes do. Three facts show where
//! each thread was:
//!
//! ```text
//! a lock names its holder        another thread's lock has no holder now, and the data it protects is half changed
//! a cache is busy                its thread was changing lists
//! neither                        its thread was on a hot path, whose stores leave a whole stack after each of them
//! ```
//!
//! Most forks interrupt no thread in the middle of a change; then dead threads' caches go idle, and that is all. Otherwise
//! the child derives all other state anew from words that are never torn, because each is one word:
//!
//! ```text
//! used bits of banks, tags, bits of slabs         stand; so do arrivals
//! lists of banks and counts                       from used bits          (units)
//! lists of slabs, inboxes, counts of free blocks  from tags and bits
//! busy caches: stacks, depots, parcels            walked as far as they are whole; their blocks become bits
//! used units that no tag explains                 were being taken or given: free
//! large blocks longer than their units            were becoming shorter
//! runs of large blocks that have no size          were set aside, or being freed: free
//! ```
//!
//! The child loses the blocks that no structure holds afterwards: at most those in each other thread's registers.
//!
//! If the forking thread is itself in the middle of a call (a signal handler forks), that call goes on in the child, and
//! nothing is derived: torn state of other threads stays as it is, behind locks that are free.
//!
//! Invariant: afterwards the heap passes `check`, and the program still has every block that it had.

use super::block::Block;
use super::cache::Cache;
use super::heap::NodeHeap;
use super::large;
use super::reserve::depot::Magazine;
use super::slabs::Slabs;
use super::slabs::slab::Slab;
use super::tag::{self, Owner, Tag};
use super::units::{UnitCount, region::Region};
use crate::machine::Machine;
use crate::size_class::SizeClass;
use core::ptr;
use core::sync::atomic::Ordering;

/// No list of a cache has more blocks than this: it ends the walk of a torn list.
const LONGEST_LIST: usize = 1 << 24;

impl<M: Machine> NodeHeap<M> {
    /// In a forked child, before it has a second thread. `stays` says which caches have a user here: that of the calling
    /// thread, for example. All others go idle. O(caches), and O(memory in use / 64 KiB) if a thread was in the middle of something.
    pub fn after_fork_in_child(&self, stays: impl Fn(&Cache) -> bool) {
        let (machine, shared) = (self.machine(), &self.shared);
        let mut interrupted = self.is_locked_here();
        let mut torn = shared.units.after_fork(machine);
        torn |= self.registry.lock.disown(machine);
        torn |= shared.purging.disown(machine);
        shared.forget_freed();
        for cache in self.registry.caches_unlocked() {
            let busy = cache.busy.get();
            interrupted |= busy && stays(cache);
            torn |= cache.lock.disown(machine) | busy;
        }
        if interrupted {
            return;
        }
        self.registry.rest_all(machine, stays);
        if torn {
            self.mend();
        }
    }

    /// Whether the calling thread holds a lock of the heap's: then a signal came in the middle of a call.
    #[inline(never)]
    pub fn is_locked_here(&self) -> bool {
        let locks = [&self.shared.purging, &self.registry.lock, self.shared.units.lock()];
        let commons = self.registry.caches_unlocked().map(|cache| &cache.lock);
        locks.into_iter().chain(commons).any(|lock| lock.is_mine(self.machine()))
    }

    /// Derives everything anew.
    fn mend(&self) {
        for cache in self.registry.caches_unlocked() {
            if cache.busy.get() {
                self.salvage(cache);
                cache.busy.set(false);
            }
        }
        self.give_back_held();
        for cache in self.registry.caches_unlocked() {
            cache.slabs.forget_all();
            cache.reserve.runs.give_all(&self.shared);
        }
        let (mut large_until, mut tails) = (0, 0);
        self.shared.units.each_used(self.machine(), |region, unit| {
            // SAFETY: the unit lies in the region.
            let bits = unsafe { region.tag(unit) }.load(Ordering::Relaxed);
            match Tag::decode(bits) {
                Tag::Slab(owner, _) => self.mend_slab(region, unit, owner),
                Tag::Large => {
                    large_until = unit + large::units(region, unit).bytes();
                    match large::size(region, unit) {
                        Ok(_) => tails += large::mend(region, unit),
                        Err(_) => large::free(&self.shared, region, unit, 0),
                    }
                }
                // Nobody has it: it has no tag, and lies in no large block.
                Tag::Nothing if bits != tag::CACHES && unit >= large_until => self.give_unit(unit),
                Tag::Nothing => {}
            }
        });
        self.shared.limits.set_tails(tails);
    }

    fn give_unit(&self, unit: usize) {
        self.shared.units.give(self.machine(), unit, UnitCount::ONE);
    }

    /// The blocks that the purger held, which did not come along.
    fn give_back_held(&self) {
        // SAFETY: no other thread exists.
        let held = unsafe { &mut *self.shared.held.get() };
        // SAFETY: null, or a slab that lives because blocks of it were held.
        if let Some(slab) = unsafe { held.slab.as_ref() } {
            held.give_back(slab);
        }
    }

    /// Lists a slab with its owner, its free blocks counted; or ends it, if that was being done.
    fn mend_slab(&self, region: &Region, unit: usize, owner: Owner) {
        let slab = Slab::of(region, unit);
        let free = slab.count_free();
        if slab.vacancy.is_alive() || free != 0 {
            // SAFETY: the caller has read it from the slab's tag.
            return unsafe { Slabs::of(owner) }.list_anew(slab, free);
        }
        // Retired, all but its tag.
        // SAFETY: the region contains the unit.
        unsafe { region.tag(unit) }.store(0, Ordering::Relaxed);
        self.give_unit(unit);
    }

    /// Turns into bits what a cache has whose thread was changing its lists, as far as these are whole.
    fn salvage(&self, cache: &Cache) {
        for class in SizeClass::all() {
            let most = self.shared.decisions().stack_len(class);
            self.salvage_list(cache, cache.magazines.take(class, most).first);
            self.salvage_list(cache, cache.reserve.take_spare(class).first);
            let mut magazine = cache.reserve.take_depot(class);
            for _ in 0..LONGEST_LIST {
                if !self.is_loose(cache, magazine.addr()) {
                    break;
                }
                // SAFETY: it is a free block of this cache's, in its depot.
                let next = unsafe { Magazine::take_next(magazine, self.shared.key()) };
                self.salvage_list(cache, magazine.cast());
                magazine = next;
            }
        }
        cache.reserve.parcels.take_all(|parcel| {
            parcel.each(|address| {
                if self.is_free_but_no_bit(address) {
                    self.set_bit(address);
                }
            });
        });
        cache.reserve.parcels.len.iter().for_each(|len| len.set(0));
        cache.reserve.forget();
        cache.slabs.given.set(0);
    }

    #[inline(never)]
    fn salvage_list(&self, cache: &Cache, mut block: *mut Block) {
        for _ in 0..LONGEST_LIST {
            if !self.is_loose(cache, block.addr()) {
                return;
            }
            // SAFETY: the block is free and marked, and nobody else has it.
            let next = unsafe { Block::next(block, self.shared.key()) };
            self.set_bit(block.addr());
            block = next;
        }
    }

    /// Whether a block of a slab of the cache's is free, and no set bit.
    fn is_loose(&self, cache: &Cache, address: usize) -> bool {
        let owner = cache.slabs.owner();
        let owned = self.shared.tag_at(address).is_ok_and(|(_, tag)| match Tag::decode(tag) {
            Tag::Slab(_, class) => tag::is_in_stacks_of(tag, tag::of_slab(owner, class)),
            _ => false,
        });
        owned && self.is_free_but_no_bit(address)
    }

    #[inline(never)]
    fn is_free_but_no_bit(&self, address: usize) -> bool {
        self.shared.slab_at(address).is_some_and(|slab| {
            let loose = slab.number(address).is_some_and(|number| !slab.is_free(number));
            let block = ptr::with_exposed_provenance_mut(address);
            // SAFETY: a whole block of a slab, which is mapped.
            loose && unsafe { Block::is_marked(block, self.shared.key()) }
        })
    }

    #[inline(never)]
    fn set_bit(&self, address: usize) {
        let Some(slab) = self.shared.slab_at(address) else { return };
        let Some(number) = slab.number(address) else { return };
        slab.set(number / 64, 1 << (number % 64));
    }
}
