//! [`Freehold`]: the malloc as a Rust global allocator.

use crate::process;
use core::alloc::{GlobalAlloc, Layout};

/// Alignment that every block has.
const NATURAL: usize = 16;

/// The process's heap, as Rust's global allocator; see the crate.
///
/// A program that limits its own address space (`RLIMIT_AS`) calls [`process::shrink_reservations`] before: 1 TiB is reserved, and
/// counts. (`libfreehold.so` does it by itself.)
#[derive(Clone, Copy, Debug, Default)]
pub struct Freehold;

// SAFETY: blocks are at least as large and as aligned as asked, disjoint, and stay until freed;
// nothing here unwinds (misuse aborts).
unsafe impl GlobalAlloc for Freehold {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL {
            process::allocate(layout.size())
        } else {
            process::allocate_aligned(layout.size(), layout.align())
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller gives the block up.
        unsafe { process::free(block) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL {
            return process::allocate_zeroed(1, layout.size());
        }
        let block = process::allocate_aligned(layout.size(), layout.align());
        if !block.is_null() {
            // SAFETY: the block is ours and that long.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= NATURAL {
            // SAFETY: the caller's.
            return unsafe { process::reallocate(block, size) };
        }
        let new = process::allocate_aligned(size, layout.align());
        if !new.is_null() {
            // SAFETY: both are that long and disjoint; the caller gives the old one up.
            unsafe {
                new.copy_from_nonoverlapping(block, layout.size().min(size));
                process::free(block);
            }
        }
        new
    }
}
