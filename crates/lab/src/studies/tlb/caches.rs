//! Cache hits beside page misses, on one processor: of which words the caches hold how many.
//!
//! The paper's counters saw every access of the whole run. Table 1 here is driven by one late iteration,
//! in which links and light are gone through once and next to no ray is cast; so the rest of the run is
//! looked at, too, in pieces that are told whole. A piece begins with what another one left in the caches:
//! its hits are understated, never overstated. Words of heap objects are told, loads and stores of stacks
//! are not: those are [counted](super::counted) where asked for, which is like for like.

use super::place::Placed;
use super::tables::PAGES;
use freehold_sim::cache::{ORIGIN_SECOND, R10000_FIRST};
use freehold_sim::processors::{Found, Work, alone};
use freehold_sim::tlb::r10000;
use serde::Serialize;

/// What the paper reports of both levels, at least.
pub const PAPER_HITS: f64 = 0.95;
/// Phases of an iteration that touch recorded words.
const PHASES: [&str; 3] = ["judging links", "gathering", "push and pull"];

/// Some words, and what held them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CacheUse {
    /// Which words.
    pub what: String,
    /// How many.
    pub words: u64,
    /// Share of them that the first level held.
    pub first_hits: f64,
    /// Share of what reached the second level that it held.
    pub second_hits: f64,
    /// Share that one of them held.
    pub either_hits: f64,
    /// TLB misses per 1,000 words, for the page lengths of Table 1; not of what has no placement.
    pub tlb_per_1000: Option<[f64; 2]>,
}

impl CacheUse {
    fn of(what: &str, found: &Found) -> CacheUse {
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let [first, second] = found.caches;
        CacheUse {
            what: what.to_owned(),
            words: found.words,
            first_hits: share(first.hits, first.accesses),
            second_hits: share(second.hits, second.accesses),
            either_hits: share(first.hits + second.hits, first.accesses),
            tlb_per_1000: Some([0, 1].map(|page| 1e3 * share(found.tlb_misses[page], found.words))),
        }
    }

    /// Whether both levels hold what the paper's did, the second of what reaches it.
    pub fn is_as_published(&self) -> bool {
        self.first_hits.min(self.second_hits) > PAPER_HITS
    }

    /// The same, both levels of everything: the paper does not say which it means.
    pub fn is_as_published_of_all(&self) -> bool {
        self.first_hits.min(self.either_hits) > PAPER_HITS
    }

    /// Whether these are all loads and stores of a program, which have no placement here.
    pub fn is_counted(&self) -> bool {
        self.tlb_per_1000.is_none()
    }

    /// Beside the paper's over 95 %, "for both L1 and L2 caches".
    pub fn verdict(&self) -> &'static str {
        match (self.is_as_published(), self.is_as_published_of_all()) {
            (true, _) => "over 95 % in both, as published",
            (false, true) => {
                "over 95 % in both, as published, if the second level's hits are counted of all accesses; of \
                 those that reach it, not"
            }
            (false, false) => "not over 95 % in both, as was published",
        }
    }
}

/// The name of the row of the rest of the run.
pub const REST: &str = "rest of the run";
/// The name of the row of Table 1's words.
pub const WHOLE: &str = "Table 1";

/// The iteration of Table 1, its phases where they can be told apart, and the rest of the run where it was
/// recorded.
pub fn cache_uses(placed: &Placed) -> Vec<CacheUse> {
    let phases = found_in(&placed.work);
    let mut uses = vec![CacheUse::of(WHOLE, &sum(&phases))];
    if phases.len() == PHASES.len() {
        let each = PHASES.iter().zip(&phases);
        uses.extend(each.map(|(name, found)| CacheUse::of(&format!("its {name}"), found)));
    }
    if placed.sample.part_words > 0 {
        uses.push(CacheUse::of(REST, &sum(&found_in(&placed.parts))));
    }
    uses
}

fn found_in(work: &Work) -> Vec<Found> {
    let mut found = alone(work, &PAGES.map(r10000), Some([R10000_FIRST, ORIGIN_SECOND]));
    found.retain(|phase| phase.words > 0);
    found
}

fn sum(phases: &[Found]) -> Found {
    let nothing = Found { tlb_misses: vec![0; PAGES.len()], ..Found::default() };
    phases.iter().fold(nothing, |mut all, phase| {
        all.add(phase);
        all
    })
}
