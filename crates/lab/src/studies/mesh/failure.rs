//! The letter's argument against a central manager, as an experiment: the central node fails.
//!
//! "This centralized approach creates a central point of failure rendering the whole system unusable in case the
//! central core fails." The first node fails under every allocator; who goes on, and how fast?

use super::config::Plan;
use super::measure::{self, Cell, RunError};
use crate::simulate::crew;
use freehold_core::place::mesh::Order;
use freehold_sim::mesh::Allocator;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};

/// One allocator after the first node has failed: sums over the runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Failed {
    /// The allocator.
    pub allocator: &'static str,
    /// The platform.
    pub platform: String,
    /// Cycles after which a node gives up waiting for an answer; 0: never, as published.
    pub patience: u64,
    /// Nodes that are left.
    pub left: u64,
    /// Of these, nodes whose requests are still served.
    pub going: u64,
    /// Requests served of a node in 1,000 cycles, before (the failed node's included).
    pub before: f64,
    /// The same afterwards.
    pub after: f64,
}

/// The allocators compared: two that are central, two that are not.
const COMPARED: [Allocator; 4] =
    [Allocator::Global, Allocator::Master, Allocator::Microcoded, Allocator::Proposed];

/// Every allocator on the largest published platform, as published and with patience.
///
/// # Errors
/// A run could not begin, or `interrupted` was raised.
pub fn failures(plan: &Plan, interrupted: &AtomicBool) -> Result<Vec<Failed>, RunError> {
    let Some(&mesh) = plan.platforms.last().filter(|mesh| mesh.heaps() > 1) else {
        return Ok(Vec::new());
    };
    let wanted = COMPARED.map(|of| [0, plan.failure.patience].map(|patience| (of, patience)));
    let one = |job: usize| {
        let (allocator, patience) = wanted.as_flattened()[job];
        let cell = Cell::plain(mesh, allocator, Order::Index);
        let mut found = Failed {
            allocator: allocator.name(),
            platform: mesh.to_string(),
            patience,
            left: 0,
            going: 0,
            before: 0.0,
            after: 0.0,
        };
        let (mut before, mut after) = ((0, 0), (0, 0));
        for repeat in 0..plan.repeats {
            if interrupted.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted);
            }
            let run = measure::failing(plan, &cell, repeat, patience)?;
            let Some(aftermath) = run.aftermath else { continue };
            found.left += aftermath.left;
            found.going += aftermath.going;
            before = (before.0 + aftermath.before.0, before.1 + aftermath.before.1);
            after = (after.0 + aftermath.after.0, after.1 + aftermath.after.1);
        }
        let nodes = mesh.heaps() as f64;
        let rate = |(cycles, served): (u64, u64), nodes: f64| {
            1000.0 * served as f64 / (cycles.max(1) as f64 * nodes)
        };
        (found.before, found.after) = (rate(before, nodes), rate(after, nodes - 1.0));
        Ok(found)
    };
    crew::work(wanted.as_flattened().len(), one, || ()).into_iter().collect()
}

/// What it comes to, in a sentence.
pub fn sentence(failures: &[Failed]) -> Option<String> {
    let of = |allocator: Allocator, patient: bool| {
        let is = |one: &&Failed| one.allocator == allocator.name() && (one.patience > 0) == patient;
        let found = failures.iter().find(is)?;
        Some(100.0 * found.going as f64 / found.left.max(1) as f64)
    };
    let (proposed, micro) = (Allocator::Proposed, Allocator::Microcoded);
    Some(format!(
        "When the first node fails, {:.0} % of the others are still served under a central manager, {:.0} % under priority \
         tables and {:.0} % under the letter's allocator as published, for a node that asks the failed one waits for its \
         answer; with a time limit on answers {:.0}, {:.0} and {:.0} %.",
        of(Allocator::Master, false)?,
        of(micro, false)?,
        of(proposed, false)?,
        of(Allocator::Master, true)?,
        of(micro, true)?,
        of(proposed, true)?,
    ))
}
