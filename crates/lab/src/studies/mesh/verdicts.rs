//! What the letter says, beside ours; what was to be beaten, and whether it was.

use super::ablations::{PUBLISHED_KERNELS, usual_over_c};
use super::config::Plan;
use super::measure::{Entry, Row};
use super::published::published;
use super::results::{find, find_load};
use freehold_core::place::mesh::{Mesh, Order};
use freehold_sim::mesh::Allocator;
use serde::Serialize;

/// How near is near: 10 %.
const NEAR: f64 = 0.10;

/// A figure, published or set as a goal, and ours.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// Its name: a key of `studies/published/mesh.csv` where it is published.
    pub key: &'static str,
    /// What it is.
    pub what: String,
    /// As published, or the most that it may be.
    pub wanted: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Ours.
    pub ours: f64,
    /// Whether ours is within 10 % of it, or not above it.
    pub holds: bool,
    /// In words.
    pub verdict: String,
    /// What a difference comes from, or where the page shows it; empty where there is nothing to say.
    pub note: &'static str,
}

impl Verdict {
    fn because(self, note: &'static str) -> Verdict {
        Verdict { note, ..self }
    }
}

struct Means<'a> {
    entries: &'a [Entry],
}

impl Means<'_> {
    fn entry(&self, mesh: Mesh, allocator: Allocator) -> Option<&Entry> {
        find(self.entries, mesh, allocator, Order::Index, "none")
    }

    fn cycles(&self, mesh: Mesh, allocator: Allocator) -> Option<f64> {
        self.entry(mesh, allocator).map(|entry| entry.mean.cycles)
    }

    /// Proposed over microcoded.
    fn ratio(&self, mesh: Mesh) -> Option<f64> {
        Some(self.cycles(mesh, Allocator::Proposed)? / self.cycles(mesh, Allocator::Microcoded)?)
    }

    /// The mean growth from one platform to the next.
    fn growth(&self, platforms: &[Mesh], allocator: Allocator) -> Option<f64> {
        let (first, last) = (platforms.first()?, platforms.last()?);
        let times = self.cycles(*last, allocator)? / self.cycles(*first, allocator)?;
        let steps = platforms.len().checked_sub(1).filter(|&steps| steps > 0)?;
        Some(times.powf(1.0 / steps as f64))
    }

    /// Instructions of the proposed over the microcoded, averaged over platforms.
    fn instructions(&self, platforms: &[Mesh]) -> Option<f64> {
        let of = |mesh: &Mesh| {
            let of = |allocator| Some(self.entry(*mesh, allocator)?.mean.instructions);
            Some(of(Allocator::Proposed)? / of(Allocator::Microcoded)?)
        };
        let ratios: Vec<f64> = platforms.iter().filter_map(of).collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }
}

/// Every published figure that the synthetic load has a counterpart of.
pub fn verdicts(plan: &Plan, entries: &[Entry]) -> Vec<Verdict> {
    let means = Means { entries };
    let mesh = |text: &str| text.parse::<Mesh>().ok().filter(|mesh| plan.platforms.contains(mesh));
    let (small, middle, large) = (mesh("2x2"), mesh("5x5"), mesh("8x8"));
    let in_c = |mesh| {
        Some(means.cycles(mesh, Allocator::Private)? / means.cycles(mesh, Allocator::Proposed)?)
    };
    let waiting = |mesh| {
        let row = &means.entry(mesh, Allocator::Microcoded)?.mean;
        Some(100.0 * row.wait / row.cycles)
    };
    let of = [
        (
            "proposed_over_microcoded",
            "Proposed over microcoded, 2x2",
            small.and_then(|mesh| means.ratio(mesh)),
        ),
        ("c_over_proposed", "In C with a private heap over proposed, 2x2", small.and_then(in_c)),
        (
            "growth_microcoded",
            "Microcoded: growth a platform step",
            means.growth(&plan.platforms, Allocator::Microcoded),
        ),
        (
            "growth_proposed",
            "Proposed: growth a platform step",
            means.growth(&plan.platforms, Allocator::Proposed),
        ),
        (
            "ratio_5x5",
            "Proposed over microcoded, 5x5: where the lines should cross",
            middle.and_then(|mesh| means.ratio(mesh)),
        ),
        ("ratio_8x8", "Proposed over microcoded, 8x8", large.and_then(|mesh| means.ratio(mesh))),
        (
            "instructions",
            "Instructions for messages, proposed over microcoded",
            means.instructions(&plan.platforms),
        ),
        ("lock_share", "Microcoded, 8x8: share of cycles waiting", large.and_then(waiting)),
    ];
    let judged = |(key, what, ours): (&'static str, &str, Option<f64>)| {
        let verdict = beside(key, what, ours?)?;
        Some(if key == "lock_share" { verdict.because(WAITS) } else { verdict })
    };
    of.into_iter().filter_map(judged).collect()
}

