//! Ordinary memory for one policy at a time, taken once and used again.
//!
//! A policy writes tags and links here and nothing else; untouched pages cost nothing, since the
//! system gives them only when they are touched. The memory begins at a multiple of its length
//! rounded up to a power of two, so that choices that depend on addresses are the same on every run.

use freehold_core::blocks::{MAX_REGION, Region};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Memory of a fixed length; given back when dropped.
#[derive(Debug)]
pub struct SimMemory {
    base: NonNull<u8>,
    layout: Layout,
}

impl SimMemory {
    /// `len` bytes, zero; `None` when the system has not so many, `len` is 0 or above
    /// [`MAX_REGION`].
    pub fn new(len: u64) -> Option<SimMemory> {
        if len == 0 || len > MAX_REGION {
            return None;
        }
        let len = usize::try_from(len).ok()?;
        let layout = Layout::from_size_align(len, len.checked_next_power_of_two()?).ok()?;
        // SAFETY: the layout is at least one byte long.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(SimMemory { base, layout })
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.layout.size() as u64
    }

    /// Whether it holds no byte: never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory as a region.
    ///
    /// # Safety
    /// Whatever was made of an earlier region of this memory is gone, and what is made of this one
    /// is gone before the memory is dropped.
    pub unsafe fn region(&mut self) -> Option<Region> {
        // SAFETY: one allocation of ours, readable and writable; by the caller's promise nobody
        // else's while the region lives. It is initialised, so reading it is defined.
        unsafe { Region::new(self.base, self.len()) }
    }
}

// SAFETY: the memory is this value's alone; nothing about it belongs to a thread.
unsafe impl Send for SimMemory {}

impl Drop for SimMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout; by the contract of `region` nothing of
        // it is in use.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lies_at_a_multiple_of_its_length() {
        for len in [4096, 48 << 20, 16 << 20] {
            let mut memory = SimMemory::new(len).unwrap();
            // SAFETY: nothing is made of the region.
            let region = unsafe { memory.region() }.unwrap();
            assert!(region.base().addr().get().is_multiple_of(len.next_power_of_two() as usize));
            assert_eq!(region.len(), len);
        }
    }

    #[test]
    fn impossible_lengths_are_refused() {
        assert!([0, MAX_REGION + 1, u64::MAX].into_iter().all(|len| SimMemory::new(len).is_none()));
    }
}
