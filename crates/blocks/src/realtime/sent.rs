//! The inbox: which places other threads have freed, as bits with a summary above them.
//!
//! ```text
//!   top       1 word        a bit for each word of level 1 that may not be zero
//!   level 1   64 words      a bit for each word of level 0 that may not be zero
//!   level 0   4,096 words   a bit for each place
//! ```
//!
//! A free from another thread sets the place's bit and then the bits above it: at most one atomic
//! operation a level, no loop that another thread can prolong, no link inside the block. So the
//! sender is wait-free, a block sent twice shows at once (its bit is set already), and a thread that
//! is stopped in the middle delays nobody else's blocks. The owner takes out the lowest place: a walk
//! down, and for words that become zero a walk up.
//!
//! Invariant, whenever no call is under way: the bit above a word that is not zero is set. (One above
//! a zero word is a detour, not an error.) The owner clears the bit *above* a word that it emptied, and
//! then looks at the word again by a read-modify-write: a sender that comes later in that word's
//! order has seen the bit above cleared, and sets it; one that came earlier is seen, and the owner
//! sets it. Proved by loom (`tests/realtime_loom.rs`).

use crate::sync::{AtomicU64, Ordering};
use core::ptr::NonNull;

const WORD: u32 = 64;
const WORD_LOG2: u32 = 6;

/// The most levels, the top included: places are `u32`s.
pub const LEVELS: usize = 6;

/// The bits; see the module. `Copy`, as it is a view of memory that somebody else owns.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Where each level's words begin; above the top level, where the top's one word is.
    starts: [NonNull<AtomicU64>; LEVELS],
    levels: usize,
    top: NonNull<AtomicU64>,
}

// SAFETY: the words are atomics; whoever makes a `Sent` says that they live.
unsafe impl Send for Sent {}
// SAFETY: as above; every operation may be called from any thread, one at a time as owner.
unsafe impl Sync for Sent {}

impl Sent {
    /// How many words the bits of `places` take, on all levels but the top.
    pub const fn words(places: u32) -> u32 {
        let (mut sum, mut words) = (0, places.div_ceil(WORD));
        loop {
            sum += words;
            if words <= WORD {
                return sum;
            }
            words = words.div_ceil(WORD);
        }
    }

    /// Nothing sent. `top` is the one word of the top level, which [`Sent::words`] does not count: it
    /// may lie where an owner looks anyway. O(places).
    ///
    /// # Safety
    /// `top` and the [`Sent::words`] words at `words` are nobody else's for as long as this or a copy
    /// of it is used.
    pub unsafe fn new(top: NonNull<AtomicU64>, words: NonNull<AtomicU64>, places: u32) -> Sent {
        let count = Sent::words(places) as usize;
        for word in 0..count {
            // SAFETY: the caller's words.
            unsafe { words.add(word).write(AtomicU64::new(0)) };
        }
        // SAFETY: the caller's word.
        unsafe { top.write(AtomicU64::new(0)) };
        let (mut starts, mut levels, mut start) = ([top; LEVELS], 0, 0);
        let mut level_words = places.div_ceil(WORD);
        while start < count {
            // SAFETY: inside the caller's words.
            starts[levels] = unsafe { words.add(start) };
            levels += 1;
            start += level_words as usize;
            level_words = level_words.div_ceil(WORD);
        }
        Sent { starts, levels: levels + 1, top }
    }

    #[inline(always)]
    fn word(&self, level: usize, index: u32) -> &AtomicU64 {
        // SAFETY: indices come from places below the number of places, by the callers' promise, and
        // from bits that such places have set; `new` has initialised all words.
        unsafe { self.starts[level % LEVELS].add(index as usize).as_ref() }
    }

