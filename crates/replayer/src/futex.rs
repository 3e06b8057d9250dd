//! Sleeping in the kernel until a word changes; in loom's models, under loom's scheduler.
//!
//! Chosen once, here (`--cfg loom`): [`crate::turn`], which loom checks, imports its atomics from here.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, Ordering, fence};

/// Sleeps while `word` holds `seen`; returns at once if it does not, and sometimes for no reason.
#[cfg(not(loom))]
pub fn sleep_while(word: &AtomicU32, seen: u32) {
    let flags = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let for_ever = core::ptr::null::<libc::timespec>();
    // SAFETY: `word` lives across the call; the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), flags, seen, for_ever) };
}

/// Wakes every thread that sleeps on `word`.
#[cfg(not(loom))]
pub fn wake_all(word: &AtomicU32) {
    let flags = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address only as a name of the queue.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), flags, i32::MAX) };
}

#[cfg(loom)]
pub use kernel::{sleep_while, wake_all};

/// What a futex promises: that a sleeper looks at the word and lies down in one step, as seen by
/// those who wake. One queue for all words; more wake than must.
#[cfg(loom)]
mod kernel {
    use super::{AtomicU32, Ordering::Relaxed};
    use loom::sync::{Condvar, Mutex};

    loom::lazy_static! {
        static ref BUCKET: Mutex<()> = Mutex::new(());
        static ref QUEUE: Condvar = Condvar::new();
    }

    /// As the kernel's.
    pub fn sleep_while(word: &AtomicU32, seen: u32) {
        let bucket = BUCKET.lock().expect("no model panics under the lock");
        if word.load(Relaxed) == seen {
            drop(QUEUE.wait(bucket));
        }
    }

    /// As the kernel's.
    pub fn wake_all(_word: &AtomicU32) {
        let _bucket = BUCKET.lock().expect("no model panics under the lock");
        QUEUE.notify_all();
    }
}
