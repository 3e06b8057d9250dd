//! Best fit: the shortest free block that holds the request; of several, the lowest.
//!
//! Knuth, The Art of Computer Programming 1, section 2.5.

#![deny(unsafe_code)]

use super::forest::{Forest, Question, SizeForest};
use super::heap::BlockHeap;
use super::list::{AddressList, Preference, Scan};
use super::order::Chosen;
use super::tags::{Block, Granules, View};
use super::tree::BySize;
use crate::probe::Probe;

/// Best fit in O(log n).
pub type BestFit = BlockHeap<SizeForest<Shortest>>;

/// Best fit, looking at every block of the list. Chooses what [`BestFit`] chooses.
pub type BestFitList = BlockHeap<Chosen<AddressList, Scan<Shortest>>>;

/// The shortest block that fits.
#[derive(Debug, Default)]
pub struct Shortest;

impl Question for Shortest {
    type Key = BySize;

    fn ask<P: Probe>(forest: &Forest<BySize>, view: &mut View<P>, need: Granules) -> Option<Block> {
        forest.at_or_after(view, need, u64::from(need.count()) << 32)
    }
}

impl Preference for Shortest {
    fn is_better(size: Granules, best: Granules) -> bool {
        size < best
    }
}
