//! What is watched in this process, if anything: decided once, when the first thread starts the heap, and constant.

use core::sync::atomic::{AtomicU32, Ordering};

/// Count every call exactly (`FREEHOLD_STATS`).
pub(crate) const COUNT: u32 = 1;
/// Check, delay and wipe what is freed (`FREEHOLD_SECURE`).
pub(crate) const SECURE: u32 = 2;
/// Take samples of what is allocated (`FREEHOLD_PROFILE`).
pub(crate) const SAMPLE: u32 = 4;

static WHAT: AtomicU32 = AtomicU32::new(0);

/// Watches for one more thing. Before the first cache is handed out.
pub(crate) fn add(what: u32) {
    WHAT.fetch_or(what, Ordering::Relaxed);
}

/// Whether threads' hot words have to stay empty.
pub(crate) fn is_on() -> bool {
    WHAT.load(Ordering::Relaxed) != 0
}

pub(crate) fn watches(what: u32) -> bool {
    WHAT.load(Ordering::Relaxed) & what != 0
}

/// Whether this is all that is watched.
pub(crate) fn is_only(what: u32) -> bool {
    WHAT.load(Ordering::Relaxed) == what
}
