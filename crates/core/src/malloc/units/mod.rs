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

/// How long a run shall be, and at a multiple of what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitLayout {
    /// Units, at least one.
    pub len: usize,
    /// Units, a power of two.
    pub align: usize,
}

impl UnitLayout {
    /// One unit, anywhere.
    pub const ONE: UnitLayout = UnitLayout { len: 1, align: 1 };

    /// Whether a bank can hold it.
    #[inline(always)]
    const fn fits_bank(self) -> bool {
        self.len <= BANK_UNITS && self.align <= BANK_UNITS
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
