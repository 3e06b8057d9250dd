//! The shared memory of a process: sixteen rings, and one page of positions before them.
//!
//! ```text
//!   0        one page: header, sixteen ring heads
//!   4096     slots of ring 0, 256 KiB
//!   …        slots of ring 15
//! ```
//!
//! The parent makes it (all zero but the header) and hands it over; pages that no event was ever
//! written to take no memory. A process with more than sixteen threads alive asks for more sets.
//! The size is a trade: a ring stays within a second-level cache and holds what a thread that only
//! allocates does in 300 µs, which is what a sleeping drain needs to wake up.
//!
//! [`Doorbell`] is one page shared by all processes of a recording: how the drain is woken.
//!
//! Invariant: both sides agree on this layout or do not talk ([`LAYOUT`] is in the first message).

use crate::packed::Packed;
use crate::ring::{RingHead, Slot};
use crate::sync::{AtomicU32, AtomicU64};
use core::mem::size_of;

/// Rings in a set.
pub const RINGS: usize = 16;
/// Events in a ring.
pub const SLOTS: usize = 1 << 14;
/// Bytes of the page of positions.
pub const HEAD_BYTES: usize = 4096;
/// Bytes of a ring set.
pub const SET_BYTES: usize = HEAD_BYTES + RINGS * SLOTS * size_of::<Packed>();
/// Changes whenever the layout, the events or the messages do.
pub const LAYOUT: u32 = 5;

/// Words for the whole set, and its ring heads.
#[repr(C, align(4096))]
pub struct RingSet {
    /// 1 once the parent has ended the recording of this process.
    pub stop: AtomicU32,
    /// Events lost because no ring could be had.
    pub ringless: AtomicU64,
    /// Events lost because a signal handler made them amid another one.
    pub interrupting: AtomicU64,
    /// Stacks that were compared with a plain walk, where that was asked for.
    pub compared: AtomicU64,
    /// Those of them that were not the same.
    pub differing: AtomicU64,
    /// The positions.
    pub heads: [RingHead; RINGS],
}

/// What wakes the drain.
#[repr(C, align(4096))]
pub struct Doorbell {
    /// 1 while the drain sleeps: a futex.
    pub sleeping: AtomicU32,
    /// Counts up while the drain is alive, at least ten times a second.
    pub heartbeat: AtomicU32,
    /// Processes that are not recorded because one that they were forked from has set a filter for system calls.
    pub filtered: AtomicU32,
}

/// Bytes of the doorbell.
pub const DOORBELL_BYTES: usize = HEAD_BYTES;

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<RingSet>() == HEAD_BYTES);
    assert!(size_of::<Doorbell>() == DOORBELL_BYTES);
    assert!(size_of::<Slot>() == size_of::<Packed>() && size_of::<Slot>() == 16);
    assert!(SLOTS.is_power_of_two());
};

/// The first slot of ring `ring` of the set at `base`.
///
/// # Safety
/// `base` points to a mapping of [`SET_BYTES`] bytes and `ring` is below [`RINGS`].
pub unsafe fn slots_of(base: *const RingSet, ring: usize) -> *const Slot {
    // SAFETY: the offset is inside the mapping, as the caller promises.
    unsafe { base.byte_add(HEAD_BYTES + ring * SLOTS * size_of::<Slot>()).cast() }
}
