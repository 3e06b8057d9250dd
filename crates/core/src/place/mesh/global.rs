//! One heap for all: its lock, then the search.
//!
//! The allocator written in C of Koutras et al. 2016, section II: it takes the lowest block that
//! fits, wherever that lies. With the own heap in place of the one for all it is the private allocator
//! of their figure 4.

use super::{Answer, Ask, HeapId, Step};

/// A search of the one heap whose lock is at `home`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Global {
    home: HeapId,
}

impl Global {
    /// A search that has not begun.
    pub const fn new(home: HeapId) -> Global {
        Global { home }
    }

    /// The next step, after `answer` to the last one; without at the beginning. O(1).
    pub fn next(&mut self, answer: Option<Answer>) -> Step {
        match answer {
            None | Some(Answer::Busy) => Step::Ask(self.home, Ask::Lock),
            Some(Answer::Locked) => Step::Ask(self.home, Ask::Take),
            Some(Answer::Served | Answer::Freed | Answer::Lent(_)) => Step::Served(self.home),
            Some(Answer::Full) => Step::Full,
        }
    }
}
