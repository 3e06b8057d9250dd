//! One cell of the study, run as often as wanted: rows, and their means.

use super::config::Plan;
use super::improve::{self, Improvement};
use crate::models;
use crate::simulate::crew;
use crate::studies::statistics::Summary;
use freehold_blocks::policy::{Policy, Visitor};
use freehold_core::place::mesh::{Mesh, Order};
use freehold_sim::mesh::{
    Allocator, BadRun, Failure, Load, Program, ProgramLoad, Run, Setup, Synthetic, SyntheticLoad,
    run,
};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A study that ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A run could not begin.
    #[error("{cell}: {why}")]
    Bad {
        /// Which.
        cell: String,
        /// Why.
        why: BadRun,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// What is run: one point of a plot.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The platform.
    pub mesh: Mesh,
    /// Who serves.
    pub allocator: Allocator,
    /// In which order.
    pub order: Order,
    /// The name of the set of improvements, and the set.
    pub variant: (String, Vec<Improvement>),
    /// The program, by its place in the plan; `None` is the synthetic load.
    pub program: Option<usize>,
    /// A policy in place of the plan's, whose accesses are counted.
    pub policy: Option<&'static str>,
    /// Cycles between calls in place of the plan's: of a program for each access, of the synthetic load.
    pub think: Option<u64>,
}

impl Cell {
    /// As published, but for the order.
    pub fn plain(mesh: Mesh, allocator: Allocator, order: Order) -> Cell {
        let variant = ("none".to_owned(), Vec::new());
        Cell { mesh, allocator, order, variant, program: None, policy: None, think: None }
    }

    /// The proposed allocator with a set of improvements.
    pub fn improved(mesh: Mesh, variant: (String, Vec<Improvement>)) -> Cell {
        Cell { variant, ..Cell::plain(mesh, Allocator::Proposed, Order::Hinted) }
    }

    /// The same with a program as the load.
    pub fn of(self, program: usize) -> Cell {
        Cell { program: Some(program), ..self }
    }

    /// The same with another policy, whose accesses are counted.
    pub fn with(self, policy: &'static str) -> Cell {
        Cell { policy: Some(policy), ..self }
    }

    /// The same with other pauses between calls.
    pub fn thinking(self, cycles: u64) -> Cell {
        Cell { think: Some(cycles), ..self }
    }
}

/// One run. Counts, cycles; means per call of malloc or free.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// What ran: `synthetic`, or a program.
    pub load: String,
    /// `8x8`.
    pub platform: String,
    /// Its nodes.
    pub nodes: u64,
    /// The allocator.
    pub allocator: &'static str,
    /// The order of remote heaps.
    pub order: &'static str,
    /// The set of improvements.
    pub variant: String,
    /// The policy of every heap.
    pub policy: &'static str,
    /// Cycles between calls: of a program for each of its accesses.
    pub think: u64,
    /// Which run, from 0.
    pub repeat: u64,
    /// Calls counted.
    pub events: u64,
    /// Cycles per call.
    pub cycles: f64,
    /// Of these on the network, links not waited for.
    pub travel: f64,
    /// Waiting on the way, for links that other messages took.
    pub queued: f64,
    /// Waiting for locks and controllers.
    pub wait: f64,
    /// Finding the heap.
    pub search: f64,
    /// On the heap that served.
    pub work: f64,
    /// Messages per call.
    pub messages: f64,
    /// Microcode instructions for them, per call.
    pub instructions: f64,
    /// In C: words of metadata touched per call.
    pub accesses: f64,
    /// Heaps asked per call.
    pub asked: f64,
    /// Share of mallocs that another node's heap served.
    pub remote: f64,
    /// Requests refused.
    pub refused: u64,
    /// Requests refused although a heap had room all the time.
    pub spurious: u64,
    /// Jain's index over the nodes' cycles per call.
    pub fairness: f64,
    /// The node that waits longest, over the mean.
    pub worst_over_mean: f64,
    /// The fewest calls that a node made while calls were counted.
    pub fewest_calls: u64,
    /// Share of all cycles, computing included, in malloc and free.
    pub share: f64,
    /// Cycles from the first counted call to the end.
    pub elapsed: u64,
    /// Cycles of the cores' computing and calls together, per call.
    pub total: f64,
}

