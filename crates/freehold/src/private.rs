//! A further heap, where it lies: its caches, each under a lock, and its place in the list of heaps.
//!
//! The process's main heap gives each thread a cache. A further heap has a fixed few, because there
//! may be many heaps and threads, and programs allocate from a further heap rarely. A call locks the slot
//! to which its thread maps, and does there what the main heap does.

use crate::main_heap::HEAP;
use core::cell::Cell;
use core::ptr;
use freehold_core::machine::Machine;
use freehold_core::malloc::{Cache, NodeHeap};
use freehold_core::place::NodeSet;
use freehold_core::stats::page::Entry;
use freehold_core::sync::Lock;
use freehold_os::Linux;

/// Caches of a heap.
const SLOTS: usize = 8;

/// A cache for the holder of the lock.
struct Slot {
    lock: Lock,
    cache: Cell<*const Cache>,
}

/// A heap, where it lies: in a block of the main heap.
pub(crate) struct Private {
    pub entry: Entry,
    pub heap: NodeHeap<Linux>,
    pub next: Cell<*const Private>,
    slots: [Slot; SLOTS],
}

impl Private {
    /// In a forked child: a slot that another thread was using loses its cache, which the heap makes whole.
    pub fn after_fork_in_child(&self) {
        for slot in &self.slots {
            if slot.lock.disown(HEAP.machine()) {
                slot.cache.set(ptr::null());
            }
        }
        let is_kept =
            |cache: &Cache| self.slots.iter().any(|slot| ptr::eq(slot.cache.get(), cache));
        self.heap.after_fork_in_child(is_kept);
    }

    /// Takes no memory of those nodes any more, unless the heap is bound to one.
    pub fn close(&self, nodes: NodeSet) {
        if self.heap.bound().is_none() && (nodes != self.heap.closed_nodes()) {
            self.heap.close_nodes(nodes, false);
        }
    }

    /// Takes the caches from their slots: the next thread gets another, of the node that is right then.
    pub fn empty_slots(&self) {
        for slot in &self.slots {
            slot.lock.with(HEAP.machine(), || self.empty(slot));
        }
    }

    /// Under the slot's lock.
    fn empty(&self, slot: &Slot) {
        let cache = slot.cache.replace(ptr::null());
        // SAFETY: a heap's caches live as long as the heap; we hold the slot's lock.
        if let Some(cache) = unsafe { cache.as_ref() } {
            self.heap.detach(cache);
        }
    }

    /// Runs `work` with a cache that is ours meanwhile; `None` when there is no memory for one.
    pub fn with_cache<R>(&self, work: impl FnOnce(&Cache) -> R) -> Option<R> {
        let slot = self.slots.get(slot_number() % SLOTS)?;
        slot.lock.with(HEAP.machine(), || {
            if slot.cache.get().is_null() {
                slot.cache.set(ptr::from_ref(self.heap.attach()?));
            }
            // SAFETY: a heap's caches live as long as the heap.
            let cache = unsafe { &*slot.cache.get() };
            let done = work(cache);
            if self.heap.is_stray(cache) {
                self.empty(slot);
            }
            Some(done)
        })
    }

    /// Runs `work` with all slots empty and locked: nobody else uses the heap meanwhile.
    pub fn alone(&self, work: impl FnOnce(&NodeHeap<Linux>)) {
        for slot in &self.slots {
            slot.lock.lock(HEAP.machine());
        }
        self.slots.iter().for_each(|slot| self.empty(slot));
        work(&self.heap);
        for slot in &self.slots {
            slot.lock.unlock(HEAP.machine());
        }
    }
}

/// On which slot the calling thread falls. Where there are several memories, threads of different nodes fall on different
/// slots as long as there are two for each, so that each slot's cache is of its threads' node.
fn slot_number() -> usize {
    // Fibonacci hashing (Knuth, TAOCP 3, 6.4): thread pointers differ in their middle bits.
    let hash = (freehold_os::thread::pointer() >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61;
    match HEAP.machine().nodes().and_then(|nodes| nodes.here()) {
        Some(node) => node.index() * 2 + hash % 2,
        None => hash,
    }
}
