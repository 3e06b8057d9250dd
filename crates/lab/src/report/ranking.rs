//! The two tables that rank: allocators by what was measured, policies by what was simulated.
//!
//! The same columns serve the page and the terminal, so that both say the same.

use super::html::Cell;
use crate::answer::choice::{self, Interval};
use crate::human;
use crate::results::{Causes, Held, Kind, Moment, Outcome, Paged};

/// A column: its head, how a cell is written, and what of it is compared (lower is better).
struct Column {
    head: &'static str,
    show: fn(&Outcome) -> String,
    value: fn(&Outcome) -> Option<f64>,
    /// Whether the page draws a bar under the cells.
    bar: bool,
    /// Of a figure that is measured: how its runs lay apart. Then the best is only who is apart from all others.
    runs: Option<fn(&Outcome) -> Option<Interval>>,
}

/// A column of words and numbers.
const fn told(
    head: &'static str,
    show: fn(&Outcome) -> String,
    value: fn(&Outcome) -> Option<f64>,
) -> Column {
    Column { head, show, value, bar: false, runs: None }
}

/// One under whose cells the page draws a bar.
const fn drawn(
    head: &'static str,
    show: fn(&Outcome) -> String,
    value: fn(&Outcome) -> Option<f64>,
) -> Column {
    Column { head, show, value, bar: true, runs: None }
}

/// One whose figures are measured.
const fn measured(column: Column, runs: fn(&Outcome) -> Option<Interval>) -> Column {
    Column { runs: Some(runs), ..column }
}

/// Ranked by both.
const PEAK_MEMORY: Column =
    drawn("peak memory", |o| human::bytes(o.peak_memory), |o| Some(o.peak_memory as f64));

const ALLOCATORS: &[Column] = &[
    measured(drawn("time", |o| or_dash(o.seconds, human::seconds), |o| o.seconds), choice::time),
    measured(PEAK_MEMORY, choice::memory),
    told(
        "± runs",
        |o| {
            or_dash(o.spread.filter(|s| s.runs > 1), |s| {
                human::percent(
                    (s.seconds_max - s.seconds_min) / 2.0 / o.seconds.unwrap_or(1.0).max(1e-9),
                )
            })
        },
        |_| None,
    ),
    told(
        "p50",
        |o| or_dash(o.latency, |l| human::clocked(l.p50, l.resolution)),
        |o| o.latency.map(|l| l.p50),
    ),
    told(
        "p99.9",
        |o| or_dash(o.latency, |l| human::clocked(l.p999, l.resolution)),
        |o| o.latency.map(|l| l.p999),
    ),
    told("of live", |o| human::times(o.johnstone_wilson.peak_over_peak + 1.0), |_| None),
    told("at end", |o| human::bytes(o.final_memory), |o| Some(o.final_memory as f64)),
    told("faults", |o| or_dash(o.page_faults, human::count), |o| o.page_faults.map(|n| n as f64)),
];

const POLICIES: &[Column] = &[
    PEAK_MEMORY,
    told("over live", |o| human::percent(o.johnstone_wilson.peak_over_peak), |_| None),
    told(
        "on average",
        |o| human::percent(o.johnstone_wilson.average),
        |o| Some(o.johnstone_wilson.average),
    ),
    told(
        "internal",
        |o| or_dash(o.internal_fragmentation, human::percent),
        |o| o.internal_fragmentation,
    ),
    told(
        "external",
        |o| or_dash(o.external_fragmentation, human::percent),
        |o| o.external_fragmentation,
    ),
    drawn("steps", |o| or_dash(o.steps, |s| human::number(s.mean)), |o| o.steps.map(|s| s.mean)),
    told("p99", |o| or_dash(o.steps, |s| human::count(s.p99)), |o| o.steps.map(|s| s.p99 as f64)),
    told("worst", |o| or_dash(o.steps, |s| human::count(s.max)), |o| o.steps.map(|s| s.max as f64)),
    told("failed", |o| human::count(o.failures), |_| None),
];

