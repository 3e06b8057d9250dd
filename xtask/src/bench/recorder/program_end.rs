//! When the measured program itself has ended, as opposed to the tool around it: a recorder may write
//! its file before its program ends, after, or both, and only the first slows the program down.
//!
//! `bench/recorder/start.c` leaves the program's process id in a file; from then on it is looked for
//! once a millisecond, which is fine enough for programs that run a tenth of a second and more.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// Watches for the end of a program.
pub struct ProgramEnd<'scope> {
    watcher: ScopedJoinHandle<'scope, Option<Instant>>,
}

impl<'scope> ProgramEnd<'scope> {
    /// Starts watching; `over` is to become true when the tool has ended, whatever was seen.
    pub fn watch<'env>(
        scope: &'scope std::thread::Scope<'scope, 'env>,
        file: PathBuf,
        over: &'env AtomicBool,
    ) -> Self {
        ProgramEnd { watcher: scope.spawn(move || end_of(&file, over)) }
    }

    /// When the program ended; none where it was not seen.
    pub fn when(self) -> Option<Instant> {
        self.watcher.join().unwrap_or(None)
    }
}

fn end_of(file: &Path, over: &AtomicBool) -> Option<Instant> {
    let mut process = None;
    while !over.load(Ordering::Relaxed) {
        match process {
            None => process = process_in(file),
            Some(process) if !is_alive(process) => return Some(Instant::now()),
            Some(_) => {}
        }
        sleep(LOOK);
    }
    None
}

/// The process id, once it is written whole.
fn process_in(file: &Path) -> Option<u32> {
    std::fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok()
}

/// Whether the process runs: one that nobody has asked about yet does not.
fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in brackets, may hold anything: the state is the word behind it.
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_alive_until_it_ends() {
        assert!(is_alive(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = child.id();
        while is_alive(process) {
            sleep(LOOK);
        }
        child.wait().unwrap();
        assert!(!is_alive(process));
    }
}
