//! Caches with and without threads, and where they live: units of sixteen pages, from which the pages of empty caches go
//! back to the machine.
//!
//! ```text
//! all -> unit  | first | cache | -- | cache | ...        a page each; -- is one that was never made, or given up: zero
//!                  |
//!                  `-> unit ...                          the first of a unit stays, and has the link to the next unit
//! ```
//!
//! When a program has ended twenty thousand threads, their caches wait for new threads. The purger gives up the wholly
//! empty ones among them; a new thread makes them anew.
//!
//! Threads share slabs of long blocks (`with_common`): those whose caches lie in one unit, so that a lock has sixteen users at
//! most. These slabs belong to a cache that is in no list, and never has a thread.
//!
//! A thread may walk the caches without the registry's lock while a page goes back. It then reads zeros, which are a
//! cache that holds nothing. What it writes there (a word of 0, or a depot's minimum) means nothing to the next cache.
//!
//! Invariant: a page is a cache if its key is not zero; a cache that is given up has no thread, owns no slab, and holds no block.

use super::cache::Cache;
use super::decisions::Decisions;
use super::shared::Shared;
use super::slabs::Slabs;
use super::tag::CACHES;
use super::units::{UNIT, UnitLayout};
use crate::machine::Machine;
use crate::place::{Home, MAX_NODES};
use crate::size_class::SizeClass;
use crate::sync::Lock;
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

/// Caches in a unit.
pub(super) const PER_UNIT: usize = UNIT / size_of::<Cache>();
/// Caches that are visited while threads that come or go wait.
const AT_ONCE: usize = 32;

const _: () = assert!(PER_UNIT == 16, "bits of a `u16` say which pages of a unit were given up");

/// All caches of a heap. All-zero is none. What there is for nodes comes first: where there is one memory, nobody touches it.
#[repr(C)]
pub(super) struct Registry {
    lists: UnsafeCell<Lists>,
    /// Caches without a thread, roughly: whether adopting is worth a lock.
    idle_len: AtomicUsize,
    /// Caches with a thread.
    threads: AtomicUsize,
    pub(super) lock: Lock,
}

/// What the lock protects.
#[repr(C)]
pub(super) struct Lists {
    of_nodes: [Waiting; MAX_NODES],
    anywhere: Waiting,
    /// The first cache of the unit of caches that came last.
    all: *mut Cache,
}

/// What threads that come to a home find there.
struct Waiting {
    /// Caches without a thread, last in first.
    idle: *mut Cache,
    /// The first page of the last unit that was not yet made into a cache; where a unit begins: there is none.
    fresh: *mut Cache,
    /// Units of which pages were given up, each by its first cache.
    gaps: *mut Cache,
}

impl Waiting {
    const NONE: Waiting =
        Waiting { idle: ptr::null_mut(), fresh: ptr::null_mut(), gaps: ptr::null_mut() };
}

impl Cache {
    /// Whether the page is a cache; else it is zero.
    fn is_made(&self) -> bool {
        self.key() != 0
    }

    /// The first cache of the unit that this one lies in.
    fn first_of_unit(&self) -> &Cache {
        let first = ptr::from_ref(self).map_addr(|at| at & !(UNIT - 1));
        // SAFETY: a unit's first cache is made before the others, and stays.
        unsafe { &*first }
    }

    /// The cache whose slabs this one shares with the others in its unit, if there is one yet.
    fn common(&self) -> Option<&'static Cache> {
        // SAFETY: null, or a cache, which lives for ever. Acquire pairs with the Release of who made it.
        unsafe { self.first_of_unit().common.load(Ordering::Acquire).as_ref() }
    }
}

/// All caches, with or without a thread, found without a lock; see the module.
pub(super) struct Caches {
    unit: *const Cache,
    page: usize,
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

impl Registry {
    pub(super) const fn new() -> Registry {
        let of_nodes = [Waiting::NONE; MAX_NODES];
        let lists = Lists { of_nodes, anywhere: Waiting::NONE, all: ptr::null_mut() };
        Registry {
            lists: UnsafeCell::new(lists),
            idle_len: AtomicUsize::new(0),
            threads: AtomicUsize::new(0),
            lock: Lock::new(),
        }
    }

