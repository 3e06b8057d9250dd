//! Where caches live: units of sixteen pages, from which the pages of empty caches go back to the machine.
//!
//! ```text
//! all -> unit  | first | cache | -- | cache | ...        a page each; -- is one that was never made, or given up: zero
//!                  |
//!                  `-> unit ...                          the first of a unit stays, and has the link to the next unit
//! ```
//!
//! After a program had twenty thousand threads, their caches wait for new threads. The purger gives up the wholly
//! empty ones among them; a new thread makes them anew.
//!
//! A thread may walk the caches without the registry's lock while a page goes back. It then reads zeros, which are a
//! cache that holds nothing. What it writes there (a word of 0, or a depot's minimum) means nothing to the next cache.
//!
//! Invariant: a page is a cache if its key is not zero; a cache that is given up has no thread, owns no slab, and holds no block.

use super::cache::Cache;
use super::node_heap::{NodeHeap, Threads};
use super::refill;
use super::tag::CACHES;
use crate::machine::Machine;
use crate::malloc::units::UNIT;
use crate::place::Home;
use crate::row::Row;
use crate::size_class::CLASSES;
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};

/// Caches in a unit.
pub(super) const PER_UNIT: usize = UNIT / size_of::<Cache>();

const _: () = assert!(PER_UNIT == 16, "bits of a `u16` say which pages of a unit were given up");

impl Cache {
    /// Whether the page is a cache; else it is zero.
    fn is_made(&self) -> bool {
        self.key.get() != 0
    }

    /// The first cache of the unit that this one lies in.
    fn first_of_unit(&self) -> &Cache {
        let first = ptr::from_ref(self).map_addr(|at| at & !(UNIT - 1));
        // SAFETY: a unit's first cache is made before the others, and stays.
        unsafe { &*first }
    }

    /// Whether it has neither slabs nor blocks.
    fn is_empty(&self) -> bool {
        let holds = |class: usize| {
            !self.stack(class).is_null()
                || !self.spare.at(class).get().is_null()
                || !self.depots.at(class).is_empty()
                || !self.slabs.at(class).get().is_null()
        };
        self.owned.load(Ordering::Relaxed) == 0
            && self.inbox.is_empty()
            && self.has_sent_all()
            && !(0..CLASSES).any(holds)
    }
}

/// All caches, with or without a thread, found without a lock; see the module.
pub(super) struct Caches {
    unit: *const Cache,
    page: usize,
}

impl From<*mut Cache> for Caches {
    /// Those from the unit on whose first cache this is.
    fn from(unit: *mut Cache) -> Caches {
        Caches { unit, page: 0 }
    }
}

impl Iterator for Caches {
    type Item = &'static Cache;

    fn next(&mut self) -> Option<&'static Cache> {
        loop {
            // SAFETY: units of caches live as long as the heap, and their order never changes once they are listed.
            let first = unsafe { self.unit.as_ref() }?;
            let at = self.unit.wrapping_add(self.page);
            self.page += 1;
            if self.page == PER_UNIT {
                (self.unit, self.page) = (first.next_unit.get(), 0);
            }
            // SAFETY: the page lies in the unit.
            let cache = unsafe { &*at };
            if cache.is_made() {
                return Some(cache);
            }
        }
    }
}

impl<M: Machine> NodeHeap<M> {
    /// Every cache that there is.
    pub(super) fn caches(&self) -> Caches {
        Caches::from(self.with_registry(|threads| threads.registry.all))
    }

    /// A new cache, in a page that was given up, or was never used, or of a new unit; null when memory is short.
    pub(super) fn new_cache(&self, threads: &mut Threads<'_>, home: Home) -> *mut Cache {
        let new = match reuse(threads, home) {
            Some(page) => page,
            None => self.next_fresh(threads, home),
        };
        // SAFETY: the page is ours, aligned, and zero, which is a valid cache but for its key.
        let Some(cache) = (unsafe { new.as_ref() }) else { return new };
        for class in 0..CLASSES {
            refill::grant(cache, class, refill::limit(class), 0);
            cache.batch.at(class).set(refill::first_batch(class));
        }
        cache.home.set(home);
        if new.addr().is_multiple_of(UNIT) {
            cache.next_unit.set(threads.registry.all);
        }
        // A forked child shall find a whole cache, or none.
        compiler_fence(Ordering::Release);
        cache.key.set(self.key());
        compiler_fence(Ordering::Release);
        if new.addr().is_multiple_of(UNIT) {
            threads.registry.all = new;
        }
        new
    }

