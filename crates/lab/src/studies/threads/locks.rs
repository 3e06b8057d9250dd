//! The locks that core does not have: those of `std` and `parking_lot`, and a meter around any.

use freehold_blocks::sharing::{Exclusive, Monitor, ReadWrite};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

/// `std::sync::Mutex`, with a condition variable for those who use it as a monitor.
#[derive(Debug, Default)]
pub struct Std(Mutex<()>, Condvar);

impl Std {
    fn hold(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: the guard lives until the closure has run.
unsafe impl Exclusive for Std {
    #[inline]
    fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let _held = self.hold();
        work()
    }
}

// SAFETY: both closures run under the mutex. Poison is of no account: there is nothing behind the mutex.
unsafe impl Monitor for Std {
    fn enter(&self, mut ready: impl FnMut() -> bool) {
        let mut held = self.hold();
        while !ready() {
            held = self.1.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn leave(&self, change: impl FnOnce() -> bool) {
        let held = self.hold();
        let wake = change();
        drop(held);
        if wake {
            self.1.notify_all();
        }
    }
}

/// `std::sync::RwLock`.
#[derive(Debug, Default)]
pub struct StdReadWrite(RwLock<()>);

// SAFETY: the guards live until the closures have run.
unsafe impl ReadWrite for StdReadWrite {
    #[inline]
    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        let _held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    #[inline]
    fn write<R>(&self, work: impl FnOnce() -> R) -> R {
        let _held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        work()
    }
}

/// `parking_lot::Mutex`.
#[derive(Debug, Default)]
pub struct ParkingLot(parking_lot::Mutex<()>);

// SAFETY: the guard lives until the closure has run.
unsafe impl Exclusive for ParkingLot {
    #[inline]
    fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let _held = self.0.lock();
        work()
    }
}

/// `parking_lot::RwLock`.
#[derive(Debug, Default)]
pub struct ParkingLotReadWrite(parking_lot::RwLock<()>);

// SAFETY: the guards live until the closures have run.
unsafe impl ReadWrite for ParkingLotReadWrite {
    #[inline]
    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        let _held = self.0.read();
        work()
    }

    #[inline]
    fn write<R>(&self, work: impl FnOnce() -> R) -> R {
        let _held = self.0.write();
        work()
    }
}

/// What was seen of one lock. Readers overlap, so the times of a reader-writer lock may add up to more
/// than has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Times it was taken.
    pub taken: u64,
    /// Times somebody else held it or waited for it then.
    pub contended: u64,
    /// Nanoseconds waited for it, all threads together.
    pub wait_ns: u64,
    /// Nanoseconds it was held, all threads together.
    pub hold_ns: u64,
}

impl Seen {
    /// Of both.
    pub fn plus(self, other: Seen) -> Seen {
        Seen {
            taken: self.taken + other.taken,
            contended: self.contended + other.contended,
            wait_ns: self.wait_ns + other.wait_ns,
            hold_ns: self.hold_ns + other.hold_ns,
        }
    }
}

/// A lock with a meter. While it does not watch, it costs one test that always comes out the same;
/// while it does, it looks at the clock three times, which takes longer than the lock itself: times of
/// watched runs are not compared with others.
#[derive(Debug)]
pub struct Metered<L> {
    lock: L,
    watch: bool,
    /// Threads that hold the lock or wait for it, while it is watched.
    inside: AtomicU64,
    taken: AtomicU64,
    contended: AtomicU64,
    wait_ns: AtomicU64,
    hold_ns: AtomicU64,
}

impl<L> Metered<L> {
    /// A meter around `lock`.
    pub fn new(lock: L, watch: bool) -> Self {
        let [inside, taken, contended, wait_ns, hold_ns] = [(); 5].map(|()| AtomicU64::new(0));
        Metered { lock, watch, inside, taken, contended, wait_ns, hold_ns }
    }

    /// The lock itself.
    pub fn lock(&self) -> &L {
        &self.lock
    }

    /// What was seen.
    pub fn seen(&self) -> Seen {
        Seen {
            taken: self.taken.load(Relaxed),
            contended: self.contended.load(Relaxed),
            wait_ns: self.wait_ns.load(Relaxed),
            hold_ns: self.hold_ns.load(Relaxed),
        }
    }

    /// Runs `work` by way of `locked`, which runs it under the lock.
    #[inline]
    fn metered<R>(
        &self,
        locked: impl FnOnce(&L, &mut dyn FnMut()),
        work: impl FnOnce() -> R,
    ) -> Option<R> {
        let others = self.inside.fetch_add(1, Relaxed);
        let (mut work, mut result) = (Some(work), None);
        let came = Instant::now();
        locked(&self.lock, &mut || {
            let entered = Instant::now();
            result = work.take().map(|work| work());
            self.wait_ns.fetch_add((entered - came).as_nanos() as u64, Relaxed);
            self.hold_ns.fetch_add(entered.elapsed().as_nanos() as u64, Relaxed);
        });
        self.inside.fetch_sub(1, Relaxed);
        self.taken.fetch_add(1, Relaxed);
        self.contended.fetch_add(u64::from(others > 0), Relaxed);
        result
    }
}

// SAFETY: the closure runs inside the lock's own `with`.
unsafe impl<L: Exclusive> Exclusive for Metered<L> {
    #[inline]
    fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        if !self.watch {
            return self.lock.with(work);
        }
        let result = self.metered(|lock, work| lock.with(work), work);
        result.expect("a lock runs what it is given")
    }
}

// SAFETY: the closures run inside the lock's own `read` and `write`.
unsafe impl<L: ReadWrite> ReadWrite for Metered<L> {
    #[inline]
    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        if !self.watch {
            return self.lock.read(work);
        }
        let result = self.metered(|lock, work| lock.read(work), work);
        result.expect("a lock runs what it is given")
    }

    #[inline]
    fn write<R>(&self, work: impl FnOnce() -> R) -> R {
        if !self.watch {
            return self.lock.write(work);
        }
        let result = self.metered(|lock, work| lock.write(work), work);
        result.expect("a lock runs what it is given")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_counts_what_waits() {
        let lock = Metered::new(Std::default(), true);
        let taken = Mutex::new(());
        std::thread::scope(|scope| {
            let held = taken.lock().unwrap();
            scope.spawn(|| lock.with(|| drop(taken.lock())));
            // The first is inside, waiting for `taken`; now a second one comes.
            while lock.inside.load(Relaxed) == 0 {
                std::thread::yield_now();
            }
            scope.spawn(|| lock.with(|| ()));
            while lock.inside.load(Relaxed) < 2 {
                std::thread::yield_now();
            }
            drop(held);
        });
        let seen = lock.seen();
        assert_eq!((seen.taken, seen.contended), (2, 1));
        assert!(seen.hold_ns > 0 && seen.wait_ns > 0, "{seen:?}");
    }

    #[test]
    fn an_unwatched_meter_sees_nothing() {
        let lock = Metered::new(StdReadWrite::default(), false);
        assert_eq!(lock.read(|| 1) + lock.write(|| 2), 3);
        assert_eq!(lock.seen(), Seen::default());
    }
}
