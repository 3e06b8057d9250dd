//! Streams of another make than the workloads that policies and tasks were tuned on, with the same settings for all.
//!
//! Drawn ones ([`freehold_sim::banks::Exchange`]) have free memory used again after seconds, minutes or hours. Recorded
//! ones are the page allocations of a real kernel, and a malloc trace turned into pages; both are part of the project
//! (CONTRIBUTING.md says how they are made), and any other recording is run by [`replay`].

use super::config::Plan;
use super::measure::{BanksError, Calls, Named, Row, simulate};
use super::results::{BEST, STOCK};
use freehold_core::frames::migrate::{Eagerness, Lasting};
use freehold_sim::banks::{PageTrace, RunSettings};
use rayon::prelude::*;
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// Recordings that are part of the project, as page traces in zstd: name, what it is, bytes.
const RECORDED: [(&str, &[u8]); 2] = [
    ("kernel", include_bytes!("../../../../../studies/banks/kernel.pages.zst")),
    ("malloc", include_bytes!("../../../../../studies/banks/malloc.pages.zst")),
];

/// The machine of recordings, where none is named.
pub const MACHINE: &str = "m1";

/// Seeds up to this one, of streams and of moved workloads, were looked at when the rule was chosen by which room counts.
pub const SEEN_STREAMS: u64 = 2;
/// See [`SEEN_STREAMS`].
pub const SEEN_MOVED: u64 = 101;

/// Whether a stream was looked at when the rule was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The rule was chosen on it.
    Itself,
    /// The rule was chosen on others of its make: other seeds, other recordings.
    ItsMake,
}

impl Seen {
    /// Of a stream with that seed; recordings have 0. The recordings of the project were made after the rule was chosen, but
    /// other recordings of a kernel and of a malloc were in view then.
    pub fn of(seed: u64) -> Seen {
        match (1..=SEEN_STREAMS).contains(&seed) {
            true => Seen::Itself,
            false => Seen::ItsMake,
        }
    }

    /// As the page says it.
    pub const fn words(self) -> &'static str {
        match self {
            Seen::Itself => "the rule was chosen on it",
            Seen::ItsMake => "another of a make that was seen",
        }
    }
}

/// A task: policy, which room counts, its name on the page.
type Task = (&'static str, Lasting, &'static str);

/// A stream: what its rows are named by, and its calls.
struct Stream<'a> {
    name: &'a str,
    machine: &'a str,
    calls: Calls<'a>,
    seed: u64,
}

/// The tasks that every stream runs under.
const TASKS: [Task; 4] = [
    (BEST, Lasting::Reuse, "lasting as observed"),
    (BEST, Lasting::For(15_000), "lasting 15 s"),
    (BEST, Lasting::AtOnce, "at once"),
    (STOCK, Lasting::Reuse, "lasting as observed"),
];

/// Names of the tasks, for the heads of a table.
pub fn tasks() -> impl Iterator<Item = String> {
    TASKS.iter().map(|(policy, _, task)| format!("{policy}, {task}"))
}

