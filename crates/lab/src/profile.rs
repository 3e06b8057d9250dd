//! What a trace says about a program: counts, sizes, lifetimes, live memory, threads.
//!
//! One pass over the events. Invariant: memory grows with the peak of live objects, threads and
//! processes, never with the length of the trace; everything kept per event is folded into bounded
//! histograms ([`histogram`]), curves ([`curve`]) and counts.
//!
//! Conventions. *Live bytes* are bytes asked for. The *allocation clock* advances by the size of
//! each allocation and by the growth of each reallocation. A lifetime runs from the allocation to
//! the free; a reallocation continues it. A forked child's live memory begins with what it
//! inherits; the total over processes counts those objects once, for the parent.

mod calls;
mod curve;
mod figures;
mod frees_between;
mod histogram;
mod live;
mod process;
mod size_by_lifetime;
#[cfg(test)]
mod tests;
mod top_sizes;
mod total;

pub use calls::Calls;
pub use curve::Point;
pub use figures::{Figures, Lifetimes, Peak};
pub use frees_between::FreesBetween;
pub use histogram::Bucket;
pub use process::{ProcessProfile, ThreadProfile};
pub use size_by_lifetime::Cell;
pub use top_sizes::TopSize;
pub use total::TotalProfile;

use freehold_trace::{Damage, Header, ProcessId, ProcessInfo, ReadError, Trace};
use process::Process;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use total::Total;

/// Raised when a field of the JSON changes its meaning.
pub const PROFILE_SCHEMA: u32 = 1;

/// Events between two looks at the stop flag.
const STRIDE: u64 = 1 << 18;

/// All that `freehold info` knows.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// [`PROFILE_SCHEMA`].
    pub schema: u32,
    /// Facts about the recording.
    pub header: Header,
    /// Length of the trace file in bytes.
    pub file_bytes: u64,
    /// Over all processes looked at.
    pub total: TotalProfile,
    /// Each process, in order of its number.
    pub processes: Vec<ProcessProfile>,
    /// What could not be read, if anything.
    pub damage: Vec<Damage>,
}

/// Profiles a trace, or one process of it. `None` when `stop` was raised.
///
/// # Errors
/// When the operating system refuses to read; damage is no error, it is listed in the profile.
pub fn profile(
    trace: &Trace,
    only: Option<ProcessId>,
    progress: &mut dyn FnMut(u64, u64),
    stop: &AtomicBool,
) -> Result<Option<Profile>, ReadError> {
    let (mut records, expected) = match only {
        Some(process) => (trace.records_of(process)?, trace.events_of(process)),
        None => (trace.records()?, trace.events()),
    };
    let chosen = trace.processes().iter().filter(|info| only.is_none_or(|only| info.id == only));
    let infos: Vec<ProcessInfo> = chosen.cloned().collect();
    let mut total = Total::new(&infos);
    let mut processes: BTreeMap<ProcessId, Process> =
        infos.iter().map(|info| (info.id, Process::new(info))).collect();
    let mut report_at = STRIDE;
    while let Some(run) = records.next_run()? {
        let process = processes
            .entry(run.process)
            .or_insert_with(|| Process::new(&ProcessInfo::unseen(run.process)));
        process.enter(run.thread);
        for timed in run.events {
            total.advance(timed.tick);
            let change = process.see(timed.tick, &timed.event);
            total.see(run.process, timed.tick, change);
        }
        if records.given() >= report_at {
            report_at = records.given() + STRIDE;
            progress(records.given(), expected);
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
    }
    let header = trace.header().clone();
    let damage = trace.damage().iter().chain(records.damage()).cloned().collect();
    let total = total.finish(&header, processes.values());
    let processes = processes.into_values().map(|process| process.finish(&header)).collect();
    Ok(Some(Profile {
        schema: PROFILE_SCHEMA,
        header,
        file_bytes: trace.file_len(),
        total,
        processes,
        damage,
    }))
}
