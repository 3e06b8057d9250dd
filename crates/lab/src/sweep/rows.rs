//! A replay's outcome as one flat row: the columns of every sweep over traces.

use super::found::{Found, Kind};
use crate::results::{Causes, Outcome};
use crate::simulate::Survey;
use serde_json::{Value, json};

/// How a column is read off a replay.
type Read = fn(&Replayed<'_>) -> Value;

/// What a row is made of.
pub(super) struct Replayed<'a> {
    /// The process.
    pub survey: &'a Survey,
    /// The limit in bytes.
    pub limit: Option<u64>,
    /// What the replay found.
    pub outcome: &'a Outcome,
}

use Kind::{Real, Text, Whole};

const COLUMNS: &[(&str, Kind, Read)] = &[
    ("program", Text, |r| json!(program(r.survey))),
    ("process", Whole, |r| json!(r.survey.facts.process)),
    ("threads", Whole, |r| json!(r.survey.facts.threads)),
    ("damage", Text, |r| damage(r.survey)),
    ("kind", Text, |r| json!(r.outcome.kind)),
    ("limit_bytes", Whole, |r| json!(r.limit)),
    ("events", Whole, |r| json!(r.outcome.events)),
    ("failures", Whole, |r| json!(r.outcome.failures)),
    ("peak_live", Whole, |r| json!(r.outcome.peak_live)),
    ("peak_memory", Whole, |r| json!(r.outcome.peak_memory)),
    ("final_memory", Whole, |r| json!(r.outcome.final_memory)),
    ("johnstone_wilson_average", Real, |r| json!(r.outcome.johnstone_wilson.average)),
    ("johnstone_wilson_at_peak_live", Real, |r| json!(r.outcome.johnstone_wilson.at_peak_live)),
    ("johnstone_wilson_at_peak_used", Real, |r| json!(r.outcome.johnstone_wilson.at_peak_used)),
    ("johnstone_wilson_peak_over_peak", Real, |r| json!(r.outcome.johnstone_wilson.peak_over_peak)),
    ("internal_fragmentation", Real, |r| json!(r.outcome.internal_fragmentation)),
    ("external_fragmentation", Real, |r| json!(r.outcome.external_fragmentation)),
    ("steps_total", Whole, |r| json!(r.outcome.steps.map(|steps| steps.total))),
    ("steps_mean", Real, |r| json!(r.outcome.steps.map(|steps| steps.mean))),
    ("steps_p99", Whole, |r| json!(r.outcome.steps.map(|steps| steps.p99))),
    ("steps_max", Whole, |r| json!(r.outcome.steps.map(|steps| steps.max))),
    ("page_faults", Whole, |r| json!(r.outcome.page_faults)),
    ("paged_mean_memory", Whole, |r| {
        json!(r.outcome.paged.as_ref().map(|paged| paged.mean_memory))
    }),
    ("paged_purged", Whole, |r| json!(r.outcome.paged.as_ref().map(|paged| paged.purged))),
    ("paged_at_peak_inside_blocks", Whole, |r| at_peak(r, |causes| causes.inside_blocks)),
    ("paged_at_peak_caches", Whole, |r| at_peak(r, |causes| causes.caches)),
    ("paged_at_peak_slabs", Whole, |r| at_peak(r, |causes| causes.slabs)),
    ("paged_at_peak_partly_used", Whole, |r| at_peak(r, |causes| causes.partly_used)),
    ("paged_at_peak_metadata", Whole, |r| at_peak(r, |causes| causes.metadata)),
    ("paged_at_peak_not_due", Whole, |r| at_peak(r, |causes| causes.not_due)),
];

/// The columns of a replay, whether one was possible or not.
pub(super) fn columns() -> Vec<(String, Kind)> {
    COLUMNS.iter().map(|(name, kind, _)| ((*name).to_owned(), *kind)).collect()
}

impl Replayed<'_> {
    /// As a row.
    pub fn found(&self) -> Found {
        let row = COLUMNS.iter().map(|(_, _, read)| read(self)).collect();
        Found { columns: columns(), rows: vec![row], error: None }
    }
}

fn program(survey: &Survey) -> Option<&str> {
    survey.facts.command.first()?.rsplit('/').next()
}

fn damage(survey: &Survey) -> Value {
    let damage = &survey.facts.damage;
    if damage.is_empty() { Value::Null } else { json!(damage.join("; ")) }
}

fn at_peak(replayed: &Replayed<'_>, cause: fn(&Causes) -> u64) -> Value {
    json!(replayed.outcome.paged.as_ref().map(|paged| cause(&paged.at_peak)))
}