    /// The next page that was never used.
    fn next_fresh(&self, threads: &mut Threads<'_>, home: Home) -> *mut Cache {
        let waiting = threads.waiting(home);
        if waiting.fresh.addr().is_multiple_of(UNIT) {
            // Not subject to the limit: enforcing it takes a lock that comes before the registry's.
            let Some(run) = self.runs.take(&self.machine, home, 1, 1) else {
                return ptr::null_mut();
            };
            if !run.zero {
                // SAFETY: the unit was just handed to us.
                unsafe { ptr::write_bytes(run.address as *mut u8, 0, UNIT) };
            }
            // SAFETY: the run's own region contains it.
            let tag = self.runs.region_of(run.address).map(|r| unsafe { r.tag(run.address) });
            tag.inspect(|tag| tag.store(CACHES, Ordering::Relaxed));
            waiting.fresh = ptr::with_exposed_provenance_mut(run.address);
        }
        let new = waiting.fresh;
        waiting.fresh = new.wrapping_add(1);
        new
    }

    /// Gives up caches without a thread that hold nothing, but for the first of each unit: their pages go back.
    pub(super) fn give_up_caches(&self) {
        if self.machine.page_size() != size_of::<Cache>() {
            return;
        }
        let mut some = false;
        self.each_idle(|cache| {
            let first = ptr::eq(cache, cache.first_of_unit());
            cache.given_up.set(!first && cache.is_empty());
            some |= cache.given_up.get();
        });
        let mut gone = if some {
            self.with_registry(|threads| self.unlink_given_up(threads))
        } else {
            ptr::null_mut()
        };
        // SAFETY: caches that are in no list, of which nobody but us knows.
        while let Some(cache) = unsafe { gone.as_ref() } {
            let (page, home) = (gone, cache.home.get());
            gone = cache.next_idle.get();
            // SAFETY: a whole page, which nobody uses; zero is a page that is no cache.
            unsafe {
                if !self.machine.purge(page.cast(), size_of::<Cache>()) {
                    page.write_bytes(0, 1);
                }
            }
            self.with_registry(|threads| note_given_up(threads, home, page));
        }
    }

    /// Takes the caches that are to be given up from the lists of those that wait; they are linked behind the answer.
    fn unlink_given_up(&self, threads: &mut Threads<'_>) -> *mut Cache {
        let (mut gone, mut len) = (ptr::null_mut(), 0);
        threads.each_waiting(|waiting| {
            let mut next = core::mem::replace(&mut waiting.idle, ptr::null_mut());
            // SAFETY: caches that wait live, and are touched under the registry's lock only.
            while let Some(cache) = unsafe { next.as_ref() } {
                let list = if cache.given_up.get() { &mut gone } else { &mut waiting.idle };
                len += usize::from(cache.given_up.get());
                let this = next;
                next = cache.next_idle.replace(*list);
                *list = this;
            }
        });
        self.idle_len.fetch_sub(len, Ordering::Relaxed);
        gone
    }
}

/// A page of the home's that was given up.
fn reuse(threads: &mut Threads<'_>, home: Home) -> Option<*mut Cache> {
    let waiting = threads.waiting(home);
    // SAFETY: units of caches live as long as the heap.
    let first = unsafe { waiting.gaps.as_ref() }?;
    let gaps = first.gaps.get();
    let page = waiting.gaps.wrapping_add(gaps.trailing_zeros() as usize);
    first.gaps.set(gaps & (gaps - 1));
    if first.gaps.get() == 0 {
        waiting.gaps = first.next_gaps.get();
    }
    Some(page)
}

/// A page of the home's is zero now.
fn note_given_up(threads: &mut Threads<'_>, home: Home, page: *mut Cache) {
    let first = page.map_addr(|at| at & !(UNIT - 1));
    let waiting = threads.waiting(home);
    // SAFETY: a unit's first cache stays.
    let it = unsafe { &*first };
    if it.gaps.get() == 0 {
        it.next_gaps.set(waiting.gaps);
        waiting.gaps = first;
    }
    it.gaps.set(it.gaps.get() | 1 << (page.addr() % UNIT / size_of::<Cache>()));
}
