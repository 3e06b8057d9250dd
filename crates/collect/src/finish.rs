//! Makes the trace: merges the threads of the spool by time, names the objects, writes the file.
//!
//! Three things must come out right here and nowhere else:
//! - **Order.** Events of all processes are merged by time; on ties frees come first. A processor
//!   looks ahead, so a stamp can be a little early (see the preload library's `now`): an allocation
//!   then seems to come just before another thread's free of the same address, or a free just before
//!   another thread's allocation. When an event meets an address that is live, or dead, against the
//!   rules, the other threads are searched for what is missing, and the event waits for that. Where a
//!   stamp was early by a whole life of another object, that object's life is told as a moment.
//! - **Reallocation** is two events, in between which the address belongs to nobody.
//! - **Fork.** The child inherits what was live in its parent at the fork's stamp.
//!
//! Memory outside of malloc goes along: [`space`] follows what calls mapped, and [`whose`] gives the rows of a process's
//! map, each at its time, to who has them.
//!
//! Invariant: memory grows with live objects and with threads alive at the same time, not with the
//! length of the recording.
//!
//! Neighbours: [`plan`] reads the facts of the spool; `freehold_trace::Namer` knows addresses.

mod blanks;
pub mod kept;
mod merge;
pub mod plan;
mod space;
mod waits;
mod whose;

use crate::error::RecordError;
use crate::lost::Lost;
use crate::session::{Outcome, Stage, spool_path};
use crate::signals;
use crate::spool::Spool;
use freehold_trace::{Stacks, Summary, WriteError, Writer};
use merge::Merge;
use plan::Plan;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// What came of it.
pub struct Finished {
    /// The trace.
    pub summary: Summary,
    /// Events that are not in it.
    pub lost: u64,
    /// Sentences for the user.
    pub notes: Vec<String>,
}

impl From<Finished> for Outcome {
    fn from(finished: Finished) -> Outcome {
        Outcome {
            ended: None,
            summary: finished.summary,
            lost: finished.lost,
            incomplete: finished.lost > 0,
            notes: finished.notes,
            ran: Duration::ZERO,
            finishing: Duration::ZERO,
            looks: 0,
            looking: Duration::ZERO,
        }
    }
}

/// What the recorder knows at its end, which a spool that could not be written on does not say.
#[derive(Clone, Copy)]
pub struct Ended {
    /// The rate of the clock.
    pub ticks_per_second: u64,
    /// Events that are not in the spool.
    pub lost: Lost,
}

/// Why the trace was not made.
enum Stop {
    Read(io::Error),
    Write(WriteError),
    Interrupted,
}

impl From<WriteError> for Stop {
    fn from(error: WriteError) -> Stop {
        Stop::Write(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Read(error)
    }
}

/// Makes the trace of a recording whose parent was killed, or which could not be written. `path` is
/// the trace's or the spool's.
///
/// # Errors
/// When there is no spool, or the trace cannot be written.
pub fn finish_spool(path: &Path, progress: &mut dyn FnMut(Stage)) -> Result<Outcome, RecordError> {
    signals::catch();
    let (spool, output) = match path.extension() {
        Some(extension) if extension == "spool" => (path.to_owned(), path.with_extension("")),
        _ => (spool_path(path), path.to_owned()),
    };
    let begun = Instant::now();
    let finished = finish(&spool, &output, None, progress)?;
    Ok(Outcome { finishing: begun.elapsed(), ..Outcome::from(finished) })
}

/// Writes the trace and removes the spool.
pub fn finish(
    spool_path: &Path,
    output: &Path,
    ended: Option<Ended>,
    progress: &mut dyn FnMut(Stage),
) -> Result<Finished, RecordError> {
    let unreadable = |reason: String| RecordError::Spool { path: spool_path.to_owned(), reason };
    let spool = Spool::open(spool_path).map_err(|error| unreadable(error.to_string()))?;
    let mut plan =
        Plan::read(&spool).ok_or_else(|| unreadable("its first block is not there".into()))?;
    if let Some(ended) = ended {
        plan.end_with(ended);
    }
    let finished = write(&spool, &plan, output, progress).map_err(|stop| match stop {
        Stop::Read(error) => unreadable(error.to_string()),
        Stop::Write(source) => RecordError::Trace {
            source: Box::new(source),
            spool: spool_path.to_owned(),
            output: output.to_owned(),
        },
        Stop::Interrupted => {
            RecordError::Interrupted { spool: spool_path.to_owned(), output: output.to_owned() }
        }
    })?;
    // The trace is whole; a spool that stays behind only takes room.
    let _ = fs::remove_file(spool_path);
    Ok(finished)
}

fn write(
    spool: &Spool,
    plan: &Plan,
    output: &Path,
    progress: &mut dyn FnMut(Stage),
) -> Result<Finished, Stop> {
    let mut writer = Writer::create(output, plan.header())?;
    let merged = Merge::new(spool, plan, &mut writer).and_then(|merge| merge.run(progress));
    let (anomalies, trie, samples) = match merged {
        Ok(merged) => merged,
        Err(stop) => {
            writer.abandon();
            return Err(stop);
        }
    };
    let stacks = if trie.is_empty() { Stacks::default() } else { trie.resolve(plan) };
    if !stacks.is_empty() {
        writer.stacks(&stacks)?;
    }
    for (process, mut samples) in samples {
        let Some(known) = plan.processes.get(&process.0) else { continue };
        for sample in &mut samples {
            let parts = std::mem::take(&mut sample.parts);
            sample.parts = whose::name(parts, &stacks, &known.info);
        }
        writer.residents(process, &samples)?;
    }
    let mut notes = plan.notes();
    notes.extend(anomalies.notes());
    Ok(Finished { summary: writer.finish()?, lost: plan.lost.total(), notes })
}

#[cfg(test)]
mod tests;
