//! The mechanism: split, merge, resize, over boundary tags and any index.
//!
//! Invariant: no two neighbours are free, and the index holds exactly the free blocks. Every
//! operation is O(1) but for what the index costs; none of them loops over blocks.
//!
//! Neighbours: `tags` is the layout below, a [`FreeIndex`] makes the choice, [`Policy`] is the
//! contract above.

use super::index::{Census, FreeIndex, LongestTwo};
use super::region::Region;
use super::tags::{Block, Granules, MIN_BLOCK, Tag, Tags, View};
use super::walk::{self, Counts, Tally};
use crate::align::Align;
use crate::check::Broken;
use crate::policy::{BlockInfo, Distance, Inspect, Policy, Totals};
use crate::probe::{Probe, Step};
use core::ptr::NonNull;

/// One region under boundary tags, with immediate merging of both neighbours; `I` chooses, `T` keeps
/// count.
#[derive(Debug)]
pub struct BlockHeap<I, T = Counts> {
    pub(super) tags: Tags,
    pub(super) index: I,
    pub(super) counts: T,
}

/// Where in a free block the used one shall lie.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    /// The free block.
    pub(super) block: Block,
    /// Its length.
    pub(super) size: Granules,
    /// How much of it stays free before the used block: nothing, or at least a smallest block.
    pub(super) gap: Granules,
}

impl<I: FreeIndex> BlockHeap<I> {
    /// As [`Policy::new`], with an index of other parameters than the default's. It holds no block
    /// yet. `None` when the region is too short for a single block.
    pub fn with_index(region: Region, index: I) -> Option<Self> {
        Some(BlockHeap::over(Tags::new(&region)?, index))
    }
}

impl<I: FreeIndex, T: Tally> BlockHeap<I, T> {
    /// As [`BlockHeap::with_index`], of a region that is laid out already: one free block.
    pub(super) fn over(tags: Tags, mut index: I) -> Self {
        let mut view = tags.quiet();
        let (block, size) = (tags.first(), tags.total());
        view.write_free(block, size, false);
        view.mark_prev_free(tags.end(), true);
        index.insert(&mut view, block, size);
        let mut counts = T::default();
        counts.free_in(size);
        BlockHeap { tags, index, counts }
    }
}

impl<I: FreeIndex, T: Tally> Policy for BlockHeap<I, T> {
    fn new(region: Region) -> Option<Self> {
        Some(BlockHeap::over(Tags::new(&region)?, I::default()))
    }

    fn alloc<P: Probe>(&mut self, size: u64, align: Align, probe: &mut P) -> Option<NonNull<u8>> {
        let need = self.index.need_for(size)?;
        let mut view = self.tags.watched(probe);
        let spot = self.find_spot(&mut view, need, size, align)?;
        let block = self.take(&mut view, spot, need);
        Some(self.tags.payload(block))
    }

    unsafe fn free<P: Probe>(&mut self, payload: NonNull<u8>, probe: &mut P) {
        // SAFETY: the caller's promise is the one asked for here.
        let block = unsafe { self.tags.block_of(payload) };
        let mut view = self.tags.watched(probe);
        let tag = view.tag(block);
        debug_assert!(!tag.is_free(), "double free of {block:?}");
        self.release(&mut view, block, tag);
    }

    unsafe fn resize_in_place<P: Probe>(
        &mut self,
        payload: NonNull<u8>,
        size: u64,
        probe: &mut P,
    ) -> bool {
        let Some(need) = Granules::for_request(size) else { return false };
        // SAFETY: the caller's promise is the one asked for here.
        let block = unsafe { self.tags.block_of(payload) };
        let mut view = self.tags.watched(probe);
        let tag = view.tag(block);
        self.move_end(&mut view, block, tag, need)
    }

    unsafe fn usable(&self, payload: NonNull<u8>) -> u64 {
        // SAFETY: the caller's promise is the one asked for here.
        let block = unsafe { self.tags.block_of(payload) };
        self.tags.usable(block)
    }

    #[inline]
    fn foresee_alloc(&self, size: u64, distance: Distance) {
        if distance == Distance::Near {
            return;
        }
        let Some(need) = self.index.need_for(size) else { return };
        let Some(block) = self.index.foresee_find(need) else { return };
        match distance {
            Distance::Far => self.tags.fetch(block),
            Distance::Middle => {
                self.tags.fetch(block.after(need));
                self.tags.fetch(block.after(self.tags.quiet().size(block)));
                self.index.foresee_remove(&self.tags, block);
            }
            Distance::Near => (),
        }
    }

