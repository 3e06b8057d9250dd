//! The malloc on a simulated machine: the shipped code, fed a recorded program one event at a time.
//!
//! ```text
//!   Trace ── events in order of time ──► Engine ── allocate, free ──► NodeHeap<Simulated>   the shipped code
//!                                          │                             │ commit, purge, advise
//!                                          │ touches what it gets        ▼
//!                                          └────────────────────────► Simulated ── pagemap ──► which pages are resident
//! ```
//!
//! The machine's memory is real address space, so the kernel itself tells which pages the malloc and the program have
//! touched; nothing about pages is estimated. The program's threads are played by one thread: each has a cache from its
//! first event to its end, and the purger's rounds come at the times of the trace. So the same trace gives the same result,
//! byte for byte, on every machine.
//!
//! **What is assumed of the program**: it touches every page of every block that it gets, `calloc`'s too, when it gets it.
//! `freehold-replayer` does the same, with which the simulation is compared.
//!
//! Neighbours: `simulate` feeds policies; `real` runs the library as a process. Read on in [`Settings`] (what can be
//! changed), [`machine`](Simulated), `space` (address space), `resident` (pages), `engine`, `causes`.

pub mod calls;
mod causes;
mod engine;
mod machine;
mod objects;
mod purger;
mod resident;
mod settings;
mod space;

pub use machine::Simulated;
pub use settings::{Settings, SettingsError, decisions};

use crate::results::{Outcome, Timing};
use crate::simulate::{SimulateError, Survey};
use engine::Engine;
use freehold_core::malloc::NodeHeap;
use freehold_trace::{ObjectId, ProcessId, Trace};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The name by which `--on` means this malloc.
pub const NAME: &str = "malloc";

/// Records between two looks at the flag that stops a replay.
const BEAT: u64 = 1 << 14;

/// Replays one process of a trace on the malloc. Progress counts records.
///
/// # Errors
/// When the trace cannot be read or `interrupted` becomes true.
pub fn replay(
    trace: &Trace,
    process: ProcessId,
    survey: &Survey,
    settings: &Settings,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<(Outcome, Timing), SimulateError> {
    let began = Instant::now();
    let heap = Box::new(NodeHeap::new(Simulated::new(settings)));
    let mut engine = Engine::new(&heap, settings, survey, trace.header().ticks_per_second);
    let mut records = trace.records_of(process)?;
    let mut fed = 0;
    while let Some(record) = records.next()? {
        if settings.first.is_some_and(|first| engine.events() >= first) {
            break;
        }
        engine.apply(&record);
        fed += 1;
        if fed % BEAT == 0 {
            progress(fed, survey.records);
            if interrupted.load(Ordering::Relaxed) {
                return Err(SimulateError::Interrupted);
            }
        }
    }
    progress(fed, survey.records);
    let events = engine.events();
    let outcome = engine.finish();
    debug_assert_eq!(heap.check(), Ok(()), "the malloc's invariants hold");
    let seconds = began.elapsed().as_secs_f64();
    Ok((outcome, Timing { name: NAME.to_owned(), events, seconds }))
}

/// Where each object lies, and its bytes.
pub(crate) type Places = Vec<(ObjectId, u64, u64)>;

/// Replays a process, and tells where its objects lie after each of so many records, which ascend.
///
/// # Errors
/// As [`replay`].
pub(crate) fn place(
    trace: &Trace,
    process: ProcessId,
    (survey, settings): (&Survey, &Settings),
    at: &[u64],
    interrupted: &AtomicBool,
) -> Result<Vec<Places>, SimulateError> {
    let heap = Box::new(NodeHeap::new(Simulated::new(settings)));
    let mut engine = Engine::new(&heap, settings, survey, trace.header().ticks_per_second);
    let mut records = trace.records_of(process)?;
    let (mut found, mut fed) = (Vec::new(), 0);
    while found.len() < at.len() {
        let Some(record) = records.next()? else { break };
        engine.apply(&record);
        fed += 1;
        if at[found.len()] == fed {
            found.push(engine.places());
        }
        if fed % BEAT == 0 && interrupted.load(Ordering::Relaxed) {
            return Err(SimulateError::Interrupted);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
