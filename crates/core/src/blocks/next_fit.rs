//! Next fit: first fit that goes on where the last search ended.
//!
//! A *rover* remembers a free block; the search begins there and, at the end of the region, goes
//! on from its beginning. The rover stays with what is left of the block it last found; when its
//! block is used up or merged away, with the next free one, or with the whole it became part of.
//! Knuth, The Art of Computer Programming 1, section 2.5, exercise 6.

#![deny(unsafe_code)]

use super::heap::BlockHeap;
use super::index::{Census, FreeIndex};
use super::list::AddressList;
use super::tags::{Block, Granules, Tags, View};
use super::tree::{ByAddress, Treap};
use crate::check::Broken;
use crate::machine::{Probe, Step};

/// Next fit in O(log n).
pub type NextFit = BlockHeap<NextTree>;

/// Next fit, walking the list as the books do. Chooses what [`NextFit`] chooses.
pub type NextFitList = BlockHeap<NextList>;

/// The free blocks in a tree by address, and the rover.
#[derive(Debug, Default)]
pub struct NextTree {
    tree: Treap<ByAddress>,
    rover: Rover,
}

/// The free blocks in a list by address, and the rover.
#[derive(Debug, Default)]
pub struct NextList {
    list: AddressList,
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

impl FreeIndex for NextTree {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.tree.insert(view, block, size);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, _: Granules) {
        if self.rover.get(view) == Some(block) {
            let next = self.tree.after(view, block);
            self.rover.set(view, next);
        }
        self.tree.remove(view, block);
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
        self.tree.replace(view, old, new);
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let found = match self.rover.get(view) {
            Some(rover) => self
                .tree
                .first_fit_from(view, rover, need)
                .or_else(|| self.tree.first_fit(view, need)),
            None => self.tree.first_fit(view, need),
        }?;
        self.rover.set(view, Some(found));
        Some(found)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        self.tree.largest(tags)
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        self.rover.check(tags)?;
        let mut census = Census::default();
        self.tree.check(tags, &mut census, |_| true)?;
        Ok(census)
    }
}

impl FreeIndex for NextList {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, _: Granules) {
        self.list.insert(view, block);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, _: Granules) {
        let next = self.list.remove(view, block);
        if self.rover.get(view) == Some(block) {
            self.rover.set(view, next);
        }
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
        self.list.replace(view, old.0, new.0);
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let rover = self.rover.get(view);
        let head = self.list.head(view);
        let found = match self.list.first_from(view, rover, None, need) {
            None => self.list.first_from(view, head, rover, need),
            found => found,
        }?;
        self.rover.set(view, Some(found));
        Some(found)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        self.list.largest(tags)
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        self.rover.check(tags)?;
        self.list.check(tags)
    }
}
