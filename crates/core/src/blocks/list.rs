//! The free list of the textbooks: all free blocks in the order of their addresses, linked both
//! ways inside the blocks.
//!
//! Taking a block in walks from the lowest one, as the papers' algorithms do: O(free blocks).
//! The fits that use it differ in what they look for, and are the yardstick that the trees are
//! measured against; nobody would ship them.

#![deny(unsafe_code)]

use super::index::Census;
use super::tags::{Block, Granules, Tags, View};
use crate::check::Broken;
use crate::machine::{Probe, Step};

const NEXT: usize = 0;
const PREV: usize = 1;

/// The list; see the module.
#[derive(Debug, Default)]
pub(super) struct AddressList {
    head: Option<Block>,
}

impl AddressList {
    /// The lowest free block.
    pub(super) fn head<P: Probe>(&self, view: &mut View<P>) -> Option<Block> {
        view.step(Step::Index);
        self.head
    }

    /// The free block after `block`.
    pub(super) fn next<P: Probe>(&self, view: &mut View<P>, block: Block) -> Option<Block> {
        view.link(block, NEXT)
    }

    /// The first block from `from` up to, but not at, `until` that holds `need`.
    pub(super) fn first_from<P: Probe>(
        &self,
        view: &mut View<P>,
        from: Option<Block>,
        until: Option<Block>,
        need: Granules,
    ) -> Option<Block> {
        let mut at = from;
        while at != until {
            let block = at?;
            view.step(Step::Inspect);
            if view.size(block) >= need {
                return at;
            }
            at = self.next(view, block);
        }
        None
    }

    /// The lowest block for which `better(its size, the best size so far)`, of those that hold
    /// `need`.
    pub(super) fn best_by<P: Probe>(
        &self,
        view: &mut View<P>,
        need: Granules,
        better: impl Fn(Granules, Granules) -> bool,
    ) -> Option<Block> {
        let mut best: Option<(Block, Granules)> = None;
        let mut at = self.head(view);
        while let Some(block) = at {
            view.step(Step::Inspect);
            let size = view.size(block);
            if size >= need && best.is_none_or(|(_, so_far)| better(size, so_far)) {
                best = Some((block, size));
            }
            at = self.next(view, block);
        }
        best.map(|(block, _)| block)
    }

    /// Takes in `block`, at its place.
    pub(super) fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block) {
        let (mut prev, mut next) = (None, self.head(view));
        while let Some(above) = next.filter(|&next| next < block) {
            prev = next;
            next = self.next(view, above);
        }
        self.put_between(view, block, prev, next);
    }

    /// Forgets `block`; tells which one came after it.
    pub(super) fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block) -> Option<Block> {
        let (prev, next) = (view.link(block, PREV), view.link(block, NEXT));
        self.join(view, prev, next);
        next
    }

    /// Puts `new` where `old` was.
    pub(super) fn replace<P: Probe>(&mut self, view: &mut View<P>, old: Block, new: Block) {
        if old != new {
            let (prev, next) = (view.link(old, PREV), view.link(old, NEXT));
            self.put_between(view, new, prev, next);
        }
    }

    fn put_between<P: Probe>(
        &mut self,
        view: &mut View<P>,
        block: Block,
        prev: Option<Block>,
        next: Option<Block>,
    ) {
        view.set_link(block, PREV, prev);
        view.set_link(block, NEXT, next);
        match prev {
            Some(prev) => view.set_link(prev, NEXT, Some(block)),
            None => self.set_head(view, Some(block)),
        }
        if let Some(next) = next {
            view.set_link(next, PREV, Some(block));
        }
    }

    fn join<P: Probe>(&mut self, view: &mut View<P>, prev: Option<Block>, next: Option<Block>) {
        match prev {
            Some(prev) => view.set_link(prev, NEXT, next),
            None => self.set_head(view, next),
        }
        if let Some(next) = next {
            view.set_link(next, PREV, prev);
        }
    }

    fn set_head<P: Probe>(&mut self, view: &mut View<P>, head: Option<Block>) {
        view.step(Step::Index);
        self.head = head;
    }

    /// The length of the longest block. O(free blocks).
    pub(super) fn largest(&self, tags: &Tags) -> Granules {
        let mut view = tags.quiet();
        let mut largest = Granules::default();
        let mut at = self.head;
        while let Some(block) = at {
            largest = largest.max(view.size(block));
            at = view.link(block, NEXT);
        }
        largest
    }

    /// Walks the list.
    pub(super) fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut view = tags.quiet();
        let mut census = Census::default();
        let (mut at, mut prev) = (self.head, None);
        while let Some(block) = at {
            census.add_indexed(tags, block)?;
            Broken::unless(prev < at, "the list is in the order of addresses", block.tag_at())?;
            let linked = view.link(block, PREV) == prev;
            Broken::unless(linked, "the list links back where it came from", block.tag_at())?;
            prev = at;
            at = view.link(block, NEXT);
        }
        Ok(census)
    }
}
