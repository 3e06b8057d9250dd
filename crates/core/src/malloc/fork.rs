//! A forked child: makes the heap whole, although the fork waited for no thread.
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
//! used bits of banks, tags, bits of slabs         stand
//! lists of banks and counts                       from used bits          (frames::runs)
//! lists of slabs, inboxes, counts of free blocks  from tags and bits
//! busy caches: stacks, depots, parcels            walked as far as they are whole; their blocks become bits
//! used units that no tag explains                 were being taken or given: free
//! ```
//!
//! The child loses the blocks that no structure holds afterwards: at most those in each other thread's registers.
//!
//! If the forking thread is itself in the middle of a call (a signal handler forks), that call goes on in the child, and
//! nothing is derived: torn state of other threads stays as it is, behind locks that are free.
//!
//! Invariant: afterwards the heap passes `check`, and the program still has every block that it had.

use super::cache::{Block, Cache};
use super::caches::Caches;
use super::depot::Magazine;
use super::node_heap::{NodeHeap, Threads};
use super::refill::{grant, limit};
use super::slab::Slab;
use super::tag::{self, Tag};
use crate::machine::Machine;
use crate::malloc::units::{UNIT, region::Region};
use crate::row::Row;
use crate::size_class::SizeClass;
use core::ptr;
use core::sync::atomic::Ordering;

/// No list of a cache has more blocks than this: it ends the walk of a torn list.
const LONGEST_LIST: usize = 1 << 24;

impl<M: Machine> NodeHeap<M> {
    /// In a forked child, before it has a second thread. `stays` says which caches have a user here: that of the calling
    /// thread, for example. All others go idle. O(caches), and O(memory in use / 64 KiB) if a thread was in the middle of something.
    pub fn after_fork_in_child(&self, stays: impl Fn(&Cache) -> bool) {
        let machine = &self.machine;
        let mut interrupted = self.is_locked_here();
        let mut torn = self.runs.after_fork(machine);
        torn |= self.registry_lock.disown(machine);
        torn |= self.purging.disown(machine);
        self.pressure.store(0, Ordering::Relaxed);
        // SAFETY: reads one word, which nobody changes: no other thread exists.
        let all = unsafe { (*self.registry.get()).all };
        Caches::from(all).for_each(|cache| {
            let busy = cache.busy.get();
            interrupted |= busy && stays(cache);
            torn |= busy;
        });
        if interrupted {
            return;
        }
        self.with_registry(|threads| self.rest(threads, &stays));
        if torn {
            self.mend();
        }
    }

    /// Whether the calling thread holds a lock of the heap's: then a signal came in the middle of a call.
    pub fn is_locked_here(&self) -> bool {
        let locks = [&self.purging, &self.registry_lock, self.runs.lock()];
        locks.iter().any(|lock| lock.is_mine(&self.machine))
    }

    /// Caches without a user go idle, whatever they were before.
    fn rest(&self, threads: &mut Threads<'_>, stays: &impl Fn(&Cache) -> bool) {
        threads.each_waiting(|waiting| waiting.idle = ptr::null_mut());
        let mut len = 0;
        Caches::from(threads.registry.all).for_each(|cache| {
            cache.told.set(0);
            cache.attached.set(stays(cache));
            if cache.attached.get() {
                return;
            }
            cache.metered.set(false);
            cache.strays.set(0);
            let waiting = threads.waiting(cache.home.get());
            cache.next_idle.set(waiting.idle);
            waiting.idle = ptr::from_ref(cache).cast_mut();
            len += 1;
        });
        self.idle_len.store(len, Ordering::Relaxed);
    }

    /// Derives everything anew.
    fn mend(&self) {
        self.caches().for_each(|cache| {
            if cache.busy.get() {
                self.salvage(cache);
                cache.busy.set(false);
            }
        });
        self.give_back_held();
        self.caches().for_each(Cache::forget_slabs);
        let mut large_until = 0;
        self.runs.each_used(&self.machine, |region, unit| {
            // SAFETY: the unit lies in the region.
            let bits = unsafe { region.tag(unit) }.load(Ordering::Relaxed);
            match Tag::decode(bits) {
                Tag::Slab(owner, _) => self.mend_slab(region, unit, owner),
                Tag::Large => large_until = unit + self.large_units(region, unit) * UNIT,
                // SAFETY: nobody has it: it has no tag, and lies in no large block.
                Tag::Nothing if bits != tag::CACHES && unit >= large_until => {
                    self.runs.give(&self.machine, unit, 1, false);
                }
                Tag::Nothing => {}
            }
        });
    }

