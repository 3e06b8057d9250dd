//! All of a study, as JSON.

use super::account::{self, Finding};
use super::answer;
use super::byte_exact::{self, Counting, FreeBlocks, Walked};
use super::measure::{Left, Measured};
use super::plan::{Experiment, Plan};
use super::rows::Rows;
use super::tables::{self, Calls, Curve, Growth, PublishedCurve, Series, Sweep};
use super::turns::{self, Turned};
use serde::Serialize;

/// Raised when a field changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 3;

/// What the study found.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Processors of this machine.
    pub processors: usize,
    /// Whether the study was stopped before its end.
    pub interrupted: bool,
    /// The settings it ran with.
    pub settings: serde_json::Value,
    /// The answer, in sentences.
    pub answer: Vec<String>,
    /// What holds of the paper, and why not the rest.
    pub account: Vec<Finding>,
    /// The paper's first experiment: ten iterations, without coalescing.
    pub threads: Vec<Curve>,
    /// In the long run, with coalescing.
    pub steady: Vec<Curve>,
    /// Heaps a thread and the loop, turn by turn; none where the measurement was refused.
    pub turns: Vec<Turned>,
    /// Why the turns were refused.
    pub refused: Option<String>,
    /// The published curves.
    pub published: Vec<PublishedCurve>,
    /// The second and third experiment.
    pub iterations: Vec<Growth>,
    /// Figure 14 on lists that are cut to the byte: a function of the settings.
    pub figure_14: Vec<FreeBlocks>,
    /// The printed times over the iterations, beside the walks of lists that are cut to the byte.
    pub walked: Vec<Walked>,
    /// The second with more lengths to draw from: an ablation.
    pub lengths: Vec<Growth>,
    /// From how many allocations on threads are faster.
    pub allocations: Vec<Sweep>,
    /// Series of allocations, then of frees.
    pub series: Vec<Series>,
    /// Single calls and locks.
    pub calls: Vec<Calls>,
    /// What was not measured, and why.
    pub left: Vec<Left>,
}

impl Results {
    /// Reads everything off the rows; `mallocs` are the allocators' names.
    pub fn of(plan: &Plan, measured: &Measured, mallocs: &[String]) -> Results {
        let rows = Rows(&measured.rows);
        let counting = Counting::of(&plan.settings);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let mut results = Results {
            schema_version: SCHEMA_VERSION,
            processors,
            interrupted: measured.interrupted,
            settings: plan.settings.clone(),
            answer: Vec::new(),
            account: Vec::new(),
            threads: tables::curves(rows, Experiment::Threads, mallocs, processors),
            steady: tables::curves(rows, Experiment::Steady, mallocs, processors),
            turns: Vec::new(),
            refused: None,
            published: tables::published_curves(),
            iterations: tables::growths(rows, Experiment::Iterations, mallocs),
            figure_14: byte_exact::figure_14(&counting),
            walked: byte_exact::walked(&counting),
            lengths: tables::growths(rows, Experiment::Lengths, mallocs),
            allocations: tables::sweeps(rows, plan, mallocs),
            series: tables::series(rows, mallocs),
            calls: tables::calls(rows, mallocs),
            left: measured.left.clone(),
        };
        match turns::refused(turns::turned(rows, plan.turns()), results.processors) {
            Ok(turned) => results.turns = turned,
            Err(why) => results.refused = Some(why),
        }
        results.account = account::account(&results);
        results.answer = answer::answer(&results, rows, mallocs);
        results
    }
}
