//! Replay on simulated memory: the policies of the core, fed a recorded program.
//!
//! ```text
//!   Trace ── survey ── how long must the region be?
//!     │
//!     ├── records ── Engine<FirstFit> ── Outcome      a worker a core; each reads the trace
//!     ├── records ── Engine<BestFit>  ── Outcome      itself and holds one region at a time
//! ```
//!
//! Invariant: an [`Outcome`] is a function of trace, process, limit and
//! policy alone: no clock, no thread count, no address enters it.
//!
//! Every worker decodes the trace again. Sharing decoded batches would save the decoding (up to a
//! third of a policy's time, see `examples/replay_speed.rs`) but march all policies in step, with
//! all their regions in memory at once and the slowest setting the pace.

mod ahead;
pub(crate) mod crew;
mod engine;
mod external;
pub(crate) mod memory;
mod objects;
mod survey;

pub(crate) use survey::is_believed;
pub use survey::{Survey, busiest, heaviest, heavy, survey};

use crate::models::dispatch;
use crate::results::{Outcome, Timing};
use engine::Engine;
use freehold_blocks::MAX_REGION;
use freehold_blocks::policy::{Policy, Visitor};
use freehold_trace::{ProcessId, ReadError, Timed, Trace};
pub use memory::Memory;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Shortest region where no limit is given.
const LEAST_REGION: u64 = 16 << 20;
/// A region is this many times the peak of live bytes (rounded up to a power of two) where no
/// limit is given: next and worst fit roam over all of it, so it must not be as long as it could.
const ROOM: u64 = 4;

/// Events gathered where runs are short.
const WINDOW: usize = 256;

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which process of the trace.
    pub process: ProcessId,
    /// Length of the region in bytes; `None`: see [`region_len`].
    pub limit: Option<u64>,
}

/// What came of one policy.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The result.
    pub outcome: Outcome,
    /// How long the simulation took.
    pub timing: Timing,
}

/// Why a replay on simulated memory was not possible.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The file.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// No such process.
    #[error("the trace has no process {process}; it has {known}, counted from 0")]
    NoProcess {
        /// The one asked for.
        process: u32,
        /// How many there are.
        known: usize,
    },
    /// Nothing to replay.
    #[error("process {process} of the trace allocates nothing, so there is nothing to replay")]
    NoEvents {
        /// The process.
        process: u32,
    },
    /// No such policy.
    #[error("there is no policy named {name}; `freehold policies` lists them")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The limit cannot be a region.
    #[error("{policy} cannot work in a region of {len} bytes: --limit must be longer")]
    TooShort {
        /// The policy.
        policy: String,
        /// Length asked for.
        len: u64,
    },
    /// The system refused the address space.
    #[error(
        "{len} bytes of address space cannot be reserved: {source}; a shorter --limit needs less"
    )]
    Memory {
        /// Bytes.
        len: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// The length of the simulated region in bytes: the limit, or four times the peak of live bytes
/// rounded up to a power of two and at least 16 MiB. At most [`MAX_REGION`].
pub fn region_len(peak_live: u64, limit: Option<u64>) -> u64 {
    let roomy = peak_live.saturating_mul(ROOM).checked_next_power_of_two().unwrap_or(MAX_REGION);
    limit.unwrap_or(roomy.max(LEAST_REGION)).min(MAX_REGION)
}

/// Replays on each of the policies, as many at once as there are processors; the results come in
/// the order of the names. Progress counts records of all policies together.
///
/// # Errors
/// The first that any policy met; the others are stopped then.
pub fn replay(
    trace: &Trace,
    survey: &Survey,
    names: &[&str],
    options: Options,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Vec<Simulated>, SimulateError> {
    let (done, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = survey.records * names.len() as u64;
    let job = |i: usize| {
        let replayed = Replay {
            trace,
            survey,
            name: names[i],
            options,
            done: &done,
            stops: [interrupted, &failed],
        }
        .run();
        failed.fetch_or(replayed.is_err(), Ordering::Relaxed);
        replayed
    };
    let results = crew::work(names.len(), job, || progress(done.load(Ordering::Relaxed), total));
    // The error that stopped the others, not theirs of having been stopped.
    let is_cause = |result: &&Result<Simulated, SimulateError>| matches!(result, Err(error) if !matches!(error, SimulateError::Interrupted));
    match results.iter().position(|result| is_cause(&result)) {
        Some(at) => results.into_iter().nth(at).into_iter().collect(),
        None => results.into_iter().collect(),
    }
}

/// One policy's replay, before its type is known.
struct Replay<'a> {
    trace: &'a Trace,
    survey: &'a Survey,
    name: &'a str,
    options: Options,
    done: &'a AtomicU64,
    stops: [&'a AtomicBool; 2],
}

impl Replay<'_> {
    fn run(self) -> Result<Simulated, SimulateError> {
        let name = self.name.to_owned();
        dispatch(&name, self).unwrap_or(Err(SimulateError::Unknown { name }))
    }

    /// Feeds the engine the whole process.
    fn feed<P: Policy>(&self, engine: &mut Engine<P>) -> Result<(), SimulateError> {
        let mut records = self.trace.records_of(self.options.process)?;
        let mut fed = 0;
        // The runs of many threads are short; together they let the engine look ahead.
        let mut window: Vec<Timed> = Vec::with_capacity(2 * WINDOW);
        while let Some(run) = records.next_run()? {
            fed += run.events.len() as u64;
            if window.is_empty() && run.events.len() >= WINDOW / 2 {
                engine.apply_all(run.events);
            } else {
                window.extend_from_slice(run.events);
            }
            if window.len() >= WINDOW {
                engine.apply_all(&window);
                window.clear();
            }
            if fed >= 1 << 14 {
                self.done.fetch_add(fed, Ordering::Relaxed);
                fed = 0;
                if self.stops.iter().any(|stop| stop.load(Ordering::Relaxed)) {
                    return Err(SimulateError::Interrupted);
                }
            }
        }
        engine.apply_all(&window);
        self.done.fetch_add(fed, Ordering::Relaxed);
        Ok(())
    }
}

impl Visitor for Replay<'_> {
    type Out = Result<Simulated, SimulateError>;

    fn visit<P: Policy>(self) -> Self::Out {
        let len = region_len(self.survey.peak_live, self.options.limit);
        let mut memory =
            Memory::reserve(len).map_err(|source| SimulateError::Memory { len, source })?;
        // SAFETY: it is the only region ever made of this memory, and the policy that gets it is
        // gone before the end of this function, where the memory is dropped.
        let region = unsafe { memory.region() };
        let engine = region.and_then(|region| Engine::<P>::new(region, self.survey.records));
        let mut engine =
            engine.ok_or_else(|| SimulateError::TooShort { policy: self.name.to_owned(), len })?;
        let began = Instant::now();
        self.feed(&mut engine)?;
        let seconds = began.elapsed().as_secs_f64();
        let timing = Timing { name: self.name.to_owned(), events: engine.events(), seconds };
        let ticks_per_second = self.trace.header().ticks_per_second;
        let outcome = engine.finish(self.name, ticks_per_second, self.survey.first);
        Ok(Simulated { outcome, timing })
    }
}

#[cfg(test)]
#[path = "simulate/tests.rs"]
mod tests;
