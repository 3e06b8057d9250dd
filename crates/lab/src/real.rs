//! Replay of one process of a trace on real allocators: each in a process of its own, measured.
//!
//! ```text
//! Trace ──prepare──> flat file ──stdin──> freehold-replayer with LD_PRELOAD=allocator
//!                                              │ lines of numbers
//!               Outcome <──measured── answers <┘   (runs interleaved: A B C, A B C, …)
//! ```
//!
//! One invariant: **an allocator that fails harms no other**. Everything that can go wrong with one
//! (not installed, not loadable, crashing, hanging, corrupting memory) is its own entry of the
//! result. Only what makes a replay impossible for all (no such process, no events, no room for the
//! flat file) is an error of [`replay`] itself.
//!
//! The flat file is unlinked from its first moment, so nothing is left behind however this ends.
//! Neighbours: the program in `crates/replayer`; [`crate::measure`] and [`crate::results`].

mod answers;
mod error;
mod find;
mod launch;
mod measured;
mod prepare;
mod slots;
mod stream;

pub use error::{RealError, Trouble};
pub use find::{Allocator, INSTALL_HELP, Library, Source, find, installed, known_names};
pub(crate) use measured::johnstone_wilson;
pub use measured::{Measured, RawRun};
pub use prepare::{Facts, Preparation, Prepared};

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use freehold_trace::{ProcessId, Trace};

use launch::{Failure, Launcher};
use measured::Candidate;

/// What a replay writes to new objects, as a program would. Without it a replay measures address
/// space, not memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Touch {
    /// Nothing; content is not checked either.
    None,
    /// The first byte of the object and of each page in it: all of it becomes resident, at the
    /// least cost in caches. One object in eight is also marked at both ends and checked when it is
    /// moved or freed.
    #[default]
    Page,
    /// Every byte, and the same checks.
    All,
}

impl Touch {
    fn word(self) -> &'static str {
        match self {
            Touch::None => "none",
            Touch::Page => "page",
            Touch::All => "all",
        }
    }
}

/// How to replay.
#[derive(Clone, Debug)]
pub struct Options {
    /// Timing runs of each allocator, at least 1; medians are reported.
    pub repeats: u32,
    /// What is written to objects.
    pub touch: Touch,
    /// Bytes of private writable mappings an allocator may make (`RLIMIT_DATA`); `None` = no limit.
    pub limit: Option<u64>,
    /// When a run is given up; `None` = 30 s and 10 µs for each event.
    pub timeout: Option<Duration>,
    /// The folder of the flat file (16 to 32 B an event); `None` = the system's for temporary files.
    pub scratch: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options { repeats: 5, touch: Touch::default(), limit: None, timeout: None, scratch: None }
    }
}

/// Replays `process` of `trace` on each of `allocators`, in their order, with the program
/// `replayer`.
///
/// Progress counts events: those prepared and those of finished runs. When `interrupted` becomes
/// true, running children are ended and the result is [`RealError::Interrupted`]. Memory grows with
/// the peak of live objects; the flat file takes 16 B an event (32 B a reallocation) on disk.
///
/// # Errors
/// The outer error: nothing could be replayed on any allocator. The inner ones name their allocator.
pub fn replay(
    trace: &Trace,
    process: ProcessId,
    allocators: &[Allocator],
    options: &Options,
    replayer: &Path,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Vec<Result<Measured, RealError>>, RealError> {
    let known = trace.process(process).is_some();
    if !known {
        return Err(RealError::NoProcess { process, known: trace.processes().len() });
    }
    let passes = 1 + allocators.len() as u64 * runs_of(options);
    let total = trace.events_of(process) * passes;
    let prepared =
        prepare(trace, process, options, &mut |done| progress(done, total), interrupted)?;
    let events = trace.events_of(process);
    let mut runs_done = 0;
    replay_prepared(&prepared, allocators, options, replayer, interrupted, &mut || {
        runs_done += 1;
        progress((events * (1 + runs_done)).min(total), total);
    })
}

/// Timing runs and the one that takes latencies.
fn runs_of(options: &Options) -> u64 {
    u64::from(options.repeats.max(1)) + 1
}

/// Makes the flat file of one process.
fn prepare(
    trace: &Trace,
    process: ProcessId,
    options: &Options,
    progress: &mut dyn FnMut(u64),
    interrupted: &AtomicBool,
) -> Result<Prepared, RealError> {
    let ticks_per_second = trace.header().ticks_per_second;
    let mut preparation = Preparation::new(options.scratch.as_deref(), ticks_per_second)?;
    let mut records = trace.records_of(process)?;
    let mut read = 0u64;
    while let Some(record) = records.next()? {
        preparation.push(&record)?;
        read += 1;
        if read.is_multiple_of(1 << 16) {
            if interrupted.load(Relaxed) {
                return Err(RealError::Interrupted);
            }
            progress(read);
        }
    }
    let prepared = preparation.finish()?;
    if prepared.facts().events == 0 {
        return Err(RealError::NoEvents { process });
    }
    Ok(prepared)
}

/// The part of [`replay`] after preparation: for those who prepare events of their own.
/// `run_done` is called after each run.
///
/// # Errors
/// As [`replay`].
pub fn replay_prepared(
    prepared: &Prepared,
    allocators: &[Allocator],
    options: &Options,
    replayer: &Path,
    interrupted: &AtomicBool,
    run_done: &mut dyn FnMut(),
) -> Result<Vec<Result<Measured, RealError>>, RealError> {
    let launcher = Launcher::new(replayer, prepared, options, interrupted);
    let baseline = launcher.baseline()?;
    let mut candidates: Vec<Candidate> = allocators.iter().map(Candidate::new).collect();
    for candidate in &mut candidates {
        candidate.attempt(|allocator| launcher.describe(allocator), Candidate::described)?;
        candidate.attempt(|allocator| launcher.before(allocator), Candidate::started)?;
    }
    for _ in 0..options.repeats.max(1) {
        for candidate in &mut candidates {
            candidate.attempt(|allocator| launcher.time(allocator), Candidate::timed)?;
            run_done();
        }
    }
    for candidate in &mut candidates {
        candidate.attempt(|allocator| launcher.latency(allocator), Candidate::observed)?;
        run_done();
    }
    Ok(candidates.into_iter().map(|one| one.finish(prepared.facts(), baseline)).collect())
}

/// Where objects lie when all of a process was replayed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Placed {
    /// Anonymous bytes in memory, less the replayer's own.
    pub(crate) resident: u64,
    /// Places in the replayer's table, and addresses.
    pub(crate) objects: Vec<(u32, u64)>,
}

/// Replays once on each allocator, and asks where the objects lie that live at the end; none for one that fails.
///
/// # Errors
/// As the outer one of [`replay`].
pub(crate) fn place(
    prepared: &Prepared,
    allocators: &[Allocator],
    options: &Options,
    replayer: &Path,
    interrupted: &AtomicBool,
) -> Result<Vec<Option<Placed>>, RealError> {
    let launcher = Launcher::new(replayer, prepared, options, interrupted);
    let baseline = launcher.baseline()?;
    let placed = |allocator| match launcher.place(allocator) {
        Ok(answer) => {
            let resident = answer.anonymous.saturating_sub(baseline);
            Ok(Some(Placed { resident, objects: answer.objects }))
        }
        Err(Failure::Trouble(_)) => Ok(None),
        Err(Failure::Stop(error)) => Err(error),
    };
    allocators.iter().map(placed).collect()
}
