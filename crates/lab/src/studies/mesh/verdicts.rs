//! What the letter says, beside ours; what was to be beaten, and whether it was.
//!
//! The table of costs and the load were fitted to seven ratios of the letter, computing (in an older unit) and the
//! tiles of two kernels to its mean share. Those figures are marked; what follows from them is a prediction, judged by its
//! interval over the seeds. Kernels draw nothing: their figures have no interval.

use super::ablations::{OTHER_TILES, PUBLISHED_KERNELS, usual_over_c};
use super::config::Plan;
use super::failure::{self, Failed};
use super::measure::{Entry, Row};
use super::published::published;
use super::results::{find, find_load};
use crate::studies::class::{self, Basis, Class, Ours};
use crate::studies::statistics::Summary;
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
    /// Half its 95 % interval over the seeds; 0 where nothing is drawn, `None` of a single seed.
    pub half_width: Option<f64>,
    /// Fitted, or what became of the prediction.
    pub class: Class,
    /// How far ours is from the published figure; empty of a goal.
    pub apart: String,
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

/// A figure of every run, in the order of the seeds.
type Runs = Vec<f64>;

fn drawn(runs: &Runs) -> Ours {
    Summary::of(runs).into()
}

fn ratio(above: &Runs, below: &Runs) -> Runs {
    above.iter().zip(below).map(|(above, below)| above / below).collect()
}

impl Means<'_> {
    fn runs(&self, mesh: Mesh, allocator: Allocator, get: fn(&Row) -> f64) -> Option<Runs> {
        let entry = find(self.entries, mesh, allocator, Order::Index, "none")?;
        Some(entry.runs.iter().map(get).collect())
    }

    fn cycles(&self, mesh: Mesh, allocator: Allocator) -> Option<Runs> {
        self.runs(mesh, allocator, |row| row.cycles)
    }

    /// The first over the second, seed by seed.
    fn ratio(&self, mesh: Mesh, above: Allocator, below: Allocator) -> Option<Runs> {
        Some(ratio(&self.cycles(mesh, above)?, &self.cycles(mesh, below)?))
    }

    /// The mean growth from one platform to the next.
    fn growth(&self, platforms: &[Mesh], allocator: Allocator) -> Option<Runs> {
        let (first, last) = (platforms.first()?, platforms.last()?);
        let steps = platforms.len().checked_sub(1).filter(|&steps| steps > 0)?;
        let times = ratio(&self.cycles(*last, allocator)?, &self.cycles(*first, allocator)?);
        Some(times.into_iter().map(|times| times.powf(1.0 / steps as f64)).collect())
    }

    /// Instructions of the proposed over the microcoded, averaged over platforms.
    fn instructions(&self, platforms: &[Mesh]) -> Option<Runs> {
        let of = |mesh: &Mesh| {
            let of = |allocator| self.runs(*mesh, allocator, |row| row.instructions);
            Some(ratio(&of(Allocator::Proposed)?, &of(Allocator::Microcoded)?))
        };
        let ratios: Vec<Runs> = platforms.iter().filter_map(of).collect();
        let seeds = ratios.iter().map(Vec::len).min()?;
        let mean =
            |seed: usize| ratios.iter().map(|runs| runs[seed]).sum::<f64>() / ratios.len() as f64;
        Some((0..seeds).map(mean).collect())
    }
}

/// Every published figure that the synthetic load has a counterpart of.
pub fn verdicts(plan: &Plan, entries: &[Entry]) -> Vec<Verdict> {
    let means = Means { entries };
    let mesh = |text: &str| text.parse::<Mesh>().ok().filter(|mesh| plan.platforms.contains(mesh));
    let (small, middle, large) = (mesh("2x2"), mesh("5x5"), mesh("8x8"));
    let (private, micro, lazy) = (Allocator::Private, Allocator::Microcoded, Allocator::Proposed);
    let of = [
        (
            "proposed_over_microcoded",
            "Proposed over microcoded, 2x2",
            small.and_then(|mesh| means.ratio(mesh, lazy, micro)),
        ),
        (
            "c_over_proposed",
            "In C with a private heap over proposed, 2x2",
            small.and_then(|mesh| means.ratio(mesh, private, lazy)),
        ),
        (
            "growth_microcoded",
            "Microcoded: growth a platform step",
            means.growth(&plan.platforms, micro),
        ),
        (
            "growth_proposed",
            "Proposed: growth a platform step",
            means.growth(&plan.platforms, lazy),
        ),
        (
            "ratio_5x5",
            "Proposed over microcoded, 5x5: where the lines should cross",
            middle.and_then(|mesh| means.ratio(mesh, lazy, micro)),
        ),
        (
            "ratio_8x8",
            "Proposed over microcoded, 8x8",
            large.and_then(|mesh| means.ratio(mesh, lazy, micro)),
        ),
        (
            "instructions",
            "Instructions for messages, proposed over microcoded",
            means.instructions(&plan.platforms),
        ),
    ];
    type Share = (&'static str, fn(&Row) -> f64, Basis, &'static str);
    let shares: [Share; 2] = [
        (
            "Microcoded, 8x8: share of cycles waiting, own heap first",
            waiting,
            Basis::Predicted,
            WAITS,
        ),
        (
            "The same of all cycles before the lock of the serving heap is held",
            before_lock,
            Basis::Fitted,
            ACQUIRES,
        ),
    ];
    let locks = shares.into_iter().filter_map(|(what, get, basis, note)| {
        let runs = means.runs(large?, micro, get)?;
        Some(beside("lock_share", what, drawn(&runs), basis)?.because(note))
    });
    let judged = |(key, what, runs): (&'static str, &str, Option<Runs>)| {
        beside(key, what, drawn(&runs?), Basis::Fitted)
    };
    of.into_iter().filter_map(judged).chain(locks).collect()
}

