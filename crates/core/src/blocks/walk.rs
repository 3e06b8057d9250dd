//! What holds for any row of tagged blocks: the walk, its check, the running totals.

use super::index::Census;
use super::tags::{Granules, MIN_BLOCK, Tags};
use crate::check::Broken;
use crate::policy::{BlockInfo, Totals};

/// Running totals, kept by whoever splits and merges; the walk compares them with the blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    free: u64,
    free_blocks: u64,
    used_blocks: u64,
    peak_extent: u64,
}

impl Counts {
    /// A free block of `size` came to be.
    #[inline]
    pub(super) fn free_in(&mut self, size: Granules) {
        self.free += size.bytes();
        self.free_blocks += 1;
    }

    /// A free block of `size` ceased to be.
    #[inline]
    pub(super) fn free_out(&mut self, size: Granules) {
        self.free -= size.bytes();
        self.free_blocks -= 1;
    }

    /// A used block came to be, ending at `extent`.
    #[inline]
    pub(super) fn used_in(&mut self, extent: u64) {
        self.used_blocks += 1;
        self.reached(extent);
    }

    /// A used block ceased to be.
    #[inline]
    pub(super) fn used_out(&mut self) {
        self.used_blocks -= 1;
    }

    /// A used block ends at `extent`.
    #[inline]
    pub(super) fn reached(&mut self, extent: u64) {
        self.peak_extent = self.peak_extent.max(extent);
    }

    /// The totals as others see them. Steps back over the free blocks at the end of the region:
    /// at most one where neighbours merge, O(log n) for buddies.
    #[inline]
    pub(super) fn totals(&self, tags: &Tags) -> Totals {
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
    counts: &Counts,
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

fn check_counts(tags: &Tags, counts: &Counts, free: &Census, used: &Census) -> Result<(), Broken> {
    let totals = counts.totals(tags);
    Broken::unless_equal("the total of free bytes is kept", 0, free.bytes(), totals.free)?;
    Broken::unless_equal("the total of used bytes is kept", 0, used.bytes(), totals.used())?;
    Broken::unless_equal("free blocks are counted", 0, free.blocks(), totals.free_blocks)?;
    Broken::unless_equal("used blocks are counted", 0, used.blocks(), totals.used_blocks)?;
    let grown = totals.extent <= totals.peak_extent;
    Broken::unless(grown, "the peak of the extent is at least the extent", totals.extent)
}
