//! The table of objects: where each lies, and whose turn it is.
//!
//! The preparer gives each thread slots in groups of its own, so that two threads write one cache
//! line here only where the program itself handed an object over. Turns: see [`freehold_replayer::op`].

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use freehold_replayer::op::Op;
use freehold_replayer::turn::Turn;

use crate::sys::Zeroed;

/// One place for an object: empty (address 0) or holding one.
#[repr(C)]
pub struct Slot {
    address: AtomicU64,
    turn: Turn,
}

const _: () = assert!(size_of::<Slot>() == 16);

// SAFETY: integers; zero means empty, first turn, nobody asleep.
unsafe impl Zeroed for Slot {}

/// How often a thread looks at a turn before it sleeps: about 10 µs. Handing an object over takes
/// less where both threads run; on one processor looking again is a waste (`run` sets 0 there).
pub static LOOKS: AtomicU32 = AtomicU32::new(200);

impl Slot {
    /// The object's address, 0 where there is none. Only for the thread whose turn it is.
    #[inline(always)]
    pub fn address(&self) -> *mut u8 {
        // Relaxed: the Acquire of `await_turn` made the last holder's store visible.
        self.address.load(Relaxed) as usize as *mut u8
    }

    /// Puts an object in, or with null takes it out. Only for the thread whose turn it is.
    #[inline(always)]
    pub fn set_address(&self, address: *mut u8) {
        self.address.store(address as usize as u64, Relaxed);
    }

    /// Waits until all earlier operations on this slot are done.
    #[inline(always)]
    pub fn await_turn(&self, op: Op) {
        self.turn.wait_for(op.turn(), || LOOKS.load(Relaxed));
    }

    /// Ends this operation's turn.
    #[inline(always)]
    pub fn pass_turn(&self, op: Op) {
        self.turn.pass(op.turn(), op.hands_off());
    }
}
