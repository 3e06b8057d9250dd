//! Which cells a sweep has, in which order, and what each is called.

use super::limit::Limit;
use crate::malloc;
use crate::selection::Selection;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Raised when the same replay finds other columns.
const SCHEMA: u32 = 1;

/// Bytes of a hash that are kept: 128 bits, in hexadecimal.
const HEX: usize = 32;

/// What to sweep over.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Paths of traces, or patterns such as `traces/*.fht`.
    pub traces: Vec<String>,
    /// Policies, `policies`, `models`, `malloc`, separated by commas.
    pub on: String,
    /// Limits, separated by commas.
    pub limit: String,
    /// A study instead of traces.
    pub study: Option<String>,
    /// Its short form.
    pub quick: bool,
    /// `NAME=VALUE,VALUE…` or `NAME=FIRST..LAST`.
    pub set: Vec<String>,
}

/// What is done in a cell.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A trace on a policy or the malloc.
    Replay {
        /// The trace's file.
        trace: PathBuf,
        /// The policy.
        on: String,
        /// The memory that it may have.
        limit: Limit,
    },
    /// A whole study.
    Study {
        /// Its name.
        name: String,
        /// Its short form.
        quick: bool,
    },
}

/// One combination of everything swept over: what a worker is told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// What to do.
    pub subject: Subject,
    /// Settings, `NAME` and value.
    pub set: Vec<(String, String)>,
}

/// A cell of a plan.
#[derive(Clone, Debug)]
pub struct Job {
    /// What to do.
    pub cell: Cell,
    /// The name of its file; the reason where its trace cannot even be read.
    pub name: Result<String, String>,
    /// The trace's own hash, where there is a trace.
    pub trace_hash: Option<String>,
}

/// Every cell, in the order of the dataset.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The cells: by trace, policy, limit, settings.
    pub jobs: Vec<Job>,
    /// What is set, in the order given: a column each.
    pub set: Vec<String>,
}

/// Which code does the cells: the release, and the hash of the command itself, for a build of one's own keeps its release's number.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Version(String);

impl Version {
    /// Of the command at `exe`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(exe: &Path) -> io::Result<Version> {
        Ok(Version(format!("{} {}", env!("CARGO_PKG_VERSION"), hash_of_file(exe)?)))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why there is nothing to sweep over.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A pattern without a file.
    #[error("--traces: no file is called {pattern}")]
    NoTrace {
        /// As given.
        pattern: String,
    },
    /// A pattern that is none.
    #[error("--traces: {pattern} is not a pattern: {why}")]
    Pattern {
        /// As given.
        pattern: String,
        /// Why.
        why: String,
    },
    /// Not a limit.
    #[error("--limit: {why}")]
    Limit {
        /// Why.
        why: String,
    },
    /// Not settings.
    #[error("--set: {text:?} is not NAME=VALUE,VALUE or NAME=FIRST..LAST")]
    Set {
        /// As given.
        text: String,
    },
    /// The same setting twice.
    #[error("--set: {name} is set twice; give all its values at once: {name}=1,2")]
    Twice {
        /// The setting.
        name: String,
    },
    /// Something measured.
    #[error(
        "--on: {name} is measured, and a sweep simulates; `freehold replay --on {name}` measures"
    )]
    Measured {
        /// The allocator.
        name: String,
    },
    /// An empty list.
    #[error("nothing to sweep over: --on wants names, separated by commas")]
    Nothing,
}