/// Every stream under every task: rows of one stream and seed stand together, in the order of [`tasks`].
///
/// # Errors
/// When interrupted, or a run fails.
pub fn streams(plan: &Plan, interrupted: &AtomicBool) -> Result<Vec<Row>, BanksError> {
    let recorded = RECORDED.iter().map(|(name, bytes)| Ok((*name, unpacked(name, bytes)?)));
    let recorded: Vec<(&'static str, PageTrace)> = recorded.collect::<Result<_, BanksError>>()?;
    let mut all = Vec::new();
    for (name, machine, exchange) in plan.streams() {
        for seed in plan.seed..plan.seed + plan.stream_seeds {
            all.push(Stream { name, machine, calls: Calls::Exchange(exchange, seed), seed });
        }
    }
    if plan.stream_seeds > 0 {
        for (name, trace) in &recorded {
            all.push(Stream { name, machine: MACHINE, calls: Calls::Trace(trace), seed: 0 });
        }
    }
    let runs: Vec<(&Stream<'_>, &Task)> =
        all.iter().flat_map(|stream| TASKS.iter().map(move |task| (stream, task))).collect();
    let one = |&(stream, &(policy, lasting, task)): &(&Stream<'_>, &Task)| {
        let &Stream { name, machine, ref calls, seed } = stream;
        let named = Named { machine, workload: name, policy, task, seed };
        row(plan, named, lasting, calls, interrupted)
    };
    runs.par_iter().map(one).collect()
}

fn row(
    plan: &Plan,
    named: Named<'_>,
    lasting: Lasting,
    calls: &Calls<'_>,
    interrupted: &AtomicBool,
) -> Result<Row, BanksError> {
    let machine = plan.machine(named.machine, false, 0)?;
    let eagerness = plan.ours.eagerness.map(|eagerness| Eagerness { lasting, ..eagerness });
    let settings = plan.task(&RunSettings { eagerness, sample_s: 1, ..plan.ours }, &machine);
    let run = simulate(named.policy, &machine, &settings, calls, interrupted)?;
    Ok(Row::of(named, &run, &machine))
}

fn unpacked(name: &str, bytes: &[u8]) -> Result<PageTrace, BanksError> {
    let recording = |why: String| BanksError::Recording(name.to_owned(), why);
    let text = zstd::decode_all(bytes).map_err(|error| recording(error.to_string()))?;
    PageTrace::read(text.as_slice()).map_err(|error| recording(error.to_string()))
}

/// A recording on a machine, under every policy of the plan.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Replayed {
    /// Raised when a field changes its meaning.
    pub schema_version: u32,
    /// `banks`.
    pub study: &'static str,
    /// Which recording.
    pub recording: String,
    /// Its events, and seconds from the first to the last.
    pub events: u64,
    /// See above.
    pub seconds: u32,
    /// The most memory that it holds at a time, percent of the machine's.
    pub peak_percent: f64,
    /// Frees of pages that were allocated before it began, and frees that are missing.
    pub unknown_frees: u64,
    /// See above.
    pub lost_frees: u64,
    /// A name of the settings' machines, and its settings.
    pub machine: String,
    /// What it was run with.
    pub settings: serde_json::Value,
    /// Fullest-first and stock under the tasks of [`tasks`], then every policy of the plan under ours.
    pub rows: Vec<Row>,
    /// In sentences.
    pub answer: Vec<String>,
}

/// Runs a recording, and nothing else.
///
/// # Errors
/// When interrupted, a run fails, or the machine is smaller than what the recording holds.
pub fn replay(
    plan: &Plan,
    recording: &str,
    trace: &PageTrace,
    machine: &str,
    interrupted: &AtomicBool,
) -> Result<Replayed, BanksError> {
    let frames = plan.machine(machine, false, 0)?.frames();
    let peak_percent = trace.peak() as f64 * 100.0 / f64::from(frames);
    if peak_percent > 95.0 {
        let why = format!(
            "it holds up to {} MiB, {peak_percent:.0} % of machine {machine}; --machine names another, \
             --set machines.{machine}.memory_mib=N makes it larger",
            trace.peak() / 256
        );
        return Err(BanksError::Recording(recording.to_owned(), why));
    }
    let others = plan.policies.iter().filter(|policy| ![BEST, STOCK].contains(policy));
    let others = others.map(|&policy| (policy, Lasting::Reuse, TASKS[0].2));
    let runs: Vec<(&str, Lasting, &str)> = TASKS.into_iter().chain(others).collect();
    let calls = Calls::Trace(trace);
    let one = |&(policy, lasting, task): &(&str, Lasting, &str)| {
        let named = Named { machine, workload: recording, policy, task, seed: 0 };
        row(plan, named, lasting, &calls, interrupted)
    };
    let rows = runs.par_iter().map(one).collect::<Result<Vec<Row>, _>>()?;
    let share = |row: Option<&Row>| row.map_or(0.0, |row| row.c * 100.0);
    let answer = vec![
        format!(
            "Of the memory that this recording leaves free, {:.0} % could be switched off with pages placed fullest bank \
             first, {:.0} % with Linux's buddy allocator and the same task that moves pages together.",
            share(rows.first()),
            share(rows.iter().find(|row| row.policy == STOCK)),
        ),
        format!(
            "{} events in {} s on machine {machine}, which holds up to {peak_percent:.0} % of its memory.",
            trace.len(),
            trace.seconds()
        ),
    ];
    Ok(Replayed {
        schema_version: super::results::SCHEMA_VERSION,
        study: "banks",
        recording: recording.to_owned(),
        events: trace.len() as u64,
        seconds: trace.seconds(),
        peak_percent,
        unknown_frees: trace.unknown_frees,
        lost_frees: trace.lost_frees,
        machine: machine.to_owned(),
        settings: plan.settings.to_json(),
        rows,
        answer,
    })
}
