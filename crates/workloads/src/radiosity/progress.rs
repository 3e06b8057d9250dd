//! A line on standard error that says how far a long solution is: after two seconds, on a terminal
//! only. It allocates nothing, so that a recorded run is the same with and without it.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(2);

/// The line.
pub struct Progress {
    started: Instant,
    is_terminal: bool,
    is_shown: bool,
}

impl Progress {
    /// Nothing is shown yet.
    pub fn new() -> Progress {
        let is_terminal = stderr().is_terminal();
        Progress { started: Instant::now(), is_terminal, is_shown: false }
    }

    /// `done` iterations `of` so many are behind us.
    pub fn show(&mut self, done: u64, of: u64) {
        if self.is_terminal && self.started.elapsed() >= PATIENCE {
            self.is_shown = true;
            // Whoever closed the terminal does not want the line.
            let _ = write!(stderr(), "\r  iteration {} of {of}", done + 1);
        }
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(stderr(), "\r\x1b[K"); // as above
        }
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}