    /// The word that points to the first of all caches, for a reader from outside.
    pub(super) fn root(&self) -> usize {
        self.lists.get().addr() + core::mem::offset_of!(Lists, all)
    }

    /// Whether any thread has ever had a cache.
    pub(super) fn is_used(&self) -> bool {
        !self.last_unit().is_null()
    }

    fn last_unit(&self) -> *const Cache {
        // SAFETY: reads one word, which is written under the lock, by one store.
        unsafe { (&raw const (*self.lists.get()).all).read_volatile() }
    }

    /// Runs `work` on the lists under the lock.
    pub(super) fn with<R>(&self, machine: &impl Machine, work: impl FnOnce(&mut Lists) -> R) -> R {
        // SAFETY: the lock makes this the only access.
        self.lock.with(machine, || work(unsafe { &mut *self.lists.get() }))
    }

    /// Every cache that there is.
    pub(super) fn caches(&self, machine: &impl Machine) -> Caches {
        self.with(machine, |lists| lists.caches())
    }

    /// A cache for a thread of `home`: one without a thread, else a new one. `None` when memory is short.
    pub(super) fn take<M: Machine>(&self, shared: &Shared<M>, home: Home) -> Option<&Cache> {
        self.with(&shared.machine, |lists| {
            let idle = lists.waiting(home).idle;
            let cache = if idle.is_null() { lists.make(shared, home) } else { idle };
            // SAFETY: caches live for ever; those without a thread are touched under the lock only.
            let cache = unsafe { cache.as_ref() }?;
            if !idle.is_null() {
                lists.waiting(home).idle = cache.next_idle.get();
                self.idle_len.fetch_sub(1, Ordering::Relaxed);
            }
            cache.attached.set(true);
            cache.given_up.set(false);
            self.threads.fetch_add(1, Ordering::Relaxed);
            Some(cache)
        })
    }

    /// How many caches have a thread.
    #[inline]
    pub(super) fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    /// Whether the thread of a cache takes blocks of a class from slabs that threads share: not if they got in each other's way.
    #[inline]
    pub(super) fn shares(&self, decisions: &Decisions, cache: &Cache, class: SizeClass) -> bool {
        decisions.is_shared(class, self.threads())
            && (cache.waits.get() as usize) < decisions.slabs_shared_waits
    }

    /// Runs `work`, for the thread of a cache, on the slabs that it shares with the other threads of its unit; `None` when
    /// memory is short.
    pub(super) fn with_common<M: Machine, R>(
        &self,
        shared: &Shared<M>,
        cache: &Cache,
        work: impl FnOnce(&Slabs) -> R,
    ) -> Option<R> {
        let common = self.hold_common(shared, cache)?;
        let result = work(&common.slabs);
        common.lock.unlock(&shared.machine);
        Some(result)
    }

    /// Takes the lock of the cache whose slabs a thread shares.
    #[inline(never)]
    fn hold_common<M: Machine>(&self, shared: &Shared<M>, cache: &Cache) -> Option<&'static Cache> {
        let common = match cache.common() {
            None => self.with(&shared.machine, |lists| lists.make_common(shared, cache))?,
            Some(common) => common,
        };
        let (waited, waits) = (common.lock.lock(&shared.machine), cache.waits.get());
        cache.waits.set(if waited { waits.saturating_add(4) } else { waits.saturating_sub(1) });
        Some(common)
    }

    /// The same for a thread that shares no slabs, or waited too often, if there are such slabs and nobody has the lock: what is
    /// left in them may be used by nobody else any more. Where nobody waits, a thread shares again.
    pub(super) fn try_common(
        &self,
        machine: &impl Machine,
        cache: &Cache,
        work: impl FnOnce(&Slabs),
    ) {
        let Some(common) = cache.common() else { return };
        common.lock.try_with(machine, || {
            cache.waits.set(cache.waits.get().saturating_sub(1));
            work(&common.slabs);
        });
    }

