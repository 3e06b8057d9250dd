//! 64 slots that are free or not, and all aligned runs of free ones.
//!
//! A run of 2^r slots begins at a multiple of 2^r. It has the number 2^(6-r) + m, if it is the m-th of its length:
//! a binary tree, numbered from its root on, whose leaves are the slots.
//!
//! ```text
//!   runs   bit  1: all 64 | 2, 3: 32 each | 4 ..  7: 16 | 8 .. 15: 8 | 16 .. 31: 4 | 32 .. 63: 2
//!   free   bit  0 .. 63: the slots, numbers 64 .. 127
//! ```
//!
//! A run's bit is set when all of it is free. So the lowest run of a length is found by a shift and a count of
//! zeros, and the longest run by a count of zeros. What using or freeing a run does to both words is a table
//! ([`RUNS`]) and, for freeing, the nearest slots in use on either side: no loop.

#![deny(unsafe_code)]

use crate::check::Broken;

/// log2 of the number of slots.
pub(super) const SLOTS_LOG2: u32 = 6;

/// 64 slots; see the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slots {
    free: u64,
    runs: u64,
}

/// What a run is made of.
#[derive(Clone, Copy)]
struct Run {
    slots: u64,
    /// Runs of it, itself included.
    inside: u64,
    /// All slots but its own.
    other_slots: u64,
    /// All runs but those that share a slot with it.
    other_runs: u64,
}

/// All runs, by number. 4 KiB.
static RUNS: [Run; 128] = runs();

const fn runs() -> [Run; 128] {
    let mut runs = [Run { slots: 0, inside: 0, other_slots: 0, other_runs: 0 }; 128];
    let mut run = 1;
    while run < 128 {
        runs[run] = run_of(run);
        run += 1;
    }
    runs
}

const fn run_of(run: usize) -> Run {
    let (mut slots, mut inside, mut around, mut other) = (0, 0, 0, 1);
    while other < 128 {
        if is_within(other, run) {
            if other < 64 {
                inside |= 1 << other;
            } else {
                slots |= 1 << (other - 64);
            }
        } else if is_within(run, other) {
            around |= 1 << other;
        }
        other += 1;
    }
    Run { slots, inside, other_slots: !slots, other_runs: !(inside | around) }
}

/// Whether `run` is `outer`, or a part of it.
const fn is_within(run: usize, outer: usize) -> bool {
    let deeper = run.ilog2().wrapping_sub(outer.ilog2());
    deeper <= SLOTS_LOG2 && run >> deeper == outer
}

/// The number of the run of 2^`log2` slots at `slot`.
#[inline(always)]
const fn number(log2: u32, slot: u32) -> usize {
    ((64 | slot) >> log2) as usize
}

impl Slots {
    /// All free.
    pub(super) const WHOLE: Slots = Slots { free: !0, runs: !1 };

    /// As two words.
    #[inline(always)]
    pub(super) const fn words(self) -> [u64; 2] {
        [self.free, self.runs]
    }

    /// What [`words`](Self::words) gave.
    #[inline(always)]
    pub(super) const fn of_words([free, runs]: [u64; 2]) -> Slots {
        Slots { free, runs }
    }

    /// A bit for each slot that is free.
    #[inline(always)]
    pub(super) const fn free(self) -> u64 {
        self.free
    }

    /// Whether all are free.
    #[inline(always)]
    pub(super) const fn is_whole(self) -> bool {
        self.free == !0
    }

    /// Whether the 2^`log2` slots at `slot` are free.
    #[inline(always)]
    pub(super) fn has(self, log2: u32, slot: u32) -> bool {
        let Run { slots, .. } = RUNS[number(log2, slot) % 128];
        self.free & slots == slots
    }

    /// The first slot of the lowest run of 2^`log2`, `log2` less than 6. 64 or more when there is none.
    #[inline(always)]
    pub(super) const fn lowest(self, log2: u32) -> u32 {
        let word = if log2 == 0 { self.free } else { self.runs };
        // The first of them has the number 64 >> log2; that of slots is 0 in their own word.
        word.wrapping_shr(64 >> log2).trailing_zeros() << log2
    }

    /// How often 64 slots are to be halved to be as long as the longest run. Some slot is free.
    #[inline(always)]
    pub(super) const fn halvings(self) -> u32 {
        // No run is no bit: 64, the number of the first slot. Bit 0 is never set: `| 1` changes nothing.
        log2(self.runs.trailing_zeros() | 1)
    }

    /// With the 2^`log2` slots at `slot` in use, which were free.
    #[inline(always)]
    pub(super) fn without(self, log2: u32, slot: u32) -> Slots {
        let Run { other_slots, other_runs, .. } = RUNS[number(log2, slot) % 128];
        Slots { free: self.free & other_slots, runs: self.runs & other_runs }
    }

