//! First fit: the lowest free block that holds the request.
//!
//! Packs everything towards the low end of the region, which leaves long blocks at the high end.
//! Knuth, The Art of Computer Programming 1, section 2.5, algorithm A.

#![deny(unsafe_code)]

use super::heap::BlockHeap;
use super::list::AddressList;
use super::order::{AddressOrder, Choice, Chosen};
use super::tags::{Block, Granules, View};
use super::zones::Zones;
use crate::probe::Probe;

/// First fit in O(log n).
pub type FirstFit = BlockHeap<Chosen<Zones, Lowest>>;

/// First fit, walking the list as the books do. Chooses what [`FirstFit`] chooses.
pub type FirstFitList = BlockHeap<Chosen<AddressList, Lowest>>;

/// The lowest block that fits.
#[derive(Debug, Default)]
pub struct Lowest;

// SAFETY: the order gives one of its blocks that holds as much.
#[expect(unsafe_code, reason = "a promise about links; no unsafe operation follows")]
unsafe impl<O: AddressOrder> Choice<O> for Lowest {
    fn among<P: Probe>(blocks: &O, view: &mut View<P>, need: Granules) -> Option<Block> {
        blocks.first_fit(view, need)
    }
}