    /// The thread of a cache has ended.
    pub(super) fn give(&self, machine: &impl Machine, cache: &Cache) {
        self.with(machine, |lists| lists.rest(cache));
        self.threads.fetch_sub(1, Ordering::Relaxed);
        self.idle_len.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls `visit` with up to `most` caches of a home that have no thread, until it says `true`; whether it did.
    pub(super) fn any_idle(
        &self,
        machine: &impl Machine,
        home: Home,
        most: usize,
        mut visit: impl FnMut(&Cache) -> bool,
    ) -> bool {
        if self.idle_len.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.with(machine, |lists| {
            let mut idle = lists.waiting(home).idle;
            for _ in 0..most {
                // SAFETY: caches live for ever; idle ones are touched under this lock only.
                let Some(cache) = (unsafe { idle.as_ref() }) else { return false };
                if visit(cache) {
                    return true;
                }
                idle = cache.next_idle.get();
            }
            false
        })
    }

    /// Visits every cache without a thread, some at a time; no thread takes one of these, or a block of its slabs, meanwhile.
    pub(super) fn each_idle(&self, machine: &impl Machine, visit: &mut dyn FnMut(&Cache)) {
        let mut caches = self.caches(machine).peekable();
        while caches.peek().is_some() {
            self.with(machine, |_| {
                let some = caches.by_ref().take(AT_ONCE);
                let idle = some.filter(|cache| !cache.attached.get());
                idle.for_each(|cache| cache.lock.with(machine, || visit(cache)));
            });
        }
    }

    /// Gives up caches without a thread that hold nothing, but for the first of each unit: their pages go back.
    #[inline(never)]
    pub(super) fn give_up(&self, machine: &impl Machine) {
        if machine.page_size() != size_of::<Cache>() {
            return;
        }
        let mut some = false;
        self.each_idle(machine, &mut |cache| {
            let first = ptr::eq(cache, cache.first_of_unit());
            cache.given_up.set(!first && cache.is_empty());
            some |= cache.given_up.get();
        });
        if !some {
            return;
        }
        let (mut gone, len) = self.with(machine, Lists::unlink_given_up);
        self.idle_len.fetch_sub(len, Ordering::Relaxed);
        // SAFETY: caches that are in no list, of which nobody but us knows.
        while let Some(cache) = unsafe { gone.as_ref() } {
            let (page, home) = (gone, cache.home.get());
            gone = cache.next_idle.get();
            // SAFETY: a whole page, which nobody uses; zero is a page that is no cache.
            unsafe {
                if !machine.purge(page.cast(), size_of::<Cache>()) {
                    page.write_bytes(0, 1);
                }
            }
            self.with(machine, |lists| lists.note_gap(home, page));
        }
    }

    /// Every cache that there was a moment ago, for a caller that cannot wait for the lock.
    pub(super) fn caches_unlocked(&self) -> Caches {
        Caches { unit: self.last_unit(), page: 0 }
    }

    /// In a forked child: caches of which `stays` says no have no thread, whatever they were before.
    pub(super) fn rest_all(&self, machine: &impl Machine, stays: impl Fn(&Cache) -> bool) {
        let (len, threads) = self.with(machine, |lists| {
            lists.each_waiting(|waiting| waiting.idle = ptr::null_mut());
            let (mut len, mut threads) = (0, 0);
            for cache in lists.caches() {
                cache.told.set(0);
                cache.common.store(ptr::null_mut(), Ordering::Relaxed);
                if stays(cache) {
                    cache.attached.set(true);
                    threads += 1;
                } else {
                    lists.rest(cache);
                    len += 1;
                }
            }
            (len, threads)
        });
        self.idle_len.store(len, Ordering::Relaxed);
        self.threads.store(threads, Ordering::Relaxed);
    }
}

impl Lists {
    fn caches(&self) -> Caches {
        Caches { unit: self.all, page: 0 }
    }

    /// What waits at a home.
    fn waiting(&mut self, home: Home) -> &mut Waiting {
        let of_node = home.node().and_then(|node| self.of_nodes.get_mut(node.index()));
        of_node.unwrap_or(&mut self.anywhere)
    }

