//! [`Heap`] under the collections of hashbrown, allocator-api2 and others: `allocator_api2::alloc::Allocator`.
//!
//! A collection gets `&heap`. Its blocks then lie in that heap, count in its figures, and are refused at its limit.
//! Whoever drops a heap with thousands of objects in it, a request's, leaves the objects as they are
//! (`ManuallyDrop`) and drops the heap: one end for all of them. Objects that own more than memory must be dropped first.
//!
//! A block is as long as asked; what the heap has beyond that stays hidden, so a collection grows by its own rule.

use crate::Heap;
use allocator_api2::alloc::{AllocError, Allocator, Layout};
use core::ptr::{NonNull, slice_from_raw_parts_mut};

/// Alignment that every block has; what is beyond is kept when a block moves only by a copy.
const NATURAL: usize = 16;

// SAFETY: a block stays where it is until it is freed or its heap ends. The heap lies behind a pointer, so a `Heap` that moves moves
// no block; it has no clones. Blocks are as large and aligned as asked and disjoint; nothing unwinds.
unsafe impl Allocator for Heap {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        match layout.size() {
            0 => Ok(nothing(layout)),
            size => given(Heap::allocate(self, size, layout.align()), size),
        }
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() > 0 && layout.align() <= NATURAL {
            return given(Heap::allocate_zeroed(self, layout.size()), layout.size());
        }
        let block = Allocator::allocate(self, layout)?;
        // SAFETY: the block is ours, and that long.
        unsafe { block.cast::<u8>().write_bytes(0, layout.size()) };
        Ok(block)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: a block of this heap, which the caller gives up.
            unsafe { self.free(block) }
        }
    }

    #[inline]
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's.
        unsafe { resize(self, block, old, new) }
    }

    #[inline]
    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's; what lies beyond the old length is ours and unused.
        unsafe {
            let grown = resize(self, block, old, new)?;
            let beyond = grown.cast::<u8>().add(old.size());
            beyond.write_bytes(0, new.size() - old.size());
            Ok(grown)
        }
    }

    #[inline]
    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's.
        unsafe { resize(self, block, old, new) }
    }
}

/// In place where the heap can; the bytes that both lengths have are kept. On an error the block is as it was.
///
/// # Safety
/// The block is of this heap with layout `old`, and the caller's; after success only the answer is.
unsafe fn resize(
    heap: &Heap,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<[u8]>, AllocError> {
    if old.size() > 0 && new.size() > 0 && new.align() <= NATURAL {
        // SAFETY: the caller's.
        return given(unsafe { heap.reallocate(block, new.size()) }, new.size());
    }
    let moved = Allocator::allocate(heap, new)?;
    // SAFETY: two blocks of ours, each at least that long; the old one is given up.
    unsafe {
        let both = old.size().min(new.size());
        moved.cast::<u8>().copy_from_nonoverlapping(block, both);
        heap.deallocate(block, old);
    }
    Ok(moved)
}

/// An address for no bytes.
fn nothing(layout: Layout) -> NonNull<[u8]> {
    let at = core::ptr::without_provenance_mut::<u8>(layout.align());
    // SAFETY: an alignment is not zero.
    unsafe { NonNull::new_unchecked(slice_from_raw_parts_mut(at, 0)) }
}

fn given(block: Option<NonNull<u8>>, size: usize) -> Result<NonNull<[u8]>, AllocError> {
    block.map(|block| NonNull::slice_from_raw_parts(block, size)).ok_or(AllocError)
}
