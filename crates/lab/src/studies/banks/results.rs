//! The whole study: which runs there are, and what they come to.

use super::config::Plan;
use super::measure::{BanksError, Calls, Named, Row, simulate};
use super::verdicts::{Verdict, verdicts};
use super::{published, sizes, streams};
use freehold_core::frames::Kind;
use freehold_core::frames::migrate::{Eagerness, First, Lasting};
use freehold_sim::banks::{
    Bill, Run, RunSettings, SECTION_FRAMES, Section, Triggers, Workload, count,
};
use rayon::prelude::*;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Of results.json.
pub const SCHEMA_VERSION: u32 = 3;

/// The thesis's policy, and ours.
pub const PUBLISHED: &str = "adaptive-paper";
/// The best of ours.
pub const BEST: &str = "fullest";
/// What both are compared with.
pub const STOCK: &str = "buddy";

/// The most points of a curve that a page shows.
const POINTS: usize = 360;

/// A curve over time, thinned out: percent of all memory, or GiB.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Curve {
    /// Policy.
    pub policy: String,
    /// Hours.
    pub hours: Vec<f64>,
    /// Free memory, percent.
    pub free: Vec<f64>,
    /// Memory off, percent.
    pub offline: Vec<f64>,
    /// Copied so far, GiB.
    pub copied_gib: Vec<f64>,
}

/// Sections of a machine under a policy while file systems come and go.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Footprint {
    /// Policy.
    pub policy: String,
    /// Hours of each survey.
    pub hours: Vec<f64>,
    /// Sections without kernel pages, at each.
    pub removable: Vec<u32>,
    /// Sections in all.
    pub sections: u32,
    /// At the last survey with at least 80 % free, when the files have gone: used frames of every section.
    pub used: Vec<u32>,
    /// And the kernel's.
    pub unmovable: Vec<u32>,
    /// At the last survey with at least 85 % of memory free: hours, percent free, sections with nothing in them.
    pub mostly_free: Option<(f64, f64, u32)>,
    /// Of those sections more than nine tenths free.
    pub nearly_free: u32,
    /// At the survey with the least memory used: percent used, banks with anything in them, banks in all.
    pub referenced: Option<(f64, u32, u32)>,
}

impl Footprint {
    /// Sections with kernel pages when the files have gone.
    pub fn pinned(&self) -> u32 {
        self.unmovable.iter().filter(|&&frames| frames > 0).count() as u32
    }
}

/// What the storms leave under one seed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Pinned {
    /// Policy.
    pub policy: String,
    /// Of the draws.
    pub seed: u64,
    /// Sections with kernel pages when the files have gone, of how many.
    pub sections: u32,
    /// See above.
    pub of: u32,
    /// Banks with anything in them at the least memory used, percent of all banks.
    pub referenced_percent: f64,
}

/// What energy a run takes with one table of states.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Energy {
    /// Table of states.
    pub states: String,
    /// Workload.
    pub workload: String,
    /// Policy.
    pub policy: String,
    /// Percent of the energy with all banks on that is saved.
    pub saved_percent: f64,
    /// Watts.
    pub saved_watts: f64,
    /// Joules of memory for copying, of processors for it, of waking.
    pub copying_j: f64,
    /// See above.
    pub cpu_j: f64,
    /// See above.
    pub waking_j: f64,
    /// Seconds that a half full set must stay off.
    pub break_even_s: f64,
}

/// Everything.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Results {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `banks`.
    pub study: &'static str,
    /// What it was made of.
    pub settings: serde_json::Value,
    /// Tables 5.1 and 5.2: both policies on both machines.
    pub tables: Vec<Row>,
    /// The same calls without a task, and with it.
    pub curves: Vec<Curve>,
    /// Figures 2.3, 2.4, 5.1 and 5.2.
    pub footprints: Vec<Footprint>,
    /// Every policy under four thresholds.
    pub sweep: Vec<Row>,
    /// One thing changed at a time.
    pub ablations: Vec<Row>,
    /// Other seeds, with every parameter moved by up to half.
    pub robustness: Vec<Row>,
    /// Streams of another make, drawn and recorded, under four tasks each.
    pub streams: Vec<Row>,
    /// Other seeds of both policies on both machines, for the intervals of the verdicts.
    pub repeated: Vec<Row>,
    /// Other seeds of the storms under stock and as published: sections with kernel pages at the end.
    pub pinned: Vec<Pinned>,
    /// Every figure that the thesis prints, beside ours.
    pub verdicts: Vec<Verdict>,
    /// Energy.
    pub energy: Vec<Energy>,
    /// Table 4.2: ours.
    pub sizes: Vec<sizes::Size>,
    /// What the thesis prints that does not agree with itself.
    pub slips: Vec<String>,
    /// In sentences.
    pub answer: Vec<String>,
}

