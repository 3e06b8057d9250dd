//! What a step costs: nanoseconds by where it touches memory.
//!
//! The steps are those that the policy really takes. A word touched (of a block, or of the policy's
//! index, which lies with the memory it is the index of) costs what that memory costs the asking
//! node; a step of computation costs the same everywhere. The table is data, not measurement.

use super::machine::{Machine, Memory};
use freehold_blocks::probe::{Probe, Step};
use freehold_core::place::NodeId;

/// The most that anything may cost: a second. Sums stay below 2^64 ns for any possible study.
const MAX_NS: u64 = 1_000_000_000;

/// A table of costs that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadCosts {
    /// Too much.
    #[error("{what} cannot cost {ns} ns: 0 to a second is possible")]
    TooMuch {
        /// Which cost.
        what: &'static str,
        /// How much.
        ns: u64,
    },
    /// No distances.
    #[error("remote memory needs at least one cost, for one hop")]
    NoRemote,
}

/// The table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Every request, whatever it does: the call, its lock, its bookkeeping.
    pub request_ns: u64,
    /// A step of computation: a judgement, a split, a merge.
    pub step_ns: u64,
    /// Reading one memory's load in a search.
    pub load_ns: u64,
    /// A word of the own node's memory.
    pub local_ns: u64,
    /// A word of the shared memory.
    pub shared_ns: u64,
    /// A word of another node's memory, by hops from 1 on; the last entry is for all that are farther.
    pub remote_ns: Vec<u64>,
}

impl Costs {
    /// Whether the table can be used.
    ///
    /// # Errors
    /// See [`BadCosts`].
    pub fn check(&self) -> Result<(), BadCosts> {
        let single = [
            ("a request", self.request_ns),
            ("a step", self.step_ns),
            ("reading a load", self.load_ns),
            ("local memory", self.local_ns),
            ("shared memory", self.shared_ns),
        ];
        let remote = self.remote_ns.iter().map(|&ns| ("remote memory", ns));
        for (what, ns) in single.into_iter().chain(remote) {
            if ns > MAX_NS {
                return Err(BadCosts::TooMuch { what, ns });
            }
        }
        if self.remote_ns.is_empty() { Err(BadCosts::NoRemote) } else { Ok(()) }
    }

    /// What a word of `memory` costs a processor of `here`.
    pub fn touch_ns(&self, machine: &Machine, here: NodeId, memory: Memory) -> u64 {
        let Memory::Of(node) = memory else { return self.shared_ns };
        let hops = machine.hops_from(here).get(node.index()).copied().unwrap_or(u32::MAX);
        match (hops as usize).checked_sub(1) {
            None => self.local_ns,
            Some(farther) => {
                let of_hops = self.remote_ns.get(farther).or(self.remote_ns.last());
                of_hops.copied().unwrap_or(self.local_ns)
            }
        }
    }
}

/// Counts steps, apart by what they cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Meter {
    /// Words of memory touched.
    pub touches: u64,
    /// Steps of computation.
    pub computing: u64,
}

impl Meter {
    /// All steps.
    pub fn steps(&self) -> u64 {
        self.touches + self.computing
    }

    /// What they cost where a word costs `touch_ns`.
    pub fn ns(&self, costs: &Costs, touch_ns: u64) -> u64 {
        self.touches * touch_ns + self.computing * costs.step_ns
    }
}

impl Probe for Meter {
    #[inline]
    fn step(&mut self, step: Step) {
        match step {
            Step::Touch { .. } | Step::Index => self.touches += 1,
            Step::Inspect | Step::Split | Step::Merge => self.computing += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> Costs {
        let remote_ns = vec![130, 180];
        Costs { request_ns: 100, step_ns: 1, load_ns: 90, local_ns: 80, shared_ns: 110, remote_ns }
    }

    #[test]
    fn farther_costs_more_and_the_last_entry_serves_all_beyond() {
        let machine = Machine::new(&[1 << 20; 8], 1 << 20, 2).unwrap();
        let node = |i| NodeId::new(i).unwrap();
        let from_0 = |i| costs().touch_ns(&machine, node(0), Memory::Of(node(i)));
        assert_eq!([0, 1, 2, 3, 4, 7].map(from_0), [80, 130, 180, 180, 180, 130]);
        assert_eq!(costs().touch_ns(&machine, node(0), Memory::Shared), 110);
    }

    #[test]
    fn time_is_the_steps_by_where_they_touch() {
        let mut meter = Meter::default();
        for step in [Step::Touch { at: 0 }, Step::Index, Step::Inspect, Step::Split, Step::Merge] {
            meter.step(step);
        }
        assert_eq!((meter.steps(), meter.ns(&costs(), 80)), (5, 2 * 80 + 3));
    }

    #[test]
    fn tables_that_make_no_sense_are_refused() {
        assert_eq!(costs().check(), Ok(()));
        let none = Costs { remote_ns: Vec::new(), ..costs() };
        assert_eq!(none.check(), Err(BadCosts::NoRemote));
        let slow = Costs { shared_ns: u64::MAX, ..costs() };
        assert!(slow.check().unwrap_err().to_string().starts_with("shared memory cannot cost"));
    }
}
