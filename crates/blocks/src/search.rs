//! Choosing now, taking later: for a heap whose threads search together and take one at a time.
//!
//! A fit whose choice changes nothing in its index can be asked through a shared reference, by many
//! threads at once, as long as nobody writes (`heap::sharing::reader_writer`). First, best and worst
//! fit are such; next fit moves its rover, and the lists of DmRT reorder nothing but are asked twice.

use super::heap::{BlockHeap, Spot};
use super::index::FreeIndex;
use super::tags::{Block, Granules, View};
use super::walk::Tally;
use crate::policy::Policy;
use crate::probe::Probe;
use core::ptr::NonNull;

/// An index that chooses without changing.
///
/// # Safety
/// As [`FreeIndex`]: what `search` gives is in the index and as long as was asked.
pub unsafe trait StillIndex: FreeIndex {
    /// The very block that [`FreeIndex::find`] would give.
    fn search<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<Block>;
}

/// What a search found: a block that was free at that time.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    block: Block,
    need: Granules,
}

impl Found {
    /// Which block.
    pub(super) fn block(self) -> Block {
        self.block
    }
}

/// A policy whose `alloc` can be cut in two: the search, which changes nothing, and the taking.
pub trait Search: Policy {
    /// What [`Policy::alloc`] of `size` bytes, at no alignment above 16, would take; `None` where it
    /// would find nothing. Costs what the choice costs.
    fn search<P: Probe>(&self, size: u64, probe: &mut P) -> Option<Found>;

    /// Takes what was found. O(1) but for what the index costs.
    ///
    /// # Safety
    /// `found` came from this policy's `search`, and the policy has not changed since.
    unsafe fn take_found<P: Probe>(&mut self, found: Found, probe: &mut P) -> NonNull<u8>;
}

impl<I: StillIndex, T: Tally> Search for BlockHeap<I, T> {
    #[inline]
    fn search<P: Probe>(&self, size: u64, probe: &mut P) -> Option<Found> {
        let need = Granules::for_request(size)?;
        let mut view = self.tags.watched(probe);
        let block = self.index.search(&mut view, need)?;
        Some(Found { block, need })
    }

    #[inline]
    unsafe fn take_found<P: Probe>(&mut self, found: Found, probe: &mut P) -> NonNull<u8> {
        // The block is in the index still, by the caller's promise.
        let mut view = self.tags.watched(probe);
        let size = view.size(found.block);
        let spot = Spot { block: found.block, size, gap: Granules::default() };
        let block = self.take(&mut view, spot, found.need);
        self.tags.payload(block)
    }
}
