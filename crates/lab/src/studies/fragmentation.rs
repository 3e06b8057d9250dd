//! `freehold study fragmentation`: policies on recorded programs that were named beforehand.
//!
//! The programs, the policies and the target stand in `studies/fragmentation-traces.toml`. This
//! module reads it, replays what was recorded, and judges; who records is the caller, for recording
//! needs a library that only the command brings along. A program that cannot be recorded on this
//! machine is named as missing, never left out.
//!
//! Invariant: what is found of a trace is a function of the trace and the list of policies.

mod page;

pub use page::page;

use crate::models;
use crate::results::Outcome;
use crate::simulate::{self, Options, SimulateError};
use crate::studies::settings::SettingsError;
use freehold_trace::Trace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The study as it ships.
pub const DEFAULT: &str = include_str!("../../../../studies/fragmentation-traces.toml");

/// Files that its programs read, by their path beside the study's own file.
pub const INPUTS: &[(&str, &str)] =
    &[("fragmentation/words.cc", include_str!("../../../../studies/fragmentation/words.cc"))];

/// Raised when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// What to record, and what to replay it on.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Names in the registry of policies and models.
    pub policies: Vec<String>,
    /// What should come out.
    pub target: Target,
    /// What whoever reads the answer must know of the policies.
    #[serde(default)]
    pub note: String,
    /// The programs.
    #[serde(rename = "trace")]
    pub programs: Vec<Program>,
}

/// One policy's fragmentation is to be at most another's, on every trace and by every measure.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Whose.
    pub of: String,
    /// Than whose.
    pub at_most: String,
}

/// A program to be recorded.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Also the name of its trace.
    pub name: String,
    /// What it does.
    pub about: String,
    /// Commands that must be there.
    pub needs: Vec<String>,
    /// Its environment, beside what is there.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// A shell script that runs before, unrecorded.
    #[serde(default)]
    pub setup: Option<String>,
    /// What is recorded.
    pub command: Vec<String>,
}

impl Plan {
    /// Reads a study's file, called `name` in errors.
    ///
    /// # Errors
    /// When it is not TOML, has other keys, or names policies that there are not.
    pub fn parse(name: &str, text: &str) -> Result<Plan, SettingsError> {
        let plan: Plan = toml::from_str(text).map_err(|error| SettingsError::Syntax {
            what: name.to_owned(),
            why: error.to_string().trim_end().to_owned(),
        })?;
        let target = [&plan.target.of, &plan.target.at_most];
        for policy in plan.policies.iter().chain(target) {
            if !models::all().any(|known| known.name == policy) {
                let why = format!("no policy or model is called {policy:?}: `freehold policies`");
                return Err(SettingsError::value("policies", why));
            }
        }
        if let Some(other) = target.into_iter().find(|name| !plan.policies.contains(name)) {
            return Err(SettingsError::value("target", format!("{other} is not among policies")));
        }
        let unusable = |name: &str| name.is_empty() || name.contains('/') || name.starts_with('.');
        match plan
            .programs
            .iter()
            .find(|program| unusable(&program.name) || program.command.is_empty())
        {
            Some(program) => {
                let why =
                    format!("{:?} needs a name that can be a file's, and a command", program.name);
                Err(SettingsError::value("trace", why))
            }
            None => Ok(plan),
        }
    }
}

impl Program {
    /// The first of its commands that is on none of these folders.
    pub fn lacks(&self, folders: &[std::path::PathBuf]) -> Option<&str> {
        let is_there = |name: &&String| folders.iter().any(|folder| folder.join(name).is_file());
        self.needs.iter().find(|name| !is_there(name)).map(String::as_str)
    }

    /// The command to be recorded, run in `folder`, with `{studies}` being `studies`.
    pub fn command_in(&self, folder: &Path, studies: &Path) -> Vec<String> {
        let studies = studies.display().to_string();
        let mut words = vec!["env".to_owned(), "-C".to_owned(), folder.display().to_string()];
        words.extend(self.env.iter().map(|(key, value)| format!("{key}={value}")));
        words.extend(self.command.iter().map(|word| word.replace("{studies}", &studies)));
        words
    }
}

/// A measure of fragmentation.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// In JSON.
    pub key: &'static str,
    /// On the page.
    pub title: &'static str,
    /// Out of an outcome; `None` where it was not measured.
    pub get: fn(&Outcome) -> Option<f64>,
}

/// The four measures of the target.
pub const MEASURES: [Measure; 4] = [
    Measure {
        key: "jw3",
        title: "Johnstone-Wilson #3",
        get: |o| Some(o.johnstone_wilson.at_peak_used),
    },
    Measure {
        key: "jw4",
        title: "Johnstone-Wilson #4",
        get: |o| Some(o.johnstone_wilson.peak_over_peak),
    },
    Measure { key: "external", title: "External", get: |o| o.external_fragmentation },
    Measure { key: "internal", title: "Internal", get: |o| o.internal_fragmentation },
];

/// What one program came to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Found {
    /// The program.
    pub name: String,
    /// What it does.
    pub about: String,
    /// Why there are no figures.
    pub missing: Option<String>,
    /// Events replayed.
    pub events: u64,
    /// Most bytes alive.
    pub peak_live: u64,
    /// One for each policy.
    pub policies: Vec<Outcome>,
    /// By measure, whether the target is met.
    pub target_met: BTreeMap<&'static str, bool>,
}

