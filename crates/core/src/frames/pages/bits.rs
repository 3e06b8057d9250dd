//! Free blocks of up to 32 frames in a word of 64 bits, one a frame: a bit is set where the frame is free.
//!
//! A block of order `o` is an aligned run of `2^o` set bits, so splitting and merging are nothing but clearing and setting.
//! A free block here is always a longest one: the run of its twin's place is not all set.

use crate::row::Row;

/// The largest order that begins inside a word without being all of it.
pub const LARGEST: u8 = 5;
/// The order of a whole word.
pub const WHOLE: u8 = LARGEST + 1;

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

/// The bits of the block of `order` at bit `at`, which is aligned.
#[inline]
pub fn run(at: u32, order: u8) -> u64 {
    RUNS.at(usize::from(order)) << at
}

/// Of the places where free runs of `order` begin, aligned, those where free runs twice as long do.
#[inline]
fn twice(begins: u64, order: u8) -> u64 {
    begins & begins >> (1_u32 << order) & ALIGNED[usize::from(order) + 1]
}

/// The order of the largest free block of a word that has any.
#[inline]
pub fn largest(free: u64) -> u8 {
    let (mut begins, mut order) = (free, 0);
    while order < LARGEST {
        begins = twice(begins, order);
        if begins == 0 {
            break;
        }
        order += 1;
    }
    order
}

/// Where the lowest free run of `order` begins, aligned, whatever block it is in; `None` when there is none. (The smallest
/// block that will do costs three times the instructions.)
#[inline]
pub fn lowest(free: u64, order: u8) -> Option<u32> {
    let begins = (0..order.min(LARGEST)).fold(free, twice);
    (begins != 0).then(|| begins.trailing_zeros())
}

/// The order of the free block that bit `at` lies in, at least `order`: what that block merges to. [`WHOLE`] when the word is
/// all free.
#[inline]
pub fn around(free: u64, at: u32, order: u8) -> u8 {
    if order == 0 && free >> (at ^ 1) & 1 == 0 {
        return 0;
    }
    let (mut order, mut len) = (order, 1_u32 << order);
    let mut block = run(at, order);
    while order < WHOLE {
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

/// How many free blocks a word has.
pub fn blocks(free: u64) -> u32 {
    let (mut begins, mut count) = (free, 0);
    for order in 0..LARGEST {
        let longer = twice(begins, order);
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

    #[test]
    fn blocks_of_a_word() {
        let free = 0b1111_0000_0010_1100; // one of 4 at 12, two of 1 at 5, one of 2 at 2
        assert_eq!((largest(free), blocks(free)), (2, 3));
        assert_eq!(
            [0, 1, 2, 3].map(|order| lowest(free, order)),
            [Some(2), Some(2), Some(12), None]
        );
        assert_eq!([5, 3, 13].map(|at| around(free, at, 0)), [0, 1, 2]);
        assert_eq!((around(!0, 17, 0), largest(!0)), (WHOLE, LARGEST));
        assert_eq!((run(4, 2), run(0, 6)), (0xF0, !0));
    }

    /// Whether the block of `order` at `at` is free, bit by bit.
    fn is_free(free: u64, at: u32, order: u8) -> bool {
        (at..at + (1 << order)).all(|bit| free >> bit & 1 == 1)
    }

    /// The free blocks, as (place, order), by looking at every bit.
    fn slow(free: u64) -> Vec<(u32, u8)> {
        let (mut at, mut found) = (0_u32, Vec::new());
        while at < 64 {
            let fits = |&order: &u8| at.is_multiple_of(1 << order) && is_free(free, at, order);
            match (0..=LARGEST).rev().find(fits) {
                Some(order) => {
                    found.push((at, order));
                    at += 1 << order;
                }
                None => at += 1,
            }
        }
        found
    }

    proptest! {
        #[test]
        fn words_agree_with_looking(free: u64, more: u64, order in 0..=LARGEST) {
            for free in [free, free | more, free | more | free.rotate_left(7) | more.rotate_left(3)] {
                let found = slow(free);
                prop_assert_eq!(blocks(free) as usize, found.len());
                prop_assert_eq!(largest(free), found.iter().map(|block| block.1).max().unwrap_or(0));
                let fits = found.iter().find(|block| block.1 >= order);
                prop_assert_eq!(lowest(free, order), fits.map(|block| block.0));
                for &(at, order) in &found {
                    let whole = if free == u64::MAX { WHOLE } else { order };
                    prop_assert_eq!(around(free, at, 0), whole);
                }
            }
        }
    }
}
