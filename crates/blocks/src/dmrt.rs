//! DmRT: three fits in one, chosen by the size that was asked for.
//!
//! ```text
//!   requested n          fit                                            paper
//!   n < 512 B            small: best, as exact fit in bins              4.1.2 i,   4.1.3 I
//!   512 B <= n < 2 MiB   normal: good, in segregated lists              4.1.2 ii,  4.1.3 II
//!   2 MiB <= n           large: worst, the head of the highest list     4.1.2 iii, 4.1.3 III
//! ```
//!
//! "DmRT for NUMA", chapter 4 of the thesis. Its chapter 3, with the lists and the block layout, is
//! not public; **ours** are therefore: the layout (`tags`), 32 lists a doubling, a small request
//! that finds no bin being served as a normal one, exactly 2 MiB being large (the paper classifies it
//! nowhere), worst fit by the head of the highest list (short of the longest block by less than 1/32), and two
//! looks at a bounded number of blocks: the first, at the list that a normal request falls in, before
//! a longer block is cut ([`DmrtParams::with_first_look`]); the second where good fit or that head fails
//! ([`DmrtParams::with_second_look`]). With looks of 0 it is the paper's.
//!
//! Why a first look: good fit rounds up what it looks for, not what it cuts off. So a block of 1,040 B, freed, is
//! in the list [1024, 1056), where no request of 1,040 B looks: the next one cuts a longer block, and so on. TLSF
//! cuts off the rounded length, which is found again, and pays for it inside every block. One look at the list's head
//! nearly always finds the block just freed (`bench/NOTES.md`, "Fragmentation").
//!
//! **Ours, too**, and what `dmrt` does beyond the looks ([`DmrtParams::LOW`]):
//!
//! - of the two blocks first in a list or bin the lower comes first, so that high ones have time to merge;
//! - a large block gets its class's length: what is freed is found again by more requests;
//! - worst fit cuts the region's free end, which always is the longest, only where the next list down has nothing.
//!
//! Until November 2026 `dmrt` also spared the longest hole: a request of at most half of it was cut from the region's free end. That
//! kept a hole in a heap that is full, and cost that hole's length at the peak, again and again where the heap grows: 0.03 to 0.9 % of
//! what was alive, on seven of eight programs on which it had not been chosen. Bounded so that it could not raise the
//! peak (cut at the end only below the highest end so far) it kept no hole either, so it went (`bench/NOTES.md`, "Fragmentation").
//!
//! Two facts about the paper's, both tested. Up to 1 KiB a list of good fit holds one length only, so
//! that below 2 MiB the paper's DmRT chooses the very blocks that good fit chooses: its bins save
//! steps, not memory. And a class is the requested size's, not the block's: 2 MiB - 1 B and 2 MiB need
//! blocks of one length, and are searched for differently.

#![deny(unsafe_code)]

use super::classes::Class;
use super::exact_fit::{Binned, Bins};
use super::good_fit::GoodFitParams;
use super::heap::BlockHeap;
use super::index::{Census, FreeIndex, LongestTwo};
use super::stack::Stack;
use super::tags::{Block, Granules, TAG, Tags, View};
use crate::check::Broken;
use crate::probe::Probe;

/// DmRT with both looks at four blocks, low blocks first.
pub type Dmrt = BlockHeap<DmrtLists<4, true>>;

/// DmRT with both looks at four blocks, else the paper's.
pub type DmrtLooks = BlockHeap<DmrtLists<4>>;

/// DmRT as the paper has it: without looks.
pub type DmrtPaper = BlockHeap<DmrtLists<0>>;

/// Which block a large request takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LargeFit {
    /// The head of the highest list, or one of `second_look` more. O(1).
    #[default]
    Head,
    /// As `Head`, but the region's free end only where the next list down holds nothing long enough. O(1).
    HeadInside,
    /// The longest there is, found by walking the highest list: an oracle to compare with.
    Longest,
}

/// Where DmRT's classes begin and how hard it tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DmrtParams {
    small: u64,
    large: u64,
    first_look: u32,
    second_look: u32,
    large_fit: LargeFit,
    low_tops: bool,
    /// Whether large requests are rounded up to their size class, by less than 1/32.
    rounds_large: bool,
}

impl DmrtParams {
    /// The most that `small` can be: as many bins as one word has bits.
    pub const MAX_SMALL: u64 = 1024;

    /// The paper's: small below 512 B, large from 2 MiB, no looks.
    pub const PAPER: DmrtParams = DmrtParams {
        small: 512,
        large: 2 << 20,
        first_look: 0,
        second_look: 0,
        large_fit: LargeFit::Head,
        low_tops: false,
        rounds_large: false,
    };

    /// The paper's, but that it cuts low blocks before high ones; see the module.
    pub const LOW: DmrtParams = DmrtParams {
        large_fit: LargeFit::HeadInside,
        low_tops: true,
        rounds_large: true,
        ..DmrtParams::PAPER
    };

    /// Requests of less than `small` bytes are small, of `large` bytes and more large. `None` unless
    /// `small <= MAX_SMALL` and `small <= large`.
    pub const fn with_limits(self, small: u64, large: u64) -> Option<DmrtParams> {
        if small > DmrtParams::MAX_SMALL || small > large {
            return None;
        }
        Some(DmrtParams { small, large, ..self })
    }

