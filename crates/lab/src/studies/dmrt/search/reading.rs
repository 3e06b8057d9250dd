//! One reading: the study at one point of the space, held against the printed rows.

use super::super::config::Plan;
use super::super::gaps::{Gap, PRINTED};
use super::super::published;
use super::super::tables::{Banks, attempt};
use super::space::{Point, Space};
use serde::Serialize;

/// Why a reading was run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// A point of the Latin hypercube.
    Design,
    /// A neighbour of the best so far.
    Descent,
    /// One of the best, with more attempts.
    Confirm,
}

impl Stage {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Design => "design",
            Stage::Descent => "descent",
            Stage::Confirm => "confirm",
        }
    }
}

/// What one reading came to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Reading {
    /// Why it was run.
    pub stage: Stage,
    /// The level of every factor.
    pub point: Point,
    /// Attempts of every table.
    pub attempts: u32,
    /// Distances of the four printed allocators; empty where the reading could not begin.
    pub gaps: Vec<Gap>,
    /// By how many points DmRT satisfies more than dlmalloc on one path (case 4) at 1000 requests.
    pub lead: Option<f64>,
}

/// Case and load at which the lead is looked at.
const LEAD_AT: (u32, u32) = (4, 1000);

/// Sums over the attempts of one table: percent satisfied, by allocator.
type Sums = [f64; PRINTED.len()];

/// Runs the study at `point`.
pub fn run(space: &Space, base: &Plan, stage: Stage, point: &[u8], attempts: u32) -> Reading {
    let mut reading =
        Reading { stage, point: point.to_vec(), attempts, gaps: Vec::new(), lead: None };
    let Ok(mut plan) = space.plan(base, point) else { return reading };
    plan.allocators.retain(|name| PRINTED.contains(name));
    let Some(sums) = every_table(&plan, attempts) else { return reading };
    let mean = |sums: &Sums, at: usize| sums[at] / f64::from(attempts);
    let gap = |(at, name): (usize, &'static str)| {
        let pair = |(case, load, sums): &(u32, u32, Sums)| {
            Some((mean(sums, at), published::find(*case, *load, name)?.satisfied))
        };
        Gap::of(name, &sums.iter().filter_map(pair).collect::<Vec<_>>())
    };
    reading.gaps = PRINTED.into_iter().enumerate().filter_map(gap).collect();
    let at = sums.iter().find(|(case, load, _)| (*case, *load) == LEAD_AT);
    reading.lead = at.map(|(.., sums)| mean(sums, 3) - mean(sums, 0));
    reading
}

/// Every table of the plan; `None` where a run could not begin.
fn every_table(plan: &Plan, attempts: u32) -> Option<Vec<(u32, u32, Sums)>> {
    let mut banks = Banks::default();
    let mut found = Vec::new();
    for (case, load) in plan.tables() {
        let mut sums = Sums::default();
        for number in 0..attempts {
            let rows = attempt(plan, case, load, number, &mut banks, None).ok()?;
            for (at, name) in PRINTED.into_iter().enumerate() {
                let row = rows.iter().find(|row| row.allocator == name)?;
                sums[at] += 100.0 * f64::from(row.satisfied) / f64::from(row.requests.max(1));
            }
        }
        found.push((case.number, load, sums));
    }
    Some(found)
}
