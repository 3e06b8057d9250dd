//! Returns pages that hold no block to the system, whoever owns the memory around them.
//!
//! One round makes depots of the stacks of caches without a thread, visits every cache's depots and turns their
//! unused blocks into bits, and then visits every bank. It purges free units that stayed unused for two rounds. In slabs,
//! the purger takes the free blocks of wholly free pages by clearing their bits, as an allocation
//! would; purges the pages; and sets the bits again. Owners need not stop, nor even run.
//!
//! Slabs that hold no block and that their owner has forgotten become free units (`forgotten`).
//!
//! Hysteresis: a slab whose free count changed since the last round is left alone, and purged pages
//! are remembered until a block in them is taken.

use super::cache::Cache;
use super::node_heap::NodeHeap;
use super::slab::Slab;
use super::tag::SPARSE;
use crate::machine::Machine;
use crate::malloc::units::{UNIT, region::Region};
use core::ptr;
use core::sync::atomic::Ordering;

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Bytes given back.
    pub bytes: usize,
    /// Bytes that may be free, but changed hands lately: another round may find them rested.
    pub unsettled: usize,
}

impl Purged {
    /// Whether another round is worth it: this one has found work, or the next may.
    pub fn more(&self) -> bool {
        self.bytes != 0 || self.unsettled >= WORTH_ANOTHER_ROUND
    }
}

/// Rounds a free unit stays resident.
const UNIT_AGE: u32 = 2;
/// In `Slab::seen`: at this count there is nothing to purge.
pub(super) const NOTHING_MORE: u16 = 0x8000;
/// Caches that are visited while threads that come or go wait.
const CACHES_AT_ONCE: usize = 32;
/// What is unsettled below that is left to a program that uses it.
const WORTH_ANOTHER_ROUND: usize = 1 << 20;
/// Bytes given back that make a purge worth a thread.
const WORTH_BYTES: usize = 8 << 20;

impl<M: Machine> NodeHeap<M> {
    /// Whether enough was freed since [`NodeHeap::settled`] that a round of purging is worth it.
    #[inline]
    pub fn wants_purge(&self) -> bool {
        self.pressure.load(Ordering::Relaxed) >= WORTH_BYTES
    }

    /// The purger goes to sleep: counting starts anew.
    pub fn settled(&self) {
        self.pressure.store(0, Ordering::Relaxed);
    }

    /// One round. `at_once` ignores age and hysteresis (`malloc_trim`). Any thread; rounds exclude
    /// each other step by step.
    pub fn purge(&self, at_once: bool) -> Purged {
        self.runs.next_tick();
        let mut done = Purged::default();
        self.empty_depots(at_once, &mut done);
        self.drain_idle(false);
        self.give_up_caches();
        self.retire_forgotten(at_once);
        self.purge_slabs(at_once, &mut done);
        self.purge_units(at_once, &mut done);
        done.unsettled += self.runs.usage(&self.machine).dirty * UNIT;
        done
    }

    /// Empties the inboxes of idle caches; their empty slabs become free units. With `all`, their blocks
    /// become bits before, so that they keep no empty slab.
    pub(super) fn drain_idle(&self, all: bool) {
        self.each_idle(|cache| {
            if all {
                self.give_all(cache);
            } else {
                self.drain(cache);
                self.retire_free(cache);
            }
        });
    }

    /// Visits every cache without a thread, some at a time; no thread takes one of these meanwhile.
    pub(super) fn each_idle(&self, mut visit: impl FnMut(&Cache)) {
        let mut caches = self.caches().peekable();
        while caches.peek().is_some() {
            self.with_registry(|_| {
                let some = caches.by_ref().take(CACHES_AT_ONCE);
                some.filter(|cache| !cache.attached.get()).for_each(&mut visit);
            });
        }
    }

