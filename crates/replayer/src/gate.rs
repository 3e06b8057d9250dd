//! A counter that threads wait for, sleeping in the kernel.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

use freehold_replayer::futex::{sleep_while, wake_all};

/// A count that only grows. The rare waits of the replayer (thread starts and ends) use it; those
/// of single objects have their own, cheaper word, a [`freehold_replayer::turn::Turn`].
pub struct Gate(AtomicU32);

impl Gate {
    /// Counts from 0.
    pub const fn new() -> Gate {
        Gate(AtomicU32::new(0))
    }

    /// Waits until the count is at least `count`.
    pub fn wait_for(&self, count: u32) {
        loop {
            let seen = self.0.load(SeqCst);
            if seen >= count {
                return;
            }
            sleep_while(&self.0, seen);
        }
    }

    /// Raises the count by one.
    pub fn raise(&self) {
        self.0.fetch_add(1, SeqCst);
        wake_all(&self.0);
    }
}