impl Request {
    /// The plan; every trace is read once, for its hash.
    ///
    /// # Errors
    /// When the request makes no sense. A trace, policy or setting that there is not is none: its cells say so.
    pub fn plan(
        &self,
        version: &Version,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Plan, PlanError> {
        let axes = self.set.iter().map(|text| axis(text)).collect::<Result<Vec<_>, _>>()?;
        for (at, (name, _)) in axes.iter().enumerate() {
            if axes[..at].iter().any(|(other, _)| other == name) {
                return Err(PlanError::Twice { name: name.clone() });
            }
        }
        let settings = combinations(&axes);
        let jobs = match &self.study {
            Some(study) => self.of_study(study, &settings, version),
            None => self.of_traces(&settings, version, progress)?,
        };
        Ok(Plan { jobs, set: axes.into_iter().map(|(name, _)| name).collect() })
    }

    fn of_study(&self, study: &str, settings: &[Settings], version: &Version) -> Vec<Job> {
        let job = |set: &Settings| {
            let subject = Subject::Study { name: study.to_owned(), quick: self.quick };
            let cell = Cell { subject, set: set.clone() };
            Job { name: Ok(cell.name(version, "")), cell, trace_hash: None }
        };
        settings.iter().map(job).collect()
    }

    fn of_traces(
        &self,
        settings: &[Settings],
        version: &Version,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<Job>, PlanError> {
        let names = subjects(&self.on)?;
        let limits = self.limit.split(',').map(|text| text.trim().parse());
        let limits: Vec<Limit> =
            limits.collect::<Result<_, _>>().map_err(|why| PlanError::Limit { why })?;
        let mut jobs = Vec::new();
        let traces = files(&self.traces)?;
        for (at, trace) in traces.iter().enumerate() {
            progress(at as u64, traces.len() as u64);
            let hash = hash_of_file(trace)
                .map_err(|error| format!("{} cannot be read: {error}", file_name(trace)));
            for on in &names {
                // Settings are the malloc's: a policy has one cell.
                let none = [Settings::new()];
                let settings = if on == malloc::NAME { settings } else { &none };
                for (limit, set) in
                    limits.iter().flat_map(|l| settings.iter().map(move |s| (*l, s)))
                {
                    let subject = Subject::Replay { trace: trace.clone(), on: on.clone(), limit };
                    let cell = Cell { subject, set: set.clone() };
                    let name = hash.as_ref().map(|hash| cell.name(version, hash));
                    let name = name.map_err(String::clone);
                    jobs.push(Job { cell, name, trace_hash: hash.clone().ok() });
                }
            }
        }
        Ok(jobs)
    }
}

impl Cell {
    /// The hash of everything that the result depends on.
    fn name(&self, version: &Version, trace_hash: &str) -> String {
        let mut set = self.set.clone();
        set.sort();
        let what = match &self.subject {
            Subject::Replay { on, limit, .. } => format!("replay {on:?} {limit}"),
            Subject::Study { name, quick } => format!("study {name:?} {quick}"),
        };
        hex(blake3::hash(format!("{SCHEMA} {version} {trace_hash} {what} {set:?}").as_bytes()))
    }
}

/// The last part of a path, which names a trace in the dataset.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

type Settings = Vec<(String, String)>;

/// A setting's name and its values.
fn axis(text: &str) -> Result<(String, Vec<String>), PlanError> {
    let wrong = || PlanError::Set { text: text.to_owned() };
    let (name, values) = text.split_once('=').ok_or_else(wrong)?;
    let values = match range(values) {
        Some(values) => values,
        None => list(values),
    };
    let name = name.trim().to_owned();
    match name.is_empty() || values.is_empty() || values.iter().any(String::is_empty) {
        true => Err(wrong()),
        false => Ok((name, values)),
    }
}

/// `1..100`, both included.
fn range(text: &str) -> Option<Vec<String>> {
    let (first, last) = text.split_once("..")?;
    let (first, last): (i64, i64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    Some((first..=last).map(|value| value.to_string()).collect())
}

/// Split at commas, but not within brackets or quotes: `["4x4","8x8"]` is one value.
fn list(text: &str) -> Vec<String> {
    let (mut values, mut depth, mut quoted) = (vec![String::new()], 0, false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            _ => {}
        }
        match c == ',' && depth == 0 && !quoted {
            true => values.push(String::new()),
            false => values.last_mut().expect("it begins with one").push(c),
        }
    }
    values.iter().map(|value| value.trim().to_owned()).collect()
}

/// Every choice of one value for each name; one empty choice of no names.
fn combinations(axes: &[(String, Vec<String>)]) -> Vec<Settings> {
    axes.iter().fold(vec![Settings::new()], |all, (name, values)| {
        let longer = |set: &Settings| {
            let set = set.clone();
            values.iter().map(move |value| {
                let mut set = set.clone();
                set.push((name.clone(), value.clone()));
                set
            })
        };
        all.iter().flat_map(longer).collect()
    })
}

/// The names that `--on` lists, groups taken apart. An unknown one stays: its cells say that it is unknown.
fn subjects(on: &str) -> Result<Vec<String>, PlanError> {
    let mut all: Vec<String> = Vec::new();
    for name in on.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let names = match Selection::parse(name, &[]) {
            Err(_) => vec![name.to_owned()],
            Ok(found) if !found.allocators.is_empty() => {
                return Err(PlanError::Measured { name: name.to_owned() });
            }
            Ok(found) => {
                let policies = found.policies.into_iter().map(str::to_owned);
                policies.chain(found.malloc.then(|| malloc::NAME.to_owned())).collect()
            }
        };
        for name in names {
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    if all.is_empty() { Err(PlanError::Nothing) } else { Ok(all) }
}

/// The files that paths and patterns name, each once, ordered by name and then by path.
fn files(patterns: &[String]) -> Result<Vec<PathBuf>, PlanError> {
    let mut all = Vec::new();
    for pattern in patterns {
        // A path without wildcards is a trace even if it is not there: its cells say so.
        if Path::new(pattern).exists() || !pattern.contains(['*', '?', '[']) {
            all.push(PathBuf::from(pattern));
            continue;
        }
        let why = |error: glob::PatternError| PlanError::Pattern {
            pattern: pattern.clone(),
            why: error.to_string(),
        };
        let before = all.len();
        all.extend(glob::glob(pattern).map_err(why)?.flatten());
        if all.len() == before {
            return Err(PlanError::NoTrace { pattern: pattern.clone() });
        }
    }
    all.sort_by_cached_key(|path| (file_name(path), path.clone()));
    all.dedup();
    Ok(all)
}

fn hash_of_file(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hex(hasher.finalize()))
}

fn hex(hash: blake3::Hash) -> String {
    hash.to_hex()[..HEX].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_lists_ranges_and_lists_of_lists() {
        let values = |text| axis(text).unwrap().1;
        assert_eq!(values("seed=1..4"), ["1", "2", "3", "4"]);
        assert_eq!(values("reserve.bytes=1M, 8M,off"), ["1M", "8M", "off"]);
        assert_eq!(
            values(r#"platforms=["4x4","8x8"],["2x2"]"#),
            [r#"["4x4","8x8"]"#, r#"["2x2"]"#]
        );
        for wrong in ["seed", "=1", "seed=", "seed=1,,2", "seed=4..1"] {
            assert!(axis(wrong).is_err(), "{wrong}");
        }
        let axes = [axis("a=1,2").unwrap(), axis("b=x,y").unwrap()];
        let shown: Vec<String> =
            combinations(&axes).iter().map(|set| format!("{}{}", set[0].1, set[1].1)).collect();
        assert_eq!(shown, ["1x", "1y", "2x", "2y"]);
    }

    #[test]
    fn a_name_depends_on_trace_version_and_arguments_and_on_nothing_else() {
        let cell = |trace: &str, on: &str, set: &[(&str, &str)]| Cell {
            subject: Subject::Replay {
                trace: trace.into(),
                on: on.into(),
                limit: Limit::Times(1.5),
            },
            set: set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        };
        let (one, two) = (Version("1".into()), Version("2".into()));
        let (a, b) = (("a", "1"), ("b", "2"));
        let name = cell("x/t.fht", "malloc", &[a, b]).name(&one, "hash");
        assert_eq!(name, cell("y/t.fht", "malloc", &[b, a]).name(&one, "hash"), "where it lies");
        assert_ne!(name, cell("x/t.fht", "malloc", &[a, b]).name(&two, "hash"));
        assert_ne!(name, cell("x/t.fht", "malloc", &[a, b]).name(&one, "other"));
        assert_ne!(name, cell("x/t.fht", "dmrt", &[a, b]).name(&one, "hash"));
        assert_ne!(name, cell("x/t.fht", "malloc", &[a]).name(&one, "hash"));
    }

    #[test]
    fn groups_are_taken_apart_and_the_measured_refused() {
        let names = subjects("best-fit,policies,malloc,frist-fit").unwrap();
        assert_eq!((names[0].as_str(), names.last().unwrap().as_str()), ("best-fit", "frist-fit"));
        assert_eq!(names.iter().filter(|name| *name == "best-fit").count(), 1);
        assert!(matches!(subjects("glibc"), Err(PlanError::Measured { .. })));
        assert!(matches!(subjects(" , "), Err(PlanError::Nothing)));
    }
}