    /// With the 2^`log2` slots at `slot` free, which were in use; and how often 64 slots are to be halved to be
    /// as long as the longest run that they are part of now. `None` when all are free now.
    #[inline(always)]
    pub(super) fn with(self, log2: u32, slot: u32) -> Option<(Slots, u32)> {
        let Run { slots, inside, .. } = RUNS[number(log2, slot) % 128];
        let free = self.free | slots;
        if free == !0 {
            return None;
        }
        let merged = merged_log2(!free, slot);
        // Of the runs around, those with the number of such a run or a higher one.
        let Run { other_runs, .. } = RUNS[number(0, slot) % 128];
        let around = !other_runs & (!1 << ((64_u32 >> merged) - 1));
        Some((Slots { free, runs: self.runs | inside | around }, SLOTS_LOG2 - merged))
    }

    /// Whether both words say the same, for the node at unit `at`.
    pub(super) fn check(self, at: u64) -> Result<(), Broken> {
        let all_free = |run: &Run| u64::from(self.free & run.slots == run.slots);
        let runs = RUNS.iter().enumerate().take(64).skip(1);
        let runs = runs.fold(0, |bits, (number, run)| bits | (all_free(run) << number));
        Broken::unless_equal("a run is free if all of its slots are", at, runs, self.runs)
    }
}

/// log2 of the longest run around `slot`, which is not in use, while some other is.
///
/// A run of 2^r slots holds two slots if their numbers differ in the lowest r bits only. So it is
/// long enough not to be stopped by the nearest slot in use below, nor by that above.
#[inline(always)]
fn merged_log2(used: u64, slot: u32) -> u32 {
    let below = used & ((1 << slot) - 1);
    // -1 when there is none, which differs in a high bit.
    let below = (below << 1 | 1).ilog2().wrapping_sub(1);
    // 64 when there is none.
    let above = (used & (!0 << slot)).trailing_zeros();
    // `| 1` changes nothing: neither is `slot`.
    log2((slot ^ below).min(slot ^ above) | 1)
}

/// log2 of what is not 0, in a form of which the compiler makes one instruction even where a constant is added.
#[inline(always)]
const fn log2(number: u32) -> u32 {
    31 ^ number.leading_zeros()
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::Slots;
    use std::vec::Vec;

    fn all_free(slots: Slots, log2: u32, slot: u32) -> bool {
        (slot..slot + (1 << log2)).all(|slot| slots.free >> slot & 1 == 1)
    }

    fn lowest_plainly(slots: Slots, log2: u32) -> Option<u32> {
        (0..64).step_by(1 << log2).find(|&slot| all_free(slots, log2, slot))
    }

    #[test]
    fn using_and_freeing_runs_keeps_the_words_true() {
        assert_eq!(Slots::WHOLE.check(0), Ok(()));
        let (mut slots, mut bits) = (Slots::WHOLE, 0x9e37_79b9_7f4a_7c15_u64);
        let mut used: Vec<(u32, u32)> = Vec::new();
        for round in 0..20_000_u32 {
            bits = bits.rotate_left(7).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ u64::from(round);
            let log2 = (bits >> 32) as u32 % 6;
            let is_wanted = bits >> 40 & 7 < 5 - u64::from(round >> 6 & 2);
            let lowest = lowest_plainly(slots, log2);
            if let (true, Some(slot)) = (is_wanted, lowest) {
                assert_eq!(slots.lowest(log2), slot, "{slots:x?} {log2}");
                assert!(slots.has(log2, slot));
                slots = slots.without(log2, slot);
                used.push((log2, slot));
            } else if !used.is_empty() {
                let (log2, slot) = used.swap_remove(bits as usize % used.len());
                let joined = slots.with(log2, slot);
                slots = joined.map_or(Slots::WHOLE, |(slots, _)| slots);
                let longest =
                    (0..=6).rev().find(|&log2| all_free(slots, log2, slot >> log2 << log2));
                let halvings = joined.map_or(0, |(_, halvings)| halvings);
                assert_eq!(longest, Some(6 - halvings), "{slots:x?} {slot}");
            }
            assert_eq!(slots.check(0), Ok(()));
            let longest = (0..=6).rev().find(|&log2| lowest_plainly(slots, log2).is_some());
            match longest {
                Some(longest) => assert_eq!(slots.halvings(), 6 - longest, "{slots:x?}"),
                None => assert_eq!(slots.free(), 0),
            }
            if longest.is_none_or(|longest| longest < log2) {
                assert!(slots.lowest(log2) >= 64, "{slots:x?}");
            }
        }
    }
}
