//! Everything that one run of the study found, as versioned JSON.

use super::ablations::{self, Ablation};
use super::account::{Evidence, Finding};
use super::config::Plan;
use super::gaps::{self, Gap};
use super::instructions::Instructions;
use super::measure::Row;
use super::orders::{self, Verdict};
use super::published::{self, Note};
use super::tables::{self, RunError, Table};
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// Raised when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 2;

/// The file of results. A function of the settings alone: no clock and no machine enters it, but for `instructions`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Results {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `dmrt`.
    pub study: &'static str,
    /// As run, with every default.
    pub settings: serde_json::Value,
    /// In a few words.
    pub answer: Vec<String>,
    /// The tables.
    pub tables: Vec<Table>,
    /// How far the printed allocators are from what is printed.
    pub gaps: Vec<Gap>,
    /// The chapter's claims.
    pub verdicts: Vec<Verdict>,
    /// What one change each makes of it.
    pub ablations: Vec<Ablation>,
    /// Where ours differs and why.
    pub account: Vec<Finding>,
    /// What the published tables say of themselves.
    pub published_notes: Vec<Note>,
    /// Instructions, where they were asked for and can be counted: a fact about this build, not about the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Vec<Instructions>>,
    /// Every attempt: exported, not printed.
    #[serde(skip)]
    pub rows: Vec<Row>,
}

/// What is being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The tables.
    Tables,
    /// The ablations.
    Ablations,
}

/// Runs the whole study.
///
/// # Errors
/// When a run could not begin, or `interrupted` was raised.
pub fn study(
    plan: &Plan,
    progress: &mut dyn FnMut(Stage, u64, u64),
    interrupted: &AtomicBool,
) -> Result<Results, RunError> {
    let mut of_tables = |done, total| progress(Stage::Tables, done, total);
    let found = tables::run(plan, &mut of_tables, interrupted)?;
    let mut of_ablations = |done, total| progress(Stage::Ablations, done, total);
    let ablations = ablations::run(plan, &found.rows, &mut of_ablations, interrupted)?;
    let verdicts = orders::verdicts(&found.tables);
    let evidence = Evidence { tables: &found.tables, verdicts: &verdicts, ablations: &ablations };
    let (answer, account) = (evidence.answer(), evidence.findings());
    Ok(Results {
        schema_version: SCHEMA_VERSION,
        study: "dmrt",
        settings: plan.settings.to_json(),
        answer,
        gaps: gaps::of_tables(&found.tables),
        tables: found.tables,
        verdicts,
        ablations,
        account,
        published_notes: published::notes(),
        instructions: None,
        rows: found.rows,
    })
}
