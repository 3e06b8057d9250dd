//! Pages that a node has borrowed from other heaps, and the blocks it makes of them.
//!
//! ```text
//!   page of 512 B     | block 48 B | block 80 B     |  free ...                  |
//!   used              1  1  1        1  1  1  1  1     0  0  0 ...
//!   last              0  0  1        0  0  0  0  1     0  0  0 ...    the last granule of each block
//! ```
//!
//! A node whose heap is full asks another for a page instead of a block: the next requests then are
//! served at home. What lies where is known to the borrower alone, in two words a page and out of band,
//! so that no access goes to the lender's memory. A page that is empty can be given back.
//!
//! Invariant: `last` is within `used`; every used granule belongs to the block that ends at the next `last`.

use freehold_blocks::check::Broken;

/// The most pages that one node borrows.
pub const MAX_PAGES: usize = 8;
/// The longest page, in bytes: a word of granules.
pub const MAX_PAGE: u32 = 64 * GRANULE;
const GRANULE: u32 = 16;

/// The pages of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pages {
    pages: [Page; MAX_PAGES],
    /// Granules of every page.
    granules: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Page {
    /// Its first address; 0 where there is no page.
    address: u32,
    used: u64,
    last: u64,
}

impl Pages {
    /// No page yet; each will have `bytes`. `None` unless that is a multiple of 16 up to [`MAX_PAGE`].
    pub const fn new(bytes: u32) -> Option<Pages> {
        if bytes == 0 || bytes > MAX_PAGE || !bytes.is_multiple_of(GRANULE) {
            return None;
        }
        let none = Page { address: 0, used: 0, last: 0 };
        Some(Pages { pages: [none; MAX_PAGES], granules: bytes / GRANULE })
    }

    /// Bytes of a page.
    pub const fn page_bytes(&self) -> u32 {
        self.granules * GRANULE
    }

    /// Whether one more page can be borrowed.
    pub fn has_slot(&self) -> bool {
        self.pages.iter().any(|page| page.address == 0)
    }

    /// Takes over the page at `address`, which is not 0. Whether there was a slot for it.
    pub fn add(&mut self, address: u32) -> bool {
        let slot = self.pages.iter_mut().find(|page| page.address == 0);
        slot.map(|page| *page = Page { address, used: 0, last: 0 }).is_some() && address != 0
    }

    /// A block of `size` bytes: the lowest place in the first page that has one. O(pages).
    pub fn alloc(&mut self, size: u64) -> Option<u32> {
        let need = u32::try_from(size.div_ceil(GRANULE.into()).max(1)).ok()?;
        if need > self.granules {
            return None;
        }
        let granules = self.granules;
        let mut found = self.pages.iter_mut().filter(|page| page.address != 0);
        found.find_map(|page| page.alloc(need, granules))
    }

    /// Frees the block at `address`. Whether it is one of these pages'.
    pub fn free(&mut self, address: u32) -> bool {
        let bytes = self.page_bytes();
        let within = |page: &&mut Page| {
            page.address != 0 && (page.address..page.address + bytes).contains(&address)
        };
        self.pages.iter_mut().find(within).is_some_and(|page| page.free(address))
    }

    /// Gives up an empty page, but for the first `keep`: its address, to be freed where it came from.
    pub fn take_empty(&mut self, keep: usize) -> Option<u32> {
        let mut empty = self.pages.iter_mut().filter(|page| page.address != 0 && page.used == 0);
        let page = empty.nth(keep)?;
        let address = page.address;
        *page = Page::default();
        Some(address)
    }

    /// Bytes of the longest free place.
    pub fn longest_free(&self) -> u32 {
        let pages = self.pages.iter().filter(|page| page.address != 0);
        pages.map(|page| longest_run(!page.used & mask(self.granules))).max().unwrap_or(0) * GRANULE
    }

    /// Pages borrowed.
    pub fn len(&self) -> usize {
        self.pages.iter().filter(|page| page.address != 0).count()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Blocks in all pages.
    pub fn blocks(&self) -> u32 {
        self.pages.iter().map(|page| page.last.count_ones()).sum()
    }

    /// Whether the words of every page agree.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self) -> Result<(), Broken> {
        for page in &self.pages {
            let at = page.address.into();
            let inside = page.used & !mask(self.granules) == 0;
            Broken::unless(inside, "used granules lie within the page", at)?;
            Broken::unless(page.last & !page.used == 0, "a block's last granule is used", at)?;
            let ends = page.used & !(page.used >> 1) & !page.last;
            Broken::unless(ends == 0, "a used granule before a free one ends a block", at)?;
        }
        Ok(())
    }
}

