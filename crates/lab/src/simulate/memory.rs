//! The memory a simulated region lies in: address space reserved, pages that come when touched.
//!
//! Invariant: the mapping outlives the policy that was given the region, because [`Memory`] lends
//! itself for the whole run; and it lies at a multiple of its length rounded up to a power of two,
//! so that aligned and buddy placement come out the same on every run.

use freehold_blocks::Region;
use std::io;
use std::ptr::{self, NonNull};

/// Longer regions get small pages: their blocks are longer too, and a huge page for every tag
/// touched would cost far more memory than the tags (at most this much, for a shorter region).
const LONGEST_HUGE: u64 = 1 << 30;

/// Address space for one region; given back when dropped.
pub struct Memory {
    mapped: NonNull<u8>,
    mapped_len: usize,
    base: NonNull<u8>,
    len: u64,
}

impl Memory {
    /// Reserves `len` bytes. Costs address space only, until pages are touched.
    ///
    /// # Errors
    /// What `mmap` says, for instance when an address-space limit is set.
    pub fn reserve(len: u64) -> io::Result<Self> {
        let too_long = || io::Error::from(io::ErrorKind::OutOfMemory);
        let align = len.checked_next_power_of_two().ok_or_else(too_long)?;
        let mapped_len = len
            .checked_add(align)
            .and_then(|sum| usize::try_from(sum).ok())
            .filter(|sum| *sum > 0)
            .ok_or_else(too_long)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory
        // that anyone else owns.
        let found = unsafe { libc::mmap(ptr::null_mut(), mapped_len, access, flags, -1, 0) };
        if found == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapped = NonNull::new(found.cast::<u8>()).ok_or_else(too_long)?;
        let skip = mapped.align_offset(align as usize);
        // SAFETY: `skip` is below `align`, and the mapping is `len + align` bytes long.
        let base = unsafe { mapped.add(skip) };
        let memory = Self { mapped, mapped_len, base, len };
        if len <= LONGEST_HUGE {
            memory.advise_huge_pages();
        }
        Ok(memory)
    }

    /// Asks for huge pages. Boundary tags lie everywhere, so that with small pages most touches
    /// miss the TLB as well as the caches.
    fn advise_huge_pages(&self) {
        // SAFETY: advice on the own mapping, which leaves its contents as they are.
        let status = unsafe {
            libc::madvise(self.base.as_ptr().cast(), self.len as usize, libc::MADV_HUGEPAGE)
        };
        // A kernel without huge pages refuses, and the replay only is slower.
        let _ = status;
    }

    /// The region, for one policy at a time.
    ///
    /// # Safety
    /// Whatever was made from an earlier region of this memory is gone, and what is made from this
    /// one is gone before the memory is dropped.
    pub unsafe fn region(&mut self) -> Option<Region> {
        // SAFETY: the bytes are one private mapping, readable and writable, and the caller sees to
        // it that no other region of it is in use and that none outlives it.
        unsafe { Region::new(self.base, self.len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made by `reserve`; by the contract of `region` nothing in it
        // is in use any more.
        let status = unsafe { libc::munmap(self.mapped.as_ptr().cast(), self.mapped_len) };
        debug_assert_eq!(status, 0, "an own mapping can be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lies_at_a_multiple_of_its_length() {
        for len in [1 << 16, (1 << 20) + 4096, 1 << 30] {
            let memory = Memory::reserve(len).unwrap();
            assert!(memory.base.addr().get().is_multiple_of(len.next_power_of_two() as usize));
        }
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        assert!(Memory::reserve(u64::MAX).is_err());
        assert!(Memory::reserve(1 << 60).is_err());
    }
}
