//! `freehold study fragmentation`: policies on recorded programs that were named beforehand.
//!
//! The programs, the policies and the target stand in `studies/fragmentation-traces.toml`. This
//! module reads it, replays what was recorded, and judges; who records is the caller, for recording
//! needs a library that only the command brings along. A program that cannot be recorded on this
//! machine is named as missing, never left out.
//!
//! ```text
//!   here       the study's file; one recording replayed on every policy
//!   compare    two policies on the same recordings: differences, their interval, the verdict
//!   results    what programs came to, and the answer in sentences     page   the same as HTML
//! ```
//!
//! What a program allocates depends on more than the program: on the size of its environment, on time.
//! (Mytkowicz, Diwan, Hauswirth, Sweeney: "Producing Wrong Data Without Doing Anything Obviously Wrong!",
//! ASPLOS 2009, section 4, of run times.) So each is recorded several times, in environments that are
//! the same but for the number of [`PADDING`] variables, and policies are compared by the differences that each
//! recording gives.
//!
//! Invariant: what is found of a trace is a function of the trace and the list of policies.

mod compare;
mod page;
mod results;

pub use compare::{Compared, Tally, Verdict};
pub use page::page;
pub use results::{Counted, Found, Judged, Recording, Results};

use crate::models;
use crate::results::Outcome;
use crate::simulate::{self, Options, SimulateError};
use crate::studies::settings::SettingsError;
use freehold_trace::Trace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The study as it ships.
pub const DEFAULT: &str = include_str!("../../../../studies/fragmentation-traces.toml");

/// Files that its programs read, by their path beside the study's own file.
pub const INPUTS: &[(&str, &str)] =
    &[("fragmentation/words.cc", include_str!("../../../../studies/fragmentation/words.cc"))];

/// Raised when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 3;

/// What the variables begin with whose number differs between the recordings of a program; the next three letters
/// are a number.
pub const PADDING: &str = "PADDING_";

/// Letters of the value of such a variable: with its name, `=` and the zero at its end it takes 104 bytes.
const PADDING_LETTERS: usize = 91;

/// What a recorded program has of its caller's environment: where programs and their libraries lie.
const INHERITED: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];

/// More variables than this have no names.
const MOST_PADDING: usize = 1000;

/// What to record, and what to replay it on.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Names in the registry of policies and models.
    pub policies: Vec<String>,
    /// How often each program is recorded.
    #[serde(default = "five")]
    pub recordings: usize,
    /// [`PADDING`] variables that a recording has more than the one before; the first has none.
    #[serde(default = "fifth_of_a_page")]
    pub padding: usize,
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
    /// Whether the first was chosen on these programs: then nothing that it reaches here is a prediction.
    #[serde(default)]
    pub fitted: bool,
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
    /// Variables of its environment, beside those of [`Program::environment_in`].
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// A shell script that runs before, unrecorded.
    #[serde(default)]
    pub setup: Option<String>,
    /// What is recorded.
    pub command: Vec<String>,
}

const fn five() -> usize {
    5
}

/// 832 bytes: five recordings spread over a page.
const fn fifth_of_a_page() -> usize {
    8
}

impl Plan {
    /// The numbers of [`PADDING`] variables, one for each recording.
    pub fn paddings(&self) -> impl Iterator<Item = usize> + use<> {
        let step = self.padding;
        (0..self.recordings).map(move |nth| nth * step)
    }

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
        plan.check_recordings()?;
        match plan.programs.iter().find(|program| !program.is_usable()) {
            Some(program) => {
                let why =
                    format!("{:?} needs a name that can be a file's, and a command", program.name);
                Err(SettingsError::value("trace", why))
            }
            None => Ok(plan),
        }
    }

    fn check_recordings(&self) -> Result<(), SettingsError> {
        if self.recordings < 2 {
            let why = format!("{} give no interval; 2 or more do", self.recordings);
            return Err(SettingsError::value("recordings", why));
        }
        match (self.recordings - 1).checked_mul(self.padding) {
            Some(1..=MOST_PADDING) => Ok(()),
            _ => {
                let why = format!("wants 1 to {MOST_PADDING} variables at the last recording");
                Err(SettingsError::value("padding", why))
            }
        }
    }
}

impl Program {
    /// Whether its name can be a file's, and there is something to run.
    pub fn is_usable(&self) -> bool {
        let name = &self.name;
        let named = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        named && !self.command.is_empty()
    }

    /// The first of its commands that is on none of these folders.
    pub fn lacks(&self, folders: &[std::path::PathBuf]) -> Option<&str> {
        let is_there = |name: &&String| folders.iter().any(|folder| folder.join(name).is_file());
        self.needs.iter().find(|name| !is_there(name)).map(String::as_str)
    }

    /// All of its environment when it runs in `folder`: nothing of the user's but where programs lie.
    pub fn environment_in(&self, folder: &Path, padding: usize) -> Vec<(OsString, OsString)> {
        let inherited = INHERITED.iter().filter_map(|&key| Some((key, std::env::var_os(key)?)));
        let mut all: BTreeMap<&str, OsString> = inherited.collect();
        let names: Vec<String> = (0..padding).map(|nth| format!("{PADDING}{nth:03}")).collect();
        all.extend(["HOME", "TMPDIR"].map(|key| (key, folder.as_os_str().to_owned())));
        all.insert("LC_ALL", "C".into());
        all.extend(self.env.iter().map(|(key, value)| (key.as_str(), value.into())));
        all.extend(names.iter().map(|key| (key.as_str(), "x".repeat(PADDING_LETTERS).into())));
        all.into_iter().map(|(key, value)| (key.into(), value)).collect()
    }

    /// The command to be recorded, run in `folder`, with `{studies}` being `studies`.
    pub fn command_in(&self, folder: &Path, studies: &Path) -> Vec<String> {
        let studies = studies.display().to_string();
        let mut words = vec!["env".to_owned(), "-C".to_owned(), folder.display().to_string()];
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

/// Replays one recording of a program on every policy; `None` where it allocated nothing.
///
/// # Errors
/// When the trace cannot be read or replayed, or `interrupted` becomes true.
pub fn replay(
    plan: &Plan,
    padding: usize,
    trace: &Trace,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Option<Recording>, SimulateError> {
    let Some(process) = simulate::busiest(trace) else { return Ok(None) };
    let survey = simulate::survey(trace, process, &mut |_, _| (), interrupted)?;
    let options = Options { process, limit: None };
    let names: Vec<&str> = plan.policies.iter().map(String::as_str).collect();
    let replayed = simulate::replay(trace, &survey, &names, options, progress, interrupted)?;
    let outcomes: Vec<Outcome> = replayed.into_iter().map(|one| one.outcome).collect();
    Ok(Some(Recording::of(padding, survey.peak_live, &outcomes)))
}

#[cfg(test)]
#[path = "fragmentation/tests.rs"]
mod tests;
