//! Returns pages that hold no block to the system, whoever owns the memory around them.
//!
//! One round makes depots of the stacks of caches without a thread, visits every cache's depots and turns their
//! unused blocks into bits, and then visits every bank. It purges free units that stayed unused for two rounds. In slabs,
//! the purger takes the free blocks of wholly free pages by clearing their bits, as an allocation
//! would; purges the pages; and sets the bits again. Owners need not stop, nor even run.
//!
//! Slabs that hold no block and that their owner lists no longer become free units (`Slabs::retire_forgotten`).
//!
//! Hysteresis: a slab whose free count changed since the last round is left alone, and purged pages
//! are remembered until a block in them is taken.

use super::heap::NodeHeap;
use super::shared::Shared;
use super::slabs::pages::Pages;
use super::slabs::slab::Slab;
use super::slabs::{NOTHING_MORE, Slabs};
use super::tag::SPARSE;
use super::units::{UnitCount, region::Region};
use crate::machine::Machine;
use crate::size_class::SizeClass;
use core::ptr;
use core::sync::atomic::Ordering;

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Bytes given back.
    pub bytes: usize,
    /// Bytes that may be free, but changed hands lately: another round may find them rested.
    pub unsettled: usize,
    /// Whether another round is worth it: this one has found work, or the next may.
    pub more: bool,
}

impl<M: Machine> NodeHeap<M> {
    /// Whether enough was freed since [`NodeHeap::settled`] that a round of purging is worth it.
    #[inline]
    pub fn wants_purge(&self) -> bool {
        let most = self.shared.decisions().purge_from.min(self.shared.units.kept_at_most());
        self.shared.freed() >= most
    }

    /// The purger goes to sleep: counting starts anew.
    pub fn settled(&self) {
        self.shared.forget_freed();
    }

    /// Whether rounds of purging shall end soon, whatever is left to do.
    pub fn hurry(&self, hurried: bool) {
        self.shared.hurried.store(hurried, Ordering::Relaxed);
    }

    /// One round. `at_once` ignores age and hysteresis (`malloc_trim`). Any thread; rounds exclude
    /// each other step by step.
    pub fn purge(&self, at_once: bool) -> Purged {
        let shared = &self.shared;
        shared.units.next_tick();
        let mut done = Purged { bytes: 0, unsettled: self.empty_depots(at_once), more: false };
        self.registry.each_idle(self.machine(), &mut |cache| {
            cache.slabs.receive(shared);
            cache.slabs.retire_free(shared);
        });
        self.registry.give_up(self.machine());
        for cache in self.registry.caches(self.machine()) {
            // Under the lock, for a fork must not see slabs that are in no inbox.
            if cache.slabs.has_news() {
                shared
                    .purging
                    .with(self.machine(), || cache.slabs.retire_forgotten(shared, at_once));
            }
        }
        if shared.decisions().purge_slabs != 0 {
            purge_slabs(shared, at_once, &mut done);
        }
        let few = self.usage().dirty.bytes() <= shared.units.kept_at_most();
        done.bytes += self.purge_units(at_once || !few);
        done.unsettled += self.usage().dirty.bytes();
        done.more = done.bytes != 0 || done.unsettled >= shared.decisions().purge_again;
        done
    }

    /// Turns those depots into bits of which more than half was not asked for since the last visit
    /// (`at_once`: all of them), of every cache. Stacks of idle caches become depots before. How many bytes are left.
    pub(super) fn empty_depots(&self, at_once: bool) -> usize {
        let shared = &self.shared;
        self.registry.each_idle(self.machine(), &mut |cache| self.stow_all(cache));
        let mut left = 0;
        let caches = self.registry.caches(self.machine());
        for it in caches.take_while(|_| at_once || !shared.is_hurried()) {
            shared.purging.with(self.machine(), || it.reserve.runs.give_all(shared));
            for class in SizeClass::all().filter(|&class| it.reserve.holds(class)) {
                match it.reserve.rests(class) {
                    Err(bytes) if !at_once => left += bytes,
                    _ => shared
                        .purging
                        .with(self.machine(), || it.reserve.empty(shared, None, class)),
                }
            }
        }
        left
    }