    /// Lists a slab with its owner, its free blocks counted; or ends it, if that was being done.
    fn mend_slab(&self, region: &Region, unit: usize, owner: *const Cache) {
        // SAFETY: the tag says that the unit is a slab, of this cache; both live.
        let (slab, owner) = unsafe { (&*region.descriptor(unit).cast::<Slab>(), &*owner) };
        let free = slab.count_free();
        if !slab.vacancy.is_alive() && free == 0 {
            // Retired, all but its tag.
            // SAFETY: the region contains the unit.
            unsafe { region.tag(unit) }.store(0, Ordering::Relaxed);
            return self.runs.give(&self.machine, unit, 1, false);
        }
        slab.vacancy.mend(free);
        owner.owned.fetch_add(1, Ordering::Relaxed);
        if free != 0 {
            super::lists::link(owner, ptr::from_ref(slab).cast_mut(), slab.class());
        }
    }

    /// Turns into bits what a cache has whose thread was changing its lists, as far as these are whole.
    fn salvage(&self, cache: &Cache) {
        for class in SizeClass::all() {
            let index = class.index();
            self.salvage_list(cache, class, cache.stack(index));
            cache.take_stack(index);
            grant(cache, index, limit(index), 0);
            self.salvage_list(cache, class, cache.spare.at(index).replace(ptr::null_mut()));
            cache.spare_len.at(index).set(0);
            let mut magazine = cache.depots.at(index).take();
            for _ in 0..LONGEST_LIST {
                if !self.is_loose(cache, class, magazine.addr()) {
                    break;
                }
                // SAFETY: it is a free block of this cache's, in its depot.
                let next = unsafe { Magazine::next(magazine, self.key()) };
                self.salvage_list(cache, class, magazine.cast());
                magazine = next;
            }
            cache.held.at(index).store(0, Ordering::Relaxed);
            cache.low.at(index).store(0, Ordering::Relaxed);
        }
        self.salvage_outbox(cache);
        cache.stock.set(0);
        cache.debt.set(0);
        cache.given.set(0);
        cache.stocked.iter().for_each(|word| word.set(0));
    }

    fn salvage_list(&self, cache: &Cache, class: SizeClass, mut block: *mut Block) {
        for _ in 0..LONGEST_LIST {
            if !self.is_loose(cache, class, block.addr()) {
                return;
            }
            // SAFETY: the block is free and marked, and nobody else has it.
            let next = unsafe { Block::next(block, self.key()) };
            self.set_bit(block.addr());
            block = next;
        }
    }

    fn salvage_outbox(&self, cache: &Cache) {
        cache.each_collected(|address| {
            if self.is_free_but_no_bit(address) {
                self.set_bit(address);
            }
        });
    }

    /// Whether a block of this class of a slab of the cache's is free, and no set bit.
    fn is_loose(&self, cache: &Cache, class: SizeClass, address: usize) -> bool {
        let owned = |region: &Region| {
            // SAFETY: the region contains the address.
            let bits = unsafe { region.tag(address) }.load(Ordering::Relaxed) & !tag::SPARSE;
            bits == tag::of_slab(cache, class)
        };
        self.runs.region_of(address).is_some_and(owned) && self.is_free_but_no_bit(address)
    }

    fn is_free_but_no_bit(&self, address: usize) -> bool {
        self.slab_at(address).is_some_and(|slab| {
            let loose = slab.number(address).is_some_and(|number| !slab.is_free(number));
            let block = ptr::with_exposed_provenance_mut(address);
            // SAFETY: a whole block of a slab, which is mapped.
            loose && unsafe { Block::is_marked(block, self.key()) }
        })
    }

    fn set_bit(&self, address: usize) {
        let Some(slab) = self.slab_at(address) else { return };
        let Some(number) = slab.number(address) else { return };
        slab.give_word(number / 64, 1 << (number % 64));
    }
}
