//! Size classes: 32 of equal width to a doubling, and a bit for each that holds a block.
//!
//! Up to 512 B a class holds one size; above, sizes that differ by less than 1/32.
//!
//! ```text
//!   rows (1 bit each)     ....1.1.
//!                             | +-- sizes [32 B, 64 B)
//!   classes of a row          +---- sizes [128 B, 256 B):  ..1...1 (32 bits)
//! ```
//!
//! Invariant: a row's bit is set when one of its classes' bits is. Neighbours: `good_fit` keeps a
//! list per class, `forest` a tree.

#![deny(unsafe_code)]

use super::region::MAX_REGION;
use super::tags::{Granules, Tags, View};
use crate::check::Broken;
use crate::probe::{Probe, Step};

const COLUMNS_LOG2: u32 = 5;
/// log2 of the smallest block: the first row.
const FIRST_ROW: u32 = 5;

/// Classes of a doubling.
const COLUMNS: usize = 1 << COLUMNS_LOG2;
/// Doublings from the smallest block to the longest.
const ROWS: usize = 31;

const _: () = assert!(1 << FIRST_ROW == super::MIN_BLOCK.bytes());
const _: () = assert!((MAX_REGION.ilog2() - FIRST_ROW + 1) as usize == ROWS);
const _: () = assert!(FIRST_ROW >= COLUMNS_LOG2, "a class is at least a byte wide");

/// A class of sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Class {
    row: usize,
    column: usize,
}

impl Class {
    /// The class of blocks of `size`.
    #[inline]
    pub(super) fn of(size: Granules) -> Class {
        Class::of_bytes(size.bytes())
    }

    #[inline]
    fn of_bytes(bytes: u64) -> Class {
        let log2 = bytes.ilog2();
        let column = (bytes >> (log2 - COLUMNS_LOG2)) as usize % COLUMNS;
        Class { row: (log2 - FIRST_ROW) as usize, column }
    }

    /// The lowest class all of whose blocks hold `need`; `None` when that is beyond all rows.
    #[inline]
    pub(super) fn covering(need: Granules) -> Option<Class> {
        let bytes = need.bytes();
        let width = 1 << (bytes.ilog2() - COLUMNS_LOG2);
        let class = Class::of_bytes(bytes + (width - 1));
        (class.row < ROWS).then_some(class)
    }

    /// The least length of [`covering`](Self::covering)'s blocks: `need` rounded up by less than 1/32.
    pub(super) fn rounded(need: Granules) -> Granules {
        let width = 1 << (need.bytes().ilog2() - COLUMNS_LOG2);
        let granules = need.bytes().next_multiple_of(width).div_ceil(super::GRANULE);
        u32::try_from(granules).map_or(need, Granules::new)
    }

    /// How many there are.
    pub(super) const COUNT: usize = ROWS * COLUMNS;

    /// Its number, from the shortest sizes to the longest.
    pub(super) fn index(self) -> usize {
        self.row * COLUMNS + self.column
    }

    /// The class of that number, which must be less than `COUNT`.
    pub(super) fn from_index(index: usize) -> Class {
        Class { row: index / COLUMNS, column: index % COLUMNS }
    }

    /// Every class, from the shortest sizes to the longest.
    pub(super) fn all() -> impl DoubleEndedIterator<Item = Class> {
        (0..Class::COUNT).map(Class::from_index)
    }
}

/// One `T` per class.
#[derive(Debug)]
pub(super) struct PerClass<T>([[T; COLUMNS]; ROWS]);

impl<T: Default> Default for PerClass<T> {
    fn default() -> Self {
        PerClass(core::array::from_fn(|_| core::array::from_fn(|_| T::default())))
    }
}

impl<T> PerClass<T> {
    /// What `class` has.
    pub(super) fn get(&self, class: Class) -> &T {
        &self.0[class.row][class.column]
    }

    /// What `class` has.
    pub(super) fn get_mut(&mut self, class: Class) -> &mut T {
        &mut self.0[class.row][class.column]
    }
}

/// Which classes hold a block.
#[derive(Debug, Default)]
pub(super) struct Occupied {
    rows: u32,
    columns: [u32; ROWS],
}

impl Occupied {
    /// Says whether `class` holds a block.
    pub(super) fn set<P: Probe>(&mut self, view: &mut View<P>, class: Class, occupied: bool) {
        let Class { row, column } = class;
        view.step(Step::Index);
        let columns = self.columns[row] & !(1 << column) | u32::from(occupied) << column;
        self.columns[row] = columns;
        self.rows = self.rows & !(1 << row) | u32::from(columns != 0) << row;
    }

    /// The lowest occupied class at `class` or above.
    pub(super) fn at_or_above<P: Probe>(&self, view: &mut View<P>, class: Class) -> Option<Class> {
        view.step(Step::Index);
        let here = self.columns[class.row] & (!0 << class.column);
        if here != 0 {
            return Some(Class { row: class.row, column: here.trailing_zeros() as usize });
        }
        self.in_rows(view, self.rows & (!0 << class.row << 1))
    }