const WAITS: &str = "of another paper, whose load is not known: see where waiting comes from";
const CALLS: &str = "cycles of malloc and free alone, as in a run of traces";
const TOTAL: &str = "computing counted, too: with calls 18.8 % of all cycles, as printed, 1.25 would need calls at 2.3 times the cost";
const NEVER_FULL: &str =
    "our kernels hardly fill a heap: what grows is the walk of a free along its table";
const COMPUTING: &str = "depends on what computing costs: see there";
const TOUCHED: &str =
    "these pay for every word that they touch, the chosen one for those of the table of costs";

/// The figures of the synthetic load, on the kernels: means of the four published ones.
pub fn kernels(plan: &Plan, entries: &[Entry]) -> Vec<Verdict> {
    let (Some(&small), Some(&large)) = (plan.platforms.first(), plan.platforms.last()) else {
        return Vec::new();
    };
    let steps = plan.platforms.len() as f64 - 1.0;
    let row = |load: &str, mesh, allocator| {
        find_load(entries, load, mesh, allocator, Order::Index, "none").map(|entry| &entry.mean)
    };
    // The mean of a quotient over the kernels: of one figure, of two cells.
    let mean = |get: fn(&Row) -> f64, above: (Mesh, Allocator), below: (Mesh, Allocator)| {
        let of = |load: &&str| {
            Some(get(row(load, above.0, above.1)?) / get(row(load, below.0, below.1)?))
        };
        let all: Option<Vec<f64>> = PUBLISHED_KERNELS.iter().map(of).collect();
        all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
    };
    let (cycles, elapsed) = (|row: &Row| row.cycles, |row: &Row| row.elapsed as f64);
    let (private, micro, lazy) = (Allocator::Private, Allocator::Microcoded, Allocator::Proposed);
    let growth = |of| {
        let times = mean(cycles, (large, of), (small, of)).filter(|_| steps > 0.0)?;
        Some(times.powf(1.0 / steps))
    };
    let on = |what: &str| format!("Kernels, {small}: {what}");
    let of = [
        (
            "proposed_over_microcoded",
            on("proposed over microcoded, calls"),
            mean(cycles, (small, lazy), (small, micro)),
            CALLS,
        ),
        (
            "proposed_over_microcoded",
            on("proposed over microcoded, time"),
            mean(elapsed, (small, lazy), (small, micro)),
            TOTAL,
        ),
        (
            "c_over_proposed",
            on("in C over proposed, calls"),
            mean(cycles, (small, private), (small, lazy)),
            CALLS,
        ),
        (
            "c_over_proposed",
            on("in C over proposed, time"),
            mean(elapsed, (small, private), (small, lazy)),
            TOTAL,
        ),
        (
            "growth_microcoded",
            "Kernels: microcoded, growth a platform step".to_owned(),
            growth(micro),
            NEVER_FULL,
        ),
        (
            "growth_proposed",
            "Kernels: proposed, growth a platform step".to_owned(),
            growth(lazy),
            NEVER_FULL,
        ),
    ];
    let judged = |(key, what, ours, note): (&'static str, String, Option<f64>, &'static str)| {
        Some(beside(key, &what, ours?)?.because(note))
    };
    of.into_iter().filter_map(judged).collect()
}

/// The usual allocators beside the one that the letter chose.
pub fn in_c(plan: &Plan, entries: &[Entry], in_c: &[Entry]) -> Option<Verdict> {
    let ours = usual_over_c(plan, entries, in_c)?;
    let what = "In C: first, best and worst fit over the chosen allocator";
    Some(beside("c_over_others", what, ours)?.because(TOUCHED))
}

