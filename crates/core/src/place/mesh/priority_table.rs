//! Priority tables: every heap in turn, each asked to the end.
//!
//! Every node has a list of all nodes, itself first. A malloc walks it: one fused command a record, for
//! which the home waits for the lock, looks, and answers. A free walks it, too, until it meets the
//! owner. Anagnostopoulos et al. 2011, as Koutras et al. 2016 describe it (section II). The rest of
//! the list is any [`Order`](super::Order); the published one seems to be by index.
//!
//! A second reading: "a lot of nodes have the same nodes as targets". One list for all nodes, in which the
//! own heap stands where its number puts it, is the list of the node that comes first in it.

use super::{Answer, Ask, HeapId, Step, Walk};

/// A search along one node's list.
#[derive(Clone, Copy, Debug)]
pub struct PriorityTable {
    at: HeapId,
    rest: Option<Walk>,
}

impl PriorityTable {
    /// A search that has not begun, from the node whose list goes on with `rest`.
    pub const fn new(rest: Walk) -> PriorityTable {
        PriorityTable { at: rest.from(), rest: Some(rest) }
    }

    /// A search of a list with one record: `home` serves all.
    pub const fn alone(home: HeapId) -> PriorityTable {
        PriorityTable { at: home, rest: None }
    }

    /// The next step, after `answer` to the last one; without at the beginning. O(1).
    pub fn next(&mut self, answer: Option<Answer>) -> Step {
        match answer {
            None => Step::Ask(self.at, Ask::Alloc),
            Some(Answer::Full) => match self.rest.as_mut().and_then(Walk::next) {
                Some(heap) => {
                    self.at = heap;
                    Step::Ask(heap, Ask::Alloc)
                }
                None => Step::Full,
            },
            // A fused command waits, so nobody is busy; if one were, it would be asked again.
            Some(Answer::Busy) => Step::Ask(self.at, Ask::Alloc),
            Some(Answer::Served | Answer::Locked | Answer::Freed | Answer::Lent(_)) => {
                Step::Served(self.at)
            }
        }
    }
}

/// Which record of the list that goes on with `rest` is `owner`'s: 1 is the node's own. O(heaps).
pub fn record_of(rest: Walk, owner: HeapId) -> usize {
    if owner == rest.from() { 1 } else { 2 + rest.take_while(|&heap| heap != owner).count() }
}
