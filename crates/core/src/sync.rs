//! Atomics: the machine's own, or loom's when the lock-free parts are being proved.
//!
//! Chosen once, here (`--cfg loom`); the modules under proof (`heap::bits`, `heap::inbox`) import
//! from here and hold no `cfg` of their own; so is [`UnsafeCell`], in which loom sees who touches what
//! at once. Also [`Lock`], which every cold path shares.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub use loom::cell::UnsafeCell;

use crate::machine::Machine;
use core::sync::atomic::AtomicU32 as Word;

/// A cell whose contents are reached through pointers, as loom's are.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    pub const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(core::cell::UnsafeCell::new(value))
    }

    /// Hands the contents to `work`, which reads them.
    #[inline(always)]
    pub fn with<R>(&self, work: impl FnOnce(*const T) -> R) -> R {
        work(self.0.get())
    }

    /// Hands the contents to `work`, which may change them.
    #[inline(always)]
    pub fn with_mut<R>(&self, work: impl FnOnce(*mut T) -> R) -> R {
        work(self.0.get())
    }
}

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;
/// How often a waiter looks again before it asks the machine to put it to sleep.
const SPINS: u32 = 100;

/// A lock for cold paths: three states, after Drepper, "Futexes Are Tricky" (2011), mutex 3.
/// Waiting goes through [`Machine::wait`], so that a preempted holder costs sleep, not spinning.
#[derive(Debug)]
pub struct Lock {
    word: Word,
}

impl Default for Lock {
    fn default() -> Lock {
        Lock::new()
    }
}

impl Lock {
    /// A free lock; all-zero.
    pub const fn new() -> Lock {
        Lock { word: Word::new(FREE) }
    }

    /// Runs `work` while holding the lock.
    #[inline]
    pub fn with<R>(&self, machine: &impl Machine, work: impl FnOnce() -> R) -> R {
        self.lock(machine);
        let result = work();
        self.unlock(machine);
        result
    }

    /// Runs `work` while holding the lock, if nobody else does; waits for nobody.
    pub fn try_with<R>(&self, machine: &impl Machine, work: impl FnOnce() -> R) -> Option<R> {
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let result = work();
        self.unlock(machine);
        Some(result)
    }

    /// Takes the lock. For the halves of a fork handler; other code uses [`Lock::with`].
    #[inline]
    pub fn lock(&self, machine: &impl Machine) {
        if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slow(machine);
        }
    }

    #[cold]
    fn lock_slow(&self, machine: &impl Machine) {
        for _ in 0..SPINS {
            core::hint::spin_loop();
            if self.word.load(Ordering::Relaxed) == FREE
                && self
                    .word
                    .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
        }
        while self.word.swap(AWAITED, Ordering::Acquire) != FREE {
            machine.wait(&self.word, AWAITED);
        }
    }

    /// Gives the lock back. Only its holder may call this.
    #[inline]
    pub fn unlock(&self, machine: &impl Machine) {
        // Release pairs with the Acquire of the next holder.
        if self.word.swap(FREE, Ordering::Release) == AWAITED {
            machine.wake(&self.word);
        }
    }

    /// Makes the lock free whoever held it: in the only thread of a forked child.
    pub fn reset(&self) {
        self.word.store(FREE, Ordering::Relaxed);
    }
}
