//! Exact fit: a list for every single length, and good fit where lengths are too many.
//!
//! Own list, else the next one that is not empty: best fit in O(1), without looking at a block, since
//! all blocks of a list are equally long. Which lists hold a block, a bit each says: 64 lists to a
//! word, and a word of the words.
//!
//! ```text
//!   bins     32  48  64  80 ...            longest bin | lists: good fit for all that is longer
//!   bits    ...1....1...                               | (good_fit)
//! ```
//!
//! Lists for every length are as old as Standish, "Data Structure Techniques" (1980), 6.2.4. The
//! paper of DmRT calls them its *mechanism* for the best fit of small blocks (4.1.3, I); `dmrt` is the
//! neighbour that uses the one word of them that it needs.

#![deny(unsafe_code)]

use super::good_fit::{GoodFitParams, SizeLists};
use super::heap::BlockHeap;
use super::index::{Census, FreeIndex, LongestTwo};
use super::stack::Stack;
use super::tags::{Block, Granules, MIN_BLOCK, Tags, View};
use crate::check::Broken;
use crate::probe::{Probe, Step};
use core::array::from_fn;

/// Bins of a word of bits.
const COLUMNS: usize = 64;

/// Exact fit up to 64 KiB, good fit above.
pub type ExactFit = BlockHeap<ExactLists>;

/// The lists of exact fit: 4,096 bins, 32 B to 64 KiB. 20 KiB.
#[derive(Debug)]
pub struct ExactLists(Binned<64>);

impl Default for ExactLists {
    fn default() -> Self {
        ExactLists(Binned::new(Bins::<64>::LONGEST, GoodFitParams::default()))
    }
}

/// Which of `64 * WORDS` bins hold a block; the first is that of the smallest block.
#[derive(Debug)]
pub(super) struct Bins<const WORDS: usize> {
    /// A bit for each word that is not zero.
    words: u64,
    bits: [u64; WORDS],
    stacks: [[Stack; COLUMNS]; WORDS],
}

impl<const WORDS: usize> Bins<WORDS> {
    /// The length of the blocks in the last bin.
    pub(super) const LONGEST: Granules =
        Granules::new(MIN_BLOCK.count() + (COLUMNS * WORDS) as u32 - 1);

    fn new() -> Self {
        const { assert!(WORDS <= 64, "one word of the words") };
        let stacks = from_fn(|_| from_fn(|_| Stack::default()));
        Bins { words: 0, bits: [0; WORDS], stacks }
    }

    fn bin(size: Granules) -> usize {
        size.minus(MIN_BLOCK).count() as usize
    }

    fn stack(&mut self, bin: usize) -> &mut Stack {
        &mut self.stacks[bin / COLUMNS][bin % COLUMNS]
    }

    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules, low: bool) {
        let bin = Self::bin(size);
        self.stack(bin).push_as(view, block, low);
        self.mark(view, bin, true);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let bin = Self::bin(size);
        self.stack(bin).remove(view, block);
        if self.stack(bin).top().is_none() {
            self.mark(view, bin, false);
        }
    }

    fn mark<P: Probe>(&mut self, view: &mut View<P>, bin: usize, holds: bool) {
        view.step(Step::Index);
        let (word, bit) = (bin / COLUMNS, bin % COLUMNS);
        let bits = self.bits[word] & !(1 << bit) | u64::from(holds) << bit;
        self.bits[word] = bits;
        self.words = self.words & !(1 << word) | u64::from(bits != 0) << word;
    }

    /// The youngest block of the first bin for `need` or longer.
    fn find<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<Block> {
        view.step(Step::Index);
        let block = self.read_at_or_above(Self::bin(need))?;
        view.step(Step::Inspect);
        Some(block)
    }

    fn read_at_or_above(&self, bin: usize) -> Option<Block> {
        let word = bin / COLUMNS;
        let here = self.bits[word] & (!0 << (bin % COLUMNS));
        if here != 0 {
            return self.stacks[word][here.trailing_zeros() as usize].top();
        }
        let word = (self.words & (!0 << word << 1)).trailing_zeros() as usize;
        let bits = *self.bits.get(word)?;
        self.stacks[word][bits.trailing_zeros() as usize].top()
    }

    /// The highest bin that holds a block.
    fn highest(&self) -> Option<usize> {
        let word = self.words.checked_ilog2()? as usize;
        Some(word * COLUMNS + self.bits[word].ilog2() as usize)
    }

    /// The length of the blocks in the highest bin that holds any.
    fn largest(&self) -> Granules {
        let length = |bin: usize| MIN_BLOCK.plus(Granules::new(bin as u32));
        self.highest().map_or(Granules::default(), length)
    }

    fn add_longest(&self, tags: &Tags, two: &mut LongestTwo) {
        for stack in self.stacks.iter().rev().flat_map(|stacks| stacks.iter().rev()) {
            if two.second > Granules::default() {
                return;
            }
            stack.add_longest(tags, two);
        }
    }

    fn check(&self, tags: &Tags, census: &mut Census) -> Result<(), Broken> {
        for (word, (&bits, stacks)) in self.bits.iter().zip(&self.stacks).enumerate() {
            let what = "a word's bit tells whether one of its bins holds a block";
            Broken::unless_equal(what, 0, u64::from(bits != 0), self.words >> word & 1)?;
            for (bit, stack) in stacks.iter().enumerate() {
                let what = "a bin's bit tells whether the bin holds a block";
                Broken::unless_equal(what, 0, stack.top().is_some().into(), bits >> bit & 1)?;
                let length = MIN_BLOCK.plus(Granules::new((word * COLUMNS + bit) as u32));
                stack.check(tags, census, |block, size| {
                    Broken::unless(size == length, "a bin holds one length", block.tag_at())
                })?;
            }
        }
        Ok(())
    }
}

