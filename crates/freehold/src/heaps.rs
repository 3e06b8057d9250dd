//! The list of the process's further heaps: for statistics, the purger and forks.
//!
//! Lock order: list, then a heap's slots, then the heap's own locks. Destroying a heap first removes it from
//! the list, so the holder of the list's lock may use every heap on it.

use crate::main_heap::HEAP;
use crate::page::PAGE;
use crate::private::Private;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use freehold_core::place::NodeSet;
use freehold_core::sync::Lock;

/// Heaps linked by [`Private::next`]; their entries on the page are linked in the same order.
pub(crate) struct List {
    first: Cell<*const Private>,
    len: Cell<usize>,
}

struct Shared {
    lock: Lock,
    list: List,
}

// SAFETY: the list is reached under the lock only.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    lock: Lock::new(),
    list: List { first: Cell::new(core::ptr::null()), len: Cell::new(0) },
};

/// How many there are, roughly: whether the lock is worth taking.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Nodes that were left: no heap takes memory of them.
static CLOSED: AtomicU64 = AtomicU64::new(0);

/// The nodes that were left.
pub(crate) fn closed() -> NodeSet {
    NodeSet::from_bits(CLOSED.load(Ordering::Relaxed))
}

/// Nodes are left; heaps that are listed already are to be told.
pub(crate) fn leave(nodes: NodeSet) {
    CLOSED.fetch_or(nodes.bits(), Ordering::Relaxed);
}

/// Nodes are there again; heaps that are listed already are to be told.
pub(crate) fn readmit(nodes: NodeSet) {
    CLOSED.fetch_and(nodes.complement().bits(), Ordering::Relaxed);
}

impl List {
    /// How many heaps are listed.
    pub fn len(&self) -> usize {
        self.len.get()
    }

    /// Calls `visit` with each of them.
    pub fn each(&self, mut visit: impl FnMut(&Private)) {
        let mut at = self.first.get();
        // SAFETY: listed heaps live.
        while let Some(heap) = unsafe { at.as_ref() } {
            at = heap.next.get();
            visit(heap);
        }
    }

    fn add(&self, heap: &Private) {
        heap.next.set(self.first.replace(heap));
        self.len.set(self.len.get() + 1);
        self.relink();
    }

    fn remove(&self, heap: &Private) {
        let mut link = &self.first;
        // SAFETY: listed heaps live.
        while let Some(other) = unsafe { link.get().as_ref() } {
            if core::ptr::eq(other, heap) {
                link.set(heap.next.get());
                self.len.set(self.len.get() - 1);
                return self.relink();
            }
            link = &other.next;
        }
    }

    /// Links the entries on the page as the heaps are.
    fn relink(&self) {
        let mut last = &PAGE.main;
        let mut at = self.first.get();
        // SAFETY: listed heaps live.
        while let Some(heap) = unsafe { at.as_ref() } {
            last.next.store((&raw const heap.entry).expose_provenance(), Ordering::Release);
            last = &heap.entry;
            at = heap.next.get();
        }
        last.next.store(0, Ordering::Release);
    }
}

/// Runs `work` while no heap is created or destroyed.
pub(crate) fn with_list<R>(work: impl FnOnce(&List) -> R) -> R {
    SHARED.lock.with(HEAP.machine(), || work(&SHARED.list))
}

/// Runs `work` with the heap of that number; `None` when there are not so many.
pub(crate) fn nth<R>(number: usize, work: impl FnOnce(&Private) -> R) -> Option<R> {
    with_list(|list| {
        let (mut at, mut found) = (0, None);
        list.each(|heap| {
            if at == number {
                found = Some(core::ptr::from_ref(heap));
            }
            at += 1;
        });
        // SAFETY: listed heaps live as long as the list is locked.
        found.map(|heap| work(unsafe { &*heap }))
    })
}

/// Lists a heap, which takes no memory of nodes that were left.
pub(crate) fn add(heap: &Private) {
    with_list(|list| {
        heap.close(closed());
        list.add(heap);
    });
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Takes a heap from the list.
pub(crate) fn remove(heap: &Private) {
    with_list(|list| list.remove(heap));
    COUNT.fetch_sub(1, Ordering::Relaxed);
}

/// One round of purging in every further heap: whether there was something to do.
pub(crate) fn purge() -> bool {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let mut busy = false;
    with_list(|list| {
        list.each(|heap| {
            let done = heap.heap.purge(false);
            busy |= done.more;
            heap.heap.settled();
        });
    });
    busy
}

/// Whether the calling thread holds the list's lock: a signal came meanwhile.
pub(crate) fn is_locked_here() -> bool {
    SHARED.lock.is_mine(HEAP.machine())
}

/// In a forked child: the list is free, and every heap on it whole. (A heap that was being listed or taken from the list is on
/// it or not, for a link is one word; how they are counted is counted anew.)
pub(crate) fn after_fork_in_child() {
    if SHARED.lock.disown(HEAP.machine()) {
        let mut len = 0;
        SHARED.list.each(|_| len += 1);
        SHARED.list.len.set(len);
        SHARED.list.relink();
        COUNT.store(len, Ordering::Relaxed);
    }
    SHARED.list.each(Private::after_fork_in_child);
}
