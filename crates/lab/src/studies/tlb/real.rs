//! Where a real malloc puts the application's objects.
//!
//! ```text
//!   this process                    a process of its own, the malloc preloaded
//!   place_really ── trace ────────► look_here: the recorded calls, in their order, on malloc
//!              Seen ◄── JSON ────── its words before every TLB, its pages
//! ```
//!
//! Only recorded calls should reach the malloc: the child serves itself by a heap of core's. (Decompression
//! asks for a buffer or two.) The program once more under each malloc would place the same objects, and
//! takes four times as long, nearly all of it rays.
//!
//! These addresses are measured: they differ a little from run to run, since the system places heaps at random.

use super::packing::Packing;
use super::place::{PlaceError, Placed, place_here};
use super::tables::placement_tlbs;
use crate::real::Allocator;
use freehold_sim::processors::{Found, alone};
use freehold_trace::{ProcessId, Trace};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a placement comes to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// Words touched.
    pub(super) words: u64,
    /// Misses of every TLB that placements are looked at through.
    pub(super) tlb_misses: Vec<u64>,
    /// How densely pages are filled.
    pub(super) packing: Vec<Packing>,
}

impl Seen {
    /// The words of this placement before every TLB, in one pass.
    pub(super) fn of(placed: Placed) -> Seen {
        let mut all = Found::default();
        alone(&placed.work, &placement_tlbs(), None).iter().for_each(|phase| all.add(phase));
        Seen { words: all.words, tlb_misses: all.tlb_misses, packing: placed.packing }
    }
}

/// The child's part: places the process's objects by the malloc of this process.
///
/// # Errors
/// As [`PlaceError`] says.
pub fn look_here(trace: &Trace, process: ProcessId) -> Result<Seen, PlaceError> {
    place_here(trace, process).map(Seen::of)
}

/// Runs `command` with `trace` as its last word under `allocator`; it prints what [`look_here`] says, as JSON.
///
/// # Errors
/// It cannot be run, fails, or says something else.
pub(super) fn place_really(
    command: &[OsString],
    allocator: &Allocator,
    trace: &Path,
) -> Result<Seen, PlaceError> {
    let failed = |what: String| PlaceError::Real { allocator: allocator.name.clone(), what };
    let Some((program, words)) = command.split_first() else {
        return Err(failed("no program is named".to_owned()));
    };
    let mut child = Command::new(program);
    child.args(words).arg(trace);
    allocator.preload(&mut child);
    let output = child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| failed(format!("it cannot be run: {error}")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("placing by it ended with {}: {words}", output.status)));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(format!("what it placed is not told: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_says_is_understood_and_its_failure_is_named() {
        let command = |script: &str| ["/bin/sh", "-c", script].map(OsString::from);
        let run = |script: &str| {
            place_really(&command(script), &Allocator::glibc(), Path::new("room.fht"))
        };
        let seen = Seen {
            words: 7,
            tlb_misses: vec![1, 2],
            packing: Packing::of(&[(0x1000, 1024), (0x9000, 1024)]),
        };
        let json = serde_json::to_string(&seen).unwrap();
        assert_eq!(run(&format!("test $0 = room.fht && echo '{json}'")).unwrap(), seen);
        let error = |script: &str| run(script).unwrap_err().to_string();
        assert!(
            error("echo no >&2; exit 3")
                .contains("glibc: placing by it ended with exit status: 3: no")
        );
        assert!(error("true").contains("not told"));
    }
}