    /// What waits anywhere.
    fn each_waiting(&mut self, mut visit: impl FnMut(&mut Waiting)) {
        visit(&mut self.anywhere);
        self.of_nodes.iter_mut().for_each(visit);
    }

    /// Lists a cache as one without a thread.
    fn rest(&mut self, cache: &Cache) {
        cache.attached.set(false);
        cache.metered.set(false);
        cache.strays.set(0);
        cache.waits.set(0);
        let waiting = self.waiting(cache.home.get());
        cache.next_idle.set(waiting.idle);
        waiting.idle = ptr::from_ref(cache).cast_mut();
    }

    /// A new cache, in a page that was given up, or was never used, or of a new unit; null when memory is short.
    fn make<M: Machine>(&mut self, shared: &Shared<M>, home: Home) -> *mut Cache {
        let new = self.reuse(home).unwrap_or_else(|| self.next_fresh(shared, home));
        // SAFETY: the page is ours, aligned, and zero, which is a valid cache but for its key.
        let Some(cache) = (unsafe { new.as_ref() }) else { return new };
        cache.home.set(home);
        if new.addr().is_multiple_of(UNIT) {
            cache.next_unit.set(self.all);
        }
        // A forked child shall find a whole cache, or none.
        compiler_fence(Ordering::Release);
        cache.magazines.key.set(shared.key());
        compiler_fence(Ordering::Release);
        if new.addr().is_multiple_of(UNIT) {
            self.all = new;
            // Now, for in a forked child no page may come of a unit that is not listed.
            compiler_fence(Ordering::Release);
            self.waiting(home).fresh = new.wrapping_add(1);
        }
        new
    }

    /// The cache whose slabs the caches in the unit of this one share from now on, unless there is one already.
    fn make_common<M: Machine>(
        &mut self,
        shared: &Shared<M>,
        cache: &Cache,
    ) -> Option<&'static Cache> {
        if cache.common().is_none() {
            let new = self.make(shared, cache.home.get());
            cache.first_of_unit().common.store(new, Ordering::Release);
        }
        cache.common()
    }

    /// The next page that was never used.
    fn next_fresh<M: Machine>(&mut self, shared: &Shared<M>, home: Home) -> *mut Cache {
        let waiting = self.waiting(home);
        if waiting.fresh.addr().is_multiple_of(UNIT) {
            // Not subject to the limit: enforcing it takes a lock that comes before the registry's.
            let Some((region, run)) = shared.units.take(&shared.machine, home, UnitLayout::ONE)
            else {
                return ptr::null_mut();
            };
            if !run.zero {
                // SAFETY: the unit was just handed to us.
                unsafe { ptr::write_bytes(run.address as *mut u8, 0, UNIT) };
            }
            // SAFETY: the run's own region contains it.
            unsafe { region.tag(run.address) }.store(CACHES, Ordering::Relaxed);
            return ptr::with_exposed_provenance_mut(run.address);
        }
        let new = waiting.fresh;
        waiting.fresh = new.wrapping_add(1);
        new
    }

    /// A page of the home's that was given up.
    fn reuse(&mut self, home: Home) -> Option<*mut Cache> {
        let waiting = self.waiting(home);
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

    /// Takes the caches that are to be given up from the lists of those that wait; they are linked behind the answer, which
    /// has their number, too.
    fn unlink_given_up(&mut self) -> (*mut Cache, usize) {
        let (mut gone, mut len) = (ptr::null_mut(), 0);
        self.each_waiting(|waiting| {
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
        (gone, len)
    }

    /// A page of the home's is zero now.
    fn note_gap(&mut self, home: Home, page: *mut Cache) {
        let first = page.map_addr(|at| at & !(UNIT - 1));
        let waiting = self.waiting(home);
        // SAFETY: a unit's first cache stays.
        let it = unsafe { &*first };
        if it.gaps.get() == 0 {
            it.next_gaps.set(waiting.gaps);
            waiting.gaps = first;
        }
        it.gaps.set(it.gaps.get() | 1 << (page.addr() % UNIT / size_of::<Cache>()));
    }
}
