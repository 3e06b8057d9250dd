//! One trace on everything that was selected: allocators measured first, with the machine to
//! themselves, then the policies on all processors, then Freehold's malloc on its simulated machine.
//!
//! Neighbours: `selection` says on what, `simulate`, `malloc` and `real` do it, `results` holds what they
//! found, `report` shows it.

use crate::malloc;
use crate::real::{self, RealError};
use crate::results::{Circumstances, Document, MachineFacts, Outcome, Refused, SCHEMA_VERSION};
use crate::selection::Selection;
use crate::simulate::{self, SimulateError, Survey};
use freehold_trace::{ProcessId, Trace};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Allocation events that all timing runs together may take where their number is not given: some
/// ten to twenty seconds of an ordinary machine.
const BUDGET: u64 = 60_000_000;
/// Fewest and most timing runs of an allocator where their number is not given.
const RUNS: (u64, u64) = (2, 5);

/// What to replay and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// Which process; `None` for the one with the most memory.
    pub process: Option<ProcessId>,
    /// On what.
    pub selection: &'a Selection,
    /// Bytes that policies and allocators may have.
    pub limit: Option<u64>,
    /// Timing runs of each allocator; `None` for as many as fit into half a minute, 2 to 5.
    pub runs: Option<u32>,
    /// The program that replays on real allocators.
    pub replayer: &'a Path,
    /// The simulated machine of Freehold's malloc, and what that decides by.
    pub malloc: malloc::Settings,
}

/// What is going on, for a progress bar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// One pass over the trace.
    Survey,
    /// Measuring allocators.
    Measure,
    /// Simulating policies.
    Simulate,
    /// Simulating the malloc.
    Malloc,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The results: allocators, then policies, each in the order selected; then the malloc.
    pub document: Document,
    /// The machine, and how long the simulations took.
    pub circumstances: Circumstances,
}

/// Why nothing could be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The trace has no process.
    #[error("the trace holds no event at all: nothing was recorded")]
    NoProcess,
    /// Simulation, or the trace.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// Measuring.
    #[error(transparent)]
    Real(#[from] RealError),
}

impl CompareError {
    /// Whether it only says that the user asked to stop.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Simulate(SimulateError::Interrupted) | Self::Real(RealError::Interrupted)
        )
    }
}

/// Replays the trace on everything selected. An allocator that fails is named in
/// [`Document::refused`] and stops nothing.
///
/// # Errors
/// When the trace cannot be read, has nothing to replay, a policy cannot be simulated, or
/// `interrupted` becomes true.
pub fn run(
    plan: &Plan<'_>,
    progress: &mut dyn FnMut(Stage, u64, u64),
    interrupted: &AtomicBool,
) -> Result<Found, CompareError> {
    let process = match plan.process {
        Some(process) => Some(process),
        None => {
            let mut told = |done, total| progress(Stage::Survey, done, total);
            simulate::heaviest(plan.trace, &mut told, interrupted)?
        }
    };
    let process = process.ok_or(CompareError::NoProcess)?;
    let survey = simulate::survey(
        plan.trace,
        process,
        &mut |done, total| progress(Stage::Survey, done, total),
        interrupted,
    )?;
    let mut document = Document::new(survey.facts.clone(), plan.limit);
    measure(plan, process, &survey, &mut document, progress, interrupted)?;
    let options = simulate::Options { process, limit: plan.limit };
    let simulated = simulate::replay(
        plan.trace,
        &survey,
        &plan.selection.policies,
        options,
        &mut |done, total| progress(Stage::Simulate, done, total),
        interrupted,
    )?;
    let (outcomes, mut timings): (Vec<Outcome>, Vec<_>) =
        simulated.into_iter().map(|one| (one.outcome, one.timing)).unzip();
    document.results.extend(outcomes);
    if plan.selection.malloc {
        let settings = malloc::Settings { limit: plan.limit, ..plan.malloc };
        let mut progress = |done, total| progress(Stage::Malloc, done, total);
        let (outcome, timing) =
            malloc::replay(plan.trace, process, &survey, &settings, &mut progress, interrupted)?;
        document.results.push(outcome);
        timings.push(timing);
    }
    let machine = MachineFacts::here();
    let circumstances = Circumstances { schema_version: SCHEMA_VERSION, machine, timings };
    Ok(Found { document, circumstances })
}

fn measure(
    plan: &Plan<'_>,
    process: ProcessId,
    survey: &Survey,
    document: &mut Document,
    progress: &mut dyn FnMut(Stage, u64, u64),
    interrupted: &AtomicBool,
) -> Result<(), CompareError> {
    let allocators = &plan.selection.allocators;
    if allocators.is_empty() {
        return Ok(());
    }
    let repeats = plan.runs.unwrap_or_else(|| runs(survey.facts.events, allocators.len() as u64));
    let options = real::Options { repeats, limit: plan.limit, ..real::Options::default() };
    let measured = real::replay(
        plan.trace,
        process,
        allocators,
        &options,
        plan.replayer,
        &mut |done, total| progress(Stage::Measure, done, total),
        interrupted,
    )?;
    for (allocator, result) in allocators.iter().zip(measured) {
        match result {
            Ok(measured) => document.results.push(measured.outcome),
            Err(RealError::Interrupted) => return Err(RealError::Interrupted.into()),
            Err(error) => document
                .refused
                .push(Refused { name: allocator.name.clone(), reason: reason(&error) }),
        }
    }
    Ok(())
}

/// The trouble alone: its allocator is named beside it.
fn reason(error: &RealError) -> String {
    match error {
        RealError::Allocator { trouble, .. } => trouble.to_string(),
        other => other.to_string(),
    }
}

/// As many timing runs as the budget of events allows.
fn runs(events: u64, allocators: u64) -> u32 {
    let fitting = BUDGET / (events * allocators).max(1);
    fitting.clamp(RUNS.0, RUNS.1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_traces_run_less_often() {
        assert_eq!(runs(1_000, 5), 5);
        assert_eq!(runs(4_000_000, 5), 3);
        assert_eq!(runs(1_000_000_000, 5), 2);
        assert_eq!(runs(0, 1), 5);
    }
}
