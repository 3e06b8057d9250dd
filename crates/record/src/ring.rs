//! The ring of one thread: one producer (a thread of the program), one consumer (the drain).
//!
//! ```text
//!             tail (consumer)          head (producer)
//!               │                        │
//!     …  free   │  written, not drained  │   free …       positions count up for ever;
//!     ──────────┴────────────────────────┴───────────     slot = position modulo N
//! ```
//!
//! Invariants: `tail <= head <= tail + N`; slots in `tail..head` are written and not touched by the
//! producer; all others are not read by the consumer.
//!
//! **Orderings, and who pairs with whom**
//! - `head` is stored with Release by [`Pen::put`] after the two words, and loaded with Acquire by
//!   [`RingHead::published`]: the consumer sees the words of every position below the head it read.
//!   It is stored for each event, so that a producer killed at any instant loses at most the event
//!   it was writing; the mapping outlives it.
//! - `tail` is stored with Release by [`RingHead::release`] after the words were read, and loaded
//!   with Acquire by [`Pen::refresh`]: the producer overwrites a slot only after it was read.
//! - `waiting` and `tail` (store, fence, load on both sides, all SeqCst): either a full producer
//!   sees the new tail or the consumer sees that it waits and wakes it. The wait has a time-out all
//!   the same, because the other side can be killed.
//! - `state` goes Free → Taking → Used (producer, Release) → Closed (producer, Release after the
//!   last `head`) → Free (consumer, Release after the last `tail`); each is loaded with Acquire.
//!
//! The consumer belongs to another process than the producer and must not trust it: `head` may be
//! anything, and [`RingHead::published`] answers at most N events.
//!
//! A signal handler that allocates in the middle of [`Pen::put`] (which POSIX forbids) may overwrite
//! its own events; then `head` steps back, which both sides survive (`refresh` starts anew at the
//! tail) at the price of those events.
//!
//! Neighbours: `ring_set` places rings in memory, `preload` owns the `Pen`s, `collect` drains.

use crate::packed::Packed;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// A cache line of its own, so that the two sides do not disturb each other.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Line<T>(pub T);

/// Nobody uses the ring.
pub const FREE: u32 = 0;
/// A thread writes into it.
pub const USED: u32 = 1;
/// Its thread is done with it; the consumer drains the rest and frees it.
pub const CLOSED: u32 = 2;
/// A thread is about to use it: the fields are not all written yet.
pub const TAKING: u32 = 3;

/// What is written rarely.
#[derive(Default)]
pub struct Rare {
    /// [`FREE`], [`USED`], [`CLOSED`] or [`TAKING`].
    pub state: AtomicU32,
    /// The number of the thread that writes, within its process.
    pub thread: AtomicU32,
    /// 1 while the producer sleeps until there is room: a futex.
    pub waiting: AtomicU32,
}

/// The shared positions and state of a ring. All zero is a valid free ring.
#[repr(C)]
#[derive(Default)]
pub struct RingHead {
    head: Line<AtomicU64>,
    tail: Line<AtomicU64>,
    /// State, owner and futex.
    pub rare: Line<Rare>,
}

/// Two words of shared memory. Atomics, because the other process may do anything to them.
#[repr(C, align(16))]
#[derive(Default)]
pub struct Slot(AtomicU64, AtomicU64);

impl Slot {
    /// Reads the event; only the consumer, only below `published`.
    #[inline(always)]
    pub fn get(&self) -> Packed {
        Packed(self.0.load(Ordering::Relaxed), self.1.load(Ordering::Relaxed))
    }
}