/// Everything found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Results {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `fragmentation`.
    pub study: &'static str,
    /// The target.
    pub target: Target,
    /// [`Plan::note`].
    pub note: String,
    /// One for each program, in the order of the file.
    pub traces: Vec<Found>,
}

impl Results {
    /// Of all programs together.
    pub fn of(plan: &Plan, traces: Vec<Found>) -> Results {
        let (target, note) = (plan.target.clone(), plan.note.trim().to_owned());
        Results { schema_version: SCHEMA_VERSION, study: "fragmentation", target, note, traces }
    }

    /// In how many comparisons the policy `of` fragments at most as much as `at_most`, and of how many.
    fn count(&self, of: &str, at_most: &str) -> (usize, usize) {
        let judged = || {
            let pairs =
                self.traces.iter().filter_map(|f| Some((f.policy(of)?, f.policy(at_most)?)));
            pairs.flat_map(|pair| MEASURES.iter().filter_map(move |m| m.is_at_most(pair.0, pair.1)))
        };
        (judged().filter(|met| *met).count(), judged().count())
    }

    /// How the target's policy fares against every other, and how they fare against its rival.
    fn others(&self) -> Option<String> {
        let Target { of, at_most } = &self.target;
        let policies = &self.traces.iter().find(|found| found.missing.is_none())?.policies;
        let names = || policies.iter().map(|policy| policy.name.as_str()).filter(|name| name != of);
        let against = names().filter(|name| name != at_most);
        let against = against.map(|name| format!("{name} in {}", self.count(of, name).0));
        let rivals = names().filter(|name| name != at_most);
        let rivals = rivals.map(|name| format!("{name} in {}", self.count(name, at_most).0));
        let (against, rivals): (Vec<_>, Vec<_>) = (against.collect(), rivals.collect());
        if against.is_empty() {
            return None;
        }
        let (against, rivals) = (against.join(", "), rivals.join(", "));
        Some(format!(" {of} is at most {against}; at most {at_most} are {rivals}."))
    }

    /// In a few sentences.
    pub fn answer(&self) -> String {
        let judged = || self.traces.iter().flat_map(|found| &found.target_met);
        let met = judged().filter(|one| *one.1).count();
        let missing = self.traces.iter().filter(|found| found.missing.is_some()).count();
        let Target { of, at_most } = &self.target;
        let mut text = format!(
            "{of} fragments at most as much as {at_most} in {met} of {} comparisons: {} programs by {} \
             measures.",
            judged().count(),
            self.traces.len() - missing,
            MEASURES.len()
        );
        let not: Vec<String> = self.traces.iter().filter_map(exceptions).collect();
        if !not.is_empty() {
            text += &format!(" Not in: {}.", not.join("; "));
        }
        if missing > 0 {
            text += &format!(" {missing} could not be recorded here.");
        }
        text + &self.others().unwrap_or_default()
    }
}

fn exceptions(found: &Found) -> Option<String> {
    let not = found.target_met.iter().filter(|one| !*one.1).map(|one| *one.0);
    let not: Vec<&str> = not.collect();
    (!not.is_empty()).then(|| format!("{} ({})", found.name, not.join(", ")))
}

impl Measure {
    /// Whether `of` fragments at most as much as `other`; `None` where either was not measured.
    fn is_at_most(&self, of: &Outcome, other: &Outcome) -> Option<bool> {
        Some((self.get)(of)? <= (self.get)(other)?)
    }
}

impl Found {
    /// What came of one policy.
    fn policy(&self, name: &str) -> Option<&Outcome> {
        self.policies.iter().find(|outcome| outcome.name == name)
    }

    /// A program without figures.
    pub fn missing(program: &Program, why: String) -> Found {
        Found {
            name: program.name.clone(),
            about: program.about.clone(),
            missing: Some(why),
            events: 0,
            peak_live: 0,
            policies: Vec::new(),
            target_met: BTreeMap::new(),
        }
    }
}

/// Replays a program's trace on every policy.
///
/// # Errors
/// When the trace cannot be read or replayed, or `interrupted` becomes true.
pub fn measure(
    plan: &Plan,
    program: &Program,
    trace: &Trace,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Found, SimulateError> {
    let Some(process) = simulate::busiest(trace) else {
        return Ok(Found::missing(
            program,
            "it allocated nothing that could be recorded".to_owned(),
        ));
    };
    let survey = simulate::survey(trace, process, progress, interrupted)?;
    let options = Options { process, limit: None };
    let names: Vec<&str> = plan.policies.iter().map(String::as_str).collect();
    let replayed = simulate::replay(trace, &survey, &names, options, progress, interrupted)?;
    let policies: Vec<Outcome> = replayed.into_iter().map(|one| one.outcome).collect();
    let of = |name: &str| policies.iter().find(|outcome| outcome.name == name);
    let judge = |measure: &Measure| {
        let met = measure.is_at_most(of(&plan.target.of)?, of(&plan.target.at_most)?)?;
        Some((measure.key, met))
    };
    Ok(Found {
        name: program.name.clone(),
        about: program.about.clone(),
        missing: None,
        events: policies.iter().map(|outcome| outcome.events).max().unwrap_or(0),
        peak_live: survey.peak_live,
        target_met: MEASURES.iter().filter_map(judge).collect(),
        policies,
    })
}

#[cfg(test)]
#[path = "fragmentation/tests.rs"]
mod tests;
