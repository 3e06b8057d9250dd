//! The tables: every attempt of every allocator, then means with intervals.
//!
//! Within an attempt all allocators see the same requests and the same background, so that they can
//! be compared in pairs. Every table has attempts of its own, as the chapter's have.

use super::config::{Case, DMRT, Plan, Source, is_dmrt};
use super::measure::{Row, Run};
use super::metrics::{METRICS, Metric};
use super::published::{self, Published};
use crate::simulate::crew;
use crate::studies::statistics::Summary;
use freehold_sim::numa::{Backing, NoRoom};
use freehold_stepper::Stepper;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A study that ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A run could not begin.
    #[error("{allocator}: {why}")]
    NoRoom {
        /// Whose.
        allocator: &'static str,
        /// Why.
        why: NoRoom,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// One table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Table {
    /// As the chapter numbers it, `4.1`; else its case and load.
    pub name: String,
    /// The case.
    pub case: u32,
    /// The case in words.
    pub title: String,
    /// Requests of an attempt.
    pub requests: u32,
    /// One for each allocator.
    pub entries: Vec<Entry>,
}

/// One allocator in one table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Entry {
    /// The allocator.
    pub allocator: &'static str,
    /// Its path.
    pub path: String,
    /// By the keys of [`METRICS`].
    pub metrics: BTreeMap<&'static str, Summary>,
    /// The same less DmRT's, attempt by attempt; empty for DmRT.
    pub less_dmrt: BTreeMap<&'static str, Summary>,
    /// What the chapter prints.
    pub published: Option<Published>,
}

impl Table {
    /// The entry of that allocator.
    pub fn entry(&self, allocator: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.allocator == allocator)
    }
}

impl Entry {
    /// A metric by its key.
    pub fn of(&self, key: &str) -> Summary {
        self.metrics.get(key).copied().unwrap_or_default()
    }

    /// A metric's difference to DmRT by its key.
    pub fn less(&self, key: &str) -> Summary {
        self.less_dmrt.get(key).copied().unwrap_or_default()
    }
}

/// Every row and every table.
#[derive(Clone, PartialEq, Debug)]
pub struct Tables {
    /// In the order of tables, attempts and allocators.
    pub rows: Vec<Row>,
    /// In the order of cases and loads.
    pub tables: Vec<Table>,
}

/// Runs the plan. `progress` hears how many attempts of how many are done.
///
/// # Errors
/// When a run could not begin, or `interrupted` was raised.
pub fn run(
    plan: &Plan,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Tables, RunError> {
    let tables: Vec<(&Case, u32)> = plan.tables().collect();
    let jobs = tables.len() * plan.attempts as usize;
    let (done, banks) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let job = |i: usize| {
        if interrupted.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let (case, load) = tables[i / plan.attempts as usize];
        let mut own = locked(&banks).pop().unwrap_or_default();
        let rows = attempt(plan, case, load, i as u32 % plan.attempts, &mut own, None);
        locked(&banks).push(own);
        done.fetch_add(1, Ordering::Relaxed);
        rows
    };
    let found = crew::work(jobs, job, || progress(done.load(Ordering::Relaxed), jobs as u64));
    let attempts = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let per_table = attempts.chunks(plan.attempts as usize);
    let summed = tables.iter().zip(per_table).map(|(&(case, load), rows)| table(case, load, rows));
    let tables = summed.collect();
    Ok(Tables { rows: attempts.into_iter().flatten().collect(), tables })
}

/// Memory for DmRT's machine and for that of existing allocators.
pub type Banks = [Backing; 2];

fn locked(banks: &Mutex<Vec<Banks>>) -> std::sync::MutexGuard<'_, Vec<Banks>> {
    banks.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// One attempt of every allocator.
///
/// # Errors
/// When a run could not begin.
pub fn attempt(
    plan: &Plan,
    case: &Case,
    load: u32,
    attempt: u32,
    banks: &mut Banks,
    stepper: Option<&RefCell<Stepper>>,
) -> Result<Vec<Row>, RunError> {
    let name = [u64::from(case.number), u64::from(load), u64::from(attempt)];
    let count = load as usize;
    let (requests, generator) = match &plan.source {
        Source::Generator(generator) => (generator.requests(plan.seed, &name, count), generator),
        Source::Trace(stream, generator) => {
            let weights = generator.node_weights();
            (stream.requests(plan.seed, &name, count, weights), generator)
        }
    };
    let machines = [&plan.machine, &plan.existing_machine];
    let percent = |memory| plan.background_of(memory);
    let backgrounds =
        machines.map(|machine| generator.background(plan.seed, &name, machine, percent));
    let one = |&allocator: &&'static str| {
        let which = usize::from(!is_dmrt(allocator));
        let run = Run {
            plan,
            allocator,
            path: case.path_of(allocator),
            machine: machines[which],
            background: &backgrounds[which],
            requests: &requests,
            backing: &mut banks[which],
            stepper,
        };
        let row = run.measure().map_err(|why| RunError::NoRoom { allocator, why })?;
        Ok(Row { case: case.number, attempt, ..row })
    };
    plan.allocators.iter().map(one).collect()
}

/// Means over attempts; `rows` holds the row of every allocator for each of them.
fn table(case: &Case, load: u32, attempts: &[Vec<Row>]) -> Table {
    let count = attempts.first().map_or(0, Vec::len);
    let column = |i: usize, metric: &Metric| -> Vec<f64> {
        attempts.iter().map(|rows| (metric.get)(&rows[i])).collect()
    };
    let allocators: Vec<&'static str> =
        attempts.first().into_iter().flatten().map(|row| row.allocator).collect();
    let dmrt = allocators.iter().position(|&name| name == DMRT);
    let entry = |i: usize| {
        let of = |metric: &'static Metric| (metric.key, Summary::of(&column(i, metric)));
        let less = |metric: &'static Metric| {
            let dmrt = dmrt.filter(|&dmrt| dmrt != i)?;
            let less = Summary::of_differences(&column(i, metric), &column(dmrt, metric));
            Some((metric.key, less))
        };
        let allocator = allocators[i];
        Entry {
            allocator,
            path: case.path_of(allocator).to_string(),
            metrics: METRICS.iter().map(of).collect(),
            less_dmrt: METRICS.iter().filter_map(less).collect(),
            published: published::find(case.number, load, allocator),
        }
    };
    let entries: Vec<Entry> = (0..count).map(entry).collect();
    let name = entries.iter().find_map(|entry| entry.published.as_ref());
    let name =
        name.map_or_else(|| format!("case {}, {load}", case.number), |row| row.table.clone());
    Table { name, case: case.number, title: case.title.clone(), requests: load, entries }
}
