//! Ablations: one setting changed, everything else the same, to the seed.
//!
//! Every cause that the account names stands here, with what it should move. Attempts are the same
//! as the tables', so the change is a difference of pairs.

use super::config::{Plan, PlanError};
use super::measure::Row;
use super::metrics::metric;
use super::tables::{self, RunError};
use crate::studies::statistics::Summary;
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

const fn look(
    case: u32,
    load: u32,
    metric: &'static str,
    of: &'static str,
    against: Against,
) -> Look {
    Look { case, load, metric, of, against }
}

const fn satisfied(case: u32, load: u32, of: &'static str) -> Look {
    look(case, load, "satisfied", of, Against::Nothing)
}

/// By how much DmRT satisfies more than the other.
const fn lead(case: u32, load: u32, over: &'static str) -> Look {
    look(case, load, "satisfied", "dmrt", Against::Less(over))
}

const ABLATIONS: &[Spec] = &[
    Spec {
        key: "same-path",
        title: "DmRT goes the path of the others",
        changes: &["cases.1.dmrt=local", "cases.2.dmrt=local"],
        looks: &[lead(1, 1000, "dlmalloc"), lead(1, 1000, "tlsf"), lead(2, 1000, "dlmalloc")],
    },
    Spec {
        key: "existing-25",
        title: "Existing allocators get a quarter of every memory",
        changes: &["what_if.existing_capacity=25"],
        looks: &[lead(4, 1000, "dlmalloc"), lead(4, 1000, "tcmalloc"), lead(4, 1000, "tlsf")],
    },
    Spec {
        key: "existing-50",
        title: "Existing allocators get half of every memory",
        changes: &["what_if.existing_capacity=50"],
        looks: &[lead(4, 1000, "dlmalloc"), lead(4, 1000, "tcmalloc"), lead(4, 1000, "tlsf")],
    },
    Spec {
        key: "complete",
        title: "The search goes on until every node was tried",
        changes: &["place.search=complete"],
        looks: &[
            satisfied(2, 1000, "dmrt"),
            satisfied(1, 1000, "dmrt"),
            look(2, 1000, "time", "dmrt", Against::Nothing),
        ],
    },
    Spec {
        key: "second-look",
        title: "DmRT looks at four blocks more before it gives up",
        changes: &["dmrt.second_look=4"],
        looks: &[
            satisfied(1, 1000, "dmrt"),
            look(1, 1000, "external", "dmrt", Against::Nothing),
            look(1, 1000, "time", "dmrt", Against::Nothing),
        ],
    },
    Spec {
        key: "longest",
        title: "DmRT's worst fit takes the longest block, not the head of the highest list",
        changes: &["dmrt.large_fit=longest"],
        looks: &[satisfied(1, 1000, "dmrt"), look(1, 1000, "external", "dmrt", Against::Nothing)],
    },
    Spec {
        key: "no-worst-fit",
        title: "DmRT uses good fit for large blocks, too",
        changes: &["dmrt.large_from=60G"],
        looks: &[satisfied(1, 1000, "dmrt"), look(1, 1000, "external", "dmrt", Against::Nothing)],
    },
    Spec {
        key: "headers",
        title: "Headers cost nothing",
        changes: &["what_if.free_of_charge=8"],
        looks: &[satisfied(4, 1000, "dmrt"), lead(4, 1000, "dlmalloc")],
    },
    Spec {
        key: "capacity-double",
        title: "Twice the memory",
        changes: &["machine.capacity=32M", "machine.shared=64M"],
        looks: &[
            satisfied(1, 1000, "dlmalloc"),
            satisfied(1, 1000, "dmrt"),
            lead(4, 1000, "dlmalloc"),
        ],
    },
    Spec {
        key: "capacity-half",
        title: "Half the memory",
        changes: &["machine.capacity=8M", "machine.shared=16M"],
        looks: &[
            satisfied(1, 1000, "dlmalloc"),
            satisfied(1, 1000, "dmrt"),
            lead(4, 1000, "dlmalloc"),
        ],
    },
    Spec {
        key: "no-large",
        title: "No requests of 2 MiB and more",
        changes: &["sizes.large.weight=0"],
        looks: &[satisfied(1, 1000, "dlmalloc"), satisfied(1, 1000, "dmrt")],
    },
    Spec {
        key: "short-lives",
        title: "Blocks live a tenth as long",
        changes: &["requests_from.lifetime_most=400"],
        looks: &[
            satisfied(1, 1000, "dmrt"),
            satisfied(1, 1000, "dlmalloc"),
            satisfied(1, 100, "dmrt"),
        ],
    },
    Spec {
        key: "empty-machine",
        title: "Nothing is there beforehand",
        changes: &["background.nodes=0", "background.shared=0"],
        looks: &[
            satisfied(1, 1000, "dlmalloc"),
            satisfied(1, 1000, "dmrt"),
            lead(1, 1000, "dlmalloc"),
        ],
    },
    Spec {
        key: "flat",
        title: "All memory is as near as the own node's, and loads are known for nothing",
        changes: &["time.shared_ns=80", "time.remote_ns=80", "time.load_ns=0"],
        looks: &[
            look(2, 1000, "time", "dmrt", Against::Over("tlsf")),
            look(3, 1000, "time", "dmrt", Against::Over("tlsf")),
            look(4, 1000, "time", "dmrt", Against::Over("tlsf")),
        ],
    },
    Spec {
        key: "dear-calls",
        title: "Every call costs ten times a miss, whatever it does",
        changes: &["time.request_ns=10000"],
        looks: &[
            look(3, 1000, "time", "tlsf", Against::Over("dmrt")),
            look(3, 1000, "time", "dlmalloc", Against::Over("dmrt")),
            look(3, 1000, "time", "tcmalloc", Against::Over("dmrt")),
        ],
    },
];

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
            Ok(found) => found.rows,
            Err(RunError::Interrupted) => return Err(RunError::Interrupted),
            Err(RunError::NoRoom { .. }) => continue,
        };
        let effects: Vec<Effect> =
            spec.looks.iter().filter_map(|look| look.effect(rows, &after)).collect();
        if !effects.is_empty() {
            done.push(Ablation {
                key: spec.key,
                title: spec.title,
                changes: spec.changes,
                effects,
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
