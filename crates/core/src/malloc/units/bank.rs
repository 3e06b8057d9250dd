//! One bank: 2 MiB, thirty-two units, two sets of bits.
//!
//! Invariant: `dirty` says which *free* units may hold resident pages; a used unit's bit is
//! 0 until it is freed, which sets it. Pure data: this file touches no memory of blocks.

use super::{BANK_UNITS, UnitCount, UnitLayout};
use crate::place::Home;
use crate::row::Row;
use core::sync::atomic::{Ordering, compiler_fence};

/// The state of one bank. All-zero is a bank that is free and clean.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Bank {
    /// Bit `i`: unit `i` is handed out.
    pub used: u32,
    /// Bit `i`: free unit `i` may have resident pages, and then does not read as zero.
    pub dirty: u32,
    /// The purger's tick at which a unit of this bank was last freed.
    pub freed_at: u32,
    /// Next bank in the index's list, as index + 1; 0 ends it.
    pub next: u32,
    /// Previous bank in the index's list, as index + 1; 0 for the first.
    pub prev: u32,
    /// Which of the index's lists that is: how many units are used (kept by [`Bank::take`] and [`Bank::give`]), and the
    /// longest free run when it was listed.
    pub place: (u8, u8),
    /// The machine was advised to use a huge page here.
    pub huge: bool,
    /// The node that pages shall come from; where they lie is the machine's knowledge.
    pub node: Home,
}

/// The bits of `len` units starting at `first`.
#[inline]
pub const fn mask(first: usize, len: UnitCount) -> u32 {
    debug_assert!(first + len.0 <= BANK_UNITS && len.0 > 0);
    (u32::MAX >> (BANK_UNITS - len.0)) << first
}

/// The positions at which `len` ones begin in `bits`: bit `i` of the answer is set when bits
/// `i .. i + len` all are. O(log len).
#[inline]
const fn starts(mut bits: u32, UnitCount(len): UnitCount) -> u32 {
    let mut have = 1;
    while have < len {
        let step = if have < len - have { have } else { len - have };
        bits &= bits >> step;
        have += step;
    }
    bits
}

impl Bank {
    /// How many units are handed out.
    #[inline]
    pub fn used_units(&self) -> UnitCount {
        UnitCount(self.place.0 as usize)
    }

    /// How many are free and may have resident pages.
    pub fn dirty_units(&self) -> UnitCount {
        UnitCount(self.dirty.count_ones() as usize)
    }

    /// Whether nothing of it is in use or resident.
    pub fn is_clean(&self) -> bool {
        self.used | self.dirty == 0
    }

    /// The length of the longest run of free units, 0 to 32: binary search over the places at which runs of 16, 8, ... begin.
    #[inline]
    pub fn longest(&self) -> UnitCount {
        if self.used == 0 {
            return UnitCount::BANK;
        }
        let one = !self.used;
        let two = one & (one >> 1);
        let four = two & (two >> 2);
        let eight = four & (four >> 4);
        let sixteen = eight & (eight >> 8);
        let (mut bits, mut len) = (u32::MAX, 0);
        for (step, runs) in [(16, sixteen), (8, eight), (4, four), (2, two), (1, one)] {
            let longer = bits & (runs >> len);
            if longer != 0 {
                (bits, len) = (longer, len + step);
            }
        }
        UnitCount(len as usize)
    }

    /// The first unit of a free run of `len` units at a multiple of `align` units (a power of two
    /// up to 32): the lowest that is all dirty, hence resident already, else the lowest.
    pub fn find(&self, UnitLayout { len, align }: UnitLayout) -> Option<usize> {
        const ALIGNED: [u32; 6] = [!0, 0x5555_5555, 0x1111_1111, 0x0101_0101, 0x0001_0001, 1];
        let aligned = *ALIGNED.at(align.0.trailing_zeros() as usize);
        let dirty = starts(self.dirty & !self.used, len) & aligned;
        let found = if dirty != 0 { dirty } else { starts(!self.used, len) & aligned };
        (found != 0).then_some(found.trailing_zeros() as usize)
    }

