//! The purger in the trace's time: rounds as [`Rounds`] says, each at once where its time has come.

use super::machine::Simulated;
use freehold_core::machine::Machine;
use freehold_core::malloc::NodeHeap;
use freehold_core::rounds::Rounds;

/// At work, or waiting for enough to do.
#[derive(Default)]
pub struct Purger {
    at_work: Option<AtWork>,
}

struct AtWork {
    rounds: Rounds,
    pause_ns: u64,
    due_ns: u64,
}

impl Purger {
    /// Whether a round is due at a time, in nanoseconds since the trace began.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.at_work.as_ref().is_some_and(|work| work.due_ns <= now_ns)
    }

    /// Starts work if the heap wants it and none is under way. After each event.
    pub fn consider(&mut self, heap: &NodeHeap<Simulated>, now_ns: u64) {
        if self.at_work.is_none() && heap.wants_purge() {
            self.at_work = sleep(heap, Rounds::default(), now_ns);
        }
    }

    /// Does the round that is due.
    pub fn round(&mut self, heap: &NodeHeap<Simulated>) {
        let Some(AtWork { mut rounds, pause_ns, due_ns }) = self.at_work.take() else { return };
        let done = heap.purge(false);
        rounds.done(pause_ns, done.more);
        self.at_work = sleep(heap, rounds, due_ns);
        if self.at_work.is_none() {
            heap.settled();
        }
    }
}

/// The pause before the next round, from `now_ns` on; `None`: there is none.
fn sleep(heap: &NodeHeap<Simulated>, rounds: Rounds, now_ns: u64) -> Option<AtWork> {
    let pause_ns = rounds.pause_ns(heap.machine().decisions(), heap.usage().used)?;
    Some(AtWork { rounds, pause_ns, due_ns: now_ns.saturating_add(pause_ns) })
}
