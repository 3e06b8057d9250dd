//! Exact counts of calls and live bytes (`FREEHOLD_STATS=1`): plain shared counters.
//!
//! Every call of every thread adds to the same words, which is exact and slow; for fast figures read
//! the census instead. Sizes are those of blocks: a free does not know the size requested, and so
//! subtracts exactly what its allocation added.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use freehold_core::size_class::{CLASSES, class_of};
use freehold_core::stats::Counts;

/// [`Counts`], being counted: the same words in the same order.
#[repr(C)]
struct Counters {
    allocated: [AtomicU64; CLASSES + 1],
    freed: [AtomicU64; CLASSES + 1],
    resized: AtomicU64,
    bytes: AtomicU64,
    live: AtomicU64,
    peak: AtomicU64,
}

const _: () = assert!(size_of::<Counters>() == size_of::<Counts>());

static COUNTERS: Counters = Counters {
    allocated: [const { AtomicU64::new(0) }; CLASSES + 1],
    freed: [const { AtomicU64::new(0) }; CLASSES + 1],
    resized: AtomicU64::new(0),
    bytes: AtomicU64::new(0),
    live: AtomicU64::new(0),
    peak: AtomicU64::new(0),
};

/// Where they are, for `stats::page`.
pub(crate) fn address() -> usize {
    (&raw const COUNTERS).expose_provenance()
}

fn add(counters: &[AtomicU64; CLASSES + 1], size: usize) {
    let class = class_of(size).map_or(CLASSES, |class| class.index());
    if let Some(counter) = counters.get(class) {
        counter.fetch_add(1, Relaxed);
    }
}

/// A block was handed out.
pub(crate) fn allocated(size: usize) {
    let c = &COUNTERS;
    add(&c.allocated, size);
    c.bytes.fetch_add(size as u64, Relaxed);
    let live = c.live.fetch_add(size as u64, Relaxed) + size as u64;
    c.peak.fetch_max(live, Relaxed);
}

/// A block was taken back.
pub(crate) fn freed(size: usize) {
    add(&COUNTERS.freed, size);
    COUNTERS.live.fetch_sub(size as u64, Relaxed);
}

/// A block was resized.
pub(crate) fn resized() {
    COUNTERS.resized.fetch_add(1, Relaxed);
}

/// The counts now.
pub(crate) fn read() -> Counts {
    let c = &COUNTERS;
    Counts {
        allocated: all(&c.allocated),
        freed: all(&c.freed),
        resized: c.resized.load(Relaxed),
        bytes: c.bytes.load(Relaxed),
        live: c.live.load(Relaxed),
        peak: c.peak.load(Relaxed),
    }
}

/// Never inlined: it is long, and wanted twice.
#[inline(never)]
fn all(of: &[AtomicU64; CLASSES + 1]) -> [u64; CLASSES + 1] {
    of.each_ref().map(|counter| counter.load(Relaxed))
}

/// Starts them, and says on the process's page where they are.
pub(crate) fn start() {
    crate::mode::add(crate::mode::COUNT);
    crate::page::PAGE.counts.store(address(), Relaxed);
}