const MALLOC: &[Column] = &[
    PEAK_MEMORY,
    told("of live", |o| human::times(o.johnstone_wilson.peak_over_peak + 1.0), |_| None),
    told("mean", |o| of_paged(o, |p| human::bytes(p.mean_memory)), |_| None),
    told("at end", |o| human::bytes(o.final_memory), |_| None),
    told("faults", |o| or_dash(o.page_faults, human::count), |_| None),
    told("given back", |o| of_paged(o, |p| human::bytes(p.purged)), |_| None),
    told("inside blocks", |o| of_peak(o, |c| c.inside_blocks), |_| None),
    told("caches", |o| of_peak(o, |c| c.caches), |_| None),
    told("slabs", |o| of_peak(o, |c| c.slabs), |_| None),
    told("partly used", |o| of_peak(o, |c| c.partly_used), |_| None),
    told("metadata", |o| of_peak(o, |c| c.metadata), |_| None),
    told("not due", |o| of_peak(o, |c| c.not_due), |_| None),
    told("huge pages", |o| of_peak(o, |c| c.huge_pages), |_| None),
    told("failed", |o| human::count(o.failures), |_| None),
];

fn of_paged(outcome: &Outcome, show: impl FnOnce(&Paged) -> String) -> String {
    or_dash(outcome.paged.as_ref(), show)
}

/// One cause of the memory at the peak.
fn of_peak(outcome: &Outcome, cause: impl FnOnce(&Causes) -> u64) -> String {
    of_paged(outcome, |paged| human::bytes(cause(&paged.at_peak)))
}

fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

/// A table ready to be set: heads and rows, the best cell of each column marked.
pub struct Ranking {
    /// What the table ranks, as a caption.
    pub caption: &'static str,
    /// Heads; the first is over the names.
    pub heads: Vec<String>,
    /// Rows; the first cell is the name.
    pub rows: Vec<Vec<Cell>>,
}

impl Ranking {
    /// Ranks the outcomes of one kind, best first; `None` where there are none. A column in which
    /// nothing failed is left out.
    pub fn of(outcomes: &[Outcome], kind: Kind) -> Option<Self> {
        let mut ranked: Vec<&Outcome> = outcomes.iter().filter(|o| o.kind == kind).collect();
        if ranked.is_empty() {
            return None;
        }
        let (columns, caption, head) = match kind {
            Kind::Allocator => (ALLOCATORS, "Allocators, measured on this machine", "allocator"),
            Kind::Policy => (POLICIES, "Policies, on simulated memory", "policy"),
            Kind::Malloc => {
                (MALLOC, "Freehold's malloc (the shipped code), on a simulated machine", "exact")
            }
        };
        ranked.sort_by(|a, b| order(a, b, kind));
        let failed = ranked.iter().any(|o| o.failures > 0);
        let columns: Vec<&Column> =
            columns.iter().filter(|c| failed || c.head != "failed").collect();
        let best: Vec<Best> = columns.iter().map(|column| Best::of(column, &ranked)).collect();
        let row = |outcome: &&Outcome| {
            let name = Cell {
                text: outcome.name.clone(),
                note: outcome.library.clone(),
                ..Cell::default()
            };
            let cells = columns.iter().zip(&best).map(|(column, best)| best.cell(column, outcome));
            std::iter::once(name).chain(cells).collect()
        };
        let heads = std::iter::once(head).chain(columns.iter().map(|c| c.head)).map(String::from);
        Some(Self { caption, heads: heads.collect(), rows: ranked.iter().map(row).collect() })
    }
}

/// Sites told of each moment,
const MOST_KEEPERS: usize = 3;
/// and least bytes of pages that they keep under some allocator.
const LEAST_KEPT: u64 = 64 << 10;

