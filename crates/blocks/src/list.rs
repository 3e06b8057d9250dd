//! The free list of the textbooks: all free blocks in the order of their addresses, linked both
//! ways inside the blocks.
//!
//! Taking a block in walks from the lowest one, as the papers' algorithms do: O(free blocks).
//! The fits that use it are the yardstick that the trees are measured against; nobody would ship
//! them. First and next fit stop at the first block that fits ([`AddressOrder`]), best and worst fit
//! look at all of them ([`Scan`]).

#![deny(unsafe_code)]

use super::index::Census;
use super::order::{AddressOrder, Choice};
use super::tags::{Block, Granules, Tags, View};
use crate::check::Broken;
use crate::probe::{Probe, Step};
use core::marker::PhantomData;

const NEXT: usize = 0;
const PREV: usize = 1;

/// The list; see the module.
#[derive(Debug, Default)]
pub struct AddressList {
    head: Option<Block>,
}

impl AddressList {
    /// The lowest free block.
    fn head<P: Probe>(&self, view: &mut View<P>) -> Option<Block> {
        view.step(Step::Index);
        self.head
    }

    /// The free block after `block`.
    fn next<P: Probe>(&self, view: &mut View<P>, block: Block) -> Option<Block> {
        view.link(block, NEXT)
    }

    /// The first block from `from` on that holds `need`.
    fn first_from<P: Probe>(
        &self,
        view: &mut View<P>,
        from: Option<Block>,
        need: Granules,
    ) -> Option<Block> {
        let mut at = from;
        while let Some(block) = at {
            view.step(Step::Inspect);
            if view.size(block) >= need {
                break;
            }
            at = self.next(view, block);
        }
        at
    }

    /// The lowest block for which `better(its size, the best size so far)`, of those that hold
    /// `need`.
    fn best_by<P: Probe>(
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
}

impl AddressOrder for AddressList {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, _: Granules) {
        let (mut prev, mut next) = (None, self.head(view));
        while let Some(above) = next.filter(|&next| next < block) {
            prev = next;
            next = self.next(view, above);
        }
        self.put_between(view, block, prev, next);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, _: Granules) {
        let (prev, next) = (view.link(block, PREV), view.link(block, NEXT));
        self.join(view, prev, next);
    }

    fn replace<P: Probe>(
        &mut self,
        view: &mut View<P>,
        (old, _): (Block, Granules),
        (new, _): (Block, Granules),
    ) {
        if old != new {
            let (prev, next) = (view.link(old, PREV), view.link(old, NEXT));
            self.put_between(view, new, prev, next);
        }
    }

    fn after<P: Probe>(&self, view: &mut View<P>, block: Block) -> Option<Block> {
        self.next(view, block)
    }

    fn first_fit<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let head = self.head(view);
        self.first_from(view, head, need)
    }

    fn first_fit_from<P: Probe>(
        &self,
        view: &mut View<P>,
        from: Block,
        need: Granules,
    ) -> Option<Block> {
        self.first_from(view, Some(from), need)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        let mut view = tags.quiet();
        let longest = self.best_by(&mut view, Granules::default(), |size, longest| size > longest);
        longest.map_or(Granules::default(), |block| view.size(block))
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
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

/// Which of two lengths that both fit a fit would rather have.
pub trait Preference: Default {
    /// Whether `size` is better than `best`, which a lower block has.
    fn is_better(size: Granules, best: Granules) -> bool;
}

/// All blocks are looked at for the best.
#[derive(Debug, Default)]
pub struct Scan<W>(PhantomData<W>);

// SAFETY: what is found was met in the list, and compared with the need.
#[expect(unsafe_code, reason = "a promise about links; no unsafe operation follows")]
unsafe impl<W: Preference> Choice<AddressList> for Scan<W> {
    fn among<P: Probe>(blocks: &AddressList, view: &mut View<P>, need: Granules) -> Option<Block> {
        blocks.best_by(view, need, W::is_better)
    }
}
