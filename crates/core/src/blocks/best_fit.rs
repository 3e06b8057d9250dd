//! Best fit: the shortest free block that holds the request; of several, the lowest.
//!
//! Knuth, The Art of Computer Programming 1, section 2.5.

#![deny(unsafe_code)]

use super::forest::Forest;
use super::heap::BlockHeap;
use super::index::{Census, FreeIndex, LongestTwo};
use super::list::AddressList;
use super::tags::{Block, Granules, Tags, View};
use super::tree::{BySize, Treap};
use crate::check::Broken;
use crate::machine::Probe;

/// Best fit in O(log n).
pub type BestFit = BlockHeap<BestTree>;

/// Best fit, looking at every block of the list. Chooses what [`BestFit`] chooses.
pub type BestFitList = BlockHeap<BestList>;

/// The free blocks in trees by size, then address.
#[derive(Debug, Default)]
pub struct BestTree(Forest<BySize>);

/// The free blocks in a list by address.
#[derive(Debug, Default)]
pub struct BestList(AddressList);

impl FreeIndex for BestTree {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.0.insert(view, block, size);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.0.remove(view, block, size);
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        self.0.at_or_after(view, need, u64::from(need.count()) << 32)
    }

    #[inline]
    fn foresee_remove(&self, tags: &Tags, block: Block) {
        Treap::<BySize>::foresee_remove(tags, block);
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

impl FreeIndex for BestList {
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
        self.0.best_by(view, need, |size, best| size < best)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        self.0.largest(tags)
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        self.0.check(tags)
    }
}
