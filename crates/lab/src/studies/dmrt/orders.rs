//! The orders that the chapter claims, and whether its own tables and ours keep them.

use super::tables::{Entry, Table};
use serde::Serialize;

/// The chapter's four, which a claim is about.
const FOUR: [&str; 4] = ["dlmalloc", "tcmalloc", "tlsf", "dmrt"];

/// Whether a claim holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// It does, and the intervals are apart.
    Yes,
    /// It does not contradict the figures, but neither do the intervals decide it.
    Undecided,
    /// It does not.
    No,
}

/// One claim about one table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// The table.
    pub table: String,
    /// The claim, in words.
    pub claim: &'static str,
    /// In the table as printed; `None` where there is none.
    pub published: Option<bool>,
    /// In ours.
    pub ours: Holds,
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

/// The claims, in the order of [`verdicts`].
pub fn claims() -> impl Iterator<Item = &'static str> {
    CLAIMS.iter().map(|claim| claim.text)
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
            ours: ours.fold(Holds::Yes, worse),
        }
    }

    /// Whether the intervals of the two are apart, and which way.
    fn ours(&self, less: &Entry, more: &Entry) -> Holds {
        let (less, more) = (less.of(self.metric), more.of(self.metric));
        let apart = more.mean - less.mean;
        // The interval of a difference of two means; of the paired ones here it is, if anything, too wide.
        match less.half_width.hypot(more.half_width) {
            slack if apart > slack => Holds::Yes,
            slack if apart < -slack => Holds::No,
            _ => Holds::Undecided,
        }
    }

    fn published(&self, less: &Entry, more: &Entry) -> Option<bool> {
        let get = super::metrics::metric(self.metric)?.published?;
        Some(get(less.published.as_ref()?) < get(more.published.as_ref()?))
    }
}

fn worse(a: Holds, b: Holds) -> Holds {
    match (a, b) {
        (Holds::No, _) | (_, Holds::No) => Holds::No,
        (Holds::Undecided, _) | (_, Holds::Undecided) => Holds::Undecided,
        (Holds::Yes, Holds::Yes) => Holds::Yes,
    }
}