impl Ranking {
    /// Who holds pages: a row for each site and moment, a column for each allocator; `None` where that was not asked.
    pub fn of_held(held: &[Held]) -> Option<Self> {
        let mut allocators: Vec<&str> = Vec::new();
        let mut moments: Vec<Moment> = Vec::new();
        for held in held {
            if !allocators.contains(&held.allocator.as_str()) {
                allocators.push(&held.allocator);
            }
            if !moments.contains(&held.moment) {
                moments.push(held.moment);
            }
        }
        let mut rows = Vec::new();
        for moment in moments {
            let then: Vec<&Held> = held.iter().filter(|held| held.moment == moment).collect();
            rows.extend(keepers(&then).into_iter().map(|site| row_of(&site, &then, &allocators)));
        }
        let heads = ["site", "moment", "alive"].into_iter().chain(allocators).map(String::from);
        (!rows.is_empty()).then(|| Self {
            caption: "Pages held for few bytes",
            heads: heads.collect(),
            rows,
        })
    }
}

/// The sites that keep most under any allocator.
fn keepers(then: &[&Held]) -> Vec<String> {
    let mut all: Vec<(u64, &str)> = Vec::new();
    for keeper in then.iter().flat_map(|held| &held.sites) {
        match all.iter_mut().find(|known| known.1 == keeper.site) {
            Some(known) => known.0 = known.0.max(keeper.pages),
            None => all.push((keeper.pages, &keeper.site)),
        }
    }
    all.retain(|(pages, _)| *pages >= LEAST_KEPT);
    all.sort_by(|a, b| b.cmp(a));
    all.iter().take(MOST_KEEPERS).map(|(_, site)| (*site).to_owned()).collect()
}

fn row_of(site: &str, then: &[&Held], allocators: &[&str]) -> Vec<Cell> {
    let of = |name: &&str| then.iter().find(|held| held.allocator == **name)?.of(site);
    let live = allocators.iter().filter_map(of).map(|keeper| keeper.live).max().unwrap_or(0);
    let moment = then.first().map_or("", |held| held.moment.name());
    let pages: Vec<u64> =
        allocators.iter().map(|name| of(name).map_or(0, |keeper| keeper.pages)).collect();
    let least = pages.iter().min().copied().unwrap_or(0);
    let differ = pages.iter().any(|pages| *pages != least);
    let cell =
        |pages: &u64| Cell { best: differ && *pages == least, ..Cell::text(human::bytes(*pages)) };
    let told = [site, moment, &human::bytes(live)].map(Cell::text);
    told.into_iter().chain(pages.iter().map(cell)).collect()
}

/// Who failed comes last; then allocators by time, policies by memory; then by name.
fn order(a: &Outcome, b: &Outcome, kind: Kind) -> std::cmp::Ordering {
    let time = |o: &Outcome| o.seconds.unwrap_or(f64::MAX);
    let main = match kind {
        Kind::Allocator => time(a).total_cmp(&time(b)),
        Kind::Policy | Kind::Malloc => a.peak_memory.cmp(&b.peak_memory),
    };
    a.failures.cmp(&b.failures).then(main).then_with(|| a.name.cmp(&b.name))
}

/// The best and the largest value of a column, of those who failed nothing.
struct Best {
    shown: Option<String>,
    most: f64,
}

impl Best {
    fn of(column: &Column, outcomes: &[&Outcome]) -> Self {
        let sound = outcomes.iter().filter(|o| o.failures == 0);
        let told: Vec<_> =
            sound.filter_map(|o| Some(((column.value)(o)?, (column.show)(o)))).collect();
        let most = outcomes.iter().filter_map(|o| (column.value)(o)).fold(0.0, f64::max);
        let least = told.iter().min_by(|a, b| a.0.total_cmp(&b.0));
        // Where all read the same, nobody is best.
        let differ = told.iter().any(|(_, text)| Some(text) != least.map(|best| &best.1));
        let whole: Vec<&Outcome> = outcomes.iter().copied().filter(|o| o.failures == 0).collect();
        let differ = differ && column.runs.is_none_or(|runs| choice::apart(&whole, runs).is_some());
        Self { shown: least.filter(|_| differ).map(|best| best.1.clone()), most }
    }