    /// As [`at_or_above`](Self::at_or_above), unwatched.
    #[inline]
    pub(super) fn read_at_or_above(&self, class: Class) -> Option<Class> {
        let here = self.columns[class.row] & (!0 << class.column);
        if here != 0 {
            return Some(Class { row: class.row, column: here.trailing_zeros() as usize });
        }
        let row = (self.rows & (!0 << class.row << 1)).trailing_zeros() as usize;
        let columns = *self.columns.get(row)?;
        Some(Class { row, column: columns.trailing_zeros() as usize })
    }

    /// The lowest occupied class above `class`.
    pub(super) fn above<P: Probe>(&self, view: &mut View<P>, class: Class) -> Option<Class> {
        view.step(Step::Index);
        let here = self.columns[class.row] & (!0 << class.column << 1);
        if here != 0 {
            return Some(Class { row: class.row, column: here.trailing_zeros() as usize });
        }
        self.in_rows(view, self.rows & (!0 << class.row << 1))
    }

    /// The lowest occupied class of those rows.
    fn in_rows<P: Probe>(&self, view: &mut View<P>, rows: u32) -> Option<Class> {
        view.step(Step::Index);
        let row = rows.trailing_zeros() as usize;
        let columns = *self.columns.get(row)?;
        Some(Class { row, column: columns.trailing_zeros() as usize })
    }

    /// The highest occupied class below `class`.
    pub(super) fn below<P: Probe>(&self, view: &mut View<P>, class: Class) -> Option<Class> {
        view.step(Step::Index);
        let Class { row, column } = class;
        let here = self.columns[row] & !(!0 << column);
        if let Some(column) = here.checked_ilog2() {
            return Some(Class { row, column: column as usize });
        }
        let row = (self.rows & !(!0 << row)).checked_ilog2()? as usize;
        Some(Class { row, column: self.columns[row].checked_ilog2()? as usize })
    }

    /// The highest occupied class.
    pub(super) fn highest(&self) -> Option<Class> {
        let row = self.rows.checked_ilog2()? as usize;
        Some(Class { row, column: self.columns[row].ilog2() as usize })
    }

    /// Every occupied class, from the highest down. A replay asks for the longest blocks often, and there are 992 classes.
    pub(super) fn downwards(&self, tags: &Tags) -> impl Iterator<Item = Class> {
        let mut view = tags.quiet();
        core::iter::successors(self.highest(), move |&class| self.below(&mut view, class))
    }

    /// `Ok` when what is said of `class` and of its row is true.
    pub(super) fn check(&self, class: Class, occupied: bool) -> Result<(), Broken> {
        let Class { row, column } = class;
        let columns = self.columns[row];
        let what = "a class's bit tells whether the class holds a block";
        Broken::unless_equal(what, 0, occupied.into(), u64::from(columns >> column & 1))?;
        let what = "a row's bit tells whether the row holds a block";
        Broken::unless_equal(what, 0, u64::from(columns != 0), u64::from(self.rows >> row & 1))
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Occupied};
    use crate::Granules;

    fn class(bytes: u32) -> Class {
        Class::of(Granules::new(bytes / 16))
    }

    #[test]
    fn up_to_512_bytes_a_class_is_one_size() {
        let sizes: [u32; 30] = core::array::from_fn(|i| 32 + 16 * i as u32);
        for pair in sizes.windows(2) {
            assert_ne!(class(pair[0]), class(pair[1]));
            assert_eq!(Class::covering(Granules::new(pair[0] / 16)), Some(class(pair[0])));
        }
    }

    #[test]
    fn above_a_request_is_rounded_up_by_less_than_a_class() {
        assert_eq!(class(1024), class(1040));
        assert_ne!(class(1024), class(1056));
        assert_eq!(Class::covering(Granules::new(1040 / 16)), Some(class(1056)));
        assert_eq!(Class::covering(Granules::new(1056 / 16)), Some(class(1056)));
        assert_eq!(Class::covering(Granules::new(u32::MAX)), None);
        for bytes in (32..1 << 20).step_by(16) {
            let rounded = Class::rounded(Granules::new(bytes / 16));
            assert_eq!(Some(Class::of(rounded)), Class::covering(Granules::new(bytes / 16)));
            let bytes = u64::from(bytes);
            assert!(
                rounded.bytes() >= bytes && rounded.bytes() - bytes < bytes / 32 + 16,
                "{bytes}"
            );
        }
        assert_eq!(Class::rounded(Granules::new(u32::MAX)), Granules::new(u32::MAX));
    }

    #[test]
    fn rows_end_where_the_longest_region_does() {
        assert_eq!(Class::of(Granules::new(u32::MAX)), Class { row: 30, column: 31 });
        assert_eq!(Occupied::default().highest(), None);
    }
}