    /// At most `blocks` of the list that a normal request falls in are looked at before a longer one is cut.
    pub const fn with_first_look(self, blocks: u32) -> DmrtParams {
        DmrtParams { first_look: blocks, ..self }
    }

    /// At most `blocks` more are looked at where the first choice fails.
    pub const fn with_second_look(self, blocks: u32) -> DmrtParams {
        DmrtParams { second_look: blocks, ..self }
    }

    /// Large requests take this one.
    pub const fn with_large_fit(self, large_fit: LargeFit) -> DmrtParams {
        DmrtParams { large_fit, ..self }
    }

    /// The bound between small and normal, in bytes asked for.
    pub const fn small(self) -> u64 {
        self.small
    }

    /// The bound between normal and large, in bytes asked for.
    pub const fn large(self) -> u64 {
        self.large
    }

    /// The longest block that a small request needs: the last bin.
    fn longest_bin(self) -> Granules {
        let longest = Granules::for_request(self.small.saturating_sub(1));
        longest.unwrap_or(Bins::<1>::LONGEST)
    }
}

/// The bins and lists of DmRT: 64 bins in one word, and good fit's lists above. `LOOK` is both looks of the
/// `Default`, by which the registry makes one; `IS_LOW` says whether its other parameters are [`DmrtParams::LOW`].
#[derive(Debug)]
pub struct DmrtLists<const LOOK: u32, const IS_LOW: bool = false> {
    params: DmrtParams,
    blocks: Binned<1>,
}

impl<const LOOK: u32, const IS_LOW: bool> DmrtLists<LOOK, IS_LOW> {
    /// No blocks yet. Give it to [`BlockHeap::with_index`].
    pub fn with(params: DmrtParams) -> Self {
        let lists = GoodFitParams::new(32, params.second_look).unwrap_or_default();
        let lists = lists.with_first_look(params.first_look).with_low_tops(params.low_tops);
        DmrtLists { params, blocks: Binned::new(params.longest_bin(), lists) }
    }
}

impl<const LOOK: u32, const IS_LOW: bool> Default for DmrtLists<LOOK, IS_LOW> {
    fn default() -> Self {
        let params = if IS_LOW { DmrtParams::LOW } else { DmrtParams::PAPER };
        Self::with(params.with_first_look(LOOK).with_second_look(LOOK))
    }
}

// SAFETY: everything is delegated to bins and lists, which hold blocks inserted and not removed
// since.
#[expect(unsafe_code, reason = "a promise about links; no unsafe operation follows")]
unsafe impl<const LOOK: u32, const IS_LOW: bool> FreeIndex for DmrtLists<LOOK, IS_LOW> {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.blocks.insert(view, block, size);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.blocks.remove(view, block, size);
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        self.find_for(view, need, need.bytes() - TAG)
    }

    fn find_for<P: Probe>(
        &mut self,
        view: &mut View<P>,
        need: Granules,
        requested: u64,
    ) -> Option<Block> {
        let DmrtParams { large, second_look, large_fit, .. } = self.params;
        if requested < large {
            // A bin is a list of good fit's, too: small and normal requests differ in where they
            // begin to look, and `need` says that.
            return self.blocks.find(view, need);
        }
        let lists = self.blocks.lists();
        let found = match large_fit {
            LargeFit::Head => lists.find_long(view, need, second_look),
            LargeFit::HeadInside => lists.find_long_inside(view, need, second_look),
            LargeFit::Longest => lists.find_longest(view, need),
        };
        // Only where the limits are moved so far that a large request may fit into a bin.
        found.or_else(|| self.blocks.find_in_bins(view, need))
    }

    #[inline]
    fn need_for(&self, requested: u64) -> Option<Granules> {
        let need = Granules::for_request(requested)?;
        let is_rounded = self.params.rounds_large && requested >= self.params.large;
        Some(if is_rounded { Class::rounded(need) } else { need })
    }

    fn foresee_find(&self, need: Granules) -> Option<Block> {
        self.blocks.foresee_find(need)
    }

    fn foresee_insert(&self, tags: &Tags, size: Granules) {
        self.blocks.foresee_insert(tags, size);
    }

    fn foresee_remove(&self, tags: &Tags, block: Block) {
        Stack::foresee_remove(tags, block);
    }

    fn largest(&self, tags: &Tags) -> Granules {
        self.blocks.largest(tags)
    }

    fn longest_two(&self, tags: &Tags) -> Option<LongestTwo> {
        self.blocks.longest_two(tags)
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        self.blocks.check(tags)
    }
}

#[cfg(test)]
mod tests {
    use super::DmrtParams;

    #[test]
    fn limits_that_no_word_of_bins_can_hold_are_refused() {
        assert_eq!(DmrtParams::PAPER.with_limits(1025, 2 << 20), None);
        assert_eq!(DmrtParams::PAPER.with_limits(512, 511), None);
        let moved = DmrtParams::PAPER.with_limits(1024, 1024).map(|p| (p.small(), p.large()));
        assert_eq!(moved, Some((1024, 1024)));
    }
}
