//! Where a real malloc puts the application's objects, by the application's own word.
//!
//! The application runs under the preloaded malloc and writes what it touches with the addresses it was
//! given (`freehold_workloads::access::log`). These addresses are measured: they differ a little from run
//! to run, since the system places heaps at random.

use super::packing::Packing;
use super::place::{PlaceError, Placed, Sample};
use super::steps::Steps;
use crate::real::Allocator;
use freehold_sim::processors::Work;
use freehold_workloads::access::log::{Kind, read};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the application, a command that takes `--access-log`, under `allocator` and reads what it says.
/// `folder` holds the log meanwhile.
///
/// # Errors
/// The program cannot be run, fails, or says nothing.
pub(super) fn place_really(
    command: &[OsString],
    allocator: &Allocator,
    folder: &Path,
) -> Result<Placed, PlaceError> {
    let failed = |what: String| PlaceError::Real { allocator: allocator.name.clone(), what };
    let log = folder.join(format!("{}.log", allocator.name.replace('/', "-")));
    let Some((program, words)) = command.split_first() else {
        return Err(failed("no program is named".to_owned()));
    };
    let mut child = Command::new(program);
    child.args(words).arg("--access-log").arg(&log);
    allocator.preload(&mut child);
    let output = child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| failed(format!("the program cannot be run: {error}")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("the program ended with {}: {words}", output.status)));
    }
    let placed = File::open(&log).and_then(|file| understand(&mut BufReader::new(file)));
    // A folder for temporary files: it goes as a whole if this file stays.
    let _ = std::fs::remove_file(&log);
    let placed =
        placed.map_err(|error| failed(format!("the access log cannot be read: {error}")))?;
    placed.ok_or_else(|| failed("the program touched nothing".to_owned()))
}

fn understand(log: &mut impl Read) -> io::Result<Option<Placed>> {
    let mut steps = Steps::default();
    let mut sample = Sample::default();
    let mut objects = Vec::new();
    while let Some(entry) = read(log)? {
        match entry.kind {
            Kind::Touch => steps.touch(entry.address, entry.length),
            Kind::Task => steps.begin_task(entry.address),
            Kind::Phase | Kind::End => {
                steps.begin_task(entry.address);
                steps.end_phase();
                sample.stretches += u64::from(entry.kind == Kind::End);
                objects.clear();
            }
            Kind::Object => objects.push((entry.address, u64::from(entry.length))),
        }
    }
    sample.objects = objects.len() as u64;
    sample.live_bytes = objects.iter().map(|(_, size)| size).sum();
    Ok(Placed::of(steps.finish(0), Work::default(), sample, Packing::of(&objects)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(address: u64, length: u32, kind: Kind) -> [u8; 16] {
        let all = u128::from(address) | u128::from(length) << 64 | (kind as u128) << 96;
        all.to_le_bytes()
    }

    #[test]
    fn a_log_becomes_phases_tasks_and_pages() {
        let log = [
            entry(0x1000, 1, Kind::Phase),
            entry(0x1000, 1, Kind::Task),
            entry(0x1010, 2, Kind::Touch),
            entry(0x1020, 1, Kind::Touch), // the word after them
            entry(0x9000, 1, Kind::Task),
            entry(0x9010, 1, Kind::Touch),
            entry(0x1000, 1, Kind::Phase),
            entry(0x9010, 1, Kind::Touch),
            entry(0x1000, 1, Kind::End),
            entry(0x1000, 1024, Kind::Object),
            entry(0x9000, 1024, Kind::Object),
        ]
        .concat();
        let placed = understand(&mut log.as_slice()).unwrap().unwrap();
        assert_eq!((placed.sample.words, placed.sample.tasks, placed.sample.phases), (5, 3, 2));
        assert_eq!((placed.sample.objects, placed.sample.live_bytes), (2, 2048));
        assert_eq!(placed.work.homes, [0x1000, 0x9000, 0x1000]);
        assert_eq!(placed.work.ops.len(), 3, "words after each other are one op");
        assert_eq!((placed.packing[0].pages, placed.packing[0].density), (2, 0.25));
        assert!(understand(&mut &log[..20]).is_err());
        assert_eq!(understand(&mut [].as_slice()).unwrap().map(|placed| placed.sample), None);
    }

    #[test]
    fn a_program_that_fails_is_named() {
        let command = |script: &str| ["/bin/sh", "-c", script].map(OsString::from);
        let folder = tempfile::tempdir().unwrap();
        let error = |script: &str| {
            let found = place_really(&command(script), &Allocator::glibc(), folder.path());
            found.map(|placed| placed.sample).unwrap_err().to_string()
        };
        assert!(
            error("echo no >&2; exit 3")
                .contains("glibc: the program ended with exit status: 3: no")
        );
        assert!(error("true").contains("cannot be read"));
    }
}
