//! Worst fit: the longest free block, if it holds the request; of several, the lowest.
//!
//! Its remainders are long enough to be of use, at the price of eating up the long blocks. What DmRT
//! does with its large requests.

#![deny(unsafe_code)]

use super::forest::{Forest, Question, SizeForest};
use super::heap::BlockHeap;
use super::list::{AddressList, Preference, Scan};
use super::order::Chosen;
use super::tags::{Block, Granules, View};
use super::tree::BySizeDown;
use crate::probe::{Probe, Step};

/// Worst fit in O(log n).
pub type WorstFit = BlockHeap<SizeForest<Longest>>;

/// Worst fit, looking at every block of the list. Chooses what [`WorstFit`] chooses.
pub type WorstFitList = BlockHeap<Chosen<AddressList, Scan<Longest>>>;

/// The longest block. In the forest the last one, of one length the lowest being the last.
#[derive(Debug, Default)]
pub struct Longest;

impl Question for Longest {
    type Key = BySizeDown;

    fn ask<P: Probe>(
        forest: &Forest<BySizeDown>,
        view: &mut View<P>,
        need: Granules,
    ) -> Option<Block> {
        let longest = forest.last(view)?;
        view.step(Step::Inspect);
        (view.size(longest) >= need).then_some(longest)
    }
}

impl Preference for Longest {
    fn is_better(size: Granules, best: Granules) -> bool {
        size > best
    }
}
