//! A master that hands out tasks, and its slaves.
//!
//! Every task has three parts, and where a recorder listens each begins with a mark: the master makes its
//! input, a slave works, the master uses the result. With one slave all three run on one thread, in
//! order, so that what is recorded is one task after the other.

use crate::access::{self, BARRIER, TASK};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How many slaves there are.
#[derive(Clone, Debug)]
pub struct Farm {
    slaves: usize,
    /// Beside which marks are set: an object of its own.
    marker: Arc<[u64; 2]>,
}

impl Farm {
    /// A farm of `slaves` slaves, at least one.
    pub fn new(slaves: usize) -> Farm {
        Farm { slaves: slaves.max(1), marker: Arc::new([0; 2]) }
    }

    /// One phase: for each task number below `tasks` its input is made, worked on, and its result used, in
    /// the order of the tasks. All tasks end before the phase does.
    pub fn phase<I: Send, R: Send>(
        &self,
        tasks: usize,
        mut make: impl FnMut(usize) -> I,
        work: impl Fn(usize, I) -> R + Sync,
        mut result: impl FnMut(usize, R),
    ) {
        access::mark(&*self.marker, BARRIER);
        if self.slaves == 1 {
            for task in 0..tasks {
                self.mark_part();
                let input = make(task);
                self.mark_part();
                let output = work(task, input);
                self.mark_part();
                result(task, output);
            }
            return;
        }
        // As many tasks at a time as there are slaves: an embedded master has no room for all.
        let mut next = 0;
        while next < tasks {
            let count = self.slaves.min(tasks - next);
            let inputs: VecDeque<(usize, I)> =
                (next..next + count).map(|task| (task, make(task))).collect();
            for (task, output) in self.together(inputs, &work) {
                result(task, output);
            }
            next += count;
        }
    }

    fn mark_part(&self) {
        access::mark(&*self.marker, TASK);
    }

    /// Works on all inputs at once; the results in the order of the tasks.
    fn together<I: Send, R: Send>(
        &self,
        inputs: VecDeque<(usize, I)>,
        work: &(impl Fn(usize, I) -> R + Sync),
    ) -> Vec<(usize, R)> {
        let (inputs, outputs) = (Mutex::new(inputs), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..self.slaves {
                scope.spawn(|| {
                    loop {
                        let next =
                            inputs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                        let Some((task, input)) = next else { return };
                        let output = work(task, input);
                        outputs.lock().unwrap_or_else(PoisonError::into_inner).push((task, output));
                    }
                });
            }
        });
        let mut outputs = outputs.into_inner().unwrap_or_else(PoisonError::into_inner);
        outputs.sort_by_key(|(task, _)| *task);
        outputs
    }

    /// Begins to tell a recorder what is touched.
    pub fn watch(&self) {
        access::watch(access::Share::Groups(1));
        access::mark(&*self.marker, BARRIER);
    }

    /// Ends it.
    pub fn end_watch(&self) {
        access::end_watch(&*self.marker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_used_in_the_order_of_the_tasks() {
        for slaves in [1, 3, 8] {
            let mut seen = Vec::new();
            let square = |_, input: Box<u64>| Box::new(*input * *input);
            Farm::new(slaves).phase(
                10,
                |task| Box::new(task as u64),
                square,
                |task, out| {
                    seen.push((task as u64, *out));
                },
            );
            assert!(seen.into_iter().eq((0..10).map(|task| (task, task * task))), "{slaves}");
        }
    }
}
