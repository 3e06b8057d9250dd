//! The orders that the chapter claims, and whether its own tables and ours keep them.

use super::tables::{Entry, Table};
use crate::studies::class::Class;
use serde::Serialize;

/// The chapter's four, which a claim is about.
const FOUR: [&str; 4] = ["dlmalloc", "tcmalloc", "tlsf", "dmrt"];

/// One claim about one table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// The table.
    pub table: String,
    /// The claim, in words.
    pub claim: &'static str,
    /// In the table as printed; `None` where there is none.
    pub published: Option<bool>,
    /// In ours, where the intervals of all its pairs are apart; undecidable where they are not. No setting was
    /// chosen by a claim.
    pub ours: Class,
}

/// A claim: this one before that one, for every pair, by a metric (less first).
struct Claim {
    text: &'static str,
    metric: &'static str,
    /// The lesser of each pair first.
    pairs: &'static [(&'static str, &'static str)],
    cases: &'static [u32],
}

const ALL: &[u32] = &[1, 2, 3, 4];

const CLAIMS: &[Claim] = &[
    Claim {
        text: "time: TLSF < dlmalloc < DmRT < tcmalloc (ours has no thread caches)",
        metric: "time",
        pairs: &[("tlsf", "dlmalloc"), ("dlmalloc", "dmrt"), ("dmrt", "tcmalloc")],
        cases: &[1],
    },
    Claim {
        text: "time: DmRT is fastest",
        metric: "time",
        pairs: &[("dmrt", "tlsf"), ("dmrt", "dlmalloc"), ("dmrt", "tcmalloc")],
        cases: &[2, 3, 4],
    },
    Claim {
        text: "time: tcmalloc (ours has no thread caches) is slowest",
        metric: "time",
        pairs: &[("tlsf", "tcmalloc"), ("dlmalloc", "tcmalloc"), ("dmrt", "tcmalloc")],
        cases: ALL,
    },
    Claim {
        text: "DmRT satisfies most",
        metric: "satisfied",
        pairs: &[("dlmalloc", "dmrt"), ("tcmalloc", "dmrt"), ("tlsf", "dmrt")],
        cases: ALL,
    },
    Claim {
        text: "dlmalloc satisfies fewest",
        metric: "satisfied",
        pairs: &[("dlmalloc", "tcmalloc"), ("dlmalloc", "tlsf"), ("dlmalloc", "dmrt")],
        cases: ALL,
    },
    Claim {
        text: "DmRT fragments least",
        metric: "external",
        pairs: &[("dmrt", "dlmalloc"), ("dmrt", "tcmalloc"), ("dmrt", "tlsf")],
        cases: ALL,
    },
];

/// Every claim for every table that it is about and that has the four allocators.
pub fn verdicts(tables: &[Table]) -> Vec<Verdict> {
    let complete = |table: &&Table| FOUR.iter().all(|name| table.entry(name).is_some());
    let mut verdicts = Vec::new();
    for claim in CLAIMS {
        for table in tables.iter().filter(complete) {
            if claim.cases.contains(&table.case) {
                verdicts.push(claim.judge(table));
            }
        }
    }
    verdicts
}

/// What became of one claim, over the tables that it is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// The claim, in words.
    pub claim: &'static str,
    /// It holds when it holds in every table.
    pub class: Class,
    /// In how many tables it holds, is undecidable, fails.
    pub ours: [usize; 3],
    /// In how many of the printed tables it holds, and how many there are.
    pub printed: (usize, usize),
    /// The tables in which ours fails.
    pub fails_in: Vec<String>,
}

/// A tally of every claim, in their order.
pub fn tallies(verdicts: &[Verdict]) -> Vec<Tally> {
    let tally = |claim: &'static str| {
        let of_claim = || verdicts.iter().filter(move |verdict| verdict.claim == claim);
        let ours = |class| of_claim().filter(|verdict| verdict.ours == class).count();
        let printed = |holds| of_claim().filter(|verdict| verdict.published == Some(holds)).count();
        let fails = of_claim().filter(|verdict| verdict.ours == Class::Fails);
        Tally {
            claim,
            class: Class::of_all(of_claim().map(|verdict| verdict.ours)),
            ours: [Class::Holds, Class::Undecidable, Class::Fails].map(ours),
            printed: (printed(true), printed(true) + printed(false)),
            fails_in: fails.map(|verdict| verdict.table.clone()).collect(),
        }
    };
    CLAIMS.iter().map(|claim| tally(claim.text)).collect()
}

impl Claim {
    fn judge(&self, table: &Table) -> Verdict {
        let pairs =
            || self.pairs.iter().filter_map(|(a, b)| Some((table.entry(a)?, table.entry(b)?)));
        let ours = pairs().map(|(less, more)| self.ours(less, more));
        let published: Option<Vec<bool>> =
            pairs().map(|(less, more)| self.published(less, more)).collect();
        Verdict {
            table: table.name.clone(),
            claim: self.text,
            published: published.map(|all| all.into_iter().all(|holds| holds)),
            ours: Class::of_all(ours),
        }
    }

    /// Whether the intervals of the two are apart, and which way.
    fn ours(&self, less: &Entry, more: &Entry) -> Class {
        let (less, more) = (less.of(self.metric), more.of(self.metric));
        let apart = more.mean - less.mean;
        // The interval of a difference of two means; of the paired ones here it is, if anything, too wide.
        match less.spread().zip(more.spread()).map(|(less, more)| less.hypot(more)) {
            Some(slack) if apart > slack => Class::Holds,
            Some(slack) if apart < -slack => Class::Fails,
            _ => Class::Undecidable,
        }
    }

    fn published(&self, less: &Entry, more: &Entry) -> Option<bool> {
        let get = super::metrics::metric(self.metric)?.published?;
        Some(get(less.published.as_ref()?) < get(more.published.as_ref()?))
    }
}