/// One run to be done.
struct Job<'a> {
    part: Part,
    machine: &'a str,
    workload: &'a str,
    policy: &'a str,
    task: String,
    seed: u64,
    interleaved: bool,
    settings: RunSettings,
    seconds: Option<u32>,
    movable_percent: u32,
    change: Change,
}

/// What is done to a workload besides.
type Change = fn(&mut Workload);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Tables,
    Curve,
    Footprint,
    Sweep,
    Ablation,
    Robustness,
    Repeated,
    Pinned,
}

/// Runs everything. `progress` is told how many of how many runs are done; it may be called by any thread.
///
/// # Errors
/// When interrupted, or a run fails.
pub fn study(
    plan: &Plan,
    progress: &(dyn Fn(u64, u64) + Sync),
    interrupted: &AtomicBool,
) -> Result<Results, BanksError> {
    let jobs = jobs(plan);
    let (done, total) = (AtomicU64::new(0), jobs.len() as u64);
    let one = |job: &Job<'_>| {
        let result = perform(plan, job, interrupted);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        result
    };
    let runs = jobs.par_iter().map(one).collect::<Result<Vec<_>, _>>()?;
    let mut results = Results {
        schema_version: SCHEMA_VERSION,
        study: "banks",
        settings: plan.settings.to_json(),
        tables: Vec::new(),
        curves: Vec::new(),
        footprints: Vec::new(),
        sweep: Vec::new(),
        ablations: Vec::new(),
        robustness: Vec::new(),
        streams: Vec::new(),
        repeated: Vec::new(),
        pinned: Vec::new(),
        verdicts: Vec::new(),
        energy: Vec::new(),
        sizes: sizes::sizes(),
        slips: published::slips(),
        answer: Vec::new(),
    };
    for (job, (row, run)) in jobs.iter().zip(runs) {
        collect(plan, &mut results, job, row, &run);
    }
    results.streams = streams::streams(plan, interrupted)?;
    results.verdicts = verdicts(&results);
    results.answer = super::answer::answer(&results);
    Ok(results)
}

fn perform(plan: &Plan, job: &Job<'_>, interrupted: &AtomicBool) -> Result<(Row, Run), BanksError> {
    let machine = plan.machine(job.machine, job.interleaved, job.movable_percent)?;
    let mut workload = match job.part {
        Part::Robustness => plan.moved(job.workload, &machine, job.seed)?,
        _ => plan.workload(job.workload, &machine)?,
    };
    workload.seconds = job.seconds.map_or(workload.seconds, |most| workload.seconds.min(most));
    (job.change)(&mut workload);
    let settings = plan.task(&job.settings, &machine);
    let calls = Calls::Workload(workload, job.seed);
    let run = simulate(job.policy, &machine, &settings, &calls, interrupted)?;
    let tied = if job.interleaved { ", interleaved" } else { "" };
    let shown = format!("{}{tied}", job.machine);
    let Job { workload, policy, ref task, seed, .. } = *job;
    Ok((Row::of(Named { machine: &shown, workload, policy, task, seed }, &run, &machine), run))
}

