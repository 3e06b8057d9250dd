//! Heaps a thread against the loop without allocations, turn by turn: what two threads gain of what the
//! machine gives them.
//!
//! ```text
//!   process 0   turn 0   loop on 1, on 2 | first fit on 1, on 2 | best fit on 1, on 2 | worst fit ...
//!               turn 1   the same backwards
//!               turn 2   ...
//!   process 1   ...
//! ```
//!
//! What a second thread gains changes from second to second where others use the machine, and may change with
//! what a process happens to be given. So everything is measured in slices that take turns, and in several
//! processes. Of a turn: the heap's rate on the threads over its rate on one, over the same of the loop. Of a
//! process: the median of its turns, which a slice that something else ran into does not move. Of the study:
//! the median of the processes, with an interval by ranks.
//!
//! Invariant: both quotients of a share come from the same turn, and every slice ran to its end.

use super::super::loop_gain;
use super::super::ranks::{Middle, median};
use super::measure::Row;
use super::patterns::Pattern;
use super::plan::{Amount, Cell, Experiment, Plan, Subject, Turns};
use super::rows::{On, Rows};
use super::server::{Served, Server};
use crate::real::Source;
use serde::Serialize;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Sequences from which a slice's length is reckoned.
const PILOT: u64 = 50_000;

/// A process of turns, at work.
struct Process<'a> {
    plan: &'a Plan,
    server: Server,
}

/// Runs the turns of one process, the `process`-th, and appends a row for every slice.
///
/// # Errors
/// In words: the process cannot be started, or failed.
pub fn measure(
    plan: &Plan,
    command: &[OsString],
    process: u32,
    interrupted: &AtomicBool,
    rows: &mut Vec<Row>,
) -> Result<(), String> {
    let server = Server::start(command, &Source::Libc).map_err(|error| error.to_string())?;
    let turns = plan.turns();
    let mut running = Process { plan, server };
    let mut slices = running.slices(turns)?;
    for turn in 0..turns.times {
        for (cell, sequences) in &slices {
            if interrupted.load(Relaxed) {
                return Ok(());
            }
            let row = running.row(cell, *sequences, process * turns.times + turn)?;
            if row.sequences == *sequences {
                rows.push(row);
            }
        }
        // What comes late in a turn comes early in the next.
        slices.reverse();
    }
    Ok(())
}

impl Process<'_> {
    /// The slices of a turn with their sequences: a slice takes as long on all threads as on one, where they
    /// do not hinder each other.
    fn slices(&mut self, turns: Turns) -> Result<Vec<(Cell, u64)>, String> {
        let mut slices = Vec::new();
        for subject in self.plan.turn_subjects() {
            let on = |threads: usize| Cell {
                experiment: Experiment::Turns,
                subject: subject.clone(),
                pattern: Pattern::Pairs,
                threads,
                amount: Amount::Fixed(PILOT),
            };
            let pilot = self.row(&on(1), PILOT, 0)?;
            let slice_ns = turns.slice_ms as f64 * 1e6;
            let each = (slice_ns * pilot.rate() / 1e9).max(1.0) as u64;
            let slice = |threads: usize| {
                let sequences = each.saturating_mul(threads as u64);
                (Cell { amount: Amount::Fixed(sequences), ..on(threads) }, sequences)
            };
            slices.extend([slice(1), slice(turns.threads)]);
        }
        Ok(slices)
    }

    fn row(&mut self, cell: &Cell, sequences: u64, run: u32) -> Result<Row, String> {
        let on = match cell.subject {
            Subject::Loop => Served::Loop,
            Subject::Heap(heap) => Served::Heap { heap, region: self.plan.region },
            Subject::Malloc(_) => Served::Malloc,
        };
        let limit = Duration::from_nanos(self.plan.limit_ns());
        let answer = self.server.run(on, &self.plan.job(cell, sequences, run), limit)?;
        let mut row = Row::empty(cell, run);
        row.sequences = answer.sequences;
        row.took = answer.took;
        // What the loop does not allocate has not failed.
        row.failed = if on == Served::Loop { 0 } else { answer.failed };
        Ok(row)
    }
}

/// What threads gain, of the loop or of a fit's heaps.
#[derive(Clone, Debug, Serialize)]
pub struct Turned {
    /// Of what.
    pub on: On,
    /// Threads.
    pub threads: usize,
    /// Rate on them over the rate on one, of the same turn.
    pub gain: Middle,
    /// That over the loop's, of the same turn.
    pub of_loop: Middle,
    /// The same of every process: the median of its turns.
    pub of_loop_each: Vec<f64>,
}

/// What the turns came to, the loop first.
pub fn turned(rows: Rows<'_>, turns: Turns) -> Vec<Turned> {
    let of = |subject: &Subject| of_turns(rows, subject, turns.threads);
    let looped = of(&Subject::Loop);
    let subjects = rows.subjects(Experiment::Turns);
    subjects
        .iter()
        .filter_map(|subject| {
            let own = of(subject);
            let shares: Vec<(u32, f64)> = own
                .iter()
                .filter_map(|(turn, gain)| {
                    let theirs = looped.iter().find(|other| other.0 == *turn)?;
                    Some((*turn, gain / theirs.1))
                })
                .collect();
            let of_loop_each = of_processes(&shares, turns.times);
            Some(Turned {
                on: On::of(subject, &[]),
                threads: turns.threads,
                gain: Middle::of(&of_processes(&own, turns.times))?,
                of_loop: Middle::of(&of_loop_each)?,
                of_loop_each,
            })
        })
        .collect()
}