    /// Whether nothing was in it a moment ago. One load.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        // SAFETY: a word that `new` has initialised.
        unsafe { self.top.as_ref() }.load(Ordering::Relaxed) == 0
    }

    /// Which of the 64 places from `64 * index` on were sent and have not been taken out.
    ///
    /// # Safety
    /// The first of them is less than the number of places.
    #[inline(always)]
    pub unsafe fn leaf(&self, index: u64) -> u64 {
        // SAFETY: a word of level 0, which `new` has initialised.
        unsafe { self.starts[0].add(index as usize).as_ref() }.load(Ordering::Relaxed)
    }

    /// Puts `place` in; `false` when it is in there already. Any thread. Wait-free: at most one
    /// atomic operation and one load a level.
    ///
    /// # Safety
    /// `place` is less than the number of places.
    #[inline]
    pub unsafe fn send(&self, place: u32) -> bool {
        let bit = 1 << (place % WORD);
        // Release pairs with the Acquire in `first`: the owner sees what the sender did before.
        // Acquire: what the owner cleared above before it looked at this word is seen as cleared.
        if self.word(0, place / WORD).fetch_or(bit, Ordering::AcqRel) & bit != 0 {
            return false;
        }
        let mut index = place / WORD;
        for level in 1..self.levels {
            let bit = 1 << (index % WORD);
            index /= WORD;
            let word = self.word(level, index);
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::AcqRel);
            }
        }
        true
    }

    /// The lowest place in it, left there. For the owner. At most one load a level where no summary
    /// lies; one that does is repaired, and `None` the answer for now.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        let mut index = 0;
        for level in (0..self.levels).rev() {
            let word = self.word(level, index).load(Ordering::Acquire);
            if word == 0 {
                self.tidy(level, index);
                return None;
            }
            index = index << WORD_LOG2 | word.trailing_zeros();
        }
        Some(index)
    }

    /// Takes `place` out, which is in there. For the owner.
    ///
    /// # Safety
    /// `place` is less than the number of places.
    #[inline]
    pub unsafe fn take(&self, place: u32) {
        let bit = 1 << (place % WORD);
        if self.word(0, place / WORD).fetch_and(!bit, Ordering::AcqRel) == bit {
            self.tidy(0, place / WORD);
        }
    }

    /// The word of that level has been seen to be zero: says so above, as far up as words become zero.
    fn tidy(&self, level: usize, mut index: u32) {
        for above in level + 1..self.levels {
            let below = self.word(above - 1, index);
            let bit = 1 << (index % WORD);
            index /= WORD;
            let word = self.word(above, index);
            let left = word.fetch_and(!bit, Ordering::AcqRel) & !bit;
            // A read-modify-write, so that it has a place in the word's order (see the module).
            if below.fetch_or(0, Ordering::AcqRel) != 0 {
                word.fetch_or(bit, Ordering::AcqRel);
                return;
            }
            if left != 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    const PLACES: u32 = 3 * 64 * 64 + 5;

    /// Runs `work` with an inbox of two levels below the top.
    fn with_sent(work: impl FnOnce(&Sent)) {
        let mut top = AtomicU64::new(0);
        let words = || AtomicU64::new(0);
        let mut below: Vec<_> =
            std::iter::repeat_with(words).take(Sent::words(PLACES) as usize).collect();
        let (top, below) = (NonNull::from(&mut top), NonNull::from(&mut below[..]).cast());
        // SAFETY: both live until the end, used by nothing else.
        work(&unsafe { Sent::new(top, below, PLACES) });
    }

    #[test]
    fn places_come_out_lowest_first_and_leave_no_bit_above_them() {
        with_sent(|sent| {
            // In one word, in two words of one, and below each bit of the top.
            let places = [0, 63, 64, 4_095, 4_096, 5_000, PLACES - 1];
            for place in places.into_iter().rev() {
                // SAFETY: a place.
                assert!(unsafe { sent.send(place) && !sent.send(place) });
            }
            for place in places {
                assert_eq!(sent.first(), Some(place), "at the first look");
                // SAFETY: as above.
                unsafe { sent.take(place) };
            }
            assert!(sent.first().is_none() && sent.is_empty());
        });
    }
}
