//! Touched words and marks, one after another, as work for simulated processors.

use super::packing::Packing;
use super::place::{Placed, Sample};
use freehold_sim::cache::WORD;
use freehold_sim::processors::{Op, Work};

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

    /// All of it; `None` if no word was touched. The sample is completed.
    pub(super) fn finish(
        mut self,
        objects: u32,
        mut sample: Sample,
        packing: Vec<Packing>,
    ) -> Option<Placed> {
        self.begin_task(0);
        self.end_phase();
        self.work.objects = objects;
        sample.words = self.words;
        sample.tasks = self.work.task_ends.len() as u64;
        sample.phases = self.work.phase_ends.len() as u64;
        (self.words > 0).then_some(Placed { work: self.work, sample, packing })
    }
}
