//! Ablations: one setting changed, everything else the same, to the seed.
//!
//! Every cause that the account names stands here, with what it should move. Attempts are the same
//! as the tables', so the change is a difference of pairs. `causes` lists them.

mod causes;

use super::config::{Plan, PlanError};
use super::gaps::{self, Gap};
use super::measure::Row;
use super::metrics::metric;
use super::tables::{self, RunError};
use crate::studies::statistics::Summary;
use causes::ABLATIONS;
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// What is changed, and what is looked at.
#[derive(Debug)]
struct Spec {
    key: &'static str,
    title: &'static str,
    changes: &'static [&'static str],
    looks: &'static [Look],
}

/// One figure: a metric of an allocator in a table, alone or beside another's.
#[derive(Clone, Copy, Debug)]
struct Look {
    case: u32,
    load: u32,
    metric: &'static str,
    of: &'static str,
    against: Against,
}

/// What a figure is held against.
#[derive(Clone, Copy, Debug)]
enum Against {
    Nothing,
    /// Less the other's.
    Less(&'static str),
    /// Over the other's.
    Over(&'static str),
}

/// One ablation, done.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Ablation {
    /// Its name in JSON.
    pub key: &'static str,
    /// What is changed, in words.
    pub title: &'static str,
    /// What is changed, as `--set` takes it.
    pub changes: &'static [&'static str],
    /// What moved.
    pub effects: Vec<Effect>,
    /// How far the allocators are from what is printed with the change; empty where it did not run every table.
    pub gaps: Vec<Gap>,
}

/// One figure before and after.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Effect {
    /// What it is, in words.
    pub what: String,
    /// As in the tables.
    pub before: Summary,
    /// With the change.
    pub after: Summary,
    /// After less before, attempt by attempt.
    pub change: Summary,
}

/// How many ablations there are.
#[cfg(test)]
pub fn count() -> usize {
    ABLATIONS.len()
}

/// Runs them all beside the tables' `rows`. `progress` hears how many are done.
///
/// # Errors
/// As [`tables::run`]. An ablation that the settings at hand make impossible is left out.
pub fn run(
    plan: &Plan,
    rows: &[Row],
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Vec<Ablation>, RunError> {
    let mut done = Vec::new();
    for (i, spec) in ABLATIONS.iter().enumerate() {
        progress(i as u64, ABLATIONS.len() as u64);
        let Ok(changed) = spec.plan(plan) else { continue };
        let after = match tables::run(&changed, &mut |_, _| (), interrupted) {
            Ok(found) => found,
            Err(RunError::Interrupted) => return Err(RunError::Interrupted),
            Err(RunError::NoRoom { .. }) => continue,
        };
        let effects: Vec<Effect> =
            spec.looks.iter().filter_map(|look| look.effect(rows, &after.rows)).collect();
        if !effects.is_empty() {
            let whole = changed.tables().count() == plan.tables().count();
            done.push(Ablation {
                key: spec.key,
                title: spec.title,
                changes: spec.changes,
                effects,
                gaps: if whole { gaps::of_tables(&after.tables) } else { Vec::new() },
            });
        }
    }
    Ok(done)
}

impl Spec {
    /// The study with the change, and no more of it than is looked at.
    fn plan(&self, plan: &Plan) -> Result<Plan, PlanError> {
        let mut settings = plan.settings.clone();
        for change in self.changes {
            settings.set(change)?;
        }
        let mut changed = Plan::new(&settings)?;
        let looks_at = |name: &str| self.looks.iter().any(|look| look.involves(name));
        changed.allocators.retain(|name| looks_at(name));
        changed.cases.retain(|case| self.looks.iter().any(|look| look.case == case.number));
        changed.loads.retain(|&load| self.looks.iter().any(|look| look.load == load));
        Ok(changed)
    }
}

impl Look {
    fn involves(&self, allocator: &str) -> bool {
        let other = match self.against {
            Against::Nothing => None,
            Against::Less(other) | Against::Over(other) => Some(other),
        };
        // DmRT must be among the allocators of any plan.
        allocator == "dmrt" || allocator == self.of || other == Some(allocator)
    }

    fn effect(&self, before: &[Row], after: &[Row]) -> Option<Effect> {
        let (before, after) = (self.values(before)?, self.values(after)?);
        Some(Effect {
            what: self.what(),
            before: Summary::of(&before),
            after: Summary::of(&after),
            change: Summary::of_differences(&after, &before),
        })
    }

    /// The figure of every attempt; `None` where the rows do not have it.
    fn values(&self, rows: &[Row]) -> Option<Vec<f64>> {
        let series = |allocator: &str| -> Option<Vec<f64>> {
            let get = metric(self.metric)?.get;
            let is = |row: &&Row| {
                row.case == self.case && row.requests == self.load && row.allocator == allocator
            };
            let values: Vec<f64> = rows.iter().filter(is).map(get).collect();
            (!values.is_empty()).then_some(values)
        };
        let own = series(self.of)?;
        let pair = |other, f: fn(f64, f64) -> f64| -> Option<Vec<f64>> {
            Some(own.iter().zip(series(other)?).map(|(a, b)| f(*a, b)).collect())
        };
        match self.against {
            Against::Nothing => Some(own.clone()),
            Against::Less(other) => pair(other, |a, b| a - b),
            Against::Over(other) => pair(other, |a, b| a / b),
        }
    }

    fn what(&self) -> String {
        let title = metric(self.metric).map_or("", |metric| metric.title);
        let place = format!("case {}, {} requests", self.case, self.load);
        match self.against {
            Against::Nothing => format!("{title} of {}, {place}", self.of),
            Against::Less(other) => format!("{title}: {} less {other}, {place}", self.of),
            Against::Over(other) => format!("{title}: {} over {other}, {place}", self.of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::dmrt::DEFAULT;
    use crate::studies::settings::Settings;

    #[test]
    fn every_ablation_is_possible_and_its_name_its_own() {
        let plan = Plan::new(&Settings::of_default(DEFAULT).unwrap()).unwrap();
        let mut keys: Vec<&str> = ABLATIONS.iter().map(|spec| spec.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), ABLATIONS.len());
        for spec in ABLATIONS {
            let changed = spec.plan(&plan).unwrap_or_else(|why| panic!("{}: {why}", spec.key));
            assert!(!changed.cases.is_empty() && !changed.loads.is_empty(), "{}", spec.key);
            assert!(spec.looks.iter().all(|look| metric(look.metric).is_some()), "{}", spec.key);
        }
    }
}
