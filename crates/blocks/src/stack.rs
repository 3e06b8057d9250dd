//! A list of free blocks, youngest first (or, of the two at its end, the lower), linked both ways inside the blocks.
//!
//! What good fit keeps per size class and buddies per order. Every operation is O(1).

#![deny(unsafe_code)]

use super::index::{Census, LongestTwo};
use super::tags::{Block, Granules, Tags, View};
use crate::check::Broken;
use crate::probe::{Probe, Step};

const DOWN: usize = 0;
const UP: usize = 1;

/// The list; see the module.
#[derive(Debug, Default)]
pub(super) struct Stack {
    top: Option<Block>,
}

impl Stack {
    /// The youngest block.
    pub(super) fn top(&self) -> Option<Block> {
        self.top
    }

    /// Takes in `block`.
    pub(super) fn push<P: Probe>(&mut self, view: &mut View<P>, block: Block) {
        let old = self.top;
        view.set_link(block, DOWN, old);
        view.set_link(block, UP, None);
        if let Some(old) = old {
            view.set_link(old, UP, Some(block));
        }
        self.set_top(view, Some(block));
    }

    /// Takes in `block`, on top or [lower ones first](Self::push_low).
    pub(super) fn push_as<P: Probe>(&mut self, view: &mut View<P>, block: Block, low: bool) {
        if low { self.push_low(view, block) } else { self.push(view, block) }
    }

    /// Takes in `block`: on top, unless the top one lies lower; then just under it. So the top tends to be the lowest
    /// of its list, and low blocks are used up before high ones, at a comparison's price.
    pub(super) fn push_low<P: Probe>(&mut self, view: &mut View<P>, block: Block) {
        let Some(top) = self.top.filter(|&top| top < block) else { return self.push(view, block) };
        let under = view.link(top, DOWN);
        view.set_link(block, DOWN, under);
        view.set_link(block, UP, Some(top));
        view.set_link(top, DOWN, Some(block));
        if let Some(under) = under {
            view.set_link(under, UP, Some(block));
        }
    }

    /// Whether it holds a single block, and that one ends where the region does.
    pub(super) fn is_the_end_alone<P: Probe>(&self, view: &mut View<P>) -> bool {
        let Some(top) = self.top else { return false };
        view.step(Step::Inspect);
        let end = top.after(view.size(top));
        end == view.tags().end() && view.link(top, DOWN).is_none()
    }

    /// Forgets `block`, wherever in the list it is.
    pub(super) fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block) {
        let (down, up) = (view.link(block, DOWN), view.link(block, UP));
        if let Some(down) = down {
            view.set_link(down, UP, up);
        }
        match up {
            Some(up) => view.set_link(up, DOWN, down),
            None => self.set_top(view, down),
        }
    }

    /// Fetches what [`remove`](Self::remove) of `block` will touch.
    #[inline]
    pub(super) fn foresee_remove(tags: &Tags, block: Block) {
        let mut view = tags.quiet();
        for neighbour in [view.link(block, DOWN), view.link(block, UP)].into_iter().flatten() {
            tags.fetch(neighbour);
        }
    }

    fn set_top<P: Probe>(&mut self, view: &mut View<P>, top: Option<Block>) {
        view.step(Step::Index);
        self.top = top;
    }

    /// The first of the `most` youngest blocks that holds `need`.
    pub(super) fn first_fit<P: Probe>(
        &self,
        view: &mut View<P>,
        need: Granules,
        most: u32,
    ) -> Option<Block> {
        let mut at = self.top;
        for _ in 0..most {
            let block = at?;
            view.step(Step::Inspect);
            if view.size(block) >= need {
                return Some(block);
            }
            at = view.link(block, DOWN);
        }
        None
    }

    /// The longest block, the youngest of several. O(blocks in the list).
    pub(super) fn longest<P: Probe>(&self, view: &mut View<P>) -> Option<(Block, Granules)> {
        let mut best: Option<(Block, Granules)> = None;
        let mut at = self.top;
        while let Some(block) = at {
            view.step(Step::Inspect);
            let size = view.size(block);
            if best.is_none_or(|(_, longest)| size > longest) {
                best = Some((block, size));
            }
            at = view.link(block, DOWN);
        }
        best
    }

    /// The length of the longest block. O(blocks in the list).
    pub(super) fn largest(&self, tags: &Tags) -> Granules {
        let mut two = LongestTwo::default();
        self.add_longest(tags, &mut two);
        two.first
    }

    /// Adds every block. O(blocks in the list).
    pub(super) fn add_longest(&self, tags: &Tags, two: &mut LongestTwo) {
        let mut view = tags.quiet();
        let mut at = self.top;
        while let Some(block) = at {
            two.add(view.size(block));
            at = view.link(block, DOWN);
        }
    }

    /// Walks the list; counts its blocks, each of which must pass `belongs`.
    pub(super) fn check(
        &self,
        tags: &Tags,
        census: &mut Census,
        belongs: impl Fn(Block, Granules) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let mut view = tags.quiet();
        let (mut at, mut above) = (self.top, None);
        while let Some(block) = at {
            census.add_indexed(tags, block)?;
            belongs(block, view.size(block))?;
            let linked = view.link(block, UP) == above;
            Broken::unless(linked, "a list links back where it came from", block.tag_at())?;
            above = at;
            at = view.link(block, DOWN);
        }
        Ok(())
    }
}
