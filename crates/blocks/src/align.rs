//! Newtypes that every layer shares, with named conversions.
//!
//! A bare integer crosses a public boundary of the core only where it is a count of bytes (`u64`,
//! named `size`, `len` or `offset`); everything else has a type here or beside its owner.

use core::fmt;

/// An alignment: a power of two of bytes, from 1 B to 2^63 B.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Align(u8);

impl Align {
    /// No demand: any address will do. Every block is 16-aligned anyway.
    pub const ONE: Align = Align(0);

    /// The alignment of `bytes`, or `None` unless `bytes` is a power of two.
    pub const fn from_bytes(bytes: u64) -> Option<Align> {
        if bytes.is_power_of_two() { Some(Align(bytes.trailing_zeros() as u8)) } else { None }
    }

    /// The alignment of 2^`log2` bytes, or `None` when `log2` is above 63.
    pub const fn from_log2(log2: u8) -> Option<Align> {
        if log2 < 64 { Some(Align(log2)) } else { None }
    }

    /// In bytes: a power of two.
    pub const fn bytes(self) -> u64 {
        1 << self.0
    }

    /// The power: `bytes() == 1 << log2()`.
    pub const fn log2(self) -> u8 {
        self.0
    }
}

impl fmt::Debug for Align {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "align {}", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::Align;

    #[test]
    fn only_powers_of_two_are_alignments() {
        assert_eq!(Align::from_bytes(0), None);
        assert_eq!(Align::from_bytes(24), None);
        assert_eq!(Align::from_bytes(1), Some(Align::ONE));
        assert_eq!(Align::from_bytes(1 << 63).map(Align::log2), Some(63));
        assert_eq!(Align::from_log2(64), None);
        assert_eq!(Align::from_log2(12).map(Align::bytes), Some(4096));
    }
}