/// What a cell came to: means over its runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Entry {
    /// The first run's row, with the means of all in place of its figures.
    #[serde(flatten)]
    pub mean: Row,
    /// Half the 95 % interval of the mean of `cycles`.
    pub half_width: f64,
    /// Every run, in the order of their seeds.
    #[serde(skip)]
    pub runs: Vec<Row>,
    /// The nodes of the first run: messages served for others, per call of the run.
    #[serde(skip)]
    pub served: Vec<f64>,
    /// The same of cycles that the links out of each node were taken, per cycle.
    #[serde(skip)]
    pub links: Vec<f64>,
}

/// Runs every cell; the rows and the means, in the order of the cells.
///
/// # Errors
/// A run could not begin, or `interrupted` was raised.
pub fn all(
    plan: &Plan,
    cells: &[Cell],
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<(Vec<Row>, Vec<Entry>), RunError> {
    let repeats = plan.repeats as usize;
    // A program draws nothing: each of its runs is the same.
    let of_cell = |cell: &Cell| if cell.program.is_some() { 1 } else { repeats };
    let runs_of = cells.iter().enumerate();
    let work: Vec<(usize, u64)> = runs_of
        .flat_map(|(i, cell)| (0..of_cell(cell) as u64).map(move |repeat| (i, repeat)))
        .collect();
    let jobs = work.len();
    let finished = AtomicU64::new(0);
    let one = |job: usize| {
        if interrupted.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let (cell, repeat) = work[job];
        let done = single(plan, &cells[cell], repeat);
        finished.fetch_add(1, Ordering::Relaxed);
        done
    };
    let beat = || progress(finished.load(Ordering::Relaxed), jobs as u64);
    let runs = crew::work(jobs, one, beat).into_iter().collect::<Result<Vec<_>, _>>()?;
    let of_one = runs.iter().zip(&work).collect::<Vec<_>>();
    let entries = of_one
        .chunk_by(|a, b| a.1.0 == b.1.0)
        .filter_map(|one| entry(&one.iter().map(|(run, _)| *run).collect::<Vec<_>>()))
        .collect();
    Ok((runs.into_iter().map(|(row, _)| row).collect(), entries))
}

struct Running<'a>(&'a Setup, &'a mut dyn Load);

impl Visitor for Running<'_> {
    type Out = Result<Run, BadRun>;

    fn visit<P: Policy>(self) -> Self::Out {
        run::<P>(self.0, self.1)
    }
}

/// One run of the synthetic load with so many counted calls, and no more.
///
/// # Errors
/// It could not begin.
pub fn timed(plan: &Plan, cell: &Cell, events: u64) -> Result<Row, RunError> {
    Ok(counting(plan, cell, 0, (events, 0))?.0)
}

fn single(plan: &Plan, cell: &Cell, repeat: u64) -> Result<(Row, Run), RunError> {
    counting(plan, cell, repeat, (plan.events_on(cell.mesh), plan.least_per_node))
}

/// `counted`: calls in all, and at least of every node.
fn counting(
    plan: &Plan,
    cell: &Cell,
    repeat: u64,
    counted: (u64, u64),
) -> Result<(Row, Run), RunError> {
    let program = cell.program.and_then(|at| plan.programs.get(at));
    let think = thinking(plan, cell);
    let run = perform(plan, cell, repeat, &setup(plan, cell, counted))?;
    Ok((row(plan, cell, repeat, program, think, &run), run))
}

/// Cycles between calls: of a program for each access.
fn thinking(plan: &Plan, cell: &Cell) -> u64 {
    let usual = if cell.program.is_some() { plan.cycles_per_access } else { plan.load.think };
    cell.think.unwrap_or(usual)
}

fn setup(plan: &Plan, cell: &Cell, counted: (u64, u64)) -> Setup {
    let (warm_up, events, least_per_node) = match cell.program {
        Some(_) => (0, u64::MAX, 0),
        None => (plan.warm_up_per_node, counted.0, counted.1),
    };
    Setup {
        mesh: cell.mesh,
        heap_bytes: plan.load.heap_bytes,
        allocator: cell.allocator,
        order: cell.order,
        rounds: plan.rounds,
        improve: improve::only(&plan.improve, &cell.variant.1),
        costs: plan.costs,
        counts_accesses: cell.policy.is_some(),
        warm_up,
        events,
        least_per_node,
        failure: None,
    }
}