fn jobs(plan: &Plan) -> Vec<Job<'_>> {
    let mut jobs = Vec::new();
    let base = |part, workload, policy: &'static str, settings: RunSettings| Job {
        part,
        machine: "m32",
        workload,
        policy,
        task: String::new(),
        seed: plan.seed,
        interleaved: false,
        settings,
        seconds: None,
        movable_percent: 0,
        change: |_| {},
    };
    let both = [(PUBLISHED, plan.thesis, "thesis"), (BEST, plan.ours, "ours")];
    for (policy, settings, task) in both {
        for workload in ["light", "medium"] {
            for (machine, interleaved) in [("m32", false), ("m32", true), ("m4", false)] {
                let job = base(Part::Tables, workload, policy, settings);
                jobs.push(Job { machine, interleaved, task: task.into(), ..job });
            }
        }
    }
    let still = RunSettings { eagerness: None, ..plan.thesis };
    jobs.push(Job { task: "no migration".into(), ..base(Part::Curve, "medium", PUBLISHED, still) });
    let survey = RunSettings { survey_s: 300, ..still };
    for policy in [STOCK, PUBLISHED, BEST] {
        jobs.push(Job {
            task: "no migration".into(),
            ..base(Part::Footprint, "storms", policy, survey)
        });
    }
    for (task, change) in MOVED_STORMS {
        let job = base(Part::Footprint, "storms", STOCK, survey);
        jobs.push(Job { task: (*task).into(), change: *change, ..job });
    }
    let compared = if plan.compared { plan.policies.as_slice() } else { &[] };
    for policy in compared {
        for workload in ["light", "medium"] {
            for most_used in SWEPT {
                let task = format!("at most {} % used", most_used / 10);
                let settings = with(&plan.ours, |eagerness| Eagerness {
                    most_used,
                    fuller_part: 0,
                    per_thousand_freed: 1_000_000,
                    ..eagerness
                });
                let job = base(Part::Sweep, workload, policy, settings);
                jobs.push(Job { task, seconds: Some(plan.sweep_seconds), ..job });
            }
        }
    }
    jobs.extend(repeated(plan, &base, survey));
    if plan.compared {
        jobs.extend(ablations(plan));
    }
    for nth in 0..plan.robust_seeds {
        for workload in ["light", "medium"] {
            let job = base(Part::Robustness, workload, BEST, plan.ours);
            let task = "parameters moved by up to half".to_owned();
            jobs.push(Job {
                seed: plan.seed + 1 + nth,
                task,
                seconds: Some(plan.sweep_seconds),
                ..job
            });
        }
    }
    jobs
}

/// Other seeds of what the verdicts judge: the thesis's policy on all machines, and the storms.
fn repeated<'a>(
    plan: &'a Plan,
    base: &impl Fn(Part, &'static str, &'static str, RunSettings) -> Job<'a>,
    survey: RunSettings,
) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    for seed in plan.seed + 1..plan.seed + plan.verdict_seeds {
        for workload in ["light", "medium"] {
            for (machine, interleaved) in [("m32", false), ("m32", true), ("m4", false)] {
                let job = base(Part::Repeated, workload, PUBLISHED, plan.thesis);
                jobs.push(Job { machine, interleaved, seed, task: "thesis".into(), ..job });
            }
        }
        for policy in [STOCK, PUBLISHED] {
            let job = base(Part::Pinned, "storms", policy, survey);
            jobs.push(Job { seed, task: "no migration".into(), ..job });
        }
    }
    jobs
}

/// What else may be behind the thesis's footprint of the kernel: a file system in memory that can be moved (tmpfs instead of
/// its ramfs), and more inodes that something holds on to.
const MOVED_STORMS: &[(&str, Change)] = &[
    ("files' data movable, as in tmpfs", |workload| workload.storms.data = Kind::Movable),
    ("a fifth of the inodes' pages stay", |workload| workload.storms.residue_permille = 200),
];

/// Thresholds of the comparison, in thousandths of a set.
const SWEPT: [u32; 4] = [100, 300, 500, 700];

fn with(settings: &RunSettings, change: impl Fn(Eagerness) -> Eagerness) -> RunSettings {
    RunSettings { eagerness: settings.eagerness.map(change), ..*settings }
}

