//! How many blocks of a slab are free, and who knows about it: eight bytes, lock-free.
//!
//! Any thread gives blocks back; only the slab's owner lists, unlists and retires it; the purger
//! withdraws blocks and gives them back like any thread, and retires unused slabs that the owner has forgotten. The free
//! blocks themselves are bits elsewhere.
//!
//! Invariants:
//! - `free` is never below the number of set bits: givers add before they set, takers clear before
//!   they subtract. So an owner who reads zero misses nothing, and one who reads `blocks` still has
//!   to claim every bit before it retires the slab.
//! - A slab with free blocks is listed by its owner, or queued in its owner's inbox, or a giver is
//!   between setting bits and queueing it. No wake-up is lost: the giver adds to `free`, then reads
//!   `state`; the owner changes `state`, then reads `free`, by a read-modify-write. One of the two
//!   operations on `free` is first: if the giver's, the owner sees the blocks; if the owner's,
//!   the giver acquires what the owner released, and sees the changed state.
//! - A slab that is queued and not listed belongs to the thread that took it from the inbox: neither givers nor its owner
//!   change its state. That is how the purger may retire it. So the owner lists a slab by the same operation that takes it
//!   off the queue, and touches a slab that it has unlisted only as a giver would.
//! - `state` carries a version that changes when the slab is retired, so that a late giver does not queue the unit's
//!   next slab. Versions restart when the descriptor's page was given back in between
//!   (`units::region::purging`); then the giver may queue that slab once too often, which is
//!   harmless: a live slab has an owner, which finds nothing new in it.

use crate::sync::{AtomicU32, Ordering};

/// The owner has the slab in a list (or is allocating from it).
const LISTED: u32 = 1;
/// The slab is in, or on its way to, its owner's inbox.
const QUEUED: u32 = 2;
/// The unit is a slab.
const ALIVE: u32 = 4;
const VERSION: u32 = 8;

/// The state before a giver set its bits; see [`Vacancy::add`].
#[derive(Clone, Copy, Debug)]
pub struct Ticket(u32);

/// What [`Vacancy::dequeue`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dequeued {
    /// The owner had it in a list already.
    pub listed: bool,
    /// Free blocks, at least.
    pub free: u32,
}

/// See the module. All-zero is a unit that is no slab.
#[derive(Debug)]
#[repr(C)]
pub struct Vacancy {
    state: AtomicU32,
    free: AtomicU32,
}

impl Vacancy {
    /// The offset of the count of free blocks, in bytes, for a reader from outside.
    #[cfg(not(loom))]
    pub const FREE_AT: usize = core::mem::offset_of!(Vacancy, free);

    /// The vacancy of a slab that never was.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Vacancy {
        Vacancy { state: AtomicU32::new(0), free: AtomicU32::new(0) }
    }

    /// Makes the unit a slab with `blocks` free ones, listed by its owner, who alone knows it.
    pub fn start(&self, blocks: u32) {
        self.free.store(blocks, Ordering::Relaxed);
        let version = self.state.load(Ordering::Relaxed) & !(VERSION - 1);
        // Release pairs with the Acquire in `is_alive`: who sees a slab sees its fields.
        self.state.store(version | ALIVE | LISTED, Ordering::Release);
    }

    /// What a purge of the descriptor's page does to it.
    #[cfg(loom)]
    pub fn wipe(&self) {
        self.state.store(0, Ordering::Relaxed);
        self.free.store(0, Ordering::Relaxed);
    }

    /// In a forked child, where nobody else is: the slab has so many free blocks, and is listed if it has any.
    #[cfg(not(loom))]
    pub fn mend(&self, free: u32) {
        let version = self.state.load(Ordering::Relaxed) & !(VERSION - 1);
        self.free.store(free, Ordering::Relaxed);
        self.state.store(version | ALIVE | if free == 0 { 0 } else { LISTED }, Ordering::Relaxed);
    }

    /// Whether the unit is a slab at this moment.
    pub fn is_alive(&self) -> bool {
        self.state.load(Ordering::Acquire) & ALIVE != 0
    }

    /// Free blocks, at least.
    #[inline]
    pub fn free(&self) -> u32 {
        self.free.load(Ordering::Acquire)
    }

    /// The same after a change of `state`, in order with every giver's [`Vacancy::add`].
    fn free_now(&self) -> u32 {
        self.free.fetch_add(0, Ordering::AcqRel)
    }

    /// First step of giving, before bits are set. Which life the slab is in is noted here, while the giver still
    /// holds blocks of it, so that it cannot be retired; and behind the addition, which fetches the line once and for
    /// writing, where a look before it would fetch it twice.
    #[inline]
    pub fn add(&self, blocks: u32) -> Ticket {
        self.free.fetch_add(blocks, Ordering::AcqRel);
        Ticket(self.state.load(Ordering::Relaxed))
    }

    /// Last step of giving, after bits are set. `true`: the giver has to put the slab into its
    /// owner's inbox, because its owner has forgotten it or because all its blocks are free.
    #[inline]
    pub fn announce(&self, ticket: Ticket, blocks: u32) -> bool {
        let state = self.state.load(Ordering::Acquire);
        if state & LISTED != 0 && self.free() != blocks {
            return false;
        }
        self.announce_slow(ticket, state)
    }

    #[cold]
    fn announce_slow(&self, ticket: Ticket, mut state: u32) -> bool {
        while state & QUEUED == 0 && state & ALIVE != 0 && (state ^ ticket.0) < VERSION {
            match self.state.compare_exchange(
                state,
                state | QUEUED,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Taking, after bits were cleared.
    #[inline]
    pub fn withdraw(&self, blocks: u32) {
        self.free.fetch_sub(blocks, Ordering::AcqRel);
    }

    /// The owner unlists the slab, having found no bits. `true`: blocks are coming, and the owner
    /// has to put the slab into its own inbox (trying again at once could wait for a giver).
    pub fn unlist(&self) -> bool {
        let state = self.state.fetch_and(!LISTED, Ordering::AcqRel) & !LISTED;
        // From here on it may be queued by a giver, and then retired.
        self.free_now() != 0 && self.announce_slow(Ticket(state), state)
    }

    /// The owner has taken the slab from its inbox, and has it in a list from now on.
    pub fn dequeue(&self) -> Dequeued {
        // Only the owner changes `LISTED`, and `QUEUED` is set.
        let listed = self.is_listed();
        let change = if listed { QUEUED } else { QUEUED | LISTED };
        self.state.fetch_xor(change, Ordering::AcqRel);
        Dequeued { listed, free: self.free_now() }
    }

    /// Whether the owner has the slab in a list.
    pub fn is_listed(&self) -> bool {
        self.state.load(Ordering::Acquire) & LISTED != 0
    }

    /// Who has taken the slab from its inbox, not listed, and claimed every bit, ends it in its owner's place.
    pub fn retire_queued(&self) {
        let state = self.state.load(Ordering::Acquire);
        let next = (state & !(VERSION - 1)).wrapping_add(VERSION);
        let ended = self.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed);
        debug_assert!(ended.is_ok() && state % VERSION == ALIVE | QUEUED, "somebody else's slab");
    }

    /// The owner, who has claimed every bit, ends the slab. `false`: it is queued, and has to be
    /// kept until it is dequeued.
    pub fn retire(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        let next = (state & !(VERSION - 1)).wrapping_add(VERSION);
        state & QUEUED == 0
            && self.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
