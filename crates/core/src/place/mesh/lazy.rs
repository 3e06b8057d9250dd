//! Lazy selection: the own heap, then the first remote one that is free to ask and has room.
//!
//! ```text
//!   own heap ─full─► remote heaps,  ─► those that   ─► those that were busy, ─► those still
//!   (waits)           in order          seemed full     in rounds, after a      busy: wait
//!                                       to the asker    rest each               at each
//! ```
//!
//! Koutras et al. 2016, figure 3 and section II: "if the allocator tries to acquire the lock of a
//! remote heap and fails, it should move to the next". Lazily means: stop at the first that fits. What
//! the letter leaves out is what happens when all that might have room are busy: to give up would be
//! out of memory with memory free. So a few rounds follow, and then one pass that waits at every heap
//! which has not said itself, to this search, that it is full.
//!
//! Ours: the asker may expect some heaps to be full ([`Hints`](super::Hints),
//! [`Summary`](super::Summary)) and then asks them last; and it may lock, look and unlock in one message
//! ([`Ask::TryAlloc`]) where the letter takes two.

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
    /// Remote heaps of this stage that were busy, and those that were passed over.
    busy: u32,
    passed: u32,
    /// Heaps that the last step left out since they had said "full".
    left_out: u32,
    rounds: u32,
    one_message: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The own heap.
    Own,
    /// The remote heaps that are expected to have room.
    Expected,
    /// All that have not said "full", and again, by number of the round.
    Round(u32),
    /// Those that were busy in every round, each waited for.
    Wait,
}

impl Lazy {
    /// A search that has not begun; busy heaps are tried in `rounds` further rounds, at most
    /// [`MAX_ROUNDS`]. `one_message`: a remote heap is asked by one message instead of two.
    pub fn new(rest: Walk, rounds: u32, one_message: bool) -> Lazy {
        let (at, rounds) = (rest.from(), rounds.min(MAX_ROUNDS));
        let (stage, busy, passed, left_out) = (Stage::Own, 0, 0, 0);
        Lazy { start: rest, rest, stage, at, busy, passed, left_out, rounds, one_message }
    }

    /// How many heaps the last step left out because they had said "full": a bit was read for each. What
    /// `expects` reads for those that it is asked about, its caller knows. Neither is free of cost.
    pub const fn left_out(&self) -> u32 {
        self.left_out
    }

    /// The next step, after `answer` to the last one; without at the beginning and after a rest.
    /// `expects` says of a heap whether it seems worth asking at first. O(1) amortised over a pass.
    pub fn next(
        &mut self,
        answer: Option<Answer>,
        full: &mut HeapSet<'_>,
        expects: impl Fn(HeapId) -> bool,
    ) -> Step {
        self.left_out = 0;
        match answer {
            None if self.stage == Stage::Own => {
                full.clear();
                return Step::Ask(self.at, Ask::Alloc);
            }
            None => {}
            Some(Answer::Locked) => return Step::Ask(self.at, Ask::Take),
            Some(Answer::Served | Answer::Freed | Answer::Lent(_)) => return Step::Served(self.at),
            Some(Answer::Full) => full.insert(self.at),
            Some(Answer::Busy) => self.busy += 1,
        }
        if self.stage == Stage::Own {
            self.stage = Stage::Expected;
        }
        self.go_on(full, &expects)
    }

    fn go_on(&mut self, full: &HeapSet<'_>, expects: &impl Fn(HeapId) -> bool) -> Step {
        let ask = match (self.stage, self.one_message) {
            (Stage::Wait, _) => Ask::Alloc,
            (_, true) => Ask::TryAlloc,
            (_, false) => Ask::TryLock,
        };
        for heap in self.rest.by_ref() {
            if full.contains(heap) {
                self.left_out += 1;
                continue;
            }
            if self.stage == Stage::Expected && !expects(heap) {
                self.passed += 1;
                continue;
            }
            self.at = heap;
            return Step::Ask(heap, ask);
        }
        self.end_of_stage(full, expects)
    }

    fn end_of_stage(&mut self, full: &HeapSet<'_>, expects: &impl Fn(HeapId) -> bool) -> Step {
        let (busy, passed) = (self.busy, self.passed);
        if busy + passed == 0 {
            return Step::Full;
        }
        (self.busy, self.passed, self.rest) = (0, 0, self.start);
        self.stage = match self.stage {
            Stage::Own | Stage::Expected if passed > 0 => Stage::Round(0),
            Stage::Own | Stage::Expected if self.rounds > 0 => Stage::Round(1),
            Stage::Own | Stage::Expected => Stage::Wait,
            Stage::Round(round) if round < self.rounds => Stage::Round(round + 1),
            Stage::Round(_) | Stage::Wait => Stage::Wait,
        };
        match self.stage {
            Stage::Round(round) if round > 0 => Step::Rest(round),
            _ => self.go_on(full, expects),
        }
    }
}
