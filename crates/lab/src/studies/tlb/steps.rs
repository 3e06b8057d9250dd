//! Touched words and marks, one after another, as work for simulated processors.

use freehold_sim::cache::WORD;
use freehold_sim::processors::{Op, Work};

/// Everything that was told.
pub(super) struct Told {
    /// As work.
    pub(super) work: Work,
    /// Words touched.
    pub(super) words: u64,
}

/// The work so far.
#[derive(Default)]
pub(super) struct Steps {
    work: Work,
    words: u64,
    /// Of the task under way.
    home: u64,
}

impl Steps {
    /// So many words more; words after each other make one op.
    pub(super) fn touch(&mut self, address: u64, words: u32) {
        self.words += u64::from(words);
        let begun = self.begun();
        if let Some(Op::Touch { address: first, words: had }) = self.work.ops[begun..].last_mut()
            && *first + WORD * u64::from(*had) == address
        {
            *had += words;
            return;
        }
        self.work.ops.push(Op::Touch { address, words });
    }

    /// A call of the allocator.
    pub(super) fn call(&mut self, op: Op) {
        self.work.ops.push(op);
    }

    /// Ends the task under way, if it did anything, and begins another.
    pub(super) fn begin_task(&mut self, home: u64) {
        if self.work.ops.len() > self.begun() {
            self.work.task_ends.push(self.work.ops.len());
            self.work.homes.push(self.home);
        }
        self.home = home;
    }

    /// Ends the phase under way, if it had a task.
    pub(super) fn end_phase(&mut self) {
        let begun = self.work.phase_ends.last().copied().unwrap_or(0);
        if self.work.task_ends.len() > begun {
            self.work.phase_ends.push(self.work.task_ends.len());
        }
    }

    /// Where the ops of the task under way begin.
    fn begun(&self) -> usize {
        self.work.task_ends.last().copied().unwrap_or(0)
    }

    /// All of it.
    pub(super) fn finish(mut self, objects: u32) -> Told {
        self.begin_task(0);
        self.end_phase();
        self.work.objects = objects;
        Told { work: self.work, words: self.words }
    }
}
