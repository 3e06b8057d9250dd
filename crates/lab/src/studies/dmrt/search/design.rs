//! Which readings are run: the design, the descents from its best, the confirmation of the best of all.

use super::super::config::{Plan, PlanError};
use super::super::tables::RunError;
use super::map::{Aim, Map};
use super::reading::{self, Reading, Stage};
use super::space::{Point, Space};
use crate::simulate::crew;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A search that ended early.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The settings.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Ctrl-C.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs the search. `progress` gets how many readings of how many of the stage are done.
///
/// # Errors
/// Levels that are no settings; or `interrupted` was raised.
pub fn search(
    plan: &Plan,
    progress: &mut dyn FnMut(Stage, u64, u64),
    interrupted: &AtomicBool,
) -> Result<Map, SearchError> {
    let space = Space::new(&plan.search, plan)?;
    let points = space.hypercube(plan.seed, plan.search.points as usize);
    let mut search =
        Search { plan, space, interrupted, run: BTreeSet::new(), readings: Vec::new() };
    search.run(Stage::Design, points, plan.search.screen, progress)?;
    for aim in Aim::ALL {
        for start in search.best(aim, plan.search.starts as usize) {
            search.descend(aim, start, progress)?;
        }
    }
    let finalists: Vec<Point> = Aim::ALL
        .into_iter()
        .flat_map(|aim| search.best(aim, plan.search.finalists as usize))
        .map(|reading| reading.point)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    search.run.clear();
    search.run(Stage::Confirm, finalists, plan.search.confirm, progress)?;
    Ok(Map::new(plan, search.space, search.readings))
}

struct Search<'a> {
    plan: &'a Plan,
    space: Space,
    interrupted: &'a AtomicBool,
    /// Points that need not be run again.
    run: BTreeSet<Point>,
    readings: Vec<Reading>,
}

impl Search<'_> {
    /// Runs those of `points` that were not run yet.
    fn run(
        &mut self,
        stage: Stage,
        points: Vec<Point>,
        attempts: u32,
        progress: &mut dyn FnMut(Stage, u64, u64),
    ) -> Result<(), RunError> {
        let points: Vec<Point> =
            points.into_iter().filter(|point| self.run.insert(point.clone())).collect();
        let done = AtomicU64::new(0);
        let job = |i: usize| {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted);
            }
            let reading = reading::run(&self.space, self.plan, stage, &points[i], attempts);
            done.fetch_add(1, Ordering::Relaxed);
            Ok(reading)
        };
        let jobs = points.len();
        let beat = || progress(stage, done.load(Ordering::Relaxed), jobs as u64);
        let found = crew::work(jobs, job, beat);
        self.readings.extend(found.into_iter().collect::<Result<Vec<_>, _>>()?);
        Ok(())
    }

    /// The best so far for an aim, of all stages that ran alike.
    fn best(&self, aim: Aim, count: usize) -> Vec<Reading> {
        let scored = self.readings.iter().filter_map(|one| Some((aim.score(one)?, one)));
        let mut scored: Vec<(f64, &Reading)> = scored.collect();
        scored.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.point.cmp(&b.1.point)));
        scored.into_iter().take(count).map(|(_, one)| one.clone()).collect()
    }

    /// Changes one setting at a time, always to the best, until nothing helps or the rounds are over.
    fn descend(
        &mut self,
        aim: Aim,
        start: Reading,
        progress: &mut dyn FnMut(Stage, u64, u64),
    ) -> Result<(), RunError> {
        let mut at = start;
        for _ in 0..self.plan.search.rounds {
            let points: BTreeSet<Point> = self.space.neighbours(&at.point).into_iter().collect();
            let attempts = self.plan.search.screen;
            self.run(Stage::Descent, points.iter().cloned().collect(), attempts, progress)?;
            let near = self.readings.iter().filter(|one| points.contains(&one.point));
            let scored = near.filter_map(|one| Some((aim.score(one)?, one)));
            let best =
                scored.min_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.point.cmp(&b.1.point)));
            match (best, aim.score(&at)) {
                (Some((score, one)), Some(so_far)) if score < so_far => at = one.clone(),
                _ => break,
            }
        }
        Ok(())
    }
}