    fn cell(&self, column: &Column, outcome: &Outcome) -> Cell {
        let text = (column.show)(outcome);
        let best = outcome.failures == 0 && self.shown.as_ref() == Some(&text);
        let share = (column.value)(outcome).filter(|_| column.bar && self.most > 0.0);
        Cell { text, best, bar: share.map(|value| value / self.most), ..Cell::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Keeper, Spread};

    fn policy(name: &str, peak_memory: u64, failures: u64) -> Outcome {
        Outcome { name: name.into(), peak_memory, failures, ..Outcome::default() }
    }

    #[test]
    fn the_best_come_first_and_are_marked() {
        let found = [policy("b", 2048, 0), policy("failed", 16, 3), policy("a", 1024, 0)];
        let ranking = Ranking::of(&found, Kind::Policy).unwrap();
        let names: Vec<_> = ranking.rows.iter().map(|row| row[0].text.as_str()).collect();
        assert_eq!(names, ["a", "b", "failed"]);
        let best: Vec<_> = ranking.rows.iter().map(|row| row[1].best).collect();
        assert_eq!(best, [true, false, false], "who failed is not the best of anything");
        assert_eq!(ranking.heads.last().unwrap(), "failed");
        assert!(Ranking::of(&found, Kind::Allocator).is_none());
    }

    #[test]
    fn within_noise_nobody_is_best() {
        let found = |slower: f64| {
            let of = |name: &str, seconds: f64| {
                let (seconds_min, seconds_max) = (seconds * 0.95, seconds * 1.05);
                let spread = Spread { runs: 3, seconds_min, seconds_max, ..Spread::default() };
                let (kind, seconds) = (Kind::Allocator, Some(seconds));
                Outcome { kind, seconds, spread: Some(spread), ..policy(name, 64, 0) }
            };
            let ranking = Ranking::of(&[of("a", 1.0), of("b", slower)], Kind::Allocator).unwrap();
            ranking.rows[0][1].best
        };
        assert_eq!((found(1.04), found(1.5)), (false, true));
    }

    #[test]
    fn of_pages_held_each_site_has_a_row_for_each_moment() {
        let held = |allocator: &str, moment, sites: &[(&str, u64)]| Held {
            allocator: allocator.into(),
            moment,
            sites: sites
                .iter()
                .map(|&(site, pages)| Keeper { site: site.into(), live: 1024, pages })
                .collect(),
            ..Held::default()
        };
        let ranking = Ranking::of_held(&[
            held("glibc", Moment::Lowest, &[("a", 2 << 20), ("b", 1 << 20), ("c", 4096)]),
            held("mimalloc", Moment::Lowest, &[("b", 3 << 20)]),
            held("glibc", Moment::End, &[]),
        ])
        .unwrap();
        assert_eq!(ranking.heads, ["site", "moment", "alive", "glibc", "mimalloc"]);
        let rows: Vec<Vec<&str>> = ranking
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| cell.text.as_str()).collect())
            .collect();
        let told = [
            ["b", "lowest", "1.00 KiB", "1.00 MiB", "3.00 MiB"],
            ["a", "lowest", "1.00 KiB", "2.00 MiB", "0 B"],
        ];
        assert_eq!(rows, told);
        assert_eq!([ranking.rows[0][3].best, ranking.rows[0][4].best], [true, false]);
        assert!(Ranking::of_held(&[held("glibc", Moment::End, &[])]).is_none());
    }

    #[test]
    fn where_all_are_equal_nobody_is_best() {
        let ranking = Ranking::of(&[policy("a", 64, 0), policy("b", 64, 0)], Kind::Policy).unwrap();
        assert!(ranking.rows.iter().flatten().all(|cell| !cell.best));
        assert!(!ranking.heads.contains(&"failed".to_owned()), "nothing failed");
    }
}
