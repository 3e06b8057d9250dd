//! From the list of rows to jobs: finds the programs, prepares what they read, runs one row once.

use super::allocators::Allocator;
use super::launch::{self, Job, Outcome};
use super::place::{Place, find_program};
use super::suite::{self, Micro, Program, Public};
use super::{given, history, public, redis};
use std::path::Path;
use std::process::Command;

/// One row of the tables, ready to run.
pub struct Row {
    /// Its name.
    pub name: String,
    /// What it runs.
    pub job: Job,
    /// Whether every allocator must see it print the same.
    pub same_output: bool,
    /// Of a program that runs for a fixed time: how it says what it did.
    pub work: Option<suite::Work>,
    quick: bool,
}

/// A micro workload as a row.
pub fn of_micro(place: &Place, micro: &Micro, quick: bool) -> Row {
    let args = if quick { &micro.quick } else { &micro.args };
    let job = Job::of_ours(place, &micro.source, suite::words(args, ("{scratch}", &place.scratch)));
    Row { name: micro.name.clone(), job, same_output: false, work: None, quick }
}

/// A real program as a row; fails with the package's name when it is not installed.
pub fn of_program(place: &Place, program: &Program, quick: bool) -> anyhow::Result<Row> {
    let found = find_program(&program.command, &program.package)?;
    let file = if program.command == "python3" { real_python(&found)? } else { found };
    match program.name.as_str() {
        "git-log" => history::make(place)?,
        "redis" => _ = redis::client()?,
        _ if program.args.contains(given::FOLDER) => given::make(place)?,
        _ => {}
    }
    let env = program.env.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let args = suite::words(&program.args, ("{scratch}", &place.scratch));
    let job = Job { program: file, args, env, input: None, preload_libc: true, keep_output: false };
    let same_output = program.name != "redis";
    Ok(Row { name: program.name.clone(), job, same_output, work: None, quick })
}

/// A row of mimalloc-bench.
pub fn of_public(place: &Place, row: &Public) -> anyhow::Result<Row> {
    let folder = public::folder(place)?;
    let program = public::build(place, &folder, row)?;
    let args = suite::words(&row.args, ("{public}", &folder));
    let input = row.input.as_ref().map(|input| folder.join(input));
    let keep_output = row.work.is_some();
    let job = Job { program, args, env: Vec::new(), input, preload_libc: false, keep_output };
    let work = row.work.clone();
    Ok(Row { name: row.name.clone(), job, same_output: false, work, quick: false })
}

/// `python3` on the PATH may be a script that chooses a version; what it starts is what is measured.
fn real_python(found: &Path) -> anyhow::Result<std::path::PathBuf> {
    let output = Command::new(found).args(["-c", "import sys; print(sys.executable)"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    anyhow::ensure!(
        output.status.success() && !text.trim().is_empty(),
        "{} does not run",
        found.display()
    );
    Ok(text.trim().into())
}

impl Row {
    /// A row that is not of the list.
    pub fn plain(name: &str, job: Job) -> Self {
        Self { name: name.to_owned(), job, same_output: false, work: None, quick: false }
    }

    /// One run under an allocator.
    pub fn run(
        &self,
        place: &Place,
        allocator: &Allocator,
        debug: Option<&Path>,
    ) -> anyhow::Result<Outcome> {
        if self.name == "redis" {
            return redis::run(place, allocator, &self.job, debug, self.quick);
        }
        launch::run(place, allocator, &self.job, debug)
    }
}
