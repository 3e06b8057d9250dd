//! First fit: the lowest free block that holds the request.
//!
//! Packs everything towards the low end of the region, which leaves long blocks at the high end.
//! Knuth, The Art of Computer Programming 1, section 2.5, algorithm A.

#![deny(unsafe_code)]

use super::heap::BlockHeap;
use super::index::{Census, FreeIndex, LongestTwo};
use super::list::AddressList;
use super::order::AddressOrder;
use super::search::StillIndex;
use super::tags::{Block, Granules, Tags, View};
use super::zones::Zones;
use crate::check::Broken;
use crate::machine::Probe;
use crate::policy::Distance;

/// First fit in O(log n).
pub type FirstFit = BlockHeap<Lowest<Zones>>;

/// First fit, walking the list as the books do. Chooses what [`FirstFit`] chooses.
pub type FirstFitList = BlockHeap<Lowest<AddressList>>;

/// The free blocks by address, of which the lowest that fits is taken.
#[derive(Debug, Default)]
pub struct Lowest<O>(O);

// SAFETY: both orders hold blocks inserted and not removed since, and `find` gives one of them.
#[expect(unsafe_code, reason = "a promise about links; no unsafe operation follows")]
unsafe impl<O: AddressOrder> FreeIndex for Lowest<O> {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.0.insert(view, block, size);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.0.remove(view, block, size);
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
        self.search(view, need)
    }

    #[inline]
    fn foresee_place(&self, tags: &Tags, block: Block, distance: Distance) {
        self.0.foresee_insert(tags, block, distance);
    }

    #[inline]
    fn foresee_remove(&self, tags: &Tags, block: Block) {
        self.0.foresee_remove(tags, block);
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

// SAFETY: as above; asking changes nothing.
#[expect(unsafe_code, reason = "a promise about links; no unsafe operation follows")]
unsafe impl<O: AddressOrder> StillIndex for Lowest<O> {
    fn search<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<Block> {
        self.0.first_fit(view, need)
    }
}