    pub(super) fn purge_units(&self, at_once: bool, done: &mut Purged) {
        let age = if at_once { 0 } else { UNIT_AGE };
        let mut from = (0, 0);
        loop {
            let more = self.purging.with(&self.machine, || {
                let (dirty, next) = self.runs.hide_dirty(&self.machine, from, age)?;
                let at = ptr::with_exposed_provenance_mut(dirty.address);
                // SAFETY: the units are free, committed, and hidden from everybody else.
                let clean = unsafe { self.machine.purge(at, dirty.len * UNIT) };
                self.runs.purged(&self.machine, dirty, clean);
                done.bytes += if clean { dirty.len * UNIT } else { 0 };
                clean.then_some(next)
            });
            match more {
                Some(next) if at_once || !self.is_hurried() => from = next,
                _ => return,
            }
        }
    }

    fn purge_slabs(&self, at_once: bool, done: &mut Purged) {
        self.runs.each_used(&self.machine, |region, unit| {
            // SAFETY: descriptors of committed units are readable and valid when zero.
            let slab = unsafe { &*region.descriptor(unit).cast::<Slab>() };
            if !slab.vacancy.is_alive() || (self.is_hurried() && !at_once) {
                return;
            }
            let (free, seen) = (slab.vacancy.free() as u16, slab.seen.load(Ordering::Relaxed));
            if seen == free | NOTHING_MORE && !at_once {
                return;
            }
            if free != seen & !NOTHING_MORE && !at_once {
                slab.seen.store(free, Ordering::Relaxed);
                done.unsettled += free as usize * slab.class().size();
            } else if free != 0 {
                slab.seen.store(free | NOTHING_MORE, Ordering::Relaxed);
                done.bytes += self.purging.with(&self.machine, || self.purge_slab(region, slab));
            }
        });
    }

    /// Purges the wholly free pages of one slab; returns their bytes. Under the purger's lock.
    fn purge_slab(&self, region: &Region, slab: &Slab) -> usize {
        // SAFETY: the lock makes this the only access.
        let held = unsafe { &mut *self.held.get() };
        held.start(slab);
        let page = self.machine.page_size();
        // While the runs are frozen a live slab cannot become anything else; afterwards the blocks
        // that we hold keep it alive.
        let Some(pages) = self.runs.frozen(&self.machine, || {
            let alive = slab.vacancy.is_alive();
            alive.then(|| slab.hold_free_pages(page, held))
        }) else {
            return 0;
        };
        if held.len == 0 {
            return 0;
        }
        if pages != 0 {
            // Before the blocks can be had again: marks in them are about to vanish.
            slab.purged.fetch_or(pages, Ordering::Relaxed);
            slab.unmarked.fetch_or(pages, Ordering::Relaxed);
            // SAFETY: the region contains the slab.
            unsafe { region.tag(slab.base()) }.fetch_or(SPARSE, Ordering::Relaxed);
            self.runs.make_small(&self.machine, slab.base());
            self.purge_pages(slab.base(), pages);
        }
        let blocks = slab.blocks();
        let ticket = slab.vacancy.add(held.len);
        held.give_back(slab);
        if slab.vacancy.announce(ticket, blocks) {
            self.tell(None, slab);
        }
        pages.count_ones() as usize * 4096
    }

    /// In a forked child, to which the purger did not come along: the blocks that it held.
    pub(super) fn give_back_held(&self) {
        // SAFETY: no other thread exists.
        let held = unsafe { &mut *self.held.get() };
        // SAFETY: null, or a slab that lives because blocks of it were held.
        if let Some(slab) = unsafe { held.slab.as_ref() } {
            held.give_back(slab);
        }
    }

    fn purge_pages(&self, base: usize, pages: u16) {
        let mut rest = pages as u32;
        while rest != 0 {
            let first = rest.trailing_zeros();
            let len = (!(rest >> first)).trailing_zeros();
            let at = ptr::with_exposed_provenance_mut(base + ((first as usize) << 12));
            // SAFETY: all blocks that touch these pages are held by us.
            unsafe { self.machine.purge(at, (len as usize) << 12) };
            rest &= !(((1 << len) - 1) << first);
        }
    }
}
