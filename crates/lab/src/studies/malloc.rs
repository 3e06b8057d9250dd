//! `freehold study malloc`: recorded programs on the malloc, with each of its decisions as shipped and switched.
//!
//! The programs stand in `studies/malloc.toml`; who records them is the caller. Each is replayed on the simulated malloc
//! once as shipped and once for every decision, which is off, or a quarter of what is shipped where there is no off. What a
//! switched decision costs, and on which program, is the reason for the mechanism behind it.
//!
//! ```text
//!   here       programs, variants; one program replayed in every variant
//!   held       the same trace on the real library: is the simulated memory that of the machine?
//!   instructions   of the program's calls, by callgrind
//!   results    what each mechanism costs when it is switched off       page   the same as HTML
//! ```
//!
//! Invariant: what is found of a trace is a function of the trace and the variants; only [`Held`] is measured, and
//! instructions are counted of this very build; both stand in fields of their own.

mod held;
mod instructions;
mod page;
mod results;

pub use held::{Held, HeldError, hold};
pub use instructions::{CountError, EVENTS, count};
pub use page::page;
pub use results::{Cost, Found, Results, Row, Verdict};

use crate::malloc::{self, Settings};
use crate::simulate::{self, SimulateError, crew};
use crate::studies::fragmentation::Program;
use crate::studies::settings::SettingsError;
use freehold_core::malloc::decisions::{Decision, Decisions};
use freehold_trace::Trace;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The study as it ships.
pub const DEFAULT: &str = include_str!("../../../../studies/malloc.toml");

/// Raised when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Points over time of each replay: enough for a mean, few enough to be quick.
const POINTS: usize = 100;

/// By how much a decision without an off is divided.
const PART: usize = 4;

/// The programs.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// In the order of the file.
    #[serde(rename = "trace")]
    pub programs: Vec<Program>,
}

impl Plan {
    /// Reads a study's file, called `name` in errors.
    ///
    /// # Errors
    /// When it is not TOML, has other keys, or a program's name cannot be a file's.
    pub fn parse(name: &str, text: &str) -> Result<Plan, SettingsError> {
        let plan: Plan = toml::from_str(text).map_err(|error| SettingsError::Syntax {
            what: name.to_owned(),
            why: error.to_string().trim_end().to_owned(),
        })?;
        match plan.programs.iter().find(|program| !program.is_usable()) {
            Some(program) => {
                let why =
                    format!("{:?} needs a name that can be a file's, and a command", program.name);
                Err(SettingsError::value("trace", why))
            }
            None => Ok(plan),
        }
    }
}

/// One decision with another value than the shipped one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Variant {
    /// The decision.
    pub decision: &'static str,
    /// Its value here.
    pub value: usize,
    /// `off`, or which part of the shipped value it is.
    pub how: &'static str,
}

impl Variant {
    /// Every decision, off or a quarter of itself.
    pub fn all() -> Vec<Variant> {
        Decisions::ALL.iter().map(Variant::of).collect()
    }

    fn of(decision: &Decision) -> Variant {
        let part = (decision.shipped / PART).max(1);
        let (value, how) = decision.off.map_or((part, "a quarter"), |off| (off, "off"));
        Variant { decision: decision.name, value, how }
    }

    /// The shipped settings, but for this decision.
    pub fn settings(&self) -> Settings {
        let mut settings = shipped();
        if let Some(decision) = Decisions::ALL.iter().find(|one| one.name == self.decision) {
            *(decision.of)(&mut settings.decisions) = self.value;
        }
        settings
    }
}

/// The machine of the study: as a Linux gives huge pages to programs that ask for them.
fn shipped() -> Settings {
    Settings { huge_pages: true, points: POINTS, ..Settings::default() }
}

/// Replays one program as shipped and in every variant, as many at once as there are processors. `None` where it allocated nothing.
///
/// # Errors
/// When the trace cannot be read or `interrupted` becomes true.
pub fn replay(
    trace: &Trace,
    program: &Program,
    variants: &[Variant],
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Option<Found>, SimulateError> {
    let Some(process) = simulate::busiest(trace) else { return Ok(None) };
    let survey = simulate::survey(trace, process, &mut |_, _| (), interrupted)?;
    let (done, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let first_error = Mutex::new(None);
    let total = survey.records * (variants.len() as u64 + 1);
    let job = |nth: usize| {
        let variant = nth.checked_sub(1).map(|nth| &variants[nth]);
        let settings = variant.map_or_else(shipped, Variant::settings);
        let mut before = 0;
        let mut count = |now: u64, _| {
            done.fetch_add(now - before, Ordering::Relaxed);
            before = now;
            if interrupted.load(Ordering::Relaxed) {
                failed.store(true, Ordering::Relaxed);
            }
        };
        let replayed = malloc::replay(trace, process, &survey, &settings, &mut count, &failed);
        match replayed {
            Ok((outcome, _)) => Some(Row::of(variant, &outcome)),
            Err(error) => {
                failed.store(true, Ordering::Relaxed);
                // The error that stopped the others comes first.
                let mut first = first_error.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                first.get_or_insert(error);
                None
            }
        }
    };
    let beat = || progress(done.load(Ordering::Relaxed), total);
    let rows: Vec<Row> = crew::work(variants.len() + 1, job, beat).into_iter().flatten().collect();
    match first_error.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(error) => Err(error),
        None => Ok(Found::of(program, &survey, rows)),
    }
}

#[cfg(test)]
mod tests;
