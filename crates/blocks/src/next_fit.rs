//! Next fit: first fit that goes on where the last search ended.
//!
//! A *rover* remembers a free block; the search begins there and, at the end of the region, goes
//! on from its beginning. The rover stays with what is left of the block it last found; when its
//! block is used up or merged away, with the next free one, or with the whole it became part of.
//! Knuth, The Art of Computer Programming 1, section 2.5, exercise 6.
//!
//! (The second search, from the beginning, is not told to end at the rover: what lies beyond does
//! not fit, as the first one found. Only a request that fails walks a list of the books' further
//! than they would.)

#![deny(unsafe_code)]

use super::heap::BlockHeap;
use super::index::{Census, FreeIndex, LongestTwo};
use super::list::AddressList;
use super::order::AddressOrder;
use super::tags::{Block, Granules, Tags, View};
use super::zones::Zones;
use crate::check::Broken;
use crate::policy::Distance;
use crate::probe::{Probe, Step};

/// Next fit in O(log n).
pub type NextFit = BlockHeap<Roving<Zones>>;

/// Next fit, walking the list as the books do. Chooses what [`NextFit`] chooses.
pub type NextFitList = BlockHeap<Roving<AddressList>>;

/// The free blocks by address, and the rover.
#[derive(Debug, Default)]
pub struct Roving<O> {
    blocks: O,
    rover: Rover,
}

/// Where the next search begins: a free block, or the beginning of the region.
#[derive(Debug, Default)]
struct Rover(Option<Block>);

impl Rover {
    fn get<P: Probe>(&self, view: &mut View<P>) -> Option<Block> {
        view.step(Step::Index);
        self.0
    }

    fn set<P: Probe>(&mut self, view: &mut View<P>, to: Option<Block>) {
        view.step(Step::Index);
        self.0 = to;
    }

    fn check(&self, tags: &Tags) -> Result<(), Broken> {
        let Some(block) = self.0 else { return Ok(()) };
        let holds = tags.contains(block) && tags.quiet().tag(block).is_free();
        Broken::unless(holds, "the rover stands on a free block", block.tag_at())
    }
}

// SAFETY: both orders hold blocks inserted and not removed since; the rover leaves a block before
// it goes.
#[expect(unsafe_code, reason = "a promise about links; no unsafe operation follows")]
unsafe impl<O: AddressOrder> FreeIndex for Roving<O> {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.blocks.insert(view, block, size);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        if self.rover.get(view) == Some(block) {
            let next = self.blocks.after(view, block);
            self.rover.set(view, next);
        }
        self.blocks.remove(view, block, size);
    }

    fn replace<P: Probe>(
        &mut self,
        view: &mut View<P>,
        old: (Block, Granules),
        new: (Block, Granules),
    ) {
        if self.rover.get(view) == Some(old.0) {
            self.rover.set(view, Some(new.0));
        }
        self.blocks.replace(view, old, new);
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let rover = self.rover.get(view);
        let found = rover.and_then(|rover| self.blocks.first_fit_from(view, rover, need));
        let found = match found {
            None => self.blocks.first_fit(view, need)?,
            Some(found) => found,
        };
        self.rover.set(view, Some(found));
        Some(found)
    }

    #[inline]
    fn foresee_place(&self, tags: &Tags, block: Block, distance: Distance) {
        self.blocks.foresee_insert(tags, block, distance);
    }

    #[inline]
    fn foresee_remove(&self, tags: &Tags, block: Block) {
        self.blocks.foresee_remove(tags, block);
    }

    fn largest(&self, tags: &Tags) -> Granules {
        self.blocks.largest(tags)
    }

    fn longest_two(&self, tags: &Tags) -> Option<LongestTwo> {
        self.blocks.longest_two(tags)
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        self.rover.check(tags)?;
        self.blocks.check(tags)
    }
}
