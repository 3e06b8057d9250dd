//! What holds for any row of tagged blocks: the walk, its check, the running totals.

use super::index::Census;
use super::tags::{Granules, MIN_BLOCK, Tags};
use crate::check::Broken;
use crate::policy::{BlockInfo, Totals};

/// Running totals, kept by whoever splits and merges; the walk compares them with the blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    free: u64,
    free_blocks: u64,
    used_blocks: u64,
    peak_extent: u64,
}

/// What [`BlockHeap`](super::BlockHeap) tells of every block that comes and goes. Kept as
/// [`Counts`], or by nobody, as `()`: then totals are counted when they are asked for.
pub trait Tally: Default + core::fmt::Debug {
    /// A free block of `size` came to be.
    fn free_in(&mut self, size: Granules);

    /// A free block of `size` ceased to be.
    fn free_out(&mut self, size: Granules);

    /// A used block came to be, ending at `extent`.
    fn used_in(&mut self, extent: u64);

    /// A used block ceased to be.
    fn used_out(&mut self);

    /// A used block ends at `extent`.
    fn reached(&mut self, extent: u64);

    /// The totals as others see them.
    fn totals(&self, tags: &Tags) -> Totals;
}

/// Nobody keeps count: every call is nothing, `totals` walks all blocks, and the peak of the extent
/// is that of now.
impl Tally for () {
    #[inline(always)]
    fn free_in(&mut self, _: Granules) {}

    #[inline(always)]
    fn free_out(&mut self, _: Granules) {}

    #[inline(always)]
    fn used_in(&mut self, _: u64) {}

    #[inline(always)]
    fn used_out(&mut self) {}

    #[inline(always)]
    fn reached(&mut self, _: u64) {}

    fn totals(&self, tags: &Tags) -> Totals {
        let mut totals = Totals { capacity: tags.total().bytes(), ..Totals::default() };
        let start = tags.first().tag_at();
        for_each_block(tags, |block| {
            if block.free {
                totals.free += block.size;
                totals.free_blocks += 1;
            } else {
                totals.used_blocks += 1;
                totals.extent = block.offset + block.size - start;
            }
        });
        totals.peak_extent = totals.extent;
        totals
    }
}

impl Tally for Counts {
    #[inline]
    fn free_in(&mut self, size: Granules) {
        self.free += size.bytes();
        self.free_blocks += 1;
    }

    #[inline]
    fn free_out(&mut self, size: Granules) {
        self.free -= size.bytes();
        self.free_blocks -= 1;
    }

    #[inline]
    fn used_in(&mut self, extent: u64) {
        self.used_blocks += 1;
        self.reached(extent);
    }

    #[inline]
    fn used_out(&mut self) {
        self.used_blocks -= 1;
    }

    #[inline]
    fn reached(&mut self, extent: u64) {
        self.peak_extent = self.peak_extent.max(extent);
    }

    /// Steps back over the free blocks at the end of the region: at most one where neighbours
    /// merge, O(log n) for buddies.
    #[inline]
    fn totals(&self, tags: &Tags) -> Totals {
        let mut view = tags.quiet();
        let mut end = tags.end();
        while view.tag(end).is_prev_free() {
            end = view.prev_free(end).0;
        }
        Totals {
            capacity: tags.total().bytes(),
            free: self.free,
            free_blocks: self.free_blocks,
            used_blocks: self.used_blocks,
            extent: tags.extent(end),
            peak_extent: self.peak_extent,
        }
    }
}

/// Whether two free blocks may lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Neighbours {
    /// Merging is immediate and complete.
    NeverBothFree,
    /// Buddies merge with buddies only.
    MayBothBeFree,
}

/// Every block in the order of addresses.
pub(super) fn for_each_block(tags: &Tags, mut visit: impl FnMut(BlockInfo)) {
    let mut view = tags.quiet();
    let mut block = tags.first();
    while block < tags.end() {
        let tag = view.tag(block);
        let size = tag.size();
        visit(BlockInfo { offset: block.tag_at(), size: size.bytes(), free: tag.is_free() });
        block = block.after(size);
    }
}

/// Walks the region: tags against neighbours, footers and totals. Counts the free blocks.
pub(super) fn check(
    tags: &Tags,
    counts: &impl Tally,
    neighbours: Neighbours,
) -> Result<Census, Broken> {
    let mut view = tags.quiet();
    let mut free = Census::default();
    let mut used = Census::default();
    let mut block = tags.first();
    let mut prev_free = false;
    while block < tags.end() {
        let (tag, at) = (view.tag(block), block.tag_at());
        let size = tag.size();
        Broken::unless(tag.is_plain(), "bits 2 and 3 of a tag are clear", at)?;
        Broken::unless(size >= MIN_BLOCK, "a block is at least 32 B long", at)?;
        let left = tags.end().granule() - block.granule();
        Broken::unless(size.count() <= left, "a block ends inside its region", at)?;
        let said = u64::from(tag.is_prev_free());
        Broken::unless_equal("PREV_FREE tells of the block before", at, prev_free.into(), said)?;
        if tag.is_free() {
            let footer = view.footer(block, size);
            Broken::unless_equal("a footer repeats the size", at, size.bytes(), footer)?;
            let lonely = !prev_free || neighbours == Neighbours::MayBothBeFree;
            Broken::unless(lonely, "two free neighbours are one block", at)?;
            free.add(block, size);
        } else {
            used.add(block, size);
        }
        prev_free = tag.is_free();
        block = block.after(size);
    }
    let (tag, at) = (view.tag(tags.end()), tags.end().tag_at());
    Broken::unless_equal("the sentinel has no length", at, 0, tag.size().bytes())?;
    Broken::unless(!tag.is_free(), "the sentinel is never free", at)?;
    let said = u64::from(tag.is_prev_free());
    Broken::unless_equal("PREV_FREE tells of the block before", at, prev_free.into(), said)?;
    check_counts(tags, counts, &free, &used)?;
    Ok(free)
}

fn check_counts(
    tags: &Tags,
    counts: &impl Tally,
    free: &Census,
    used: &Census,
) -> Result<(), Broken> {
    let totals = counts.totals(tags);
    Broken::unless_equal("the total of free bytes is kept", 0, free.bytes(), totals.free)?;
    Broken::unless_equal("the total of used bytes is kept", 0, used.bytes(), totals.used())?;
    Broken::unless_equal("free blocks are counted", 0, free.blocks(), totals.free_blocks)?;
    Broken::unless_equal("used blocks are counted", 0, used.blocks(), totals.used_blocks)?;
    let grown = totals.extent <= totals.peak_extent;
    Broken::unless(grown, "the peak of the extent is at least the extent", totals.extent)
}