/// Percent of a call that waits for locks and controllers.
fn waiting(row: &Row) -> f64 {
    100.0 * row.wait / row.cycles
}

/// The same and for links on the way.
fn waiting_on_the_way(row: &Row) -> f64 {
    100.0 * (row.wait + row.queued) / row.cycles
}

/// The same and the way itself: all but what controllers and cores do.
fn on_the_way(row: &Row) -> f64 {
    100.0 * (row.wait + row.queued + row.travel) / row.cycles
}

/// Percent of a call that is over before the heap that serves does anything: the way, the waiting, and the heaps
/// asked in vain.
fn before_lock(row: &Row) -> f64 {
    100.0 * (row.cycles - row.work) / row.cycles
}

/// Readings of the letter that differ from the study's own: one table for all nodes, tiles of another side.
pub fn other_readings(plan: &Plan, computing: &[Entry], pauses: &[Entry]) -> Vec<Verdict> {
    type Share = (&'static str, fn(&Row) -> f64, Basis, &'static str);
    let shares: [Share; 3] = [
        ("Waiting with one table for all nodes", waiting, Basis::Predicted, COMMON),
        ("The same, waiting for links included", waiting_on_the_way, Basis::Fitted, LINKS),
        ("The same, the way itself included, too", on_the_way, Basis::Fitted, WAY),
    ];
    let waits = |(what, get, basis, note): Share| {
        let is = |entry: &&Entry| {
            entry.mean.allocator == Allocator::Common.name() && entry.mean.think == plan.load.think
        };
        let runs: Runs = pauses.iter().find(is)?.runs.iter().map(get).collect();
        let what = format!("{what}, {}", plan.platforms.last()?);
        Some(beside("lock_share", &what, drawn(&runs), basis)?.because(note))
    };
    let tiles = || {
        let share = |name: &str| {
            let is = |entry: &&Entry| {
                entry.mean.load == name && entry.mean.think == plan.cycles_per_access
            };
            computing.iter().find(is).map(|entry| 100.0 * entry.mean.share)
        };
        let all = OTHER_TILES.map(share);
        let all: Vec<f64> = all.into_iter().collect::<Option<_>>()?;
        let mean = Ours::exact(all.iter().sum::<f64>() / all.len() as f64);
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let note = if least == all[0] { TILES_FAST_LEAST } else { TILES };
        let what = "The same mean with integral and matmul in tiles of 4 x 4";
        Some(beside("share_mean", what, mean, Basis::Fitted)?.because(note))
    };
    shares.into_iter().filter_map(waits).chain(tiles()).collect()
}

const WAITS: &str = "of another paper, whose load is not known: see where waiting comes from";
const ACQUIRES: &str = "“for lock acquiring” read as everything until the lock that serves is held: the way, the waiting, the heaps \
                        asked in vain; this reading was chosen when its figure was known";
const COMMON: &str = "the other reading of a priority table: every node has the same targets, its own heap among them";
const LINKS: &str = "messages to the heaps that all ask stand before the same links; this reading was chosen when its figure was known";
const WAY: &str = "all of a call but the search and the work; in the range of another reader's model (60 to 69 %), of which it is not known what it counts; chosen when its figure was known";
const TILES: &str = "the letter prints no tiles: this side was chosen by the mean";
const TILES_FAST_LEAST: &str = "the letter prints no tiles: this side was chosen by the mean; FAST is then the least of the four, as printed";
const CALLS: &str = "cycles of malloc and free alone, as in a run of traces";
const TOTAL: &str = "computing counted, too: with calls 18.8 % of all cycles, as printed, 1.25 would need calls at 2.3 times the cost";
const NEVER_FULL: &str =
    "our kernels hardly fill a heap: what grows is the walk of a free along its table";
