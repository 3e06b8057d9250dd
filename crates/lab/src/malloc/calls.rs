//! The three calls that a program makes, each a function of its own: callgrind counts what happens inside of them, and
//! nothing else of a replay (`studies::malloc`, `--instructions`).

use super::machine::Simulated;
use freehold_core::malloc::{Cache, Misuse, NodeHeap};
use freehold_trace::{Api, Request};

/// By which callgrind finds these functions.
pub const PATTERN: &str = "freehold_lab::malloc::calls::*";

/// The call that the replay on a real allocator makes, too.
#[inline(never)]
pub fn allocate(heap: &NodeHeap<Simulated>, cache: &Cache, request: &Request) -> *mut u8 {
    let size = usize::try_from(request.size).unwrap_or(usize::MAX);
    let align = 1usize << request.align_log2.min(62);
    match request.api {
        Api::Calloc => heap.allocate_zeroed(cache, size),
        _ if align > 16 => heap.allocate_aligned(cache, size, align),
        _ => heap.allocate(cache, size),
    }
}

/// Frees a block.
///
/// # Safety
/// As for [`NodeHeap::free`].
#[inline(never)]
pub unsafe fn free(
    heap: &NodeHeap<Simulated>,
    cache: &Cache,
    block: *mut u8,
) -> Result<(), Misuse> {
    // SAFETY: the caller's.
    unsafe { heap.free(cache, block) }
}

/// Resizes a block.
///
/// # Safety
/// As for [`NodeHeap::reallocate`].
#[inline(never)]
pub unsafe fn reallocate(
    heap: &NodeHeap<Simulated>,
    cache: &Cache,
    block: *mut u8,
    size: u64,
) -> Result<*mut u8, Misuse> {
    let size = usize::try_from(size).unwrap_or(usize::MAX).max(1);
    // SAFETY: the caller's.
    unsafe { heap.reallocate(cache, block, size) }
}
