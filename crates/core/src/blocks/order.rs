//! Free blocks in the order of addresses, whatever holds them: what first fit and next fit ask.
//!
//! Two structures answer: `zones` in O(log n), `list` as the textbooks do. They hold the same blocks
//! and give the same answers; only steps and time differ. Each fit is written once, over either.

#![deny(unsafe_code)]

use super::index::{Census, LongestTwo};
use super::tags::{Block, Granules, Tags, View};
use crate::check::Broken;
use crate::machine::Probe;
use crate::policy::Distance;

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
