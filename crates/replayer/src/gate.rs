//! A counter that threads wait for, sleeping in the kernel.

use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Sleeps while `word` holds `seen`; returns at once if it does not, and sometimes for no reason.
pub fn sleep_while(word: &AtomicU32, seen: u32) {
    let flags = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let for_ever = ptr::null::<libc::timespec>();
    // SAFETY: `word` lives across the call; the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), flags, seen, for_ever) };
}

/// Wakes every thread that sleeps on `word`.
pub fn wake_all(word: &AtomicU32) {
    let flags = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address only as a name of the queue.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), flags, i32::MAX) };
}

/// A count that only grows. The rare waits of the replayer (thread starts and ends) use it; those
/// of single objects have their own, cheaper word in [`crate::slots`].
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