    #[inline]
    unsafe fn foresee_free(&self, payload: NonNull<u8>, distance: Distance) {
        // SAFETY: the caller's promise is the one asked for here.
        let block = unsafe { self.tags.block_of(payload) };
        self.index.foresee_place(&self.tags, block, distance);
        match distance {
            Distance::Far => self.tags.fetch(block),
            Distance::Middle => {
                let (below, size) = self.below(block);
                self.tags.fetch(block.after(size));
                if let Some((below, _)) = below {
                    self.tags.fetch(below);
                }
            }
            Distance::Near => self.foresee_merge(block),
        }
    }
}

/// What is foreseen: reads tags that exist, unwatched, and changes nothing.
impl<I: FreeIndex, T: Tally> BlockHeap<I, T> {
    /// The free block below `block`, if there is one, and the length of `block`.
    #[inline]
    fn below(&self, block: Block) -> (Option<(Block, Granules)>, Granules) {
        let mut view = self.tags.quiet();
        let tag = view.tag(block);
        (tag.is_prev_free().then(|| view.prev_free(block)), tag.size())
    }

    /// Fetches what `release` of `block` will touch beyond the tags of its neighbours.
    #[inline]
    fn foresee_merge(&self, block: Block) {
        let (below, size) = self.below(block);
        let next = block.after(size);
        let next_tag = self.tags.quiet().tag(next);
        let above = next_tag.is_free().then(|| (next, next_tag.size()));
        if let Some((next, size)) = above {
            self.index.foresee_remove(&self.tags, next);
            self.tags.fetch(next.after(size));
        }
        if let Some((below, _)) = below {
            self.index.foresee_remove(&self.tags, below);
        }
        let whole = length_of(below).plus(size).plus(length_of(above));
        self.index.foresee_insert(&self.tags, whole);
    }
}

impl<I: FreeIndex, T: Tally> BlockHeap<I, T> {
    /// A place for `need` granules, for which `requested` bytes were asked.
    #[inline(always)]
    pub(super) fn find_spot<P: Probe>(
        &mut self,
        view: &mut View<P>,
        need: Granules,
        requested: u64,
        align: Align,
    ) -> Option<Spot> {
        if align.bytes() > super::GRANULE {
            return self.find_aligned(view, need, requested, align);
        }
        let block = self.index.find_for(view, need, requested)?;
        Some(Spot { block, size: view.size(block), gap: Granules::default() })
    }

    /// A place for `need` granules whose payload is aligned. Asks the index twice: for a block of
    /// just the length, which may happen to lie well, then for one that is long enough wherever
    /// it lies. (An index that knew of alignments could do better; none of the papers' does.)
    fn find_aligned<P: Probe>(
        &mut self,
        view: &mut View<P>,
        need: Granules,
        requested: u64,
        align: Align,
    ) -> Option<Spot> {
        let block = self.index.find_for(view, need, requested);
        if let Some(spot) = block.and_then(|block| self.spot_in(view, block, need, align)) {
            return Some(spot);
        }
        let slack = u32::try_from(align.bytes() / super::GRANULE + 1).ok()?;
        let ask = need.checked_add(Granules::new(slack))?;
        let block = self.index.find_for(view, ask, requested)?;
        self.spot_in(view, block, need, align)
    }

    /// Where in `block` `need` aligned granules are, if they are in there.
    fn spot_in<P: Probe>(
        &self,
        view: &mut View<P>,
        block: Block,
        need: Granules,
        align: Align,
    ) -> Option<Spot> {
        let size = view.size(block);
        let gap = self.gap_before(block, align)?;
        (gap.checked_add(need)? <= size).then_some(Spot { block, size, gap })
    }

    /// The least gap after which a block in `block` is aligned: none, or a block of its own.
    fn gap_before(&self, block: Block, align: Align) -> Option<Granules> {
        let step = align.bytes() / super::GRANULE;
        let gap = self.tags.address_granule(block).wrapping_neg() & (step - 1);
        let short = gap > 0 && gap < u64::from(MIN_BLOCK.count());
        Some(Granules::new(u32::try_from(if short { gap + step } else { gap }).ok()?))
    }

