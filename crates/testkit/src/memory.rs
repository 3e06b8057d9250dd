//! A region of ordinary memory, for tests.

use freehold_blocks::{GRANULE, Region};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Alignments that a region of a test can meet are less than this, unless it is longer itself.
const MIN_ALIGN: usize = 1 << 20;

/// Memory for one region, at a place that is known where it matters: it begins a chosen distance
/// behind a multiple of 1 MiB or of its length rounded up to a power of two, and no payload in it
/// lies at such a multiple. So choices that depend on addresses (alignments, buddies) are the same
/// on every run.
#[derive(Debug)]
pub struct SimRegion {
    whole: NonNull<u8>,
    layout: Layout,
    shift: usize,
    len: usize,
}

impl SimRegion {
    /// `len` bytes that begin at such a multiple.
    pub fn new(len: usize) -> SimRegion {
        SimRegion::shifted(len, 0)
    }

    /// `len` bytes that begin `shift` granules of 16 B behind such a multiple.
    pub fn shifted(len: usize, shift: usize) -> SimRegion {
        let shift = shift * GRANULE as usize;
        let align = (len + shift).next_power_of_two().max(MIN_ALIGN);
        let layout = Layout::from_size_align((len + shift).max(1), align)
            .unwrap_or_else(|why| panic!("a region of {len} B cannot be laid out: {why}"));
        // SAFETY: the layout is at least one byte long.
        let whole = NonNull::new(unsafe { alloc(layout) });
        SimRegion { whole: whole.unwrap_or_else(|| handle_alloc_error(layout)), layout, shift, len }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Hands the memory out.
    ///
    /// # Safety
    /// The region, and any policy over it, dies before `self` and before the next call.
    pub unsafe fn region(&mut self) -> Region {
        // SAFETY: `shift` bytes in is inside the allocation, or one past its end.
        let base = unsafe { self.whole.add(self.shift) };
        // SAFETY: the bytes are ours, one allocation, and by the caller's promise nobody else's
        // until the region is dead.
        let region = unsafe { Region::new(base, self.len as u64) };
        region.expect("a power of two above 16, and granules, are 16-aligned")
    }
}

impl Drop for SimRegion {
    fn drop(&mut self) {
        // SAFETY: allocated in `shifted` with this very layout.
        unsafe { dealloc(self.whole.as_ptr(), self.layout) }
    }
}