    /// Hands out `len` units from `first`; how many of them were dirty: where none was, they read as zero.
    #[inline(always)]
    pub fn take(&mut self, first: usize, len: UnitCount) -> UnitCount {
        let taken = mask(first, len);
        debug_assert_eq!(self.used & taken, 0, "units handed out twice");
        self.used |= taken;
        // A fork may stop the thread between any two stores: units that are free and dirty are never called clean.
        compiler_fence(Ordering::Release);
        self.place.0 += len.0 as u8;
        let dirty = self.dirty & taken;
        self.dirty &= !taken;
        // What is taken is of one kind nearly always, and counting bits takes long without an instruction for it.
        match dirty {
            0 => UnitCount(0),
            _ if dirty == taken => len,
            _ => UnitCount(dirty.count_ones() as usize),
        }
    }

    /// Takes `len` units back; they are dirty unless `clean`.
    #[inline(always)]
    pub fn give(&mut self, first: usize, len: UnitCount, clean: bool) {
        let given = mask(first, len);
        debug_assert_eq!(self.used & given, given, "units given back that are free");
        if !clean {
            self.dirty |= given;
        }
        // As in `take`.
        compiler_fence(Ordering::Release);
        self.used &= !given;
        self.place.0 -= len.0 as u8;
    }

    /// In a forked child, of a bank that another thread may have been changing: what follows from the used bits.
    pub fn mend(&mut self) {
        self.dirty &= !self.used;
        self.place.0 = self.used.count_ones() as u8;
    }

    /// The lowest run of dirty free units, as (first, len).
    pub fn first_dirty(&self) -> Option<(usize, UnitCount)> {
        let bits = self.dirty & !self.used;
        if bits == 0 {
            return None;
        }
        let first = bits.trailing_zeros();
        let len = (!(bits >> first)).trailing_zeros().min(32 - first);
        Some((first as usize, UnitCount(len as usize)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(len: usize, align: usize) -> UnitLayout {
        UnitLayout { len: UnitCount(len), align: UnitCount(align) }
    }

    #[test]
    fn a_bank_finds_the_lowest_run() {
        let bank = Bank { used: 0b1100_0101, ..Bank::default() };
        assert_eq!(bank.find(layout(1, 1)), Some(1));
        assert_eq!(bank.find(layout(2, 1)), Some(3));
        assert_eq!(bank.find(layout(3, 1)), Some(3));
        assert_eq!(bank.find(layout(4, 1)), Some(8));
        assert_eq!(bank.find(layout(2, 2)), Some(4));
        assert_eq!(bank.find(layout(24, 8)), Some(8));
        assert_eq!(bank.find(layout(25, 1)), None);
        assert_eq!(bank.longest(), UnitCount(24));
        let bank = Bank { dirty: 0b1110_0000_0000, ..bank };
        assert_eq!(bank.find(layout(3, 1)), Some(9));
        assert_eq!(bank.find(layout(4, 1)), Some(8));
    }

    #[test]
    fn freed_units_are_dirty_until_taken() {
        let mut bank = Bank::default();
        let [one, two, three, four] = [1, 2, 3, 4].map(UnitCount);
        assert_eq!(bank.take(0, four), UnitCount(0));
        bank.give(1, two, false);
        assert_eq!(bank.first_dirty(), Some((1, two)));
        assert_eq!(bank.take(1, one), one);
        assert_eq!((bank.first_dirty(), bank.used_units()), (Some((2, one)), three));
        bank.give(0, two, true);
        assert_eq!(bank.first_dirty(), Some((2, one)));
        assert_eq!((bank.take(0, three), bank.used_units()), (one, four));
    }

    proptest! {
        #[test]
        fn find_agrees_with_looking(used: u32, len in 1usize..=32, shift in 0u32..6) {
            let (bank, align) = (Bank { used, ..Bank::default() }, 1 << shift);
            let slow = (0..=32 - len).step_by(align).find(|&at| used & mask(at, UnitCount(len)) == 0);
            prop_assert_eq!(bank.find(layout(len, align)), slow);
            let longest = (1..=32).rev().find(|&len| bank.find(layout(len, 1)).is_some()).unwrap_or(0);
            prop_assert_eq!(bank.longest(), UnitCount(longest));
        }
    }
}
