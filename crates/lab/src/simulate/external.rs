//! External fragmentation, sampled: exact where it is taken, taken as often as its price allows.
//!
//! Most policies know their longest blocks; of the others a sample walks all blocks of the region,
//! the one measure here that is not O(log n). Invariant: the moments sampled are evenly spaced and
//! a function of trace and policy alone (no clock decides), and no more blocks are ever walked than
//! sixteen million and one for every event replayed.

use crate::measure::Timeline;
use freehold_blocks::policy::{Policy, Totals};

/// Most samples. With 64, as before, the mean of a run was off by up to 3 points, more than policies differ by.
const MOST: usize = 2048;
/// Blocks that may be walked however few events there are.
const FREE_OF_CHARGE: u64 = 16_000_000;

/// The samples so far. Evenly spaced, 2,048 at most, half as many at least; where a sample would overdraw the budget it is
/// skipped, and only half as many are taken (and kept) from then on.
pub struct External {
    samples: Timeline<f64>,
    walked: u64,
}

impl Default for External {
    fn default() -> Self {
        Self { samples: Timeline::with_most(MOST), walked: 0 }
    }
}

impl External {
    /// Whether a sample is wanted after this many events.
    #[inline]
    pub fn is_due(&self, events: u64) -> bool {
        self.samples.is_due(events)
    }

    /// Takes the sample that is due, or skips it. O(blocks) at most.
    #[cold]
    pub fn sample<P: Policy>(&mut self, policy: &P, totals: &Totals, events: u64) {
        if let Some(largest) = policy.largest_free_inside() {
            return self.samples.push(events, lost(largest, totals));
        }
        let blocks = totals.free_blocks + totals.used_blocks;
        if self.walked + blocks > FREE_OF_CHARGE + events {
            return self.samples.skip(events);
        }
        self.walked += blocks;
        self.samples.push(events, lost(walk(policy, totals), totals));
    }

    /// The mean of all samples and of one after the last event.
    pub fn finish<P: Policy>(self, policy: &P, totals: &Totals, events: u64) -> f64 {
        let largest = policy.largest_free_inside().unwrap_or_else(|| walk(policy, totals));
        let samples = self.samples.finish(events, lost(largest, totals));
        samples.iter().map(|sample| sample.1).sum::<f64>() / samples.len() as f64
    }
}

/// 1 - largest / all, of the free blocks that lie below the end of the last used block: what is
/// beyond nobody has asked for yet.
fn lost(largest: u64, totals: &Totals) -> f64 {
    let all = totals.free - (totals.capacity - totals.extent);
    if all == 0 { 0.0 } else { 1.0 - largest as f64 / all as f64 }
}

/// The longest free block below the end of the last used one, the long way.
fn walk<P: Policy>(policy: &P, totals: &Totals) -> u64 {
    // The extent begins where the first block does, which may be behind a policy's own structures.
    let (mut largest, mut first) = (0, None);
    policy.for_each_block(|block| {
        let start = *first.get_or_insert(block.offset);
        if block.free && block.offset - start < totals.extent {
            largest = largest.max(block.size);
        }
    });
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::memory::Memory;
    use freehold_blocks::Buddy;
    use freehold_blocks::align::Align;
    use freehold_blocks::policy::{Inspect, POLICIES, Visitor, dispatch};

    /// Blocks of 112 bytes, every other one free, the last `longest` long; then the free end.
    /// `None` where that does not fit, as it may not for buddies.
    fn holes<P: Policy>(memory: &mut Memory, blocks: usize, longest: u64) -> Option<P> {
        // SAFETY: the only region of this memory, gone before it.
        let mut policy = P::new(unsafe { memory.region() }.unwrap()).unwrap();
        let align = Align::from_log2(4).unwrap();
        let mut alloc = |size| policy.alloc(size, align, &mut ());
        let mut payloads: Vec<_> = (0..blocks - 2).map_while(|_| alloc(100)).collect();
        payloads.extend([alloc(longest)?, alloc(100)?]);
        for payload in payloads.iter().step_by(2) {
            // SAFETY: just allocated, freed once.
            unsafe { policy.free(*payload, &mut ()) };
        }
        Some(policy)
    }

    #[test]
    fn walks_stay_within_their_budget_and_even() {
        let mut memory = Memory::reserve(1 << 24).unwrap();
        // A policy that does not know its longest block.
        let policy: Buddy = holes(&mut memory, 100_000, 100).unwrap();
        let totals = policy.totals();
        let mut external = External::default();
        for events in 1..=1_000_000 {
            if external.is_due(events) {
                external.sample(&policy, &totals, events);
                assert!(external.walked <= FREE_OF_CHARGE + events);
            }
        }
        assert!(external.walked >= FREE_OF_CHARGE / 2, "{}", external.walked);
        let found = external.finish(&policy, &totals, 1_000_000);
        let exact = 1.0 - 1.0 / 50_000.0;
        assert!((found - exact).abs() < 1e-9, "{found}, not {exact}");
    }

    /// What a policy knows is what a walk finds, with the free end the longest, second, or gone.
    #[test]
    fn known_and_walked_agree() {
        struct Agree(u64, u64);
        impl Visitor for Agree {
            type Out = ();
            fn visit<P: Policy>(self) {
                let mut memory = Memory::reserve(self.0).unwrap();
                let Some(policy): Option<P> = holes(&mut memory, 40, self.1) else { return };
                let (totals, known) = (policy.totals(), policy.largest_free_inside());
                let walked = walk(&policy, &totals);
                assert!(known.is_none_or(|known| known == walked), "{known:?}, not {walked}");
            }
        }
        for policy in POLICIES {
            dispatch(policy.name, Agree(1 << 16, 200)).unwrap();
            dispatch(policy.name, Agree(1 << 16, 40_000)).unwrap();
            dispatch(policy.name, Agree(1 << 16, 30_000)).unwrap();
        }
    }
}
