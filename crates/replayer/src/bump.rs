//! Rust's heap inside the replayer: a bump over one shared mapping, nothing is ever given back.
//!
//! The replayer's own code asks for nothing; this exists so that what the standard library may ask
//! for (the message of a panic) cannot reach the tested malloc.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::OnceLock;

use crate::sys::{Pages, map_shared};

const BYTES: usize = 1 << 20;

/// The bump. `BYTES` in all; asking for more gives null.
pub struct Bump {
    start: OnceLock<usize>,
    used: AtomicUsize,
}

impl Bump {
    /// Nothing is mapped before the first allocation.
    pub const fn new() -> Bump {
        Bump { start: OnceLock::new(), used: AtomicUsize::new(0) }
    }
}

// SAFETY: `fetch_update` gives every caller a range of its own inside one mapping that is never
// unmapped; the offset is rounded up to the alignment asked for, and the mapping's start is aligned
// to a page, which bounds the alignment accepted.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > 4096 {
            return ptr::null_mut();
        }
        let start = *self.start.get_or_init(|| map_shared(BYTES, -1, Pages::Lazily) as usize);
        let begin = |used: usize| used.next_multiple_of(layout.align());
        let taken = self.used.fetch_update(Relaxed, Relaxed, |used| {
            begin(used).checked_add(layout.size()).filter(|&end| end <= BYTES)
        });
        taken.map_or(ptr::null_mut(), |used| (start + begin(used)) as *mut u8)
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
