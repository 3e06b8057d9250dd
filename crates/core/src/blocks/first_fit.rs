//! First fit: the lowest free block that holds the request.
//!
//! Packs everything towards the low end of the region, which leaves long blocks at the high end.
//! Knuth, The Art of Computer Programming 1, section 2.5, algorithm A.

#![deny(unsafe_code)]

use super::heap::BlockHeap;
use super::index::{Census, FreeIndex};
use super::list::AddressList;
use super::tags::{Block, Granules, Tags, View};
use super::tree::{ByAddress, Treap};
use crate::check::Broken;
use crate::machine::Probe;

/// First fit in O(log n).
pub type FirstFit = BlockHeap<FirstTree>;

/// First fit, walking the list as the books do. Chooses what [`FirstFit`] chooses.
pub type FirstFitList = BlockHeap<FirstList>;

/// The free blocks in a tree by address that knows the longest block of every subtree.
#[derive(Debug, Default)]
pub struct FirstTree(Treap<ByAddress>);

/// The free blocks in a list by address.
#[derive(Debug, Default)]
pub struct FirstList(AddressList);

impl FreeIndex for FirstTree {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.0.insert(view, block, size);
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
        self.0.replace(view, old, new);
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        self.0.first_fit(view, need)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        self.0.largest(tags)
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        self.0.check(tags, &mut census, |_| true)?;
        Ok(census)
    }
}

impl FreeIndex for FirstList {
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
        let head = self.0.head(view);
        self.0.first_from(view, head, None, need)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        self.0.largest(tags)
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        self.0.check(tags)
    }
}
