//! Worst fit: the longest free block, if it holds the request; of several, the lowest.
//!
//! Its remainders are long enough to be of use, at the price of eating up the long blocks. What DmRT
//! does with its large requests.

#![deny(unsafe_code)]

use super::forest::Forest;
use super::heap::BlockHeap;
use super::index::{Census, FreeIndex, LongestTwo};
use super::list::AddressList;
use super::tags::{Block, Granules, Tags, View};
use super::tree::BySizeDown;
use crate::check::Broken;
use crate::machine::{Probe, Step};

/// Worst fit in O(log n).
pub type WorstFit = BlockHeap<WorstTree>;

/// Worst fit, looking at every block of the list. Chooses what [`WorstFit`] chooses.
pub type WorstFitList = BlockHeap<WorstList>;

/// The free blocks in trees by size; of one size, the lowest address last.
#[derive(Debug, Default)]
pub struct WorstTree(Forest<BySizeDown>);

/// The free blocks in a list by address.
#[derive(Debug, Default)]
pub struct WorstList(AddressList);

impl FreeIndex for WorstTree {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.0.insert(view, block, size);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.0.remove(view, block, size);
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let longest = self.0.last(view)?;
        view.step(Step::Inspect);
        (view.size(longest) >= need).then_some(longest)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        self.0.largest(tags)
    }

    fn longest_two(&self, tags: &Tags) -> Option<LongestTwo> {
        Some(self.0.longest_two(tags))
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        self.0.check(tags)
    }
}

impl FreeIndex for WorstList {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, _: Granules) {
        self.0.insert(view, block);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, _: Granules) {
        self.0.remove(view, block);
    }

    fn replace<P: Probe>(
        &mut self,
        view: &mut View<P>,
        old: (Block, Granules),
        new: (Block, Granules),
    ) {
        self.0.replace(view, old.0, new.0);
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        self.0.best_by(view, need, |size, worst| size > worst)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        self.0.largest(tags)
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        self.0.check(tags)
    }
}