fn ablations(plan: &Plan) -> Vec<Job<'_>> {
    let mut jobs = Vec::new();
    let on = |exit, cache_drop, unmap| Triggers { exit, cache_drop, unmap };
    let thesis = &plan.thesis;
    let triggered = |triggers| RunSettings { triggers, ..*thesis };
    let changes: Vec<(&str, &'static str, RunSettings)> = vec![
        ("as the thesis", PUBLISHED, *thesis),
        ("banks may be half full", PUBLISHED, with(thesis, |e| Eagerness { most_used: 500, ..e })),
        (
            "banks may be nine tenths full",
            PUBLISHED,
            with(thesis, |e| Eagerness { most_used: 900, ..e }),
        ),
        (
            "lowest bank first, however full",
            PUBLISHED,
            with(thesis, |e| Eagerness { first: First::Lowest, most_used: 1_000, ..e }),
        ),
        (
            "array of banks, lowest first, however full",
            "bank-array",
            with(thesis, |e| Eagerness { first: First::Lowest, most_used: 1_000, ..e }),
        ),
        ("array of banks, emptiest first", "bank-array", *thesis),
        ("at every exit, too", PUBLISHED, triggered(on(true, false, false))),
        ("at dropped caches, too", PUBLISHED, triggered(on(false, true, false))),
        ("at every unmap, too", PUBLISHED, triggered(on(false, false, true))),
        ("lists of each bank", "adaptive", *thesis),
        ("fullest bank first", BEST, *thesis),
        ("ours", BEST, plan.ours),
        ("ours, each node for itself", BEST, RunSettings { far_before_waking: false, ..plan.ours }),
        (
            "ours, room must last 15 s",
            BEST,
            with(&plan.ours, |e| Eagerness { lasting: Lasting::For(15_000), ..e }),
        ),
        (
            "ours, room need not last",
            BEST,
            with(&plan.ours, |e| Eagerness { lasting: Lasting::AtOnce, ..e }),
        ),
        ("ours, fuller banks stay", BEST, with(&plan.ours, |e| Eagerness { fuller_part: 0, ..e })),
        ("ours without lifetimes", BEST, RunSettings { lifetimes: false, ..plan.ours }),
        (
            "ours, copying unbounded",
            BEST,
            with(&plan.ours, |e| Eagerness { per_thousand_freed: 1_000_000, ..e }),
        ),
        (
            "ours, 1 ms off for each page copied",
            BEST,
            with(&plan.ours, |e| Eagerness { break_even_us: 1_000, ..e }),
        ),
        ("ZONE_MOVABLE of 30 %", STOCK, plan.ours),
        ("ZONE_MOVABLE of 90 %", STOCK, plan.ours),
    ];
    for workload in ["light", "medium"] {
        for (task, policy, settings) in &changes {
            jobs.push(Job {
                part: Part::Ablation,
                machine: "m32",
                workload,
                policy,
                task: (*task).to_owned(),
                seed: plan.seed,
                interleaved: false,
                settings: *settings,
                seconds: Some(plan.sweep_seconds),
                movable_percent: match *task {
                    "ZONE_MOVABLE of 30 %" => 30,
                    "ZONE_MOVABLE of 90 %" => 90,
                    _ => 0,
                },
                change: |_| {},
            });
        }
    }
    jobs
}

fn collect(plan: &Plan, results: &mut Results, job: &Job<'_>, row: Row, run: &Run) {
    let plain = job.machine == "m32" && !job.interleaved;
    match job.part {
        Part::Tables => {
            if plain {
                results.energy.extend(bills(plan, job, run));
                if job.workload == "medium" {
                    results.curves.push(curve(&format!("{}, {}", job.policy, job.task), run));
                }
            }
            results.tables.push(row);
        }
        Part::Curve => results.curves.push(curve(&format!("{}, no migration", job.policy), run)),
        Part::Footprint => {
            if job.task == "no migration" {
                results.pinned.push(pinned(plan, job, run));
            }
            results.footprints.push(footprint(plan, job, run));
        }
        Part::Sweep => results.sweep.push(row),
        Part::Ablation => results.ablations.push(row),
        Part::Robustness => results.robustness.push(row),
        Part::Repeated => results.repeated.push(row),
        Part::Pinned => results.pinned.push(pinned(plan, job, run)),
    }
}

fn bills(plan: &Plan, job: &Job<'_>, run: &Run) -> Vec<Energy> {
    let Ok(machine) = plan.machine(job.machine, job.interleaved, 0) else { return Vec::new() };
    let gigabytes = f64::from(machine.shape.memory_mib) / 1024.0;
    let sets = machine.frames() / machine.set_frames();
    let one = |states| {
        let bill = Bill::of(run, gigabytes, sets, states, &plan.dimm, &plan.meter);
        Energy {
            states: states.name.clone(),
            workload: job.workload.to_owned(),
            policy: job.policy.to_owned(),
            saved_percent: bill.saved_percent,
            saved_watts: bill.saved_watts,
            copying_j: bill.copying,
            cpu_j: bill.cpu,
            waking_j: bill.waking,
            break_even_s: bill.break_even_s,
        }
    };
    plan.states.iter().map(one).collect()
}

