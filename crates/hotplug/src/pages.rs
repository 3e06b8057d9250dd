//! What is in a block, page by page, by `/proc/kpageflags` and `/proc/kpagecount` (Documentation/admin-guide/mm/pagemap.rst).
//!
//! A page without any flag is one that the kernel took for itself (stacks, drivers' buffers), or a free one that waits on
//! a processor's list. The two cannot be told apart; in a movable zone the first cannot be, elsewhere it is assumed.

use serde::Serialize;
use std::ops::AddAssign;

const LRU: u64 = 1 << 5;
const SLAB: u64 = 1 << 7;
const BUDDY: u64 = 1 << 10;
const MMAP: u64 = 1 << 11;
const ANON: u64 = 1 << 12;
const HUGE: u64 = 1 << 17;
const NOPAGE: u64 = 1 << 20;
const THP: u64 = 1 << 22;
const OFFLINE: u64 = 1 << 23;
const ZERO_PAGE: u64 = 1 << 24;
const PGTABLE: u64 = 1 << 26;
const RESERVED: u64 = 1 << 32;

/// Frames of a block by what becomes of them when it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pages {
    /// Nobody's.
    pub free: u64,
    /// Programs' memory and copies of files: they move.
    pub movable: u64,
    /// Those of them that some program has mapped, and waits for while they move.
    pub mapped: u64,
    /// Kernel objects.
    pub slab: u64,
    /// Page tables.
    pub page_tables: u64,
    /// Set aside when the machine started, firmware's or the kernel's own.
    pub reserved: u64,
    /// The kernel's otherwise.
    pub kernel: u64,
    /// No memory there, or taken by a hypervisor.
    pub holes: u64,
}

impl Pages {
    /// Frames that cannot move.
    pub fn pinned(&self) -> u64 {
        self.slab + self.page_tables + self.reserved + self.kernel + self.holes
    }

    /// Counts one page. `movable_zone`: it lies where the kernel puts nothing of its own.
    pub(crate) fn count(&mut self, flags: u64, mappings: u64, movable_zone: bool) {
        let has = |some: u64| flags & some != 0;
        // In this order: a slab's pages can carry bits that mean something else there.
        let place = if has(NOPAGE | OFFLINE) {
            &mut self.holes
        } else if has(BUDDY) {
            &mut self.free
        } else if has(SLAB) {
            &mut self.slab
        } else if has(PGTABLE) {
            &mut self.page_tables
        } else if has(RESERVED | ZERO_PAGE) {
            &mut self.reserved
        } else if has(LRU | ANON | MMAP | HUGE | THP) {
            self.mapped += u64::from(mappings > 0);
            &mut self.movable
        } else if movable_zone && flags == 0 {
            &mut self.free
        } else if movable_zone {
            // On its way to or from a list of the kernel's.
            &mut self.movable
        } else {
            &mut self.kernel
        };
        *place += 1;
    }
}

impl AddAssign for Pages {
    fn add_assign(&mut self, other: Pages) {
        self.free += other.free;
        self.movable += other.movable;
        self.mapped += other.mapped;
        self.slab += other.slab;
        self.page_tables += other.page_tables;
        self.reserved += other.reserved;
        self.kernel += other.kernel;
        self.holes += other.holes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_counts_once() {
        let mut pages = Pages::default();
        let all = [
            (BUDDY, 0),
            (LRU | ANON | MMAP, 1),
            (LRU, 0),
            (THP | ANON, 0),
            (SLAB, 0),
            (SLAB | LRU, 0),
            (PGTABLE | MMAP, 0),
            (RESERVED, 0),
            (0, 0),
            (NOPAGE, 0),
        ];
        for (flags, mappings) in all {
            pages.count(flags, mappings, false);
        }
        let expected = Pages {
            free: 1,
            movable: 3,
            mapped: 1,
            slab: 2,
            page_tables: 1,
            reserved: 1,
            kernel: 1,
            holes: 1,
        };
        assert_eq!(pages, expected);
        assert_eq!(pages.pinned() + pages.free + pages.movable, all.len() as u64);
    }

    #[test]
    fn in_a_movable_zone_what_has_no_flag_is_free() {
        let mut pages = Pages::default();
        pages.count(0, 0, true);
        pages.count(1 << 3, 0, true);
        assert_eq!(pages, Pages { free: 1, movable: 1, ..Pages::default() });
    }
}
