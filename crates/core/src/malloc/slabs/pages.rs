//! The pages of a slab, whatever the machine's are: sixteen of 4 KiB, a bit each.

use crate::malloc::units::{UNIT, UNIT_SHIFT};
use core::ops::Range;
use core::sync::atomic::{AtomicU16, Ordering};

/// Some of the pages of one slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pages(u16);

const _: () = assert!(UNIT_SHIFT == 16, "a slab has sixteen pages");

impl Pages {
    /// None.
    pub const NONE: Pages = Pages(0);
    /// All.
    pub const ALL: Pages = Pages(u16::MAX);
    /// `log2` of the bytes of one.
    const SHIFT: u32 = (UNIT / 16).trailing_zeros();

    /// Those that `len` bytes at `offset` of a slab touch, one at least.
    #[inline]
    pub const fn touching(offset: usize, len: usize) -> Pages {
        let (first, last) = (offset >> Self::SHIFT, (offset + len - 1) >> Self::SHIFT);
        Pages(((u32::MAX << first) & (u32::MAX >> (31 - last))) as u16)
    }

    /// Those that a reader from outside found: what [`PageSet`] is in memory.
    pub const fn from_bits(bits: u16) -> Pages {
        Pages(bits)
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How long they are together, in bytes.
    pub const fn bytes(self) -> usize {
        (self.0.count_ones() as usize) << Self::SHIFT
    }

    /// These and those.
    pub const fn with(self, others: Pages) -> Pages {
        Pages(self.0 | others.0)
    }

    /// Those of them that are among `others`.
    pub const fn within(self, others: Pages) -> Pages {
        Pages(self.0 & others.0)
    }

    /// Those of them that are not among `others`.
    pub const fn without(self, others: Pages) -> Pages {
        Pages(self.0 & !others.0)
    }

    /// The lowest of them.
    pub const fn lowest(self) -> Pages {
        Pages(self.0 & self.0.wrapping_neg())
    }

    /// The lowest that are neighbours.
    pub const fn lowest_run(self) -> Pages {
        // A carry from the lowest bit ends behind the last of its neighbours.
        Pages(self.0 & !self.0.wrapping_add(self.lowest().0))
    }

    /// Where the bytes of neighbours are in the slab.
    pub const fn place(self) -> Range<usize> {
        let start = (self.0.trailing_zeros() as usize) << Self::SHIFT;
        start..start + self.bytes()
    }
}

/// Pages of one slab that threads add and remove.
#[derive(Debug)]
#[repr(transparent)]
pub struct PageSet(AtomicU16);

impl PageSet {
    /// No page.
    #[cfg(loom)]
    pub fn new() -> PageSet {
        PageSet(AtomicU16::new(0))
    }

    /// What there is.
    #[inline]
    pub fn get(&self) -> Pages {
        Pages(self.0.load(Ordering::Relaxed))
    }

    /// Adds pages.
    pub fn add(&self, pages: Pages) {
        self.0.fetch_or(pages.0, Ordering::Relaxed);
    }

    /// Removes pages.
    #[inline]
    pub fn remove(&self, pages: Pages) {
        self.0.fetch_and(!pages.0, Ordering::Relaxed);
    }

    /// Removes all, for a thread that has the slab alone.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Adds all, for a thread that has the slab alone.
    pub fn fill(&self) {
        self.0.store(u16::MAX, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_by_their_bytes_and_the_bytes_by_their_pages() {
        assert_eq!(Pages::touching(0, 1), Pages(1));
        assert_eq!(Pages::touching(4095, 2), Pages(3));
        assert_eq!(Pages::touching(60 << 10, 4096), Pages(0x8000));
        assert_eq!(Pages::touching(0, UNIT), Pages::ALL);
        for (first, len) in (0..16).flat_map(|at| (1..=16 - at).map(move |len| (at, len))) {
            let pages = Pages::touching(first * 4096, len * 4096);
            assert_eq!(pages.place(), first * 4096..(first + len) * 4096);
            assert_eq!(pages.lowest(), Pages::touching(first * 4096, 1));
            let far = if first + len < 15 { Pages(0x8000) } else { Pages::NONE };
            assert_eq!(pages.with(far).lowest_run(), pages);
        }
    }
}
