//! The lists of both C libraries: 32 to a doubling, of the payload's length, youngest block first.
//!
//! The core's lists (`good_fit`) are of the whole block's. The difference is which requests begin a class: with a
//! header of 16 B, blocks for 1,024 B are the least of theirs and are found without rounding, as powers of two should be.

use freehold_blocks::check::Broken;
use freehold_blocks::probe::{Probe, Step};
use freehold_blocks::{Block, Census, FreeIndex, Granules, LongestTwo, Tags, View};

const COLUMNS_LOG2: u32 = 5;
const COLUMNS: usize = 1 << COLUMNS_LOG2;
/// log2 of the least payload.
const FIRST_ROW: u32 = 4;
/// Doublings from the least payload to the longest region.
const ROWS: usize = 32;

const DOWN: usize = 0;
const UP: usize = 1;

/// Lists of free blocks by the length of what follows `HEADER` bytes. 4 KiB.
#[derive(Debug)]
pub struct ByPayload<const HEADER: u64> {
    rows: u64,
    columns: [u32; ROWS],
    heads: [[Option<Block>; COLUMNS]; ROWS],
}

impl<const HEADER: u64> Default for ByPayload<HEADER> {
    fn default() -> Self {
        ByPayload { rows: 0, columns: [0; ROWS], heads: [[None; COLUMNS]; ROWS] }
    }
}

/// Row and column.
type Class = (usize, usize);

/// The class of a payload of that many bytes, 16 at least.
fn class_of(payload: u64) -> Class {
    let log2 = payload.ilog2();
    let column = (payload << COLUMNS_LOG2 >> log2) as usize % COLUMNS;
    ((log2 - FIRST_ROW) as usize, column)
}

impl<const HEADER: u64> ByPayload<HEADER> {
    fn class(size: Granules) -> Class {
        class_of(size.bytes() - HEADER)
    }

    /// The lowest class all of whose blocks hold `need`.
    fn covering(need: Granules) -> Class {
        let payload = need.bytes() - HEADER;
        let width = 1 << payload.ilog2().saturating_sub(COLUMNS_LOG2);
        class_of(payload + width - 1)
    }

    fn head(&mut self, (row, column): Class) -> &mut Option<Block> {
        &mut self.heads[row][column]
    }

    fn mark<P: Probe>(&mut self, view: &mut View<P>, (row, column): Class, holds: bool) {
        view.step(Step::Index);
        self.columns[row] = self.columns[row] & !(1 << column) | u32::from(holds) << column;
        self.rows = self.rows & !(1 << row) | u64::from(self.columns[row] != 0) << row;
    }

    /// The lowest class at `class` or above that holds a block.
    fn at_or_above(&self, (row, column): Class) -> Option<Class> {
        let here = *self.columns.get(row)? & (!0 << column);
        if here != 0 {
            return Some((row, here.trailing_zeros() as usize));
        }
        let row = (self.rows & (!0 << row << 1)).trailing_zeros() as usize;
        Some((row, self.columns.get(row)?.trailing_zeros() as usize))
    }

    /// The lengths of a list's blocks.
    fn lengths<'a>(head: Option<Block>, tags: &'a Tags) -> impl Iterator<Item = Granules> + 'a {
        let mut view = tags.quiet();
        let mut at = head;
        std::iter::from_fn(move || {
            let block = at?;
            at = view.link(block, DOWN);
            Some(view.size(block))
        })
    }
}

// SAFETY: a list links blocks that were inserted and not removed since, and `find` gives one of them.
unsafe impl<const HEADER: u64> FreeIndex for ByPayload<HEADER> {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = Self::class(size);
        let old = self.head(class).replace(block);
        view.set_link(block, DOWN, old);
        view.set_link(block, UP, None);
        if let Some(old) = old {
            view.set_link(old, UP, Some(block));
        }
        self.mark(view, class, true);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let (down, up) = (view.link(block, DOWN), view.link(block, UP));
        if let Some(down) = down {
            view.set_link(down, UP, up);
        }
        if let Some(up) = up {
            return view.set_link(up, DOWN, down);
        }
        let class = Self::class(size);
        *self.head(class) = down;
        if down.is_none() {
            self.mark(view, class, false);
        }
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        view.step(Step::Index);
        let class = self.at_or_above(Self::covering(need))?;
        view.step(Step::Inspect);
        *self.head(class)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        self.longest_two(tags).unwrap_or_default().first
    }

    fn longest_two(&self, tags: &Tags) -> Option<LongestTwo> {
        let mut two = LongestTwo::default();
        for &head in self.heads.iter().rev().flat_map(|row| row.iter().rev()) {
            Self::lengths(head, tags).for_each(|size| two.add(size));
            if two.second > Granules::default() {
                break;
            }
        }
        Some(two)
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        let mut view = tags.quiet();
        for (row, heads) in self.heads.iter().enumerate() {
            let what = "a row's bit tells whether the row holds a block";
            let any = u64::from(self.columns[row] != 0);
            Broken::unless_equal(what, 0, any, self.rows >> row & 1)?;
            for (column, &head) in heads.iter().enumerate() {
                let what = "a class's bit tells whether the class holds a block";
                let said = u64::from(self.columns[row] >> column & 1);
                Broken::unless_equal(what, 0, head.is_some().into(), said)?;
                let (mut at, mut above) = (head, None);
                while let Some(block) = at {
                    census.add_indexed(tags, block)?;
                    let right = Self::class(view.size(block)) == (row, column);
                    Broken::unless(right, "a list holds blocks of its class", block.tag_at())?;
                    let linked = view.link(block, UP) == above;
                    Broken::unless(linked, "a list links back", block.tag_at())?;
                    above = at;
                    at = view.link(block, DOWN);
                }
            }
        }
        Ok(census)
    }
}
