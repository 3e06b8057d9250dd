//! The rounds: every cell once a round, so that a disturbance of the machine meets all alike, and a
//! study that is stopped has measured something of everything.

use super::super::ranks::FEWEST;
use super::crew::{self, Stop, Took};
use super::heaps::{Blocks, Heap, HeapError, Sharing};
use super::plan::{Amount, Cell, Experiment, Plan, Subject};
use super::server::{Served, Server};
use super::turns;
use crate::real::Allocator;
use crate::simulate::Memory;
use freehold_blocks::sharing::Starvation;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::locks::Seen;

/// Sequences from which a steady run's length is reckoned.
const PILOT: u64 = 5_000;
/// A steady run has at most so many sequences.
const MOST_SEQUENCES: u64 = 50_000_000;

/// Of single calls, in nanoseconds; the clock itself included.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Half of them took no longer.
    pub p50_ns: u32,
    /// All but one in a hundred took no longer.
    pub p99_ns: u32,
    /// The longest.
    pub max_ns: u32,
}

impl Latency {
    /// Of these; `None` of none.
    pub fn of(mut calls: Vec<u32>) -> Option<Latency> {
        calls.sort_unstable();
        let at = |share: usize| calls.get((calls.len() * share / 100).min(calls.len().max(1) - 1));
        Some(Latency { p50_ns: *at(50)?, p99_ns: *at(99)?, max_ns: *at(100)? })
    }
}

/// Spent on a cell that was stopped at the limit.
const STOPPED: u64 = u64::MAX;

/// One run of one cell.
#[derive(Clone, Debug)]
pub struct Row {
    /// The cell.
    pub cell: Cell,
    /// Which run of it.
    pub run: u32,
    /// Sequences made.
    pub sequences: u64,
    /// What they took.
    pub took: Took,
    /// Allocations that failed.
    pub failed: u64,
    /// Bytes of the heap: the blocks' extent; of a malloc, resident memory.
    pub heap_bytes: u64,
    /// Free and used blocks, of a fit.
    pub blocks: Option<(u64, u64)>,
    /// External fragmentation, of a fit.
    pub external: Option<f64>,
    /// Searches under a read lock that were in vain, of all.
    pub in_vain: Option<f64>,
    /// What the paper's lock did to its readers.
    pub starvation: Option<Starvation>,
    /// Of single calls, where they were watched.
    pub latency: Option<Latency>,
    /// Of the locks, where they were watched.
    pub locks: Seen,
}

/// A cell that was not measured, or an allocator that could not be.
#[derive(Clone, Debug, Serialize)]
pub struct Left {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Every whole run.
    pub rows: Vec<Row>,
    /// What was left out.
    pub left: Vec<Left>,
    /// Whether the study was stopped before its end.
    pub interrupted: bool,
}

/// Why a study came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A run on a heap failed.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// A process in which heaps a thread and the loop take turns.
    #[error("a process for heaps a thread failed: {0}")]
    Turns(String),
}

struct Study<'a> {
    plan: &'a Plan,
    memory: Memory,
    mallocs: &'a [Allocator],
    servers: Vec<Option<Server>>,
    measured: Measured,
    /// Nanoseconds spent on a cell so far.
    spent: HashMap<Cell, u64>,
    /// Sequences of a steady run, by subject.
    steady: HashMap<Subject, u64>,
    /// The last whole run with other amounts: sequences and nanoseconds.
    known: HashMap<Cell, (u64, u64)>,
    interrupted: &'a AtomicBool,
}

/// Runs the plan. `command` starts a process that calls [`serve`](super::serve).
///
/// # Errors
/// A heap that is damaged, memory or threads that cannot be had. An allocator that fails is left out,
/// and said to be.
pub fn measure(
    plan: &Plan,
    mallocs: &[Allocator],
    command: &[OsString],
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Measured, MeasureError> {
    let bytes = plan.region;
    let memory = Memory::reserve(bytes).map_err(|source| HeapError::Memory { bytes, source })?;
    let mut study = Study {
        plan,
        memory,
        mallocs,
        servers: Vec::new(),
        measured: Measured::default(),
        spent: HashMap::new(),
        steady: HashMap::new(),
        known: HashMap::new(),
        interrupted,
    };
    let cells = plan.cells(mallocs.len());
    let turns = plan.turns().processes;
    let steps = cells.len() as u64 + u64::from(turns);
    let mut begin = |run: u32, step: u64| {
        progress(u64::from(run) * steps + step, u64::from(plan.runs()) * steps);
        interrupted.load(Relaxed)
    };
    'rounds: for run in 0..plan.runs() {
        study.start_servers(command);
        for (number, cell) in cells.iter().enumerate() {
            if begin(run, number as u64) {
                break 'rounds;
            }
            study.cell(cell, run)?;
        }
        for process in 0..turns {
            if begin(run, cells.len() as u64 + u64::from(process)) {
                break 'rounds;
            }
            study.turns(command, run * turns + process)?;
        }
    }
    study.measured.interrupted = interrupted.load(Relaxed);
    Ok(study.measured)
}

