//! The list of rows: `bench/workloads.toml`, read once. WORKLOADS.md shows the same list to people, and a test
//! here keeps the two together.

use anyhow::Context;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All rows, in the order in which they run and print.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Small programs of our own.
    pub micro: Vec<Micro>,
    /// Programs that people use.
    pub program: Vec<Program>,
    /// Rows of mimalloc-bench.
    pub public: Vec<Public>,
}

/// One micro workload with its parameters.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Micro {
    /// The row's name.
    pub name: String,
    /// A file of `bench/workloads/`.
    pub source: String,
    /// Parameters, separated by blanks; the head of the source explains them.
    pub args: String,
    /// Parameters of `--quick`.
    pub quick: String,
    /// Parameters under valgrind; absent where instructions are not comparable.
    pub count: Option<String>,
}

/// One real program.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The row's name.
    pub name: String,
    /// What is run, found on the PATH.
    pub command: String,
    /// What to install when it is missing.
    pub package: String,
    /// Parameters, separated by blanks; `{programs}` and `{scratch}` are folders.
    pub args: String,
    /// Environment of this row, for every allocator.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// One row of mimalloc-bench, with the name and parameters that it has there on two processors.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Public {
    /// The row's name: theirs, behind `mb-`.
    pub name: String,
    /// What it is built to.
    pub program: String,
    /// The compiler and what their CMake file gives it, for a shell in their folder `bench`.
    pub build: String,
    /// Parameters, separated by blanks; `{public}` is their folder `bench`.
    #[serde(default)]
    pub args: String,
    /// What it reads as its standard input, in that folder.
    pub input: Option<String>,
    /// Of a program that runs for a fixed time: what it prints of the work that it did.
    pub work: Option<Work>,
}

/// How much a program did, as it says itself: its times count for a fixed amount of it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// What it prints, with `{}` where the number stands, at one end.
    pub says: String,
    /// Times are for so much of it.
    pub per: f64,
}

impl Work {
    /// The number in what was printed.
    pub fn read(&self, printed: &str) -> anyhow::Result<f64> {
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0.0);
        let (before, behind) = self.says.split_once("{}").context("{} stands for the number")?;
        let found = if before.is_empty() {
            printed.split_once(behind).and_then(|(text, _)| number(text.split_whitespace().last()?))
        } else {
            printed.split_once(before).and_then(|(_, text)| number(text.split_whitespace().next()?))
        };
        found.with_context(|| format!("it did not print {:?}", self.says))
    }
}

/// `bench/`, where the sources and the list are.
pub fn folder() -> PathBuf {
    crate::sources::root().join("bench")
}

/// Reads the list.
pub fn load() -> anyhow::Result<Suite> {
    let path = folder().join("workloads.toml");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not a list of rows", path.display()))
}

/// Parameters as words, with `{programs}` and another folder filled in.
pub fn words(args: &str, (name, filled): (&str, &Path)) -> Vec<String> {
    let programs = folder().join("workloads/programs");
    args.split_whitespace()
        .map(|word| word.replace("{programs}", &programs.display().to_string()))
        .map(|word| word.replace(name, &filled.display().to_string()))
        .map(|word| if word == "''" { String::new() } else { word })
        .collect()
}

/// The list as WORKLOADS.md shows it.
pub fn markdown(suite: &Suite) -> String {
    let mut text = String::from("| row | command |\n|---|---|\n");
    for micro in &suite.micro {
        let program = micro.source.split('.').next().unwrap_or(&micro.source);
        text += &format!("| {} | `{program} {}` |\n", micro.name, micro.args);
    }
    for program in &suite.program {
        text += &format!("| {} | `{} {}` |\n", program.name, program.command, program.args);
    }
    for row in &suite.public {
        text += &format!("| {} | `{} {}` |\n", row.name, row.program, row.args);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_the_list_that_runs() {
        let shown = std::fs::read_to_string(folder().join("WORKLOADS.md")).unwrap();
        for line in markdown(&load().unwrap()).lines() {
            assert!(shown.contains(line), "WORKLOADS.md lacks this line: {line}");
        }
    }

    #[test]
    fn every_source_exists() {
        for micro in load().unwrap().micro {
            let path = folder().join("workloads").join(&micro.source);
            assert!(path.is_file(), "{} has no source {}", micro.name, path.display());
        }
    }

    #[test]
    fn the_work_that_was_done_is_read_from_either_side() {
        let read = |says: &str, printed| Work { says: says.to_owned(), per: 1.0 }.read(printed);
        assert_eq!(read("{} iterations", "so\n12345 iterations \n").unwrap(), 12345.0);
        let rate = "rtime: 2.0, free/sec: 18.4 M\n";
        assert_eq!(read("free/sec: {}", rate).unwrap(), 18.4);
        for says in ["{} iterations", "sold: {}", "rtime: {}"] {
            let why = read(says, rate).unwrap_err().to_string();
            assert_eq!(why, format!("it did not print {says:?}"));
        }
    }

    #[test]
    fn folders_and_empty_words_are_filled_in() {
        let words = words("--save '' {scratch}/x", ("{scratch}", Path::new("/s")));
        assert_eq!(words, ["--save", "", "/s/x"]);
    }
}
