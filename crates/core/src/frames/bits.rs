//! Free blocks in a word of 64 bits, one a unit (a frame, or a group of frames): a bit is set where the unit is free.
//!
//! A block of order `o` is an aligned run of `2^o` set bits, so splitting and merging are nothing but clearing and setting.
//! A free block here is always a longest one: the run of its twin's place is not all set.

use crate::row::Row;

/// Units of a word.
pub const UNITS: u32 = u64::BITS;
/// The order of a whole word.
pub const WHOLE: u8 = 6;

/// Bits at which blocks of each order may begin.
const ALIGNED: [u64; WHOLE as usize] = [
    u64::MAX,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
];

/// The bits of the block of each order that begins at bit 0. (A table, for without BMI every shift by a variable takes three
/// instructions.)
const RUNS: [u64; WHOLE as usize + 1] = [1, 0b11, 0b1111, 0xFF, 0xFFFF, 0xFFFF_FFFF, u64::MAX];

/// A block of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The bit where it begins.
    pub first: u64,
    /// All of its bits.
    pub all: u64,
}

impl Run {
    /// The block of `order` at bit `at`, which is aligned.
    #[inline(always)]
    pub fn new(at: u32, order: u8) -> Run {
        Run { first: 1 << at, all: run(at, order) }
    }

    /// The number of its first bit.
    #[inline(always)]
    pub fn at(self) -> u32 {
        self.first.trailing_zeros()
    }
}

/// The bits of the block of `order` at bit `at`, which is aligned.
#[inline]
pub fn run(at: u32, order: u8) -> u64 {
    RUNS.at(usize::from(order)) << at
}

/// Whether the place of a block of `order` around bit `at` is all free.
#[inline(always)]
pub fn is_free(free: u64, at: u32, order: u8) -> bool {
    let run = run(at & (u32::MAX << order), order);
    free & run == run
}

/// Of the places where free runs of `order` begin, aligned, those where free runs twice as long do.
#[inline(always)]
fn twice(begins: u64, order: u8) -> u64 {
    begins & begins >> (1_u32 << order) & ALIGNED[usize::from(order) + 1]
}

/// log2 of the units of a byte.
const BYTE: u8 = 3;

/// Where free runs of a byte begin: a carry comes out of a byte that is all ones, and stays in it.
#[inline(always)]
fn bytes(free: u64) -> u64 {
    const TOPS: u64 = ALIGNED[BYTE as usize] << 7;
    (((free & !TOPS) + ALIGNED[BYTE as usize]) & free & TOPS) >> 7
}

/// Where free runs of `order`, at most 5, begin. (Unrolled: shifts by constants.)
#[inline(always)]
fn runs(free: u64, order: u8) -> u64 {
    let (mut begins, from) = if order < BYTE { (free, 0) } else { (bytes(free), BYTE) };
    for shorter in [0, 1, 2, 3, 4] {
        if shorter >= order {
            break;
        }
        if shorter >= from {
            begins = twice(begins, shorter);
        }
    }
    begins
}

/// Whether there is a free run of `order`, at most `top`; of that, only where `fuse` says.
#[inline(always)]
pub fn has(free: u64, order: u8, top: u8, fuse: u64) -> bool {
    let begins = runs(free, order);
    begins & (if order == top { fuse } else { !0 }) != 0
}

/// The order of the largest free block of a word that has any, of orders up to `top`; of that, only where `fuse` says.
#[inline]
pub fn largest(free: u64, top: u8, fuse: u64) -> u8 {
    let (mut begins, mut order) = (free, 0);
    while order < top {
        begins = twice(begins, order);
        if order + 1 == top {
            begins &= fuse;
        }
        if begins == 0 {
            break;
        }
        order += 1;
    }
    order
}

/// The lowest free run of an order below `top`, aligned, whatever block it is in, and whether without it there is one of
/// `listed`, at most `top`, at least that order, still; there is one of that now. (The smallest block that will do
/// costs three times the instructions; the order is a constant for the same reason. Where 2 MiB are asked for, every shift by
/// a variable counts: the run comes out of its first bit.)
#[inline(always)]
pub fn lowest<const ORDER: u8>(free: u64, listed: u8, top: u8, fuse: u64) -> (Run, bool) {
    let begins = runs(free, ORDER);
    let others = begins & begins.wrapping_sub(1);
    let first = begins ^ others;
    let mut left = others;
    for shorter in [0, 1, 2, 3, 4] {
        if shorter >= listed {
            break;
        }
        if shorter >= ORDER && shorter < top {
            left = twice(left, shorter) & if shorter + 1 == top { fuse } else { !0 };
        }
    }
    let all = first.wrapping_mul(RUNS[ORDER as usize]);
    (Run { first, all }, left != 0)
}

/// Where the lowest of the smallest free blocks of at least `order`, at most `top`, begins.
#[inline]
pub fn smallest(free: u64, order: u8, top: u8, fuse: u64) -> Option<u32> {
    let fused = |begins, order| {
        let longer = twice(begins, order);
        if order + 1 == top { longer & fuse } else { longer }
    };
    let mut begins = (0..order.min(top)).fold(free, fused);
    for order in order..top {
        let longer = fused(begins, order);
        let exact = begins & !(longer | longer << (1_u32 << order));
        if exact != 0 {
            return Some(exact.trailing_zeros());
        }
        begins = longer;
    }
    (begins != 0).then(|| begins.trailing_zeros())
}

