//! The table of objects: where each lies, and whose turn it is.
//!
//! The preparer gives each thread slots in groups of its own, so that two threads write one cache
//! line here only where the program itself handed an object over. Turns: see [`freehold_replayer::op`].

use core::hint::spin_loop;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use freehold_replayer::op::{Op, next_turn};

use crate::gate::{sleep_while, wake_all};
use crate::sys::Zeroed;

/// One place for an object: empty (address 0) or holding one.
#[repr(C)]
pub struct Slot {
    address: AtomicU64,
    turn: AtomicU32,
    sleepers: AtomicU32,
}

const _: () = assert!(size_of::<Slot>() == 16);

// SAFETY: three integers; zero means empty, first turn, nobody asleep.
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
        // Acquire pairs with the Release (or SeqCst) store in `pass_turn`.
        if self.turn.load(Acquire) != op.turn() {
            self.await_turn_slow(op.turn());
        }
    }

    /// Ends this operation's turn.
    #[inline(always)]
    pub fn pass_turn(&self, op: Op) {
        let next = next_turn(op.turn());
        if op.hands_off() {
            self.hand_off_slow(next);
        } else {
            self.turn.store(next, Release);
        }
    }

    #[cold]
    fn await_turn_slow(&self, turn: u32) {
        for _ in 0..LOOKS.load(Relaxed) {
            if self.turn.load(Acquire) == turn {
                return;
            }
            spin_loop();
        }
        loop {
            // SeqCst on both words, here and in `hand_off_slow`: either this thread sees the new
            // turn, or the other sees the sleeper and wakes it.
            self.sleepers.store(1, SeqCst);
            let seen = self.turn.load(SeqCst);
            if seen == turn {
                return;
            }
            sleep_while(&self.turn, seen);
        }
    }

    #[cold]
    fn hand_off_slow(&self, next: u32) {
        self.turn.store(next, SeqCst);
        if self.sleepers.swap(0, SeqCst) != 0 {
            wake_all(&self.turn);
        }
    }
}
