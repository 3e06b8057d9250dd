//! The banks of one region by how full they are and how long their free runs: finds the one to take from at once.
//!
//! Partly used banks are in lists keyed by (used units, longest free run). Wholly free banks are in
//! a bitmap, which shows neighbours for requests larger than a bank; the lowest is taken
//! first, so that the region stays dense at its front. Full banks are in neither.
//!
//! Invariant: a bank's place is a function of its bits alone, and noted in it; a caller that changes them
//! calls [`Index::remove`] before and [`Index::insert`] after.

use super::{BANK_UNITS, UnitCount, UnitLayout, bank::Bank};
use crate::row::Row;

/// Lists for every (used units, longest free run) and which of them hold anything.
#[repr(C)]
pub struct Index {
    /// Bit `u`: entry `u` of `longest` is not zero.
    levels: u64,
    /// Bit `l` of entry `u`: some bank with `u` used units has a longest free run of `l`.
    longest: [u64; BANK_UNITS],
    /// First bank of each list, as index + 1: the lists of one used unit, then of two, and so on; a bank with `u`
    /// used units has a run of at most `BANK_UNITS - u`.
    first: [u32; LISTS],
}

/// How many lists there are: partly used banks only.
const LISTS: usize = BANK_UNITS * (BANK_UNITS - 1) / 2;

/// Whether banks with `used` units used are listed: those that are partly used.
#[inline(always)]
const fn is_listed(used: UnitCount) -> bool {
    used.0 != 0 && used.0 != BANK_UNITS
}

/// Which list banks with `used` units used and a longest free run of `longest` are in.
#[inline]
fn list_of(UnitCount(used): UnitCount, UnitCount(longest): UnitCount) -> usize {
    (used - 1) * BANK_UNITS - used * (used - 1) / 2 + longest - 1
}

impl Index {
    /// Lists nothing.
    pub const EMPTY: Index = Index { levels: 0, longest: [0; BANK_UNITS], first: [0; LISTS] };

    /// Puts partly used bank `at` where its bits say. O(1).
    #[inline(always)]
    pub fn insert(&mut self, banks: &mut [Bank], at: usize) {
        let used = banks.at(at).used_units();
        if is_listed(used) {
            self.link(banks, at, used);
        }
    }

    fn link(&mut self, banks: &mut [Bank], at: usize, used: UnitCount) {
        let longest = banks.at(at).longest();
        banks.at_mut(at).place.1 = longest.0 as u8;
        let head = self.first.at_mut(list_of(used, longest));
        let next = core::mem::replace(head, at as u32 + 1);
        *self.longest.at_mut(used.0) |= 1 << longest.0;
        self.levels |= 1 << used.0;
        banks.at_mut(at).prev = 0;
        banks.at_mut(at).next = next;
        if let Some(next) = (next as usize).checked_sub(1) {
            banks.at_mut(next).prev = at as u32 + 1;
        }
    }

    /// Takes bank `at` out of the list that it was put into. O(1).
    #[inline(always)]
    pub fn remove(&mut self, banks: &mut [Bank], at: usize) {
        let used = banks.at(at).used_units();
        if is_listed(used) {
            self.unlink(banks, at, used);
        }
    }

    fn unlink(&mut self, banks: &mut [Bank], at: usize, used: UnitCount) {
        let longest = UnitCount(banks.at(at).place.1 as usize);
        let (prev, next) = (banks.at(at).prev, banks.at(at).next);
        if let Some(next) = (next as usize).checked_sub(1) {
            banks.at_mut(next).prev = prev;
        }
        match (prev as usize).checked_sub(1) {
            Some(prev) => banks.at_mut(prev).next = next,
            None => {
                *self.first.at_mut(list_of(used, longest)) = next;
                if next == 0 {
                    *self.longest.at_mut(used.0) &= !(1 << longest.0);
                    if *self.longest.at(used.0) == 0 {
                        self.levels &= !(1 << used.0);
                    }
                }
            }
        }
    }

    /// Whether any bank is listed.
    pub fn any(&self) -> bool {
        self.levels != 0
    }

    /// A partly used bank with a free run of `len` units at a multiple of `align` units. For one unit the fullest, so that
    /// emptier banks become free; for more the one whose longest run is the shortest (best fit), so that long runs stay
    /// whole, and of equals the fullest. O(32) when `align` is 1.
    pub fn find(&self, banks: &[Bank], layout: UnitLayout) -> Option<usize> {
        let UnitLayout { len: UnitCount(len), align } = layout;
        let mut levels = self.levels & (u64::MAX >> (63 - (BANK_UNITS - len)));
        // Which longest runs would be better than that of the best bank so far.
        let (mut best, mut better) = (None, u64::MAX << len);
        while levels != 0 && better != 0 {
            let used = UnitCount(63 - levels.leading_zeros() as usize);
            levels ^= 1 << used.0;
            let mut fits = *self.longest.at(used.0) & better;
            while fits != 0 {
                let longest = UnitCount(fits.trailing_zeros() as usize);
                let at = *self.first.at(list_of(used, longest)) as usize - 1;
                // A run of len + align - 1 always holds an aligned one; shorter ones may be lucky, and the
                // first of their list is asked.
                if align == UnitCount::ONE || banks.at(at).find(layout).is_some() {
                    best = Some(at);
                    better = if len == 1 { 0 } else { better & ((1 << longest.0) - 1) };
                    break;
                }
                fits &= fits - 1;
            }
        }
        best
    }
}

/// The wholly free banks of a region, one bit each.
pub struct FreeBanks<'a> {
    /// Bit `i % 64` of word `i / 64` from the end: bank `i` is wholly free. The last words are used most, and
    /// lie beside the index.
    pub words: &'a mut [u64],
}

