//! Keeping threads in step with the trace, loosely: see `freehold_replayer::op` for why.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

use freehold_replayer::{Header, Op};

use crate::gate::Gate;
use crate::sys::{Pages, Zeroed, table};

/// One phase: how many threads have ended it, and how many will.
struct Phase {
    arrived: Gate,
    running: AtomicU32,
}

// SAFETY: two integers; zero is a phase that nobody knows of yet.
unsafe impl Zeroed for Phase {}

/// All phases of a run.
pub struct Phases {
    length: u64,
    phases: &'static [Phase],
}

impl Phases {
    /// For the run that `header` describes.
    pub fn new(header: &Header) -> Phases {
        let count = header.events / header.phase + 1;
        Phases { length: header.phase, phases: table(count as usize, Pages::Now) }
    }

    /// One thread has come to the end of a phase.
    #[cold]
    pub fn end(&self, op: Op) {
        if !op.position().is_multiple_of(self.length) {
            return;
        }
        let number = (op.position() / self.length) as usize;
        // Every thread stores the same number, before it lets anybody pass.
        self.phases[number].running.store(op.size() as u32, SeqCst);
        self.phases[number].arrived.raise();
        // A thread knows how many ran in the phase before: it was one of them, or was started
        // since by one of them, or by one they started. 0 where only one thread ran.
        let before = &self.phases[number - 1];
        before.arrived.wait_for(before.running.load(SeqCst));
    }
}