/// Refuses turns in which the loop, which shares nothing, gained more than there are processors: what disturbed it
/// disturbed the heaps in the same turns, too.
///
/// # Errors
/// Why, in a sentence.
pub fn refused(turned: Vec<Turned>, processors: usize) -> Result<Vec<Turned>, String> {
    let looped = turned.iter().find(|one| one.on.fit.is_none());
    let Some(looped) = looped else { return Ok(turned) };
    let (gain, threads) = (looped.gain.median, looped.threads);
    if loop_gain::is_possible(gain, threads, processors) {
        return Ok(turned);
    }
    Err(format!(
        "The turns are refused: {}. Something else used this machine; nothing is said of heaps a thread against the loop.",
        loop_gain::refusal(gain, threads, processors)
    ))
}

/// The gain of every turn that has both its slices.
fn of_turns(rows: Rows<'_>, subject: &Subject, threads: usize) -> Vec<(u32, f64)> {
    let one = rows.on_threads(Experiment::Turns, subject, 1);
    let many = rows.on_threads(Experiment::Turns, subject, threads);
    let gain = |row: &&Row| {
        let alone = one.iter().find(|alone| alone.run == row.run)?;
        Some((row.run, row.rate() / alone.rate()))
    };
    many.iter().filter_map(gain).collect()
}

/// The median of every process's turns, of which each has `times`.
fn of_processes(turns: &[(u32, f64)], times: u32) -> Vec<f64> {
    let processes = turns.chunk_by(|a, b| a.0 / times == b.0 / times);
    let values = |turns: &[(u32, f64)]| turns.iter().map(|turn| turn.1).collect::<Vec<f64>>();
    processes.filter_map(|turns| median(&values(turns))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::heaps::{Blocks, Fit, Heap, Sharing};
    use super::*;

    const TURNS: Turns = Turns { threads: 2, processes: 6, times: 5, slice_ms: 1 };

    fn row(subject: &Subject, threads: usize, run: u32, ns: f64) -> Row {
        let (experiment, pattern) = (Experiment::Turns, Pattern::Pairs);
        let (subject, amount) = (subject.clone(), Amount::Fixed(1000));
        let mut row = Row::empty(&Cell { experiment, subject, pattern, threads, amount }, run);
        row.sequences = 1000 * threads as u64;
        row.took.wall_ns = ns as u64;
        row
    }

    /// The machine gives 1.5 in some processes and 2 in others, one slice of a turn meets something else, and one
    /// process is bad altogether: the heap still has the 0.9 of the loop's gain that it has.
    #[test]
    fn a_share_survives_what_the_machine_does() {
        let (fit, blocks) = (Fit::First, Blocks::List);
        let heap = Subject::Heap(Heap { fit, blocks, sharing: Sharing::PerThread, stripes: 1 });
        let mut rows = Vec::new();
        for run in 0..TURNS.processes * TURNS.times {
            let (process, turn) = (run / TURNS.times, run % TURNS.times);
            let machine = if process % 2 == 0 { 1.0 } else { 4.0 / 3.0 };
            let late = if turn == 3 { 3.0 } else { 1.0 };
            let bad = if process == 4 { 1.5 } else { 1.0 };
            rows.push(row(&Subject::Loop, 1, run, 1e6));
            rows.push(row(&Subject::Loop, 2, run, 1e6 * machine));
            rows.push(row(&heap, 1, run, 2e6));
            rows.push(row(&heap, 2, run, 2e6 * machine / 0.9 * late * bad));
        }
        // A turn of which one slice was stopped is none.
        rows.retain(|row| !(row.run == 0 && row.cell.threads == 2));
        let found = turned(Rows(&rows), TURNS);
        let [looped, ours] = found.as_slice() else { panic!("{found:?}") };
        let near = |a: f64, b: f64| (a - b).abs() < 1e-3;
        assert!(near(looped.gain.low, 1.5) && near(looped.gain.high, 2.0), "{looped:?}");
        assert_eq!((looped.of_loop.low, looped.of_loop.high), (1.0, 1.0));
        assert!(near(ours.of_loop.median, 0.9) && near(ours.of_loop.high, 0.9), "{ours:?}");
        assert!(near(ours.of_loop.low, 0.6) && ours.of_loop_each.len() == 6, "{ours:?}");
    }

    /// On a busy machine the loop once "sped up" by 2.87 on 2 processors, and shares of it were reported.
    #[test]
    fn a_gain_that_cannot_be_is_refused() {
        let loop_of = |ns: f64| {
            let runs = 0..TURNS.processes * TURNS.times;
            let rows: Vec<Row> = runs
                .flat_map(|run| [row(&Subject::Loop, 1, run, 1e6), row(&Subject::Loop, 2, run, ns)])
                .collect();
            turned(Rows(&rows), TURNS)
        };
        let said = refused(loop_of(2e6 / 2.87), 2).unwrap_err();
        assert!(said.contains("speed up by 2.87 on 2 threads of 2 processors"), "{said}");
        assert_eq!(refused(loop_of(2e6 / 1.97), 2).unwrap().len(), 1);
        assert!(refused(loop_of(2e6 / 1.97), 1).is_err(), "two threads on one processor");
    }

    #[test]
    fn without_turns_there_is_nothing() {
        assert!(turned(Rows(&[]), TURNS).is_empty());
    }
}
