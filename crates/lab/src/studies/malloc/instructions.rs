//! Instructions of the program's calls, counted by callgrind over a replay on the simulated malloc.
//!
//! Counted is what happens inside of `malloc::calls`: the malloc's own code, without the decoding of the trace and the
//! counting of pages, and without the purger, which is a thread of its own.

use super::{Found, Variant};
use crate::malloc::calls::PATTERN;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Events of each program that are replayed: callgrind takes some fifty times as long as the processor.
pub const EVENTS: u64 = 300_000;

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// No valgrind, or this command's own file.
    #[error(
        "valgrind cannot be run: {0}; install it (Debian: apt install valgrind), or leave out --instructions"
    )]
    Start(io::Error),
    /// It ended in error.
    #[error("valgrind could not count instructions of {program}: {why}")]
    Ended {
        /// The program.
        program: String,
        /// Its last words.
        why: String,
    },
}

/// Counts the instructions of the first [`EVENTS`] events of a program's `trace`, as shipped (`None`) or in a variant; `freehold` is
/// this command's own file.
///
/// # Errors
/// When valgrind is missing or fails.
pub fn count(
    freehold: &Path,
    trace: &Path,
    found: &Found,
    variant: Option<&Variant>,
) -> Result<u64, CountError> {
    let folder = tempfile::tempdir().map_err(CountError::Start)?;
    let counted = folder.path().join("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind"]).arg(format!("--toggle-collect={PATTERN}"));
    valgrind.arg(format!("--callgrind-out-file={}", counted.display())).arg(freehold);
    valgrind.arg("replay").arg(trace).args(["--on", "malloc", "--huge-pages", "--points", "2"]);
    valgrind.args(["--first", &EVENTS.to_string()]);
    if let Some(Variant { decision, value, .. }) = variant {
        valgrind.arg("--set").arg(format!("{decision}={value}"));
    }
    let output = valgrind.stdin(Stdio::null()).output().map_err(CountError::Start)?;
    let ended = |why: String| CountError::Ended { program: found.name.clone(), why };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(ended(said.lines().last().unwrap_or("it said nothing").to_owned()));
    }
    let text = std::fs::read_to_string(&counted).map_err(|error| ended(error.to_string()))?;
    total(&text).filter(|total| *total > 0).ok_or_else(|| ended("it counted nothing".to_owned()))
}

/// What callgrind's file says of all functions together.
fn total(text: &str) -> Option<u64> {
    let said = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse().ok()
    };
    said("totals:").or_else(|| said("summary:"))
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn the_total_is_read() {
        assert_eq!(total("version: 1\nevents: Ir\nfn=x\n1 2\n\ntotals: 4711\n"), Some(4711));
        assert_eq!(total("summary: 12 3\n"), Some(12));
        assert_eq!(total("fn=x\n"), None);
    }
}
