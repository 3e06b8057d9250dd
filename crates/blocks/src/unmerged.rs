//! A fit that never merges: what a freed block was, it stays, until it is split further.
//!
//! Every request that does not find its exact length leaves a remainder behind, so the free blocks of
//! a program that allocates and frees in turn grow in number without bound, and with them every walk
//! over a list of them. Nobody would ship it. It is the switch "coalescing off" of the study of fits
//! under threads, whose paper (Quintana 2019) does not say whether its program merges.
//!
//! Invariant: tags, footers and index are those of a [`BlockHeap`]; only that two free blocks may lie
//! side by side, so that what is cut out of one keeps telling of the block before it.

use super::heap::BlockHeap;
use super::index::{Census, FreeIndex};
use super::region::Region;
use super::search::{Found, Search, StillIndex};
use super::tags::{Granules, MIN_BLOCK};
use super::walk::{self, Tally};
use crate::align::Align;
use crate::check::Broken;
use crate::policy::{BlockInfo, Inspect, Policy, Totals};
use crate::probe::{Probe, Step};
use core::ptr::NonNull;

/// The blocks of a region, split and never merged, chosen as `H` chooses:
/// `Unmerged<FirstFitList>`.
#[derive(Debug)]
pub struct Unmerged<H>(H);

impl<I: FreeIndex> Policy for Unmerged<BlockHeap<I>> {
    fn new(region: Region) -> Option<Self> {
        BlockHeap::new(region).map(Unmerged)
    }

    #[inline]
    fn alloc<P: Probe>(&mut self, size: u64, align: Align, probe: &mut P) -> Option<NonNull<u8>> {
        let heap = &mut self.0;
        let need = Granules::for_request(size)?;
        let mut view = heap.tags.watched(probe);
        let spot = heap.find_spot(&mut view, need, size, align)?;
        let prev_free = view.tag(spot.block).is_prev_free();
        let block = heap.take(&mut view, spot, need);
        view.mark_prev_free(spot.block, prev_free);
        Some(heap.tags.payload(block))
    }

    #[inline]
    unsafe fn free<P: Probe>(&mut self, payload: NonNull<u8>, probe: &mut P) {
        let heap = &mut self.0;
        // SAFETY: the caller's promise is the one asked for here.
        let block = unsafe { heap.tags.block_of(payload) };
        let mut view = heap.tags.watched(probe);
        let tag = view.tag(block);
        debug_assert!(!tag.is_free(), "double free of {block:?}");
        let size = tag.size();
        view.write_free(block, size, tag.is_prev_free());
        view.mark_prev_free(block.after(size), true);
        heap.counts.used_out();
        heap.counts.free_in(size);
        heap.index.insert(&mut view, block, size);
    }

    /// Shrinks where what is left over is a block; grows only into the rounding.
    unsafe fn resize_in_place<P: Probe>(
        &mut self,
        payload: NonNull<u8>,
        size: u64,
        probe: &mut P,
    ) -> bool {
        let Some(need) = Granules::for_request(size) else { return false };
        let heap = &mut self.0;
        // SAFETY: the caller's promise is the one asked for here.
        let block = unsafe { heap.tags.block_of(payload) };
        let mut view = heap.tags.watched(probe);
        let tag = view.tag(block);
        if need > tag.size() {
            return false;
        }
        let rest = tag.size().minus(need);
        if rest >= MIN_BLOCK {
            view.step(Step::Split);
            let tail = block.after(need);
            view.write_used(block, need, tag.is_prev_free());
            view.write_free(tail, rest, false);
            view.mark_prev_free(tail.after(rest), true);
            heap.counts.free_in(rest);
            heap.index.insert(&mut view, tail, rest);
        }
        true
    }

    unsafe fn usable(&self, payload: NonNull<u8>) -> u64 {
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.0.usable(payload) }
    }
}

impl<I: StillIndex> Search for Unmerged<BlockHeap<I>> {
    #[inline]
    fn search<P: Probe>(&self, size: u64, probe: &mut P) -> Option<Found> {
        self.0.search(size, probe)
    }

    #[inline]
    unsafe fn take_found<P: Probe>(&mut self, found: Found, probe: &mut P) -> NonNull<u8> {
        let heap = &mut self.0;
        let prev_free = heap.tags.quiet().tag(found.block()).is_prev_free();
        // SAFETY: the caller's promise is the one asked for here.
        let payload = unsafe { heap.take_found(found, probe) };
        heap.tags.watched(probe).mark_prev_free(found.block(), prev_free);
        payload
    }
}

impl<I: FreeIndex> Inspect for Unmerged<BlockHeap<I>> {
    /// O(free blocks at the end of the region).
    fn totals(&self) -> Totals {
        self.0.totals()
    }

    fn largest_free(&self) -> u64 {
        self.0.index.largest(&self.0.tags).bytes()
    }

    fn for_each_block(&self, visit: impl FnMut(BlockInfo)) {
        self.0.for_each_block(visit);
    }

    fn check(&self) -> Result<(), Broken> {
        let heap = &self.0;
        let free: Census = walk::check(&heap.tags, &heap.counts, walk::Neighbours::MayBothBeFree)?;
        free.expect("the index holds exactly the free blocks", &heap.index.check(&heap.tags)?)
    }
}