fn perform(plan: &Plan, cell: &Cell, repeat: u64, setup: &Setup) -> Result<Run, RunError> {
    let (program, think) =
        (cell.program.and_then(|at| plan.programs.get(at)), thinking(plan, cell));
    let mut load: Box<dyn Load> = match program {
        Some(program) => Box::new(ProgramLoad::new(program, cell.mesh, think)),
        None => {
            let synthetic = Synthetic { seed: plan.seed + repeat, think, ..plan.load };
            Box::new(SyntheticLoad::new(synthetic, cell.mesh))
        }
    };
    let policy = cell.policy.unwrap_or(plan.policy);
    let found = models::dispatch(policy, Running(setup, &mut *load));
    let failed =
        |why| RunError::Bad { cell: format!("{} on {}", cell.allocator.name(), cell.mesh), why };
    found.unwrap_or(Ok(Run::default())).map_err(failed)
}

/// One run in which the first node fails, as the plan has it but for the patience of the others.
///
/// # Errors
/// It could not begin.
pub fn failing(plan: &Plan, cell: &Cell, repeat: u64, patience: u64) -> Result<Run, RunError> {
    let failure = Some(Failure { patience, ..plan.failure });
    perform(plan, cell, repeat, &Setup { failure, ..setup(plan, cell, (0, 0)) })
}

fn row(
    plan: &Plan,
    cell: &Cell,
    repeat: u64,
    load: Option<&Program>,
    think: u64,
    run: &Run,
) -> Row {
    let per = |count: u64| count as f64 / run.events.max(1) as f64;
    let thought: u64 = run.nodes.iter().map(|node| node.thought).sum();
    Row {
        load: load.map_or("synthetic", |program| &program.name).to_owned(),
        platform: cell.mesh.to_string(),
        nodes: cell.mesh.heaps() as u64,
        allocator: cell.allocator.name(),
        order: cell.order.name(),
        variant: cell.variant.0.clone(),
        policy: cell.policy.unwrap_or(plan.policy),
        think,
        repeat,
        events: run.events,
        cycles: run.cycles_per_event(),
        travel: per(run.cycles.travel),
        queued: per(run.cycles.queued),
        wait: per(run.cycles.wait),
        search: per(run.cycles.search),
        work: per(run.cycles.work),
        messages: run.messages_per_event(),
        instructions: run.messages_per_event() * plan.costs.message as f64,
        accesses: per(run.accesses),
        asked: per(run.asked),
        remote: run.remote_mallocs as f64 / run.mallocs.max(1) as f64,
        refused: run.refused,
        spurious: run.spurious,
        fairness: run.fairness(),
        worst_over_mean: run.worst_over_mean(),
        fewest_calls: run.fewest_calls(),
        share: run.share(),
        elapsed: run.elapsed,
        total: per(thought + run.cycles.total()),
    }
}

fn entry(runs: &[&(Row, Run)]) -> Option<Entry> {
    let (first, run) = runs.first()?;
    let rows = || runs.iter().map(|(row, _)| row);
    let of = |get: fn(&Row) -> f64| Summary::of(&rows().map(get).collect::<Vec<_>>());
    let mean = |get: fn(&Row) -> f64| of(get).mean;
    let sum = |get: fn(&Row) -> u64| rows().map(get).sum();
    let mean = Row {
        events: sum(|row| row.events),
        cycles: mean(|row| row.cycles),
        travel: mean(|row| row.travel),
        queued: mean(|row| row.queued),
        wait: mean(|row| row.wait),
        search: mean(|row| row.search),
        work: mean(|row| row.work),
        messages: mean(|row| row.messages),
        instructions: mean(|row| row.instructions),
        accesses: mean(|row| row.accesses),
        asked: mean(|row| row.asked),
        remote: mean(|row| row.remote),
        refused: sum(|row| row.refused),
        spurious: sum(|row| row.spurious),
        fairness: mean(|row| row.fairness),
        worst_over_mean: mean(|row| row.worst_over_mean),
        fewest_calls: rows().map(|row| row.fewest_calls).min().unwrap_or(0),
        share: mean(|row| row.share),
        total: mean(|row| row.total),
        ..first.clone()
    };
    let per = |count: u64, whole: u64| count as f64 / whole.max(1) as f64;
    Some(Entry {
        mean,
        half_width: of(|row| row.cycles).half_width,
        runs: rows().cloned().collect(),
        served: run.nodes.iter().map(|node| per(node.served, run.events)).collect(),
        links: run.nodes.iter().map(|node| per(node.links, 4 * run.elapsed)).collect(),
    })
}
