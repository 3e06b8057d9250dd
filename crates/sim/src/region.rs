//! Ordinary memory for one policy at a time, taken once and used again.
//!
//! A policy writes tags and links here and nothing else; untouched pages cost nothing, since the
//! system gives them only when they are touched. The memory begins at a multiple of its length
//! rounded up to a power of two, so that choices that depend on addresses are the same on every run.

use freehold_blocks::{MAX_REGION, Region};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Memory of a fixed length; given back when dropped.
#[derive(Debug)]
pub struct SimMemory {
    base: NonNull<u8>,
    len: usize,
    /// What was taken from the system: `base` lies in it, with `len` bytes after it.
    taken: NonNull<u8>,
    layout: Layout,
}

/// The alignment at which the system gives zero pages without touching them.
const LAZY_ALIGN: usize = 16;

impl SimMemory {
    /// `len` bytes, zero; `None` when the system has not so many, `len` is 0 or above
    /// [`MAX_REGION`].
    pub fn new(len: u64) -> Option<SimMemory> {
        if len == 0 || len > MAX_REGION {
            return None;
        }
        let len = usize::try_from(len).ok()?;
        let align = len.checked_next_power_of_two()?;
        // An aligned request would be zeroed by hand, page by page. A longer one holds an aligned part,
        // and what lies around that is never touched. Only the address space may be too short for it.
        let longer = Layout::from_size_align(len.checked_add(align)?, LAZY_ALIGN).ok()?;
        let exact = Layout::from_size_align(len, align).ok()?;
        [longer, exact].into_iter().find_map(|layout| {
            // SAFETY: both layouts are at least one byte long.
            let taken = NonNull::new(unsafe { alloc_zeroed(layout) })?;
            let skip = taken.addr().get().next_multiple_of(align) - taken.addr().get();
            // SAFETY: `skip` is below `align` in the longer one, which has `len + align` bytes, and 0
            // in the exact one, which is aligned.
            let base = unsafe { taken.add(skip) };
            Some(SimMemory { base, len, taken, layout })
        })
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len as u64
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
        unsafe { dealloc(self.taken.as_ptr(), self.layout) }
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

    /// Until November 2026 every byte was written when the memory was made: a machine with 256 MiB of shared
    /// memory took half a gigabyte before its first request.
    #[test]
    fn what_nobody_touches_is_not_resident() {
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/statm").unwrap();
            status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
        };
        let before = resident();
        let memory = SimMemory::new(512 << 20).unwrap();
        assert!(resident().saturating_sub(before) < 256 << 20, "of {} bytes", memory.len());
    }

    #[test]
    fn impossible_lengths_are_refused() {
        assert!([0, MAX_REGION + 1, u64::MAX].into_iter().all(|len| SimMemory::new(len).is_none()));
    }
}