impl Page {
    fn alloc(&mut self, need: u32, granules: u32) -> Option<u32> {
        let free = !self.used & mask(granules);
        // Bit i stays where `need` granules from i on are free: halve the run until none is left to check.
        let (mut starts, mut left) = (free, need - 1);
        let mut step = 1;
        while left > 0 {
            let by = step.min(left);
            starts &= starts >> by;
            left -= by;
            step *= 2;
        }
        if starts == 0 {
            return None;
        }
        let first = starts.trailing_zeros();
        self.used |= mask(need) << first;
        self.last |= 1 << (first + need - 1);
        Some(self.address + first * GRANULE)
    }

    fn free(&mut self, address: u32) -> bool {
        let first = (address - self.address) / GRANULE;
        let begins = first == 0 || (!self.used | self.last) >> (first - 1) & 1 == 1;
        if !address.is_multiple_of(GRANULE) || self.used >> first & 1 == 0 || !begins {
            return false;
        }
        let end = first + (self.last >> first).trailing_zeros();
        self.used &= !(mask(end - first + 1) << first);
        self.last &= !(1 << end);
        true
    }
}

/// The lowest `bits` bits, at most 64.
const fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Of ones in a row.
fn longest_run(mut bits: u64) -> u32 {
    let mut run = 0;
    while bits != 0 {
        bits &= bits >> 1;
        run += 1;
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn blocks_of_a_page_have_no_headers_and_lie_lowest_first() {
        let mut pages = Pages::new(128).unwrap();
        assert_eq!((pages.alloc(16), pages.len()), (None, 0));
        assert!(pages.add(0x6000_0100));
        assert_eq!(pages.alloc(33), Some(0x6000_0100));
        assert_eq!(pages.alloc(16), Some(0x6000_0130));
        assert_eq!((pages.alloc(65), pages.longest_free()), (None, 64));
        assert_eq!(pages.alloc(64), Some(0x6000_0140));
        assert!(!pages.free(0x6000_0110), "no block begins there");
        assert!(pages.free(0x6000_0130) && !pages.free(0x6000_0130));
        assert_eq!(pages.alloc(1), Some(0x6000_0130));
        assert_eq!((pages.blocks(), pages.take_empty(0)), (3, None));
        assert!(pages.free(0x6000_0100) && pages.free(0x6000_0130) && pages.free(0x6000_0140));
        assert_eq!((pages.take_empty(1), pages.take_empty(0)), (None, Some(0x6000_0100)));
    }

    #[test]
    fn lengths_without_sense_are_no_pages() {
        let bad = [0, 8, 100, MAX_PAGE + 16].map(Pages::new);
        assert_eq!(bad, [None; 4]);
        let mut pages = Pages::new(MAX_PAGE).unwrap();
        assert!(pages.add(64) && pages.alloc(1025).is_none());
        assert_eq!((pages.alloc(1024), pages.longest_free()), (Some(64), 0));
    }

    proptest! {
        /// Against the plainest of models: a list of granules.
        #[test]
        fn as_a_list_of_granules_does(
            granules in 1_u32..=64,
            calls in prop::collection::vec((any::<bool>(), 0_u64..1100, any::<prop::sample::Index>()), 0..200),
        ) {
            let mut pages = Pages::new(granules * 16).unwrap();
            for slot in 1..=2 {
                prop_assert!(pages.add(slot * 0x1000));
            }
            let mut model = [[false; 64]; 2];
            let mut live: Vec<(u32, usize)> = Vec::new();
            for (allocs, size, which) in calls {
                if allocs {
                    let need = size.div_ceil(16).max(1) as usize;
                    let fits = |page: &[bool; 64], at: usize| {
                        at + need <= granules as usize && !page[at..at + need].contains(&true)
                    };
                    let place = (0..2).find_map(|p| (0..64).find(|&at| fits(&model[p], at)).map(|at| (p, at)));
                    let expected = place.map(|(p, at)| (p as u32 + 1) * 0x1000 + at as u32 * 16);
                    let found = pages.alloc(size);
                    prop_assert_eq!(found, expected);
                    if let (Some((p, at)), Some(address)) = (place, found) {
                        model[p][at..at + need].fill(true);
                        live.push((address, need));
                    }
                } else if !live.is_empty() {
                    let (address, need) = live.swap_remove(which.index(live.len()));
                    prop_assert!(pages.free(address));
                    let (p, at) = (address as usize / 0x1000 - 1, address as usize % 0x1000 / 16);
                    model[p][at..at + need].fill(false);
                }
                prop_assert_eq!(pages.check(), Ok(()));
                prop_assert_eq!(pages.blocks() as usize, live.len());
            }
        }
    }
}
