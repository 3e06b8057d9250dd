//! The same work on one processor, before any number of TLBs at once.
//!
//! On one processor nothing depends on time: tasks come in their order, whatever they cost. So one pass
//! over the words serves all TLBs, and the caches beside them.

use super::{Op, Work};
use crate::cache::{CacheSpec, Caches, Hits};
use crate::tlb::{Tlb, TlbSpec};

/// What one phase found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Words touched.
    pub words: u64,
    /// Misses of each TLB.
    pub tlb_misses: Vec<u64>,
    /// Hits of the two cache levels; none where no caches were asked for.
    pub caches: [Hits; 2],
}

impl Found {
    /// Adds what another phase found before the same TLBs.
    pub fn add(&mut self, other: &Found) {
        self.words += other.words;
        self.tlb_misses.resize(other.tlb_misses.len(), 0);
        self.tlb_misses.iter_mut().zip(&other.tlb_misses).for_each(|(sum, more)| *sum += more);
        self.caches.iter_mut().zip(other.caches).for_each(|(sum, more)| sum.add(more));
    }
}

/// Runs the work on one processor; what each phase found. TLBs and caches keep from phase to phase what
/// they hold. O(words x the TLBs' ways).
pub fn alone(work: &Work, tlbs: &[TlbSpec], caches: Option<[CacheSpec; 2]>) -> Vec<Found> {
    let mut processor = Alone {
        tlbs: tlbs.iter().map(|spec| Tlb::new(spec, 0)).collect(),
        caches: caches.map(|[first, second]| Caches::new(first, second)),
    };
    let mut first = 0;
    let phases = work.phase_ends.iter().map(|&end| {
        let ops = work.phase(first..end);
        first = end;
        processor.phase(&work.ops[ops])
    });
    phases.collect()
}

struct Alone {
    tlbs: Vec<Tlb>,
    caches: Option<Caches>,
}

impl Alone {
    fn phase(&mut self, ops: &[Op]) -> Found {
        let misses: Vec<u64> = self.tlbs.iter().map(|tlb| tlb.misses).collect();
        let before = self.caches.as_ref().map_or_else(Default::default, |caches| caches.hits);
        let mut words_touched = 0;
        for op in ops {
            let Op::Touch { address, words } = *op else { continue };
            words_touched += u64::from(words);
            for tlb in &mut self.tlbs {
                tlb.touch(address, words);
            }
            if let Some(caches) = &mut self.caches {
                caches.touch(address, words);
            }
        }
        let after = self.caches.as_ref().map_or_else(Default::default, |caches| caches.hits);
        let since = |at: usize| Hits {
            accesses: after[at].accesses - before[at].accesses,
            hits: after[at].hits - before[at].hits,
        };
        let now = self.tlbs.iter().zip(misses).map(|(tlb, before)| tlb.misses - before);
        Found { words: words_touched, tlb_misses: now.collect(), caches: [since(0), since(1)] }
    }
}