/// Bins for blocks up to a length, lists of good fit above.
#[derive(Debug)]
pub(super) struct Binned<const WORDS: usize> {
    longest: Granules,
    low_tops: bool,
    bins: Bins<WORDS>,
    lists: SizeLists,
}

impl<const WORDS: usize> Binned<WORDS> {
    /// Bins up to `longest`, which is at most [`Bins::LONGEST`].
    pub(super) fn new(longest: Granules, lists: GoodFitParams) -> Self {
        let longest = longest.min(Bins::<WORDS>::LONGEST);
        let low_tops = lists.has_low_tops();
        Binned { longest, low_tops, bins: Bins::new(), lists: SizeLists::with(lists) }
    }

    /// The lists of what no bin holds.
    pub(super) fn lists(&self) -> &SizeLists {
        &self.lists
    }

    fn is_binned(&self, size: Granules) -> bool {
        size <= self.longest
    }

    pub(super) fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        if self.is_binned(size) {
            self.bins.insert(view, block, size, self.low_tops);
        } else {
            self.lists.insert(view, block, size);
        }
    }

    pub(super) fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        if self.is_binned(size) {
            self.bins.remove(view, block, size);
        } else {
            self.lists.remove(view, block, size);
        }
    }

    /// Exact fit for what a bin may hold, else good fit.
    pub(super) fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        self.find_in_bins(view, need).or_else(|| self.lists.find(view, need))
    }

    /// Exact fit for what a bin may hold, else nothing.
    pub(super) fn find_in_bins<P: Probe>(
        &self,
        view: &mut View<P>,
        need: Granules,
    ) -> Option<Block> {
        if self.is_binned(need) { self.bins.find(view, need) } else { None }
    }

    pub(super) fn foresee_find(&self, need: Granules) -> Option<Block> {
        let bin = self.is_binned(need).then(|| Bins::<WORDS>::bin(need));
        bin.and_then(|bin| self.bins.read_at_or_above(bin))
            .or_else(|| self.lists.foresee_find(need))
    }

    pub(super) fn foresee_insert(&self, tags: &Tags, size: Granules) {
        if !self.is_binned(size) {
            return self.lists.foresee_insert(tags, size);
        }
        let bin = Bins::<WORDS>::bin(size);
        if let Some(top) = self.bins.stacks[bin / COLUMNS][bin % COLUMNS].top() {
            tags.fetch(top);
        }
    }

    pub(super) fn largest(&self, tags: &Tags) -> Granules {
        self.lists.largest(tags).max(self.bins.largest())
    }

    pub(super) fn longest_two(&self, tags: &Tags) -> Option<LongestTwo> {
        let mut two = self.lists.longest_two(tags)?;
        self.bins.add_longest(tags, &mut two);
        Some(two)
    }

    pub(super) fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        self.bins.check(tags, &mut census)?;
        self.lists.check_into(tags, &mut census)?;
        Ok(census)
    }
}

// SAFETY: everything is delegated to bins and lists, which hold blocks inserted and not removed
// since.
#[expect(unsafe_code, reason = "a promise about links; no unsafe operation follows")]
unsafe impl FreeIndex for ExactLists {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.0.insert(view, block, size);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.0.remove(view, block, size);
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        self.0.find(view, need)
    }

    fn foresee_find(&self, need: Granules) -> Option<Block> {
        self.0.foresee_find(need)
    }

    fn foresee_insert(&self, tags: &Tags, size: Granules) {
        self.0.foresee_insert(tags, size);
    }

    fn foresee_remove(&self, tags: &Tags, block: Block) {
        Stack::foresee_remove(tags, block);
    }

    fn largest(&self, tags: &Tags) -> Granules {
        self.0.largest(tags)
    }

    fn longest_two(&self, tags: &Tags) -> Option<LongestTwo> {
        self.0.longest_two(tags)
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        self.0.check(tags)
    }
}