impl Study<'_> {
    /// A process anew for every malloc and round, as the heaps are made anew: what a malloc has given back to
    /// the system while others ran would else be in all rounds but the first.
    fn start_servers(&mut self, command: &[OsString]) {
        let before = std::mem::take(&mut self.servers);
        let is_left = |number: usize| before.get(number).is_none_or(Option::is_some);
        let wanted: Vec<bool> = (0..self.mallocs.len()).map(is_left).collect();
        drop(before);
        for (number, malloc) in self.mallocs.iter().enumerate() {
            let server = wanted[number].then(|| Server::start(command, &malloc.source)).transpose();
            let server = server.map_err(|error| self.give_up(number, error.to_string()));
            self.servers.push(server.ok().flatten());
        }
    }

    /// The turns of one process. What it had when the study was stopped stays.
    fn turns(&mut self, command: &[OsString], process: u32) -> Result<(), MeasureError> {
        let rows = &mut self.measured.rows;
        let done = turns::measure(self.plan, command, process, self.interrupted, rows);
        if self.interrupted.load(Relaxed) { Ok(()) } else { done.map_err(MeasureError::Turns) }
    }

    /// One run of the cell, unless it has had its share or would take too long.
    fn cell(&mut self, cell: &Cell, run: u32) -> Result<(), MeasureError> {
        if self.has_had_its_share(cell, run) {
            return Ok(());
        }
        if let Some(why) = self.is_too_much(cell) {
            if run == 0 {
                let what = self.name(cell);
                self.measured.left.push(Left { what, why });
            }
            return Ok(());
        }
        let sequences = match cell.amount {
            Amount::Fixed(sequences) => sequences,
            Amount::Steady => self.steady_sequences(cell)?,
        };
        let Some(row) = self.row(cell, sequences, run)? else { return Ok(()) };
        let took = row.took.whole_ns;
        *self.spent.entry(cell.clone()).or_default() += took;
        if row.sequences < sequences {
            // Stopped at the limit: no measurement. It shall not be tried again.
            self.spent.insert(cell.clone(), STOPPED);
            if cell.threads == 1 {
                // By processor time: a study that was held up says nothing of how long others take.
                let known = (row.sequences.max(1), row.took.processor_ns);
                self.known.insert(any_amount(cell), known);
            }
            if !self.interrupted.load(Relaxed) {
                let why =
                    format!("a run was not done after {} ms", self.plan.limit_ns() / 1_000_000);
                let what = self.name(cell);
                self.measured.left.push(Left { what, why });
            }
            return Ok(());
        }
        self.known.insert(any_amount(cell), (sequences, took));
        self.measured.rows.push(row);
        Ok(())
    }

    /// Whether it took long enough. What is compared with others by ranks is run as often as these need.
    fn has_had_its_share(&self, cell: &Cell, run: u32) -> bool {
        let wanted = cell.amount == Amount::Steady && (run as usize) < FEWEST;
        match self.spent.get(cell) {
            Some(&STOPPED) => true,
            Some(&spent) => spent > self.plan.cell_ns() && !wanted,
            None => false,
        }
    }

    /// Why this is not tried: what is known foretells a run beyond the limit.
    fn is_too_much(&self, cell: &Cell) -> Option<String> {
        let Amount::Fixed(sequences) = cell.amount else { return None };
        let Subject::Heap(heap) = cell.subject else { return None };
        let foreseen = |known: &(u64, u64)| {
            let more = sequences as f64 / known.0 as f64;
            // A list that grows is walked once for every block that comes.
            let more = if heap.blocks == Blocks::ListUnmerged { more * more } else { more };
            known.1 as f64 * more
        };
        let own = self.known.get(&any_amount(cell)).map(foreseen).unwrap_or_default();
        if own > self.plan.limit_ns() as f64 {
            return Some(format!("foreseen to take {:.1} s a run", own / 1e9));
        }
        // What the walks take without a lock they take under every lock, too.
        let bare = Heap { sharing: Sharing::Unlocked, ..heap };
        let bare = Cell { subject: Subject::Heap(bare), threads: 1, ..any_amount(cell) };
        let bare = self.known.get(&bare).map(foreseen).unwrap_or_default();
        let one_list = heap.sharing.is_locked()
            && !matches!(heap.sharing, Sharing::PaperLock | Sharing::Stripes);
        if bare > self.plan.limit_ns() as f64
            && heap.sharing.is_locked()
            && heap.sharing != Sharing::Stripes
        {
            return Some(format!("foreseen to take {:.1} s a run without any lock", bare / 1e9));
        }
        let telling = self.plan.telling_threads();
        (one_list && bare > self.plan.cell_ns() as f64 / 2.0 && !telling.contains(&cell.threads)).then(
            || {
                let [one, two, four, most] = telling;
                format!(
                    "takes {:.1} s a run without any lock: on {one}, {two}, {four} and {most} threads only",
                    bare / 1e9
                )
            },
        )
    }

    /// As many sequences as take long enough on one thread.
    fn steady_sequences(&mut self, cell: &Cell) -> Result<u64, MeasureError> {
        if let Some(&known) = self.steady.get(&cell.subject) {
            return Ok(known);
        }
        let pilot = Cell { threads: 1, ..cell.clone() };
        let ns = self.row(&pilot, PILOT, 0)?.map_or(1, |row| row.took.wall_ns.max(1));
        let sequences = u128::from(self.plan.steady_ns()) * u128::from(PILOT) / u128::from(ns);
        let sequences = (sequences as u64).clamp(PILOT, MOST_SEQUENCES);
        self.steady.insert(cell.subject.clone(), sequences);
        Ok(sequences)
    }

    /// A run; `None` where the allocator could not do it.
    fn row(&mut self, cell: &Cell, sequences: u64, run: u32) -> Result<Option<Row>, MeasureError> {
        let limit = Duration::from_nanos(self.plan.limit_ns());
        let job = self.plan.job(cell, sequences, run);
        let stop = Stop::after(limit, self.interrupted);
        let mut row = Row::empty(cell, run);
        match cell.subject {
            Subject::Loop => {
                let ran = crew::run_loop(&job, &stop).map_err(HeapError::from)?;
                row.took = ran.took;
                row.sequences = ran.done.sequences;
            }
            Subject::Heap(heap) => {
                let out = heap.run(&job, (&mut self.memory, self.plan.region), &stop)?;
                row.took = out.ran.took;
                row.sequences = out.ran.done.sequences;
                row.failed = out.ran.done.failed;
                row.latency = Latency::of(out.ran.done.latencies);
                row.heap_bytes = out.state.heap_bytes;
                row.blocks = Some((out.state.free_blocks, out.state.used_blocks));
                row.external = out.state.external;
                row.in_vain = out.scheme.in_vain;
                row.starvation = out.scheme.starvation;
                row.locks = out.scheme.locks;
            }
            Subject::Malloc(number) => {
                let Some(server) = &mut self.servers[number] else { return Ok(None) };
                match server.run(Served::Malloc, &job, limit) {
                    Ok(answer) if answer.damaged == 0 => {
                        row.took = answer.took;
                        row.sequences = answer.sequences;
                        row.failed = answer.failed;
                        row.latency = answer.latency;
                        row.heap_bytes = answer.resident_bytes;
                    }
                    Ok(answer) => {
                        self.give_up(number, format!("{} blocks were overwritten", answer.damaged));
                        return Ok(None);
                    }
                    Err(why) => {
                        self.give_up(number, why);
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(row))
    }

    /// The allocator has failed: it is no longer asked. (Ctrl-C ends its process, too.)
    fn give_up(&mut self, number: usize, why: String) {
        if let Some(server) = self.servers.get_mut(number) {
            *server = None;
        }
        if !self.interrupted.load(Relaxed) {
            let what = self.mallocs[number].name.clone();
            self.measured.left.push(Left { what, why });
        }
    }

    fn name(&self, cell: &Cell) -> String {
        let on = match cell.subject {
            Subject::Loop => "the loop".to_owned(),
            Subject::Heap(heap) => heap.name(),
            Subject::Malloc(number) => self.mallocs[number].name.clone(),
        };
        let amount = match cell.amount {
            Amount::Fixed(sequences) => format!("{sequences} sequences"),
            Amount::Steady => "a steady run".to_owned(),
        };
        format!("{on}: {amount} on {} threads ({})", cell.threads, cell.experiment.name())
    }
}

/// The cell whatever its amount.
fn any_amount(cell: &Cell) -> Cell {
    // Untimed runs of one kind foretell each other.
    let experiment = match cell.experiment {
        Experiment::Threads | Experiment::Iterations => Experiment::Allocations,
        other => other,
    };
    Cell { amount: Amount::Steady, experiment, ..cell.clone() }
}

impl Row {
    /// Nothing measured yet.
    pub fn empty(cell: &Cell, run: u32) -> Row {
        Row {
            cell: cell.clone(),
            run,
            sequences: 0,
            took: Took::default(),
            failed: 0,
            heap_bytes: 0,
            blocks: None,
            external: None,
            in_vain: None,
            starvation: None,
            latency: None,
            locks: Seen::default(),
        }
    }

    /// Sequences a second, making and joining of threads not counted.
    pub fn rate(&self) -> f64 {
        self.sequences as f64 * 1e9 / self.took.wall_ns.max(1) as f64
    }
}
