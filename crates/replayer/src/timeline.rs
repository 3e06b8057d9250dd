//! Accounts of threads, and the points of the timeline taken from them.

use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Relaxed, Release},
};

use freehold_replayer::Op;
use freehold_replayer::histogram::{BUCKETS, Bucket};

use crate::memory;
use crate::sys::{Pages, Zeroed, table};

/// What one thread has done. Only that thread writes it; a line of its own (and the next, which
/// processors fetch with it), so that counting costs no traffic between threads.
#[repr(align(128))]
pub struct Account {
    /// Bytes requested so far.
    allocated: AtomicU64,
    /// Bytes allocated less bytes freed here, modulo 2^64: a thread may free what others made.
    live: AtomicU64,
    /// Allocations that returned null.
    failed: AtomicU64,
    /// Frees and reallocations skipped because their object had failed.
    skipped: AtomicU64,
}

// SAFETY: integers.
unsafe impl Zeroed for Account {}

/// Adds to a counter that no other thread writes: a load and a store, no locked instruction.
#[inline(always)]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
}

impl Account {
    /// An object of `size` bytes was made.
    #[inline(always)]
    pub fn born(&self, size: u64) {
        add(&self.allocated, size);
        add(&self.live, size);
    }

    /// An object of `size` bytes was freed.
    #[inline(always)]
    pub fn died(&self, size: u64) {
        add(&self.live, size.wrapping_neg());
    }

    /// A call returned null.
    pub fn failed(&self) {
        add(&self.failed, 1);
    }

    /// An operation on an object that had failed was left out.
    pub fn skipped(&self) {
        add(&self.skipped, 1);
    }
}

/// Sums over all threads.
#[derive(Clone, Copy, Default)]
pub struct Sums {
    /// Bytes requested so far.
    pub allocated: u64,
    /// Bytes live.
    pub live: u64,
    /// Allocations that returned null.
    pub failed: u64,
    /// Operations skipped because of that.
    pub skipped: u64,
}

/// Adds up `accounts`. Exact once the threads are done, at most a few calls behind before.
pub fn sum(accounts: &[Account]) -> Sums {
    accounts.iter().fold(Sums::default(), |sums, account| Sums {
        allocated: sums.allocated.wrapping_add(account.allocated.load(Relaxed)),
        live: sums.live.wrapping_add(account.live.load(Relaxed)),
        failed: sums.failed + account.failed.load(Relaxed),
        skipped: sums.skipped + account.skipped.load(Relaxed),
    })
}

/// Latencies of one thread's calls, in ticks.
pub struct Latencies {
    counts: [AtomicU64; BUCKETS],
    worst: AtomicU64,
}

// SAFETY: integers.
unsafe impl Zeroed for Latencies {}

impl Latencies {
    /// One call took `ticks`.
    #[inline(always)]
    pub fn count(&self, ticks: u64) {
        add(&self.counts[usize::from(Bucket::of(ticks).0)], 1);
        if ticks > self.worst.load(Relaxed) {
            self.worst.store(ticks, Relaxed);
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.counts.iter().for_each(|count| count.store(0, Relaxed));
        self.worst.store(0, Relaxed);
    }

    /// Calls in one bucket.
    pub fn in_bucket(&self, bucket: usize) -> u64 {
        self.counts[bucket].load(Relaxed)
    }

    /// The slowest call.
    pub fn worst(&self) -> u64 {
        self.worst.load(Relaxed)
    }
}

/// One point: where in the trace, and what was live and resident then.
pub struct Point {
    /// Events before it, in the order of the trace.
    pub position: AtomicU64,
    /// Nanoseconds into the recorded run.
    pub elapsed_ns: AtomicU64,
    /// Bytes requested so far.
    pub allocated: AtomicU64,
    /// Bytes live.
    pub live: AtomicU64,
    /// Anonymous resident bytes of this process.
    pub anonymous: AtomicU64,
}

// SAFETY: integers.
unsafe impl Zeroed for Point {}

/// Points taken by whichever thread came to a sample of its stream.
pub struct Timeline {
    points: &'static [Point],
    taken: AtomicUsize,
}

impl Timeline {
    /// More than any preparer asks for (it keeps to 300); further points are dropped.
    const MOST: usize = 1024;

    /// An empty timeline.
    pub fn new() -> Timeline {
        Timeline { points: table(Self::MOST, Pages::Now), taken: AtomicUsize::new(0) }
    }

    /// Takes the point that `op` asks for.
    #[cold]
    pub fn take(&self, op: Op, accounts: &[Account]) {
        let Some(point) = self.points.get(self.taken.fetch_add(1, Relaxed)) else { return };
        let sums = sum(accounts);
        point.elapsed_ns.store(op.size(), Relaxed);
        point.allocated.store(sums.allocated, Relaxed);
        point.live.store(sums.live, Relaxed);
        point.anonymous.store(memory::Resident::now().anonymous, Relaxed);
        point.position.store(op.position(), Release);
    }

    /// The points, in the order in which threads came to them.
    pub fn points(&self) -> &[Point] {
        &self.points[..self.taken.load(Relaxed).min(self.points.len())]
    }
}
