//! One run: a policy, a machine, a workload, a task; and what it comes to.

use crate::studies::settings::SettingsError;
use freehold_core::frames::{Policy, Visitor, dispatch};
use freehold_sim::banks::{
    BankMachine, Exchange, Halt, PageTrace, Run, RunSettings, Sample, Workload, run,
};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why the study ended without results.
#[derive(Debug, thiserror::Error)]
pub enum BanksError {
    /// The settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A run.
    #[error("{0}: {1}")]
    Run(String, Halt),
    /// A recorded stream.
    #[error("{0}: {1}")]
    Recording(String, String),
    /// Somebody does not want it any more.
    #[error("interrupted")]
    Interrupted,
}

/// What is run on a policy.
#[derive(Clone, Debug)]
pub enum Calls<'a> {
    /// A workload, by a seed.
    Workload(Workload, u64),
    /// A stream of another make, by a seed.
    Exchange(Exchange, u64),
    /// A recorded stream.
    Trace(&'a PageTrace),
}

/// Runs `calls` under the policy of that name.
///
/// # Errors
/// When interrupted, or a structure of the policy turns out broken.
pub fn simulate(
    policy: &str,
    machine: &BankMachine,
    settings: &RunSettings,
    calls: &Calls<'_>,
    interrupted: &AtomicBool,
) -> Result<Run, BanksError> {
    let visitor = Simulate { machine, settings, calls, interrupted };
    let halted = |halt| match halt {
        Halt::Interrupted => BanksError::Interrupted,
        other => BanksError::Run(policy.to_owned(), other),
    };
    match dispatch(policy, visitor) {
        Some(run) => run.map_err(halted),
        None => {
            Err(SettingsError::value("policies", format!("no policy is called {policy}")).into())
        }
    }
}

struct Simulate<'a> {
    machine: &'a BankMachine,
    settings: &'a RunSettings,
    calls: &'a Calls<'a>,
    interrupted: &'a AtomicBool,
}

impl Visitor for Simulate<'_> {
    type Out = Result<Run, Halt>;

    fn visit<P: Policy>(self) -> Self::Out {
        let go_on = || !self.interrupted.load(Ordering::Relaxed);
        let nodes = self.machine.shape.nodes as u8;
        run::<P>(
            self.machine,
            self.settings,
            |sink| match self.calls {
                Calls::Workload(workload, seed) => {
                    workload.play(self.machine.frames(), nodes, *seed, sink)
                }
                Calls::Exchange(exchange, seed) => {
                    exchange.play(self.machine.frames(), nodes, *seed, sink)
                }
                Calls::Trace(trace) => trace.play(nodes, sink),
            },
            &go_on,
        )
    }
}

/// A run in one row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Machine, with its interleaving.
    pub machine: String,
    /// Workload.
    pub workload: String,
    /// Policy.
    pub policy: String,
    /// Which task, or what was changed.
    pub task: String,
    /// Of the draws.
    pub seed: u64,
    /// Mean of all memory that is off, percent.
    pub offline_mean: f64,
    /// The most of it.
    pub offline_max: f64,
    /// Mean of all memory that could be off at best.
    pub best_mean: f64,
    /// Mean free memory.
    pub free_mean: f64,
    /// c: mean over time of memory off over memory free.
    pub c: f64,
    /// The c that could not be passed, however much was copied: the pages that each zone has in as few sets as hold them.
    pub c_bound: f64,
    /// The least that it ever was, from the end of the first tenth on.
    pub c_min: f64,
    /// The most that it ever was since then.
    pub c_max: f64,
    /// Mean memory off over mean best.
    pub of_best: f64,
    /// Frames copied for each frame that programs freed.
    pub copied_per_freed: f64,
    /// And for each that was switched off.
    pub copied_per_offlined: f64,
    /// Bank sets switched on for requests, an hour.
    pub onlines_per_hour: f64,
    /// Mean sets with kernel pages.
    pub pinned: f64,
    /// Mean sets that those pages would fill.
    pub pinned_least: f64,
    /// Percent of what was allocated that came from another node than the one that asked.
    pub far_percent: f64,
    /// Requests that failed.
    pub failed: u64,
    /// GiB copied.
    pub copied_gib: f64,
    /// GiB switched off, counted each time.
    pub offlined_gib: f64,
    /// Millions of requests.
    pub requests_million: f64,
}

/// What names a run.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Machine, with its interleaving.
    pub machine: &'a str,
    /// Workload.
    pub workload: &'a str,
    /// Policy.
    pub policy: &'a str,
    /// Task, or what was changed.
    pub task: &'a str,
    /// Of the draws.
    pub seed: u64,
}

const PAGES_PER_GIB: f64 = 262_144.0;

impl Row {
    /// Sums a run up. Its first tenth, in which memory fills for the first time, is left out of c.
    pub fn of(named: Named<'_>, run: &Run, machine: &BankMachine) -> Row {
        let all = f64::from(machine.frames());
        let samples = &run.samples[run.samples.len() / 10..];
        let mean = |get: &dyn Fn(&Sample) -> f64| {
            samples.iter().map(get).sum::<f64>() / samples.len().max(1) as f64
        };
        let percent = |get: fn(&Sample) -> u64| mean(&|sample| get(sample) as f64) * 100.0 / all;
        let c = |sample: &Sample| sample.offline as f64 / (sample.free as f64).max(1.0);
        let totals = &run.totals;
        let (offline_mean, best_mean) = (percent(|s| s.offline), percent(|s| s.best));
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        Row {
            machine: named.machine.to_owned(),
            workload: named.workload.to_owned(),
            policy: named.policy.to_owned(),
            task: named.task.to_owned(),
            seed: named.seed,
            offline_mean,
            offline_max: samples.iter().map(|s| s.offline).max().unwrap_or(0) as f64 * 100.0 / all,
            best_mean,
            free_mean: percent(|s| s.free),
            c: mean(&c),
            c_bound: mean(&|s| s.best_of_any as f64 / (s.free as f64).max(1.0)),
            c_min: samples.iter().map(c).fold(f64::INFINITY, f64::min).min(1.0),
            c_max: samples.iter().map(c).fold(0.0, f64::max),
            of_best: ratio(offline_mean, best_mean),
            copied_per_freed: ratio(totals.copied as f64, totals.freed as f64),
            copied_per_offlined: ratio(totals.copied as f64, totals.offlined as f64),
            onlines_per_hour: totals.onlines as f64 * 3_600.0 / (totals.seconds as f64).max(1.0),
            pinned: mean(&|s| f64::from(s.pinned)),
            pinned_least: mean(&|s| f64::from(s.pinned_least)),
            far_percent: ratio(totals.far as f64, totals.allocated as f64) * 100.0,
            failed: totals.failed,
            copied_gib: totals.copied as f64 / PAGES_PER_GIB,
            offlined_gib: totals.offlined as f64 / PAGES_PER_GIB,
            requests_million: totals.requests as f64 / 1e6,
        }
    }
}