/// The share of all cycles that malloc and free take when the master alone serves them, on the first
/// platform: of the four published kernels.
pub fn shares(plan: &Plan, entries: &[Entry]) -> Vec<Verdict> {
    let Some(platform) = plan.platforms.first().map(Mesh::to_string) else { return Vec::new() };
    let share = |name: &str| {
        let rows = entries.iter().map(|entry| &entry.mean);
        let of = |row: &&Row| {
            row.load == name
                && row.platform == platform
                && row.allocator == Allocator::Master.name()
        };
        rows.clone().find(of).map(|row| 100.0 * row.share)
    };
    let all: Option<Vec<f64>> = PUBLISHED_KERNELS.into_iter().map(share).collect();
    let mean = all.map(|all| all.iter().sum::<f64>() / all.len() as f64);
    let of = [
        ("share_mean", "Master serves all: share of cycles, mean of four kernels", mean),
        ("share_fast", "The same, FAST", share("fast")),
        ("share_gaussian", "The same, Gaussian", share("gaussian")),
    ];
    let judged = |(key, what, ours): (&'static str, &str, Option<f64>)| {
        Some(beside(key, what, ours?)?.because(COMPUTING))
    };
    of.into_iter().filter_map(judged).collect()
}

/// A published figure and ours.
fn beside(key: &'static str, what: &str, ours: f64) -> Option<Verdict> {
    let printed = published(key)?;
    let off = ours / printed.value - 1.0;
    let holds = off.abs() <= NEAR;
    let verdict = match (holds, off > 0.0) {
        (true, _) => format!("within {:.0} %", (off.abs() * 100.0).ceil().max(1.0)),
        (false, true) => format!("{:.0} % more", off * 100.0),
        (false, false) => format!("{:.0} % less", -off * 100.0),
    };
    let unit = if printed.unit == "percent" { "percent" } else { "times" };
    let (what, wanted, note) = (what.to_owned(), printed.value, "");
    Some(Verdict { key, what, wanted, unit, ours, holds, verdict, note })
}

/// What was to be beaten.
pub fn goals(plan: &Plan, entries: &[Entry]) -> Vec<Verdict> {
    let improved = |mesh: Mesh| {
        find(entries, mesh, Allocator::Proposed, Order::Hinted, "improved").map(|entry| &entry.mean)
    };
    let (Some(&small), Some(&large)) = (plan.platforms.first(), plan.platforms.last()) else {
        return Vec::new();
    };
    let Some(base) = improved(small).map(|row| row.cycles) else { return Vec::new() };
    let over = |mesh: Mesh| improved(mesh).map(|row| row.cycles / base);
    let published = find(entries, small, Allocator::Proposed, Order::Index, "none");
    let spurious: u64 = entries.iter().map(|entry| entry.mean.spurious).sum();
    let last = plan.larger.last().copied().unwrap_or(large);
    let wanted = [
        ("grows_published", format!("Improved: {large} over {small}"), 1.15, over(large)),
        ("grows_larger", format!("Improved: {last} over {small}"), 1.5, over(last)),
        (
            "no_slower",
            format!("Improved over as published, {small}"),
            1.0,
            published.map(|entry| base / entry.mean.cycles),
        ),
        (
            "spurious",
            "Requests refused although a heap had room all the time".to_owned(),
            0.0,
            Some(spurious as f64),
        ),
    ];
    let goal = |(key, what, most, ours): (&'static str, String, f64, Option<f64>)| {
        let ours = ours?;
        let holds = ours <= most;
        let verdict = if holds { "reached" } else { "missed" }.to_owned();
        let unit = if key == "spurious" { "requests" } else { "times" };
        Some(Verdict { key, what, wanted: most, unit, ours, holds, verdict, note: "" })
    };
    wanted.into_iter().filter_map(goal).collect()
}

/// In two or three sentences.
pub fn answer(verdicts: &[Verdict], goals: &[Verdict]) -> Vec<String> {
    let near = verdicts.iter().filter(|verdict| verdict.holds).count();
    let mut first =
        format!("{near} of {} published figures are within 10 % of ours", verdicts.len());
    if near < verdicts.len() {
        first += "; where the others differ, the page says why";
    }
    let mut answer = vec![first + "."];
    let ours = |key: &str| goals.iter().find(|goal| goal.key == key).map(|goal| goal.ours);
    if let (Some(published), Some(larger), Some(slower)) =
        (ours("grows_published"), ours("grows_larger"), ours("no_slower"))
    {
        answer.push(format!(
            "With the improvements a call costs {published:.2} times as much on the largest published platform \
             as on the smallest, {larger:.2} times on the largest of all, and on the smallest {slower:.2} of \
             what it costs without them."
        ));
    }
    answer
}