/// The order of the free block that bit `at` lies in, at least `order` and at most `most`: what that block merges to.
#[inline(always)]
pub fn around(free: u64, at: u32, order: u8, most: u8) -> u8 {
    if order == 0 && free >> (at ^ 1) & 1 == 0 {
        return 0;
    }
    let (mut order, mut len) = (order, 1_u32 << order);
    let mut block = run(at, order);
    while order < most {
        let twin = if at & len == 0 { block << len } else { block >> len };
        if free & twin != twin {
            break;
        }
        block |= twin;
        len *= 2;
        order += 1;
    }
    order
}

/// How many free blocks a word has, as [`largest`] counts them.
pub fn blocks(free: u64, top: u8, fuse: u64) -> u32 {
    let (mut begins, mut count) = (free, 0);
    for order in 0..top {
        let mut longer = twice(begins, order);
        if order + 1 == top {
            longer &= fuse;
        }
        count += (begins & !(longer | longer << (1_u32 << order))).count_ones();
        begins = longer;
    }
    count + begins.count_ones()
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// As of frames.
    const TOP: u8 = WHOLE - 1;

    #[test]
    fn blocks_of_a_word() {
        let free = 0b1111_0000_0010_1100; // one of 4 at 12, two of 1 at 5, one of 2 at 2
        assert_eq!((largest(free, TOP, !0), blocks(free, TOP, !0)), (2, 3));
        assert_eq!(lowest::<0>(free, 2, TOP, !0), (Run::new(2, 0), true));
        assert_eq!(lowest::<1>(free, 2, TOP, !0), (Run::new(2, 1), true));
        assert_eq!(lowest::<2>(free, 2, TOP, !0), (Run::new(12, 2), false));
        assert_eq!(
            (bytes(!0 << 9), bytes(!0 >> 1), Run::new(16, 3).at()),
            (ALIGNED[3] & !0x101, ALIGNED[3] >> 8, 16)
        );
        assert_eq!(
            [0, 1, 2, 3].map(|order| smallest(free, order, TOP, !0)),
            [Some(5), Some(2), Some(12), None]
        );
        assert_eq!([5, 3, 13].map(|at| around(free, at, 0, WHOLE)), [0, 1, 2]);
        assert_eq!(
            (around(!0, 17, 0, WHOLE), around(!0, 17, 0, 4), largest(!0, TOP, !0)),
            (6, 4, 5)
        );
        assert_eq!((run(4, 2), run(0, 6)), (0xF0, !0));
    }

    /// Whether the block of `order` at `at` is free, bit by bit.
    fn is_free(free: u64, at: u32, order: u8) -> bool {
        (at..at + (1 << order)).all(|bit| free >> bit & 1 == 1)
    }

    /// The free blocks, as (place, order), by looking at every bit.
    fn slow(free: u64, top: u8, fuse: u64) -> Vec<(u32, u8)> {
        let (mut at, mut found) = (0_u32, Vec::new());
        while at < 64 {
            let fits = |&order: &u8| {
                let may = order < top || fuse >> at & 1 == 1;
                may && at.is_multiple_of(1 << order) && is_free(free, at, order)
            };
            match (0..=top).rev().find(fits) {
                Some(order) => {
                    found.push((at, order));
                    at += 1 << order;
                }
                None => at += 1,
            }
        }
        found
    }

    /// The lowest free run of an order below `top`, and whether a block of `listed` is left without it.
    fn slow_lowest(free: u64, order: u8, listed: u8, top: u8, fuse: u64) -> (Run, bool) {
        let runs = (0..64_u32).step_by(1 << order);
        let at = runs.clone().find(|&at| is_free(free, at, order)).unwrap_or(64);
        let left = free & !(run(at, order));
        let stays = slow(left, top, fuse).iter().any(|block| block.1 >= listed);
        (Run::new(at, order), stays)
    }

    /// Sparse, and so dense that there are runs.
    fn words(free: u64, more: u64) -> [u64; 4] {
        let long = more | more << 1 | more << 2 | more << 3 | more >> 9;
        [free, free | more, free | more | free.rotate_left(7) | more.rotate_left(3), long | free]
    }

    proptest! {
        #[test]
        fn words_agree_with_looking(free: u64, more: u64, fuse: u64, order in 0..=TOP, top in 4..=TOP) {
            let fuse = if top == TOP { !0 } else { fuse };
            for free in words(free, more) {
                let found = slow(free, top, fuse);
                prop_assert_eq!(blocks(free, top, fuse) as usize, found.len());
                if free != 0 {
                    prop_assert_eq!(Some(largest(free, top, fuse)), found.iter().map(|block| block.1).max());
                }
                let order = order.min(top);
                let best = found.iter().filter(|block| block.1 >= order).min_by_key(|block| (block.1, block.0));
                prop_assert_eq!(smallest(free, order, top, fuse), best.map(|block| block.0));
                if let Some(listed) = found.iter().map(|block| block.1).max() {
                    prop_assert_eq!(lowest::<0>(free, listed, top, fuse), slow_lowest(free, 0, listed, top, fuse));
                    if listed >= 3 {
                        prop_assert_eq!(lowest::<3>(free, listed, top, fuse), slow_lowest(free, 3, listed, top, fuse));
                    }
                }
                for &(at, order) in &found {
                    let most = if order < top && !fuse >> (at & !((1 << top) - 1)) & 1 == 1 { top - 1 } else { top };
                    prop_assert_eq!(around(free, at, 0, most), order);
                }
            }
        }
    }
}