fn curve(policy: &str, run: &Run) -> Curve {
    let every = run.samples.len().div_ceil(POINTS).max(1);
    let mut curve = Curve { policy: policy.to_owned(), ..Curve::default() };
    for sample in run.samples.iter().step_by(every) {
        let all = run.frames.max(1) as f64;
        curve.hours.push(f64::from(sample.at_s) / 3_600.0);
        curve.free.push(sample.free as f64 * 100.0 / all);
        curve.offline.push(sample.offline as f64 * 100.0 / all);
        curve.copied_gib.push(sample.copied as f64 / 262_144.0);
    }
    curve
}

fn pinned(plan: &Plan, job: &Job<'_>, run: &Run) -> Pinned {
    let footprint = footprint(plan, job, run);
    let referenced = footprint
        .referenced
        .map_or(0.0, |(_, touched, all)| f64::from(touched) * 100.0 / f64::from(all.max(1)));
    Pinned {
        policy: job.policy.to_owned(),
        seed: job.seed,
        sections: footprint.pinned(),
        of: footprint.sections,
        referenced_percent: referenced,
    }
}

fn footprint(plan: &Plan, job: &Job<'_>, run: &Run) -> Footprint {
    let moved = MOVED_STORMS.iter().any(|(task, _)| *task == job.task);
    let policy = match moved {
        true => format!("{}, {}", job.policy, job.task),
        false => job.policy.to_owned(),
    };
    let bank_frames = plan.machine(job.machine, false, 0).map_or(0, |machine| machine.set_frames());
    let hours = |at_s: u32| f64::from(at_s) / 3_600.0;
    let free = |sections: &[Section]| {
        let used: u64 = sections.iter().map(|section| u64::from(section.used)).sum();
        100.0 - used as f64 * 100.0 / run.frames.max(1) as f64
    };
    let mostly = run.surveys.iter().rev().map(|(at, sections)| (*at, sections, free(sections)));
    let mostly = mostly
        .filter(|&(_, _, free)| free >= 80.0)
        .max_by(|a, b| a.2.total_cmp(&b.2).then(a.0.cmp(&b.0)));
    // The files of the last storm have gone, too: what is alive would count as the kernel's.
    let gone = run.surveys.iter().rev().find(|(_, sections)| free(sections) >= 80.0);
    let last = gone.or(run.surveys.last()).map(|(_, sections)| sections.as_slice());
    let last = last.unwrap_or_default();
    Footprint {
        policy,
        referenced: referenced(run, (bank_frames / SECTION_FRAMES).max(1) as usize),
        hours: run.surveys.iter().map(|(at, _)| hours(*at)).collect(),
        removable: run.surveys.iter().map(|(_, sections)| count(sections).removable).collect(),
        sections: last.len() as u32,
        used: last.iter().map(|section| section.used).collect(),
        unmovable: last.iter().map(|section| section.unmovable).collect(),
        mostly_free: mostly.map(|(at, sections, free)| (hours(at), free, count(sections).vacant)),
        nearly_free: mostly.map_or(0, |(_, sections, _)| count(sections).nearly_free),
    }
}

/// Banks with anything in them when the least memory is used, the beginning left out: percent used, such banks, all.
fn referenced(run: &Run, sections_of_bank: usize) -> Option<(f64, u32, u32)> {
    let used = |sections: &[Section]| sections.iter().map(|of| u64::from(of.used)).sum::<u64>();
    let late = run.surveys.iter().skip(run.surveys.len() / 4);
    let (_, least) = late.min_by_key(|(_, sections)| used(sections))?;
    let banks = least.chunks(sections_of_bank);
    let all = banks.len() as u32;
    let touched = banks.filter(|bank| bank.iter().any(|of| of.used > 0)).count() as u32;
    Some((used(least) as f64 * 100.0 / run.frames.max(1) as f64, touched, all))
}
