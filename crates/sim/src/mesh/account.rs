//! What a run came to: cycles by cause, messages, and where on the mesh.

use std::ops::{Add, AddAssign};

/// Cycles of an event, by cause. Their sum is the time from the call to the return.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Cycles {
    /// On the network, interfaces included, links not waited for.
    pub travel: u64,
    /// Waiting on the way, for links that other messages took.
    pub queued: u64,
    /// Waiting: for a lock, for a controller that is at work, resting between rounds.
    pub wait: u64,
    /// Finding the heap: records, probes, the map, heaps found full or busy.
    pub search: u64,
    /// On the heap that served, with the call and its command.
    pub work: u64,
}

impl Cycles {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.travel + self.queued + self.wait + self.search + self.work
    }
}

impl Add for Cycles {
    type Output = Cycles;

    fn add(self, more: Cycles) -> Cycles {
        Cycles {
            travel: self.travel + more.travel,
            queued: self.queued + more.queued,
            wait: self.wait + more.wait,
            search: self.search + more.search,
            work: self.work + more.work,
        }
    }
}

impl AddAssign for Cycles {
    fn add_assign(&mut self, more: Cycles) {
        *self = *self + more;
    }
}

/// One node's part in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct NodeCounts {
    /// Calls of malloc and free that its core made.
    pub events: u64,
    /// Cycles of these calls.
    pub cycles: Cycles,
    /// Cycles that its core computed between calls.
    pub thought: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Messages that its controller served for others.
    pub served: u64,
    /// Cycles that the half of its controller which serves others was at work.
    pub busy: u64,
    /// Cycles that the links out of its router were taken.
    pub links: u64,
}

/// What came after a node failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Aftermath {
    /// Cycles from the beginning of counting to the failure, and requests of all nodes served in them.
    pub before: (u64, u64),
    /// The same from the failure to the end.
    pub after: (u64, u64),
    /// Nodes that are left.
    pub left: u64,
    /// Of these, nodes of which a request was served in the second half of what was watched.
    pub going: u64,
}

/// What a run came to, after its warm-up.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub struct Run {
    /// Calls of malloc and free.
    pub events: u64,
    /// Their cycles, by cause.
    pub cycles: Cycles,
    /// Calls of malloc.
    pub mallocs: u64,
    /// Calls of malloc that another node's heap served.
    pub remote_mallocs: u64,
    /// Messages between nodes.
    pub messages: u64,
    /// Links passed by them.
    pub hops: u64,
    /// In C: words of metadata that the allocator touched.
    pub accesses: u64,
    /// Heaps asked.
    pub asked: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests refused although a heap had room from their beginning to their end.
    pub spurious: u64,
    /// Simulated cycles from the end of the warm-up to the end of the run.
    pub elapsed: u64,
    /// What came after a node failed, where one did.
    pub aftermath: Option<Aftermath>,
    /// Node by node.
    pub nodes: Vec<NodeCounts>,
}

impl Run {
    /// Cycles of an event, on average.
    pub fn cycles_per_event(&self) -> f64 {
        per(self.cycles.total(), self.events)
    }

    /// Messages of an event, on average.
    pub fn messages_per_event(&self) -> f64 {
        per(self.messages, self.events)
    }

    /// Jain's index of fairness over the nodes' cycles per event: 1 when all wait alike, 1/n when one
    /// waits for all.
    pub fn fairness(&self) -> f64 {
        let means: Vec<f64> =
            self.nodes.iter().filter(|node| node.events > 0).map(NodeCounts::mean).collect();
        let sum: f64 = means.iter().sum();
        let squares: f64 = means.iter().map(|mean| mean * mean).sum();
        if squares == 0.0 { 1.0 } else { sum * sum / (means.len() as f64 * squares) }
    }

    /// The fewest calls that a node made.
    pub fn fewest_calls(&self) -> u64 {
        self.nodes.iter().map(|node| node.events).min().unwrap_or(0)
    }

    /// The node that waits longest over the mean of all.
    pub fn worst_over_mean(&self) -> f64 {
        let worst = self.nodes.iter().map(NodeCounts::mean).fold(0.0, f64::max);
        let mean = self.cycles_per_event();
        if mean == 0.0 { 0.0 } else { worst / mean }
    }

    /// The share of all cycles, computing included, that calls of malloc and free take.
    pub fn share(&self) -> f64 {
        let thought: u64 = self.nodes.iter().map(|node| node.thought).sum();
        per(self.cycles.total(), self.cycles.total() + thought)
    }
}

impl NodeCounts {
    /// Cycles of an event of this node, on average.
    pub fn mean(&self) -> f64 {
        per(self.cycles.total(), self.events)
    }
}

/// The quotient, 0 where there is nothing to divide by.
fn per(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_falls_when_one_node_waits_for_all() {
        let node = |cycles| NodeCounts {
            events: 2,
            cycles: Cycles { wait: cycles, ..Cycles::default() },
            ..NodeCounts::default()
        };
        let run = |nodes: Vec<NodeCounts>| {
            let cycles = nodes.iter().fold(Cycles::default(), |sum, node| sum + node.cycles);
            Run { events: 2 * nodes.len() as u64, cycles, nodes, ..Run::default() }
        };
        let even = run(vec![node(10); 4]);
        assert_eq!((even.fairness(), even.worst_over_mean()), (1.0, 1.0));
        let uneven = run(vec![node(40), node(0), node(0), node(0)]);
        assert_eq!((uneven.fairness(), uneven.worst_over_mean()), (0.25, 4.0));
        assert_eq!(Run::default().fairness(), 1.0);
    }
}
