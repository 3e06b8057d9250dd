//! What can go wrong with a recording.

use freehold_trace::WriteError;
use std::io;
use std::path::PathBuf;

/// Why there is no recording, or not all of one.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program could not be started. Nothing ran.
    #[error("{program} cannot be started: {reason}")]
    Launch {
        /// As named by the user.
        program: String,
        /// Reason and way out.
        reason: String,
        /// 126 if it is there but cannot be executed, 127 if it is not there: as shells say.
        status: u8,
    },
    /// The place for the trace does not take a file.
    #[error("{} cannot be written: {source}; name another file", .path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel refused something that recording needs.
    #[error("recording cannot begin: {what}: {source}")]
    Setup {
        /// What was asked of the kernel.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// A spool that cannot be read.
    #[error("{} is not a recording that can be finished: {reason}", .path.display())]
    Spool {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The trace could not be written; the recording itself is safe in the spool.
    #[error("{source}; what was recorded is kept in {}: make room, then run `freehold record --finish {}`", .spool.display(), .output.display())]
    Trace {
        /// What the writer says.
        source: Box<WriteError>,
        /// Where the recording is.
        spool: PathBuf,
        /// The trace it was to become.
        output: PathBuf,
    },
    /// Interrupted while the trace was being written.
    #[error("interrupted; what was recorded is kept in {}: `freehold record --finish {}` goes on", .spool.display(), .output.display())]
    Interrupted {
        /// Where the recording is.
        spool: PathBuf,
        /// The trace it was to become.
        output: PathBuf,
    },
}

impl RecordError {
    /// How a command ends by it: 126 or 127 if the program cannot be started, as shells say; 130 if it was
    /// interrupted; 125 where only the recording failed.
    pub fn status(&self) -> u8 {
        match self {
            RecordError::Launch { status, .. } => *status,
            RecordError::Interrupted { .. } => 130,
            _ => 125,
        }
    }
}
