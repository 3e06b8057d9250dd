//! Lazy selection: the own heap, then the first remote one that is free to ask and has room.
//!
//! ```text
//!   own heap ──full──► every remote heap, in order ──► those that were busy, in rounds ──► those still
//!   (waits)             TryLock: busy -> pass on        after a rest each                   busy: wait
//!                       got it -> Take                                                      at each
//! ```
//!
//! Koutras et al. 2016, figure 3 and section II: "if the allocator tries to acquire the lock of a
//! remote heap and fails, it should move to the next". Lazily means: stop at the first that fits. What
//! the letter leaves out is what happens when all that might have room are busy: to give up would be
//! out of memory with memory free. So a few rounds follow, and then one pass that waits at every heap
//! which has not said itself, to this search, that it is full.

use super::{Answer, Ask, HeapId, HeapSet, Step, Walk};

/// The most rounds over busy heaps before waiting at each.
pub const MAX_ROUNDS: u32 = 16;

/// One search. The set that it is given with every step is its own: the heaps that have said "full".
#[derive(Clone, Copy, Debug)]
pub struct Lazy {
    start: Walk,
    rest: Walk,
    stage: Stage,
    at: HeapId,
    /// Remote heaps met in this stage that were busy.
    open: u32,
    rounds: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The own heap.
    Own,
    /// All remote heaps, and then, by number of the round, those that were busy.
    Round(u32),
    /// Those that were busy in every round, each waited for.
    Wait,
}

impl Lazy {
    /// A search that has not begun; busy heaps are tried in `rounds` further rounds, at most
    /// [`MAX_ROUNDS`].
    pub fn new(rest: Walk, rounds: u32) -> Lazy {
        let rounds = rounds.min(MAX_ROUNDS);
        Lazy { start: rest, rest, stage: Stage::Own, at: rest.from(), open: 0, rounds }
    }

    /// The next step, after `answer` to the last one; without at the beginning and after a rest.
    /// O(1) amortised over a pass.
    pub fn next(&mut self, answer: Option<Answer>, full: &mut HeapSet<'_>) -> Step {
        match answer {
            None if self.stage == Stage::Own => {
                full.clear();
                Step::Ask(self.at, Ask::Alloc)
            }
            None => self.go_on(full),
            Some(Answer::Locked) => Step::Ask(self.at, Ask::Take),
            Some(Answer::Served | Answer::Freed) => Step::Served(self.at),
            Some(Answer::Full) => {
                full.insert(self.at);
                self.go_on(full)
            }
            Some(Answer::Busy) => {
                self.open += 1;
                self.go_on(full)
            }
        }
    }

    fn go_on(&mut self, full: &HeapSet<'_>) -> Step {
        if self.stage == Stage::Own {
            self.stage = Stage::Round(0);
        }
        let ask = if self.stage == Stage::Wait { Ask::Alloc } else { Ask::TryLock };
        match self.rest.find(|&heap| !full.contains(heap)) {
            Some(heap) => {
                self.at = heap;
                Step::Ask(heap, ask)
            }
            None => self.end_of_stage(full),
        }
    }

    fn end_of_stage(&mut self, full: &HeapSet<'_>) -> Step {
        if self.open == 0 {
            return Step::Full;
        }
        self.open = 0;
        self.rest = self.start;
        match self.stage {
            Stage::Round(round) if round < self.rounds => {
                self.stage = Stage::Round(round + 1);
                Step::Rest(round + 1)
            }
            _ => {
                self.stage = Stage::Wait;
                self.go_on(full)
            }
        }
    }
}
