//! Units of 64 KiB: which of them a run gets, which node they come from, which are given back.
//!
//! Verbs: [`Units::take`], [`Units::give`] and [`Units::extend`] a run; [`Units::hide_dirty`] and [`Units::purged`] for the
//! purger; [`Units::close`] nodes.
//!
//! ```text
//! table   all regions under one lock: `Units`                  who calls: the rest of the malloc
//! region  one reservation: tags, descriptors, bitmaps, banks    (layout drawn there)
//! index   the banks of a region by how full they are
//! supply  which node the next banks come from
//! bank    2 MiB: thirty-two units, used and dirty bits
//! ```
//!
//! Invariant: every unit is in exactly one of three states, kept by its bank's two bit sets: used;
//! free and clean (reads as zero); free and dirty (its pages may still be resident).

pub mod bank;
pub mod index;
pub mod region;
pub mod supply;
mod table;

pub use table::{Cursor, MAX_REGIONS, Units, Usage};

use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A number of units: never mixed up with one of bytes, which is a plain `usize`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct UnitCount(pub usize);

impl UnitCount {
    /// One.
    pub const ONE: UnitCount = UnitCount(1);
    /// Those of a bank.
    pub const BANK: UnitCount = UnitCount(BANK_UNITS);

    /// The fewest that hold so many bytes.
    pub const fn holding(bytes: usize) -> UnitCount {
        UnitCount(bytes.div_ceil(UNIT))
    }

    /// How many whole ones so many bytes are.
    pub const fn whole_in(bytes: usize) -> UnitCount {
        UnitCount(bytes / UNIT)
    }

    /// Their bytes.
    pub const fn bytes(self) -> usize {
        self.0 * UNIT
    }

    /// The fewest banks that hold them.
    const fn banks(self) -> usize {
        self.0.div_ceil(BANK_UNITS)
    }

    /// How many more than `other`; none if there are fewer.
    pub fn beyond(self, other: UnitCount) -> UnitCount {
        UnitCount(self.0.saturating_sub(other.0))
    }
}

impl Add for UnitCount {
    type Output = UnitCount;

    fn add(self, other: UnitCount) -> UnitCount {
        UnitCount(self.0 + other.0)
    }
}

impl Sub for UnitCount {
    type Output = UnitCount;

    fn sub(self, other: UnitCount) -> UnitCount {
        UnitCount(self.0 - other.0)
    }
}

impl AddAssign for UnitCount {
    fn add_assign(&mut self, other: UnitCount) {
        *self = *self + other;
    }
}

impl SubAssign for UnitCount {
    fn sub_assign(&mut self, other: UnitCount) {
        *self = *self - other;
    }
}

/// How long a run shall be, and at a multiple of what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitLayout {
    /// At least one.
    pub len: UnitCount,
    /// A power of two.
    pub align: UnitCount,
}

impl UnitLayout {
    /// One unit, anywhere.
    pub const ONE: UnitLayout = UnitLayout { len: UnitCount::ONE, align: UnitCount::ONE };

    /// Whether a bank can hold it.
    #[inline(always)]
    const fn fits_bank(self) -> bool {
        self.len.0 <= BANK_UNITS && self.align.0 <= BANK_UNITS
    }
}

/// A unit: what runs are counted in, and the size of a slab; 64 KiB.
pub const UNIT: usize = 64 * 1024;
/// `log2` of [`UNIT`].
pub const UNIT_SHIFT: u32 = UNIT.trailing_zeros();
/// A bank of the malloc: one huge page, 2 MiB.
pub const BANK: usize = 2 * 1024 * 1024;
/// Units in a bank: 32, so that a bank's state is two words of bits.
pub const BANK_UNITS: usize = BANK / UNIT;
