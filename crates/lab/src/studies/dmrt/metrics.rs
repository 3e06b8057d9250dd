//! What the study measures: one line a metric. Tables, JSON and pages derive from this list.

use super::measure::Row;
use super::published::Published;

/// How values are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Per cent.
    Percent,
    /// Microseconds.
    Microseconds,
    /// A plain number.
    Number,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// In JSON.
    pub key: &'static str,
    /// On the page.
    pub title: &'static str,
    /// In one sentence.
    pub about: &'static str,
    /// How it is written.
    pub unit: Unit,
    /// Whether less is better; `None` where neither is.
    pub less_is_better: Option<bool>,
    /// Out of an attempt.
    pub get: fn(&Row) -> f64,
    /// The chapter's figure of the same name.
    pub published: Option<fn(&Published) -> f64>,
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { 100.0 * part / whole }
}

fn of_class(row: &Row, class: usize) -> f64 {
    percent(row.by_class_satisfied[class].into(), row.by_class[class].into())
}

/// Every metric.
pub const METRICS: &[Metric] = &[
    Metric {
        key: "time",
        title: "Execution time",
        about: "Simulated time of all calls of an attempt, frees included.",
        unit: Unit::Microseconds,
        less_is_better: Some(true),
        get: |row| row.ns as f64 / 1000.0,
        published: Some(|row| row.time_ms),
    },
    Metric {
        key: "external",
        title: "Fragmentation",
        about: "External: 1 - longest free block / free bytes, over requests and memories of the path.",
        unit: Unit::Percent,
        less_is_better: Some(true),
        get: |row| 100.0 * row.external,
        published: Some(|row| row.fragmentation),
    },
    Metric {
        key: "satisfied",
        title: "Requests satisfied",
        about: "Requests served, of all.",
        unit: Unit::Percent,
        less_is_better: Some(false),
        get: |row| percent(row.satisfied.into(), row.requests.into()),
        published: Some(|row| row.satisfied),
    },
    Metric {
        key: "satisfied_bytes",
        title: "Bytes satisfied",
        about: "Bytes served, of all bytes asked for.",
        unit: Unit::Percent,
        less_is_better: Some(false),
        get: |row| percent(row.bytes_satisfied as f64, row.bytes as f64),
        published: None,
    },
    Metric {
        key: "satisfied_small",
        title: "Small satisfied",
        about: "Of requests below 512 B, those served.",
        unit: Unit::Percent,
        less_is_better: Some(false),
        get: |row| of_class(row, 0),
        published: None,
    },
    Metric {
        key: "satisfied_normal",
        title: "Normal satisfied",
        about: "Of requests from 512 B to below 2 MiB, those served.",
        unit: Unit::Percent,
        less_is_better: Some(false),
        get: |row| of_class(row, 1),
        published: None,
    },
    Metric {
        key: "satisfied_large",
        title: "Large satisfied",
        about: "Of requests of 2 MiB and more, those served.",
        unit: Unit::Percent,
        less_is_better: Some(false),
        get: |row| of_class(row, 2),
        published: None,
    },
    Metric {
        key: "failed_with_room",
        title: "Failed with room",
        about: "Requests that failed though a memory that was tried had bytes enough free, of all.",
        unit: Unit::Percent,
        less_is_better: Some(true),
        get: |row| percent(row.failed_with_room.into(), row.requests.into()),
        published: None,
    },
    Metric {
        key: "internal",
        title: "Internal",
        about: "1 - bytes alive / bytes of their blocks, headers included.",
        unit: Unit::Percent,
        less_is_better: Some(true),
        get: |row| 100.0 * row.internal,
        published: None,
    },
    Metric {
        key: "jw3",
        title: "Johnstone-Wilson #3",
        about: "Extent over bytes alive, less 1, when the extent was greatest.",
        unit: Unit::Percent,
        less_is_better: Some(true),
        get: |row| 100.0 * row.jw3,
        published: None,
    },
    Metric {
        key: "jw4",
        title: "Johnstone-Wilson #4",
        about: "Greatest extent over most bytes alive, less 1.",
        unit: Unit::Percent,
        less_is_better: Some(true),
        get: |row| 100.0 * row.jw4,
        published: None,
    },
    Metric {
        key: "steps_mean",
        title: "Steps",
        about: "Mean steps of a call.",
        unit: Unit::Number,
        less_is_better: Some(true),
        get: |row| row.steps_mean,
        published: None,
    },
    Metric {
        key: "steps_p99",
        title: "Steps, p99",
        about: "The 99th percentile of steps of a call.",
        unit: Unit::Number,
        less_is_better: Some(true),
        get: |row| row.steps_p99 as f64,
        published: None,
    },
    Metric {
        key: "steps_max",
        title: "Steps, worst",
        about: "Steps of the worst call of an attempt.",
        unit: Unit::Number,
        less_is_better: Some(true),
        get: |row| row.steps_max as f64,
        published: None,
    },
    Metric {
        key: "remote",
        title: "Remote",
        about: "Of requests served, those served by another node's memory.",
        unit: Unit::Percent,
        less_is_better: None,
        get: |row| percent(row.from_remote.into(), row.satisfied.into()),
        published: None,
    },
];

/// The metric of that key.
pub fn metric(key: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_percentages_stay_below_100() {
        let mut keys: Vec<_> = METRICS.iter().map(|metric| metric.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), METRICS.len());
        let row = Row { requests: 10, satisfied: 4, by_class: [4, 4, 2], ..Row::default() };
        assert_eq!((metric("satisfied").unwrap().get)(&row), 40.0);
        assert_eq!((metric("remote").unwrap().get)(&row), 0.0);
    }
}