    /// Purges free units that stayed unused for some rounds (`at_once`: all); how many bytes.
    pub(super) fn purge_units(&self, at_once: bool) -> usize {
        let shared = &self.shared;
        let age = if at_once { 0 } else { shared.decisions().purge_rest as u32 };
        let (mut from, mut bytes) = ((0, 0), 0);
        while at_once || !shared.is_hurried() {
            let step = || self.purge_run(from, age);
            let Some((len, next)) = shared.purging.with(self.machine(), step) else { break };
            (from, bytes) = (next, bytes + len.bytes());
        }
        bytes
    }

    /// Gives back what is free beyond what may be kept, before what was just taken is touched. Unless somebody else is purging.
    #[inline]
    pub(super) fn give_surplus(&self) {
        let surplus = self.shared.units.surplus(self.machine());
        if surplus.0 != 0 {
            self.purge_surplus(surplus);
        }
    }

    #[cold]
    fn purge_surplus(&self, mut left: UnitCount) {
        let mut from = (0, 0);
        while left.0 != 0 {
            let step = || self.purge_run(from, 0);
            let Some(Some((len, next))) = self.shared.purging.try_with(self.machine(), step) else {
                return;
            };
            (from, left) = (next, left.beyond(len));
        }
    }

    /// Purges one run of free units in which nothing was freed for `age` rounds, at or after `from`: how many, and where
    /// to go on. Under the purger's lock.
    fn purge_run(&self, from: (usize, usize), age: u32) -> Option<(UnitCount, (usize, usize))> {
        let (units, machine) = (&self.shared.units, self.machine());
        let (dirty, next) = units.hide_dirty(machine, from, age)?;
        let at = ptr::with_exposed_provenance_mut(dirty.address);
        // SAFETY: the units are free, committed, and hidden from everybody else.
        let clean = unsafe { machine.purge(at, dirty.len.bytes()) };
        units.purged(machine, dirty, clean);
        clean.then_some((dirty.len, next))
    }
}

fn purge_slabs<M: Machine>(shared: &Shared<M>, at_once: bool, done: &mut Purged) {
    shared.units.each_used(&shared.machine, |region, unit| {
        let slab = Slab::of(region, unit);
        if !slab.vacancy.is_alive() || (shared.is_hurried() && !at_once) {
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
            let bytes = || purge_slab(shared, region, slab);
            done.bytes += shared.purging.with(&shared.machine, bytes);
        }
    });
}

/// Purges the wholly free pages of one slab; returns their bytes. Under the purger's lock.
fn purge_slab<M: Machine>(shared: &Shared<M>, region: &Region, slab: &Slab) -> usize {
    // SAFETY: the lock makes this the only access.
    let held = unsafe { &mut *shared.held.get() };
    let page = shared.machine.page_size();
    // While the units are frozen a live slab cannot become anything else; afterwards the blocks
    // that we hold keep it alive.
    let Some(pages) = shared.units.frozen(&shared.machine, || {
        let alive = slab.vacancy.is_alive();
        alive.then(|| {
            held.start(slab);
            slab.hold_free_pages(page, held)
        })
    }) else {
        return 0;
    };
    if held.len == 0 {
        // It may end now, and its descriptor turn to zero, which is no slab for a forked child.
        held.slab = ptr::null();
        return 0;
    }
    if !pages.is_empty() {
        slab.purged.add(pages);
        // Before the blocks can be had again: marks in them are about to vanish.
        let marked = pages.without(slab.untaken.get());
        if !marked.is_empty() {
            slab.unmarked.add(marked);
            // SAFETY: the region contains the slab.
            unsafe { region.tag(slab.base()) }.fetch_or(SPARSE, Ordering::Relaxed);
        }
        shared.units.make_small(&shared.machine, slab.base());
        purge_pages(&shared.machine, slab.base(), pages);
    }
    let blocks = slab.blocks();
    let ticket = slab.vacancy.add(held.len);
    held.give_back(slab);
    if slab.vacancy.announce(ticket, blocks) {
        Slabs::queue(shared, None, slab);
    }
    pages.bytes()
}

fn purge_pages(machine: &impl Machine, base: usize, mut pages: Pages) {
    while !pages.is_empty() {
        let run = pages.lowest_run();
        let place = run.place();
        let at = ptr::with_exposed_provenance_mut(base + place.start);
        // SAFETY: all blocks that touch these pages are held by us.
        unsafe { machine.purge(at, place.len()) };
        pages = pages.without(run);
    }
}
