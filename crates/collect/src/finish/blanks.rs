//! Blank that nobody uses: whose blocks hold nothing but zeroes, by pages that were read ([`crate::blank`]) and the addresses that malloc gave.
//!
//! Left out are blocks longer than a page, whose pages that nobody touches the kernel does not give, and those of `calloc`, which was asked for zeroes.

use super::kept::Block;
use crate::blank::{LINE, PAGE, Page};
use freehold_trace::{Blank, StackId};
use std::collections::BTreeMap;

/// Blocks in some pages.
#[derive(Default)]
pub struct Blanks<'a> {
    pages: &'a [Page],
    by_stack: BTreeMap<StackId, Blank>,
}

impl<'a> Blanks<'a> {
    /// None yet, in these pages, which are in the order of their addresses.
    pub fn new(pages: &'a [Page]) -> Blanks<'a> {
        Blanks { pages, by_stack: BTreeMap::new() }
    }

    /// Whether any of the block is in a page that was read: then [`Self::add`] it.
    pub fn is_seen(&self, address: u64, size: u64) -> bool {
        let first = self.pages.get(self.first(address));
        (1..=PAGE).contains(&size) && first.is_some_and(|page| page.address < address + size)
    }

    /// The first page that does not end before the address.
    fn first(&self, address: u64) -> usize {
        self.pages.partition_point(|page| page.address + PAGE <= address)
    }

    /// Adds a block.
    pub fn add(&mut self, block: Block) {
        let (start, end) = (block.address, block.address + u64::from(block.size));
        let pages = &self.pages[self.first(start)..];
        for page in pages.iter().take_while(|page| page.address < end) {
            let (from, to) = (start.max(page.address), end.min(page.address + PAGE));
            let (first, last) = ((from - page.address).div_ceil(LINE), (to - page.address) / LINE);
            let lines = (first..last).filter(|line| page.blank >> line & 1 == 1).count() as u64;
            let known = self.by_stack.entry(block.stack);
            let known = known.or_insert(Blank { stack: block.stack, ..Blank::default() });
            known.seen += to - from;
            known.zero += lines * LINE;
        }
    }

    /// Of each stack, that with most seen first.
    pub fn list(self) -> Vec<Blank> {
        let mut all: Vec<Blank> = self.by_stack.into_values().collect();
        all.sort_by_key(|blank| (std::cmp::Reverse(blank.seen), blank.stack));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_within_a_block_count_and_nothing_beside_it() {
        let pages = [Page { address: 0x1000, blank: !1 }, Page { address: 0x4000, blank: 0b111 }];
        let mut blanks = Blanks::new(&pages);
        let blocks = [
            (0x1010, 512, 1), // its first line is not whole; 7 are
            (0x1fc0, 128, 1), // half of it is in a page that was not read
            (0x3fe0, 160, 2), // begins before the page: two lines and no more are blank and whole
            (0x5000, 64, 3),
            (0x0f00, 256, 3),
        ];
        for (address, size, stack) in blocks {
            let seen = blanks.is_seen(address, size.into());
            assert_eq!(seen, stack != 3, "{address:x}");
            if seen {
                blanks.add(Block { address, size, stack: StackId(stack) });
            }
        }
        assert!(!blanks.is_seen(0x1000, 8192), "longer than a page");
        let told: Vec<_> = blanks.list().iter().map(|r| (r.stack.0, r.seen, r.zero)).collect();
        assert_eq!(told, [(1, 512 + 64, 7 * 64 + 64), (2, 128, 128)]);
    }
}
