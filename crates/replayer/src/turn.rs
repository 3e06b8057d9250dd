//! Whose turn it is: a counter for which threads wait, looking for a while and then sleeping.
//!
//! [`crate::op`] says what turns are for. A slot has one counter; several threads may wait for it at
//! once, each for another value. Only a pass that hands over to another thread looks for sleepers.
//!
//! ```text
//! a thread that waits           the thread that passes
//! sleepers += 1                 now = next
//! fence                         fence
//! look at now; sleep if early   if sleepers > 0, wake all
//! ```
//!
//! Either the one sees the new value, or the other sees the sleeper. A thread stays counted until
//! its turn has come: were the count cleared by the one who wakes, it would forget the thread that
//! had counted itself and seen the new value, but not yet lain down (`model` finds this).

use crate::futex::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::futex::{AtomicU32, fence, sleep_while, wake_all};
use crate::op::next_turn;

/// The counter. All-zero bytes are the first turn, with nobody asleep.
#[derive(Debug)]
#[repr(C)]
pub struct Turn {
    now: AtomicU32,
    sleepers: AtomicU32,
}

impl Turn {
    /// Waits for turn `turn`, looking `looks()` times before sleeping. Everything done before the
    /// pass to it has then happened.
    #[inline(always)]
    pub fn wait_for(&self, turn: u32, looks: impl FnOnce() -> u32) {
        // Acquire pairs with the Release store in `pass`.
        if self.now.load(Acquire) != turn {
            self.wait_slowly(turn, looks());
        }
    }

    /// Ends turn `turn`. `hands_off` where another thread has the next one.
    #[inline(always)]
    pub fn pass(&self, turn: u32, hands_off: bool) {
        self.now.store(next_turn(turn), Release);
        if hands_off {
            self.wake_sleepers();
        }
    }

    #[cold]
    fn wait_slowly(&self, turn: u32, looks: u32) {
        for _ in 0..looks {
            if self.now.load(Acquire) == turn {
                return;
            }
            core::hint::spin_loop();
        }
        self.sleepers.fetch_add(1, Relaxed);
        fence(SeqCst);
        loop {
            let seen = self.now.load(Acquire);
            if seen == turn {
                break;
            }
            sleep_while(&self.now, seen);
        }
        self.sleepers.fetch_sub(1, Relaxed);
    }

    #[cold]
    fn wake_sleepers(&self) {
        fence(SeqCst);
        if self.sleepers.load(Relaxed) != 0 {
            wake_all(&self.now);
        }
    }
}

#[cfg(all(test, loom))]
mod model;