impl FreeBanks<'_> {
    /// Whether bank `at` is wholly free.
    #[inline]
    pub fn has(&self, at: usize) -> bool {
        *self.words.at(self.place(at)) >> (at % 64) & 1 != 0
    }

    /// Which word has the bit of bank `at`.
    #[inline]
    fn place(&self, at: usize) -> usize {
        self.words.len() - 1 - at / 64
    }

    /// Records whether bank `at` is wholly free.
    #[inline]
    pub fn set(&mut self, at: usize, free: bool) {
        let bit = 1 << (at % 64);
        let word = self.words.at_mut(self.words.len() - 1 - at / 64);
        if free {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }

    /// The lowest `len` neighbouring free banks below `end` whose first satisfies `align` (in
    /// banks, relative to `bias` banks before the first). O(banks / 64) for `len` 1.
    pub fn find(&self, len: usize, align: usize, bias: usize, end: usize) -> Option<usize> {
        let mut at = 0;
        while let Some(start) = self.next(at, end, true) {
            let first = (start + bias).next_multiple_of(align) - bias;
            let stop = self.next(start, end, false).unwrap_or(end);
            if first + len <= stop {
                return Some(first);
            }
            at = stop;
        }
        None
    }

    /// The first bank from `at` below `end` that is free, or that is not.
    fn next(&self, mut at: usize, end: usize, free: bool) -> Option<usize> {
        let flip = if free { 0 } else { u64::MAX };
        while at < end {
            let bits = (*self.words.at(self.place(at)) ^ flip) >> (at % 64);
            if bits != 0 {
                at += bits.trailing_zeros() as usize;
                return (at < end).then_some(at);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(len: usize, align: usize) -> UnitLayout {
        UnitLayout { len: UnitCount(len), align: UnitCount(align) }
    }

    #[test]
    fn every_partly_used_bank_has_a_list() {
        let lists = (1..BANK_UNITS)
            .flat_map(|u| (1..=BANK_UNITS - u).map(move |l| list_of(UnitCount(u), UnitCount(l))));
        assert!(lists.eq(0..LISTS));
    }

    #[test]
    fn a_unit_is_of_the_fullest_bank_and_a_run_of_the_tightest() {
        let mut index = Index::EMPTY;
        let mut banks = [Bank::default(); 6];
        banks[0].used = 0xFFFF; // 16 used, run of 16
        banks[1].used = 0xFFFF_FF00; // 24 used, run of 8
        banks[2].used = 0xFFFF_FFFE; // 31 used, run of 1
        banks[3].used = 0x5555_5555; // 16 used, longest run 1
        banks[4].used = 0x0000_000F; // 4 used, run of 28
        banks[5].used = 0xF0F0_F0F8; // 17 used, longest run 4
        for at in 0..6 {
            banks[at].place.0 = banks[at].used.count_ones() as u8;
            index.insert(&mut banks, at);
        }
        assert_eq!(index.find(&banks, layout(1, 1)), Some(2));
        assert_eq!(index.find(&banks, layout(2, 1)), Some(5));
        assert_eq!(index.find(&banks, layout(5, 1)), Some(1));
        assert_eq!(index.find(&banks, layout(9, 1)), Some(0));
        assert_eq!(index.find(&banks, layout(17, 1)), Some(4));
        assert_eq!(index.find(&banks, layout(29, 1)), None);
        index.remove(&mut banks, 2);
        assert_eq!(index.find(&banks, layout(1, 1)), Some(1));
        index.remove(&mut banks, 1);
        assert_eq!(index.find(&banks, layout(5, 1)), Some(0));
        assert_eq!(index.find(&banks, layout(1, 1)), Some(5));
        index.remove(&mut banks, 5);
        assert_eq!(index.find(&banks, layout(1, 1)), Some(3));
        assert_eq!(index.find(&banks, layout(16, 16)), Some(0));
    }

    #[test]
    fn a_bank_whose_run_lies_wrong_is_passed_over() {
        let mut index = Index::EMPTY;
        let mut banks = [Bank::default(); 2];
        banks[0].used = 0xFFFF_FE01; // 24 used, run of 8 from 1
        banks[1].used = 0x0000_FFFF; // 16 used, run of 16 from 16
        for at in 0..2 {
            banks[at].place.0 = banks[at].used.count_ones() as u8;
            index.insert(&mut banks, at);
        }
        assert_eq!(index.find(&banks, layout(8, 1)), Some(0));
        assert_eq!(index.find(&banks, layout(8, 8)), Some(1));
    }

    #[test]
    fn neighbours_are_found_lowest_first() {
        let mut words = [0u64; 3];
        let mut free = FreeBanks { words: &mut words };
        for at in [3, 4, 62, 63, 64, 65, 66, 130] {
            free.set(at, true);
        }
        assert_eq!(free.find(1, 1, 0, 192), Some(3));
        assert_eq!(free.find(2, 1, 0, 192), Some(3));
        assert_eq!(free.find(3, 1, 0, 192), Some(62));
        assert_eq!(free.find(5, 1, 0, 192), Some(62));
        assert_eq!(free.find(6, 1, 0, 192), None);
        assert_eq!(free.find(2, 2, 1, 192), Some(3));
        assert_eq!(free.find(2, 4, 0, 192), Some(64));
        assert_eq!(free.find(3, 1, 0, 64), None);
        free.set(3, false);
        assert_eq!(free.find(2, 1, 0, 192), Some(62));
        assert!(free.has(130) && !free.has(3));
    }
}
