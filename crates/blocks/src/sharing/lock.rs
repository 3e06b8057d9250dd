//! The locks of this module: a lock runs a closure while other threads wait.
//!
//! This code cannot sleep, so locks come from outside: the laboratory passes those of `std`, of
//! `parking_lot` and of the malloc, the loom models loom's.

/// A mutex.
///
/// # Safety
/// Of all closures given to one lock, one runs at a time, and each sees what the ones before it did.
pub unsafe trait Exclusive: Sync {
    /// Runs `work` while holding the lock.
    fn with<R>(&self, work: impl FnOnce() -> R) -> R;
}

/// A reader-writer lock.
///
/// # Safety
/// While a closure given to `write` runs, no other closure given to the same lock does; each sees what
/// those given to `write` before it did.
pub unsafe trait ReadWrite: Sync {
    /// Runs `work` while others may read.
    fn read<R>(&self, work: impl FnOnce() -> R) -> R;

    /// Runs `work` while nobody else reads or writes.
    fn write<R>(&self, work: impl FnOnce() -> R) -> R;
}

/// A mutex with a condition variable, as POSIX threads have them.
///
/// # Safety
/// As [`Exclusive`], of the closures `ready` and `change`.
pub unsafe trait Monitor: Sync {
    /// Asks `ready` until it says yes; sleeps after every no until some `leave` has changed something.
    fn enter(&self, ready: impl FnMut() -> bool);

    /// Runs `change`; when it says so, wakes everybody who sleeps in `enter`.
    fn leave(&self, change: impl FnOnce() -> bool);
}