    /// Cuts the used block out of the free one: up to two remainders stay free.
    pub(super) fn take<P: Probe>(
        &mut self,
        view: &mut View<P>,
        spot: Spot,
        need: Granules,
    ) -> Block {
        let Spot { block, size, gap } = spot;
        let used = block.after(gap);
        let rest = size.minus(gap).minus(need);
        let tail = (rest >= MIN_BLOCK).then(|| (used.after(need), rest));
        let has_gap = gap.count() > 0;
        self.counts.free_out(size);
        if let Some((tail, rest)) = tail {
            view.step(Step::Split);
            view.write_free(tail, rest, false);
            self.counts.free_in(rest);
        } else {
            view.mark_prev_free(block.after(size), false);
        }
        match (tail, has_gap) {
            (None, false) => self.index.remove(view, block, size),
            (Some(tail), false) => self.index.replace(view, (block, size), tail),
            (tail, true) => {
                self.index.remove(view, block, size);
                view.step(Step::Split);
                view.write_free(block, gap, false);
                self.counts.free_in(gap);
                self.index.insert(view, block, gap);
                if let Some((tail, rest)) = tail {
                    self.index.insert(view, tail, rest);
                }
            }
        }
        let taken = if tail.is_some() { need } else { need.plus(rest) };
        view.write_used(used, taken, has_gap);
        self.counts.used_in(self.tags.extent(used.after(taken)));
        used
    }

    /// Makes `block`, used until now, free, and one with its free neighbours.
    ///
    /// The order of the calls keeps what an index remembers of a place (next fit's rover) in the
    /// merged block: the lower neighbour goes, the upper one becomes the whole.
    fn release<P: Probe>(&mut self, view: &mut View<P>, block: Block, tag: Tag) {
        let next = block.after(tag.size());
        let next_tag = view.tag(next);
        let below = tag.is_prev_free().then(|| view.prev_free(block));
        let above = next_tag.is_free().then(|| (next, next_tag.size()));
        let whole = below.map_or(block, |(prev, _)| prev);
        let size = length_of(below).plus(tag.size()).plus(length_of(above));
        self.counts.used_out();
        for (_, size) in [below, above].into_iter().flatten() {
            view.step(Step::Merge);
            self.counts.free_out(size);
        }
        if let (Some((prev, size)), Some(_)) = (below, above) {
            self.index.remove(view, prev, size);
        }
        view.write_free(whole, size, false);
        self.counts.free_in(size);
        if above.is_none() {
            view.mark_prev_free(next, true);
        }
        match above.or(below) {
            Some(old) => self.index.replace(view, old, (whole, size)),
            None => self.index.insert(view, whole, size),
        }
    }

    /// Moves the end of a used block so that it is `need` long, or longer where what is left over
    /// would be no block. `false` when the free block behind it is too short.
    fn move_end<P: Probe>(
        &mut self,
        view: &mut View<P>,
        block: Block,
        tag: Tag,
        need: Granules,
    ) -> bool {
        let size = tag.size();
        let next = block.after(size);
        let next_tag = view.tag(next);
        let above = next_tag.is_free().then(|| (next, next_tag.size()));
        let room = size.plus(length_of(above));
        if need > room {
            return false;
        }
        let taken = if room.minus(need) >= MIN_BLOCK { need } else { room };
        if taken == size {
            return true;
        }
        // The old and the new free block may overlap: one leaves the index before the other enters.
        if let Some((next, size)) = above {
            view.step(Step::Merge);
            self.index.remove(view, next, size);
            self.counts.free_out(size);
        }
        view.write_used(block, taken, tag.is_prev_free());
        let (end, rest) = (block.after(taken), room.minus(taken));
        self.counts.reached(self.tags.extent(end));
        if taken == room {
            view.mark_prev_free(end, false);
            return true;
        }
        view.step(Step::Split);
        view.write_free(end, rest, false);
        self.counts.free_in(rest);
        self.index.insert(view, end, rest);
        if above.is_none() {
            view.mark_prev_free(next, true);
        }
        true
    }
}

/// The length of a neighbour that may not be free, and then adds nothing.
#[inline]
fn length_of(neighbour: Option<(Block, Granules)>) -> Granules {
    neighbour.map_or(Granules::default(), |(_, size)| size)
}

impl<I: FreeIndex, T: Tally> Inspect for BlockHeap<I, T> {
    #[inline]
    fn totals(&self) -> Totals {
        self.counts.totals(&self.tags)
    }

    fn largest_free(&self) -> u64 {
        self.index.largest(&self.tags).bytes()
    }

    /// The free end of the region is a single block, since neighbours merge.
    fn largest_free_inside(&self) -> Option<u64> {
        let totals = self.totals();
        let LongestTwo { first, second } = self.index.longest_two(&self.tags)?;
        let is_the_end = first.bytes() == totals.capacity - totals.extent;
        Some(if is_the_end { second } else { first }.bytes())
    }

    fn for_each_block(&self, visit: impl FnMut(BlockInfo)) {
        walk::for_each_block(&self.tags, visit);
    }

    fn check(&self) -> Result<(), Broken> {
        let free: Census = walk::check(&self.tags, &self.counts, walk::Neighbours::NeverBothFree)?;
        free.expect("the index holds exactly the free blocks", &self.index.check(&self.tags)?)
    }
}