const COMPUTING: &str =
    "depends on what computing costs, which descends from a number chosen by the printed mean";
const SIZES: &str =
    "depends on the sides of tiles, which the letter does not print: see the mean with 4 x 4";
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
        Some(beside(key, &what, Ours::exact(ours?), Basis::Predicted)?.because(note))
    };
    of.into_iter().filter_map(judged).collect()
}

/// The usual allocators beside the one that the letter chose.
pub fn in_c(plan: &Plan, entries: &[Entry], in_c: &[Entry]) -> Option<Verdict> {
    let ours = usual_over_c(plan, entries, in_c)?;
    let what = "In C: first, best and worst fit over the chosen allocator";
    Some(beside("c_over_others", what, drawn(&ours), Basis::Predicted)?.because(TOUCHED))
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
        let note = if key == "share_mean" { SIZES } else { COMPUTING };
        Some(beside(key, what, Ours::exact(ours?), Basis::Fitted)?.because(note))
    };
    of.into_iter().filter_map(judged).collect()
}

/// A published figure and ours. Kernels draw nothing; of the synthetic load ours are seeds.
fn beside(key: &'static str, what: &str, ours: Ours, basis: Basis) -> Option<Verdict> {
    let printed = published(key)?;
    let limits = (printed.value * (1.0 - NEAR), printed.value * (1.0 + NEAR));
    let class = Class::of(basis, ours, limits);
    let Ours { value: ours, half_width } = ours;
    let off = ours / printed.value - 1.0;
    let apart = match (off.abs() <= NEAR, off > 0.0) {
        (true, _) => format!("within {:.0} %", (off.abs() * 100.0).ceil().max(1.0)),
        (false, true) => format!("{:.0} % more", off * 100.0),
        (false, false) => format!("{:.0} % less", -off * 100.0),
    };
    let unit = if printed.unit == "percent" { "percent" } else { "times" };
    let (what, wanted, note) = (what.to_owned(), printed.value, "");
    Some(Verdict { key, what, wanted, unit, ours, half_width, class, apart, note })
}

/// What was to be beaten. Quotients are taken seed by seed, and a goal is reached with all of their interval.
pub fn goals(plan: &Plan, entries: &[Entry]) -> Vec<Verdict> {
    let cycles = |entry: &Entry| -> Runs { entry.runs.iter().map(|row| row.cycles).collect() };
    let improved = |mesh: Mesh| {
        find(entries, mesh, Allocator::Proposed, Order::Hinted, "improved").map(cycles)
    };
    let (Some(&small), Some(&large)) = (plan.platforms.first(), plan.platforms.last()) else {
        return Vec::new();
    };
    let Some(base) = improved(small) else { return Vec::new() };
    let over = |mesh: Mesh| improved(mesh).map(|runs| drawn(&ratio(&runs, &base)));
    let published = find(entries, small, Allocator::Proposed, Order::Index, "none").map(cycles);
    let last = plan.larger.last().copied().unwrap_or(large);
    let wanted = [
        ("grows_published", format!("Improved: {large} over {small}"), 1.15, over(large)),
        ("grows_larger", format!("Improved: {last} over {small}"), 1.5, over(last)),
        (
            "no_slower",
            format!("Improved over as published, {small}"),
            1.0,
            published.map(|published| drawn(&ratio(&base, &published))),
        ),
        (
            "spurious",
            "Requests refused although a heap had room all the time".to_owned(),
            0.0,
            Some(refused_in_vain(plan, entries)),
        ),
    ];
    let goal = |(key, what, most, ours): (&'static str, String, f64, Option<Ours>)| {
        let ours = ours?;
        let class = Class::of(Basis::Predicted, ours, (f64::NEG_INFINITY, most));
        let unit = if key == "spurious" { "requests" } else { "times" };
        let Ours { value: ours, half_width } = ours;
        let apart = String::new();
        Some(Verdict { key, what, wanted: most, unit, ours, half_width, class, apart, note: "" })
    };
    wanted.into_iter().filter_map(goal).collect()
}

/// Of a seed, on average: over all cells.
fn refused_in_vain(plan: &Plan, entries: &[Entry]) -> Ours {
    let of_seed = |seed: u64| {
        let rows = entries.iter().flat_map(|entry| &entry.runs).filter(|row| row.repeat == seed);
        rows.map(|row| row.spurious).sum::<u64>() as f64
    };
    drawn(&(0..plan.repeats).map(of_seed).collect())
}

/// In three sentences.
pub fn answer(verdicts: &[Verdict], goals: &[Verdict], failures: &[Failed]) -> Vec<String> {
    let counted = class::counted(verdicts.iter().map(|verdict| verdict.class));
    let mut answer = vec![format!("Within 10 % of what the letter prints: {counted}.")];
    answer.extend(failure::sentence(failures));
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
