//! What can go wrong, for all allocators or for one.

use std::io;
use std::path::PathBuf;

use freehold_trace::{ProcessId, ReadError};

/// Why a replay was not possible.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// The trace has no such process.
    #[error(
        "the trace has no process {process:?}: it has {known}, numbered from 0; `freehold info` lists them"
    )]
    NoProcess {
        /// The process asked for.
        process: ProcessId,
        /// How many there are.
        known: usize,
    },
    /// There is nothing to replay.
    #[error(
        "process {process:?} of the trace allocates nothing: there is nothing to replay; choose another process"
    )]
    NoEvents {
        /// The process asked for.
        process: ProcessId,
    },
    /// The events contradict each other beyond repair.
    #[error(
        "the trace names object {object} after {events} events: object numbers are dense, so the file is damaged; record it again"
    )]
    NotDense {
        /// The number in the trace.
        object: u32,
        /// Events before it.
        events: u64,
    },
    /// The trace could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The flat file could not be written.
    #[error(
        "cannot write the prepared trace under {folder}: {source}; set TMPDIR to a folder with more room"
    )]
    Scratch {
        /// The folder it was to be in.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The replayer could not be run at all.
    #[error("cannot run the replayer {path}: {source}")]
    Launch {
        /// The program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// One allocator could not be replayed on; the others are not concerned.
    #[error("{allocator}: {trouble}")]
    Allocator {
        /// Its name, as given.
        allocator: String,
        /// What was the matter.
        trouble: Trouble,
    },
}

/// What was the matter with one allocator.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Trouble {
    /// No library of that name is installed.
    #[error("not found among the libraries of this machine; {help}")]
    NotInstalled {
        /// What to do about it.
        help: String,
    },
    /// Nobody knows the name, and it is not a path.
    #[error(
        "no allocator is known by this name (known: {known}); a library is named by its path, as in ./libfoo.so"
    )]
    UnknownName {
        /// The names there are.
        known: String,
    },
    /// The path leads to nothing that can be preloaded.
    #[error("cannot be preloaded: {reason}")]
    NotPreloaded {
        /// Why.
        reason: String,
    },
    /// The loader refused the library.
    #[error("{library} could not be loaded: {reason}")]
    NotLoaded {
        /// The library.
        library: PathBuf,
        /// What the loader said.
        reason: String,
    },
    /// The library was loaded but is not the malloc.
    #[error(
        "{library} was loaded, but `{function}` still comes from {found}: it does not replace the whole malloc family"
    )]
    NotInterposed {
        /// The library.
        library: PathBuf,
        /// The first function that is not its own.
        function: String,
        /// Whose it is.
        found: String,
    },
    /// The replay died.
    #[error("the replay was ended by {signal}{}", said(.message))]
    Crashed {
        /// The signal's name.
        signal: String,
        /// The last line on standard error; empty if there was none.
        message: String,
    },
    /// The replay ended early without a signal.
    #[error("the replay ended with code {code}{}", said(.message))]
    Ended {
        /// The exit code.
        code: i32,
        /// The last line on standard error; empty if there was none.
        message: String,
    },
    /// The replay took too long and was killed.
    #[error("no end after {seconds:.0} s: the replay hangs or is very slow, and was killed")]
    TooSlow {
        /// How long it was given.
        seconds: f64,
    },
    /// It broke malloc's promises.
    #[error("this malloc is broken: {what}")]
    Misbehaved {
        /// What was found.
        what: String,
    },
    /// The replayer itself could not go on.
    #[error("the replayer gave up: {reason}")]
    GaveUp {
        /// Its words.
        reason: String,
    },
}

impl Trouble {
    /// The trouble as that of `allocator`.
    pub(super) fn of(self, allocator: &str) -> RealError {
        RealError::Allocator { allocator: allocator.to_owned(), trouble: self }
    }
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(" after saying: {message}") }
}
