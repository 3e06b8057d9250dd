//! Atomics: the machine's own, or loom's when the lock-free parts are being proved.
//!
//! Chosen once, here (`--cfg loom`); the modules under proof (`malloc::vacancy`, `malloc::inbox`) import
//! from here and hold no `cfg` of their own. Also [`Lock`], which every cold path shares.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use crate::machine::Machine;
use core::sync::atomic::AtomicU32 as Word;

const FREE: u32 = 0;
/// Somebody may be asleep until the lock is given back.
const AWAITED: u32 = 1;
/// How often a waiter looks again before it asks the machine to put it to sleep.
const SPINS: u32 = 100;

/// A lock for cold paths: free, held, or held and awaited, after Drepper, "Futexes Are Tricky" (2011), mutex 3.
/// Waiting goes through [`Machine::wait`], so that a preempted holder costs sleep, not spinning.
///
/// The word names the holder ([`Machine::me`]): in a forked child, which has one of its parent's threads only, a lock whose
/// holder is another thread is nobody's ([`Lock::disown`]); one that this thread holds, whose signal handler forked, stays held.
#[derive(Debug)]
#[repr(transparent)]
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
        self.try_lock(held_by(machine)).then(|| {
            let result = work();
            self.unlock(machine);
            result
        })
    }

    #[inline]
    fn try_lock(&self, holder: u32) -> bool {
        self.word.compare_exchange(FREE, holder, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock; whether it had to wait. For who holds several; other code uses [`Lock::with`].
    #[inline]
    pub fn lock(&self, machine: &impl Machine) -> bool {
        let holder = held_by(machine);
        let free = self.try_lock(holder);
        if !free {
            self.lock_slow(machine, holder);
        }
        !free
    }

    #[cold]
    fn lock_slow(&self, machine: &impl Machine, holder: u32) {
        for _ in 0..SPINS {
            core::hint::spin_loop();
            if self.word.load(Ordering::Relaxed) == FREE && self.try_lock(holder) {
                return;
            }
        }
        // Who has slept cannot know whether others still do.
        while !self.try_lock(holder | AWAITED) {
            let now = self.word.load(Ordering::Relaxed);
            let awaited = now | AWAITED;
            if now != FREE
                && (now == awaited
                    || self
                        .word
                        .compare_exchange(now, awaited, Ordering::Relaxed, Ordering::Relaxed)
                        .is_ok())
            {
                machine.wait(&self.word, awaited);
            }
        }
    }

    /// Gives the lock back. Only its holder may call this.
    #[inline]
    pub fn unlock(&self, machine: &impl Machine) {
        // Release pairs with the Acquire of the next holder.
        if self.word.swap(FREE, Ordering::Release) & AWAITED != 0 {
            self.unlock_slow(machine);
        }
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self, machine: &impl Machine) {
        machine.wake(&self.word);
    }

    /// Whether the calling thread holds the lock.
    pub fn is_mine(&self, machine: &impl Machine) -> bool {
        self.word.load(Ordering::Relaxed) & !AWAITED == held_by(machine)
    }

    /// In a forked child, before it has a second thread: makes the lock free if its holder did not come along. `true`: it
    /// did not, and what the lock protects may be half changed.
    pub fn disown(&self, machine: &impl Machine) -> bool {
        let orphan = self.word.load(Ordering::Relaxed) != FREE && !self.is_mine(machine);
        if orphan {
            self.word.store(FREE, Ordering::Relaxed);
        }
        orphan
    }
}

/// The word of a lock that the calling thread holds and nobody awaits.
#[inline(always)]
fn held_by(machine: &impl Machine) -> u32 {
    machine.me() << 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;

    /// A machine of two threads, one of which calls.
    struct Of(AtomicU32);

    // SAFETY: nothing is ever reserved.
    unsafe impl Machine for Of {
        fn page_size(&self) -> usize {
            4096
        }
        fn reserve(&self, _: usize, _: usize) -> *mut u8 {
            core::ptr::null_mut()
        }
        unsafe fn commit(&self, _: *mut u8, _: usize) -> bool {
            false
        }
        unsafe fn purge(&self, _: *mut u8, _: usize) -> bool {
            false
        }
        fn me(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_lock_whose_holder_did_not_come_along_is_free() {
        let (lock, machine) = (Lock::new(), Of(AtomicU32::new(1)));
        lock.lock(&machine);
        assert!(lock.is_mine(&machine) && !lock.disown(&machine));
        assert!(lock.is_mine(&machine), "a thread that forks keeps what it holds");
        machine.0.store(2, Ordering::Relaxed);
        assert!(!lock.is_mine(&machine) && lock.disown(&machine));
        assert!(!lock.disown(&machine), "free already");
        assert_eq!(lock.try_with(&machine, || 7), Some(7));
    }
}
