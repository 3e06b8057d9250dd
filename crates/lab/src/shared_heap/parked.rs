//! The malloc's own lock among those that a scheme can be given.

use freehold_blocks::sharing::Exclusive;
use freehold_core::machine::Machine;
use freehold_core::sync::Lock;

/// The lock, with the machine that puts its waiters to sleep.
#[derive(Debug, Default)]
pub struct Parked<M> {
    lock: Lock,
    machine: M,
}

impl<M: Machine> Parked<M> {
    /// A free lock.
    pub const fn new(machine: M) -> Parked<M> {
        Parked { lock: Lock::new(), machine }
    }
}

// SAFETY: `Lock::with` runs one closure at a time; its Release pairs with the next one's Acquire.
unsafe impl<M: Machine + Sync> Exclusive for Parked<M> {
    #[inline]
    fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        self.lock.with(&self.machine, work)
    }
}
