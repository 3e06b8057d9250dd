//! Good fit: two-level segregated lists.
//!
//! Sizes are cut into doublings and every doubling into 32 classes of equal width; each class has
//! a list of its free blocks, youngest first, and a bit that says whether the list is empty. A
//! request is rounded up to the next class, so that *any* block of that class or a higher one
//! fits: the head of the first list that is not empty is taken, unseen. Every operation is a few
//! instructions, whatever the region holds. The price: of the class that `need` itself falls in,
//! blocks are not considered, although some may fit.
//!
//! Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory allocator for real-time systems",
//! ECRTS 2004.
//!
//! ```text
//!   rows (1 bit each)     ....1.1.
//!                             | +-- sizes [32 B, 64 B)
//!   classes of a row          +---- sizes [128 B, 256 B):  ..1...1 (32 bits) -> heads -> lists
//! ```

#![deny(unsafe_code)]

use super::heap::BlockHeap;
use super::index::{Census, FreeIndex};
use super::region::MAX_REGION;
use super::tags::{Block, Granules, Tags, View};
use crate::check::Broken;
use crate::machine::{Probe, Step};

/// Good fit over boundary tags.
pub type GoodFit = BlockHeap<SizeLists>;

const CLASSES_LOG2: u32 = 5;
const CLASSES: usize = 1 << CLASSES_LOG2;
/// log2 of the smallest block: the first row.
const FIRST_ROW: u32 = 5;
const ROWS: usize = 31;

const _: () = assert!(1 << FIRST_ROW == super::MIN_BLOCK.bytes());
const _: () = assert!((MAX_REGION.ilog2() - FIRST_ROW + 1) as usize == ROWS);
const _: () = assert!(FIRST_ROW >= CLASSES_LOG2, "a class is at least a byte wide");

const NEXT: usize = 0;
const PREV: usize = 1;

/// The lists of good fit, by size class. 4 KiB.
#[derive(Debug)]
pub struct SizeLists {
    /// Bit `row`: some class of the row is not empty.
    rows: u32,
    /// Bit `class` of each row: that list is not empty.
    classes: [u32; ROWS],
    heads: [[Option<Block>; CLASSES]; ROWS],
}

impl Default for SizeLists {
    fn default() -> Self {
        SizeLists { rows: 0, classes: [0; ROWS], heads: [[None; CLASSES]; ROWS] }
    }
}

/// A class of sizes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Class {
    row: usize,
    column: usize,
}

impl Class {
    /// The class that blocks of `size` are in.
    fn of(size: Granules) -> Class {
        Class::of_bytes(size.bytes())
    }

    fn of_bytes(bytes: u64) -> Class {
        let log2 = bytes.ilog2();
        let column = (bytes >> (log2 - CLASSES_LOG2)) as usize % CLASSES;
        Class { row: (log2 - FIRST_ROW) as usize, column }
    }

    /// The lowest class all of whose blocks hold `need`; `None` when that is beyond all rows.
    fn covering(need: Granules) -> Option<Class> {
        let bytes = need.bytes();
        let width = 1 << (bytes.ilog2() - CLASSES_LOG2);
        let class = Class::of_bytes(bytes + (width - 1));
        (class.row < ROWS).then_some(class)
    }
}

impl SizeLists {
    fn head(&self, class: Class) -> Option<Block> {
        self.heads[class.row][class.column]
    }

    /// Sets the head of a list and the two bits that tell of it.
    fn set_head<P: Probe>(&mut self, view: &mut View<P>, class: Class, head: Option<Block>) {
        let Class { row, column } = class;
        view.step(Step::Index);
        self.heads[row][column] = head;
        self.classes[row] =
            self.classes[row] & !(1 << column) | u32::from(head.is_some()) << column;
        self.rows = self.rows & !(1 << row) | u32::from(self.classes[row] != 0) << row;
    }

    /// The first list at `class` or above that is not empty.
    fn first_at_or_above<P: Probe>(&self, view: &mut View<P>, class: Class) -> Option<Class> {
        view.step(Step::Index);
        let here = self.classes[class.row] & (!0 << class.column);
        if here != 0 {
            return Some(Class { row: class.row, column: here.trailing_zeros() as usize });
        }
        view.step(Step::Index);
        let above = self.rows & (!0 << class.row << 1);
        if above == 0 {
            return None;
        }
        let row = above.trailing_zeros() as usize;
        Some(Class { row, column: self.classes[row].trailing_zeros() as usize })
    }
}

impl FreeIndex for SizeLists {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = Class::of(size);
        let old = self.head(class);
        view.set_link(block, NEXT, old);
        view.set_link(block, PREV, None);
        if let Some(old) = old {
            view.set_link(old, PREV, Some(block));
        }
        self.set_head(view, class, Some(block));
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let next = view.link(block, NEXT);
        let prev = view.link(block, PREV);
        if let Some(next) = next {
            view.set_link(next, PREV, prev);
        }
        match prev {
            Some(prev) => view.set_link(prev, NEXT, next),
            None => self.set_head(view, Class::of(size), next),
        }
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let class = self.first_at_or_above(view, Class::covering(need)?)?;
        view.step(Step::Inspect);
        self.head(class)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        let Some(row) = self.rows.checked_ilog2() else { return Granules::default() };
        let row = row as usize;
        let column = self.classes[row].ilog2() as usize;
        let mut view = tags.quiet();
        let mut largest = Granules::default();
        let mut at = self.heads[row][column];
        while let Some(block) = at {
            largest = largest.max(view.size(block));
            at = view.link(block, NEXT);
        }
        largest
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        for row in 0..ROWS {
            let bits = self.classes[row];
            let said = self.rows >> row & 1;
            let what = "a row's bit tells whether the row is empty";
            Broken::unless_equal(what, 0, u64::from(bits != 0), said.into())?;
            for column in 0..CLASSES {
                let head = self.heads[row][column];
                let what = "a list's bit tells whether the list is empty";
                let said = bits >> column & 1;
                Broken::unless_equal(what, 0, u64::from(head.is_some()), said.into())?;
                check_list(tags, Class { row, column }, head, &mut census)?;
            }
        }
        Ok(census)
    }
}

fn check_list(
    tags: &Tags,
    class: Class,
    head: Option<Block>,
    census: &mut Census,
) -> Result<(), Broken> {
    let mut view = tags.quiet();
    let (mut at, mut prev) = (head, None);
    while let Some(block) = at {
        census.add_indexed(tags, block)?;
        let right = Class::of(view.size(block)) == class;
        Broken::unless(right, "a list holds blocks of its size class", block.tag_at())?;
        let linked = view.link(block, PREV) == prev;
        Broken::unless(linked, "a list links back where it came from", block.tag_at())?;
        prev = at;
        at = view.link(block, NEXT);
    }
    Ok(())
}
