//! One large run against the clock: the largest platform, everything improved, on one core.
//!
//! The only part of the study that reads a clock; nothing of it enters the results.

use super::config::Plan;
use super::measure::{self, Cell, RunError};
use serde::Serialize;
use std::time::Instant;

/// What a person may have to wait for a million calls on the largest platform, in seconds.
pub const BUDGET: f64 = 30.0;

/// How long it took.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Speed {
    /// `64x64`.
    pub platform: String,
    /// Calls of malloc and free that were counted.
    pub events: u64,
    /// Those of every node before.
    pub warm_up_per_node: u64,
    /// The run, on one core.
    pub seconds: f64,
    /// [`BUDGET`].
    pub budget: f64,
    /// Cycles of a call, simulated: what else the run would have told.
    pub cycles: f64,
}

/// Runs `events` calls on the largest platform of the plan.
///
/// # Errors
/// When the run could not begin.
pub fn speed(plan: &Plan, events: u64) -> Result<Option<Speed>, RunError> {
    let Some(mesh) = plan.all().max_by_key(|mesh| mesh.heaps()) else { return Ok(None) };
    let cell = Cell::improved(mesh, ("improved".to_owned(), plan.improved.clone()));
    let begin = Instant::now();
    let row = measure::timed(plan, &cell, events)?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Some(Speed {
        platform: row.platform,
        events: row.events,
        warm_up_per_node: plan.warm_up_per_node,
        seconds,
        budget: BUDGET,
        cycles: row.cycles,
    }))
}