impl RingHead {
    /// Takes a free ring for `thread`.
    pub fn try_take(&self, thread: u32) -> bool {
        let state = &self.rare.0.state;
        if state.compare_exchange(FREE, TAKING, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        self.rare.0.thread.store(thread, Ordering::Relaxed);
        state.store(USED, Ordering::Release);
        true
    }

    /// The producer is done: nothing follows what it has put.
    pub fn close(&self) {
        self.rare.0.state.store(CLOSED, Ordering::Release);
    }

    /// The consumer has drained a closed ring: another thread may take it.
    pub fn set_free(&self) {
        self.rare.0.state.store(FREE, Ordering::Release);
    }

    /// State of the ring; read before `published` by the consumer, so that a closed ring is whole.
    pub fn state(&self) -> u32 {
        self.rare.0.state.load(Ordering::Acquire)
    }

    /// Positions the consumer may read: from its tail to the head it sees, at most `slots`.
    /// A head that stepped back or ran away gives an empty or a bounded range.
    #[inline]
    pub fn published(&self, tail: u64, slots: u64) -> core::ops::Range<u64> {
        let ready = self.head.0.load(Ordering::Acquire).wrapping_sub(tail);
        let ready = if ready > u64::MAX / 2 { 0 } else { ready.min(slots) };
        tail..tail.wrapping_add(ready)
    }

    /// The consumer has read everything below `tail`. True if the producer sleeps: wake `waiting`.
    pub fn release(&self, tail: u64) -> bool {
        self.tail.0.store(tail, Ordering::Release);
        fence(Ordering::SeqCst);
        let waiting = &self.rare.0.waiting;
        waiting.load(Ordering::SeqCst) != 0 && waiting.swap(0, Ordering::SeqCst) != 0
    }

    /// Where the consumer is.
    pub fn tail(&self) -> u64 {
        self.tail.0.load(Ordering::Acquire)
    }

    /// The producer will sleep unless there is room: true if it must, on `waiting` being 1.
    pub fn announce_wait(&self, pen: &mut Pen, slots: u64) -> bool {
        self.rare.0.waiting.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        pen.refresh(self, slots);
        if pen.has_room() {
            self.rare.0.waiting.store(0, Ordering::SeqCst);
            return false;
        }
        true
    }
}

/// The producer's private position in its ring.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Pen {
    head: u64,
    /// The pen must be refreshed when the head gets here: a quarter ring ahead, or at the full mark.
    limit: u64,
}

impl Pen {
    /// A pen without room, for a thread without a ring.
    pub const NONE: Pen = Pen { head: 0, limit: 0 };

    /// The pen of a ring just taken: it goes on where the last thread stopped.
    pub fn start(ring: &RingHead, slots: u64) -> Pen {
        let head = ring.head.0.load(Ordering::Relaxed);
        let mut pen = Pen { head, limit: head };
        pen.refresh(ring, slots);
        pen
    }

    /// Whether an event can be put at once.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.head != self.limit
    }

    /// Puts an event and publishes it. Needs [`Pen::has_room`]. `slot` is that of [`Pen::position`].
    #[inline(always)]
    pub fn put(&mut self, ring: &RingHead, slot: &Slot, event: Packed) {
        slot.0.store(event.0, Ordering::Relaxed);
        slot.1.store(event.1, Ordering::Relaxed);
        self.head = self.head.wrapping_add(1);
        ring.head.0.store(self.head, Ordering::Release);
    }

    /// The position of the next event.
    #[inline(always)]
    pub fn position(&self) -> u64 {
        self.head
    }

    /// Looks how far the consumer is. Gives at most a quarter of the ring at once, so that the
    /// producer comes by often enough to wake a sleeping consumer. True if a quarter or more waits
    /// to be drained.
    pub fn refresh(&mut self, ring: &RingHead, slots: u64) -> bool {
        let tail = ring.tail.0.load(Ordering::Acquire);
        let mut used = self.head.wrapping_sub(tail);
        if used > slots {
            // The head stepped back (see the module's text): start anew where the consumer is.
            self.head = tail;
            used = 0;
        }
        let room = (slots - used).min(slots / 4);
        self.limit = self.head.wrapping_add(room);
        used >= slots / 4
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
