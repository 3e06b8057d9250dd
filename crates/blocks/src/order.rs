//! Free blocks in the order of addresses, whatever holds them: what first fit and next fit ask.
//!
//! Two structures answer: `zones` in O(log n), `list` as the textbooks do. They hold the same blocks
//! and give the same answers; only steps and time differ. Each fit is written once, over either.

#![deny(unsafe_code)]

use super::index::{Census, FreeIndex, LongestTwo};
use super::search::StillIndex;
use super::tags::{Block, Granules, Tags, View};
use crate::check::Broken;
use crate::policy::Distance;
use crate::probe::Probe;
use core::marker::PhantomData;

/// The free blocks by address. `Default` holds none. The heap calls, through a fit, and what
/// [`FreeIndex`](super::FreeIndex) says of the calls of the same names holds here.
pub trait AddressOrder: Default {
    /// Takes in `block`.
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules);

    /// Forgets `block`.
    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules);

    /// Puts `new` where `old` was.
    fn replace<P: Probe>(
        &mut self,
        view: &mut View<P>,
        old: (Block, Granules),
        new: (Block, Granules),
    );

    /// The block that follows `block`.
    fn after<P: Probe>(&self, view: &mut View<P>, block: Block) -> Option<Block>;

    /// The lowest block that holds `need`.
    fn first_fit<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<Block>;

    /// The lowest block that holds `need`, of `from`, which is one of them, and those above it.
    fn first_fit_from<P: Probe>(
        &self,
        view: &mut View<P>,
        from: Block,
        need: Granules,
    ) -> Option<Block>;

    /// A hint: `insert` of what is now used and begins at `block` comes soon.
    fn foresee_insert(&self, _tags: &Tags, _block: Block, _distance: Distance) {}

    /// A hint: `remove` of `block` comes soon.
    fn foresee_remove(&self, _tags: &Tags, _block: Block) {}

    /// The length of the longest block, zero when there is none.
    fn largest(&self, tags: &Tags) -> Granules;

    /// The lengths of the two longest blocks, where that takes no walk over all of them.
    fn longest_two(&self, _tags: &Tags) -> Option<LongestTwo> {
        None
    }

    /// Walks the structure, and counts every block it holds.
    fn check(&self, tags: &Tags) -> Result<Census, Broken>;
}

/// Which of the blocks of an order is taken, by a rule that remembers nothing.
///
/// # Safety
/// What `among` gives is in the order, and holds `need`.
#[expect(unsafe_code, reason = "a promise to be made; no unsafe operation follows")]
pub unsafe trait Choice<O>: Default {
    /// The block for `need`; `None` where none holds it.
    fn among<P: Probe>(blocks: &O, view: &mut View<P>, need: Granules) -> Option<Block>;
}

/// The free blocks by address, of which `C` chooses.
#[derive(Debug, Default)]
pub struct Chosen<O, C>(O, PhantomData<C>);

// SAFETY: orders hold blocks inserted and not removed since, and `C` vouches for what it chooses.
#[expect(unsafe_code, reason = "a promise about links; no unsafe operation follows")]
unsafe impl<O: AddressOrder, C: Choice<O>> FreeIndex for Chosen<O, C> {
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
unsafe impl<O: AddressOrder, C: Choice<O>> StillIndex for Chosen<O, C> {
    fn search<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<Block> {
        C::among(&self.0, view, need)
    }
}
