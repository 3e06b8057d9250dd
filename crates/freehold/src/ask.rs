//! What a call asks of the heap.

use crate::main_heap::HEAP;
use core::ptr;
use freehold_core::malloc::Cache;

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub size: usize,
    /// A power of two.
    pub align: usize,
    pub zero: bool,
}

impl Ask {
    /// The heap's own answer.
    pub fn of_heap(self, cache: &Cache) -> *mut u8 {
        match self {
            Ask { size, align: 0..=16, zero: false } => HEAP.allocate(cache, size),
            Ask { size, align: 0..=16, zero: true } => HEAP.allocate_zeroed(cache, size),
            Ask { size, align, zero } => {
                let block = HEAP.allocate_aligned(cache, size, align);
                if zero && !block.is_null() {
                    // SAFETY: the block is ours and that long.
                    unsafe { ptr::write_bytes(block, 0, size) };
                }
                block
            }
        }
    }
}
