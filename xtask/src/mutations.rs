//! `cargo xtask mutations`: small errors, drawn at random, that the tests of core and blocks should notice.
//!
//! `cargo mutants` lists all that can be made (functions that return a constant, operators that are others, conditions that hold
//! always); this draws some, makes one at a time in a checkout of its own, and runs the tests of the crates, then those of testkit.
//!
//! Invariant: the draw is a function of the tree and the seed. What was judged stays judged: another run goes on.

use crate::bench::facts;
use crate::sources;
use crate::worst::adversaries::Random;
use anyhow::{Context, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// What is mutated: blocks, frames, placement and the malloc.
const FILES: [&str; 4] = [
    "crates/blocks/src/**",
    "crates/core/src/frames/**",
    "crates/core/src/place/**",
    "crates/core/src/malloc/**",
];
/// Whose tests are run, the fast ones first.
const TESTS: [&[&str]; 2] = [&["freehold-core", "freehold-blocks"], &["freehold-testkit"]];
/// Tests that take longer do not end: so many times what they take without a mutation, and what a build may take.
const LIMIT: (u32, Duration) = (3, Duration::from_secs(90));

/// What to draw.
#[derive(Args)]
#[command(after_help = "Needs cargo-mutants (cargo install --locked cargo-mutants).

Examples:
  cargo xtask mutations                 a hundred, about two hours; an interrupted run goes on
  cargo xtask mutations --draw 10 --seed 7 --out ten.jsonl
  cargo xtask mutations --draw 0        what was judged so far

A mutation that changes nothing is argued by hand: \"equivalent\": \"why\" in its line of the file. It counts no more.")]
pub struct Options {
    /// How many.
    #[arg(long, default_value_t = 100)]
    draw: usize,
    /// Which: another number draws others.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where what was judged is kept.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A mutation as `cargo mutants --list --json` tells it.
#[derive(Deserialize)]
struct Mutation {
    file: String,
    name: String,
    replacement: String,
    #[serde(rename = "span")]
    part: Part,
}

#[derive(Deserialize)]
struct Part {
    start: Position,
    end: Position,
}

/// Both from 1, columns in characters.
#[derive(Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

/// What the tests made of it.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// A test failed, or did not end.
    Killed,
    /// All tests passed.
    Survived,
    /// It does not compile.
    Unviable,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Judged {
    name: String,
    outcome: Outcome,
    seconds: u64,
    commit: String,
    /// Why it changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    equivalent: Option<String>,
}

/// Draws, judges and prints.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let file = options.out.clone().unwrap_or_else(|| {
        sources::root().join(format!("bench/results/mutations-{}.jsonl", options.seed))
    });
    let mut judged = read(&file)?;
    if options.draw > 0 {
        let drawn = draw(list()?, options.draw, options.seed);
        let tree = Tree::new()?;
        for (number, mutation) in drawn.iter().enumerate() {
            if judged.iter().any(|line| line.name == mutation.name) {
                continue;
            }
            let line = tree.judge(mutation)?;
            eprintln!("{} of {}: {:?}: {}", number + 1, drawn.len(), line.outcome, line.name);
            append(&file, &line)?;
            judged.push(line);
        }
    }
    print(&judged);
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> anyhow::Result<Vec<Judged>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(file)?;
    let line =
        |line| serde_json::from_str(line).with_context(|| format!("{}: {line}", file.display()));
    text.lines().map(line).collect()
}

fn append(file: &Path, line: &Judged) -> anyhow::Result<()> {
    let mut out = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    Ok(writeln!(out, "{}", serde_json::to_string(line)?)?)
}

/// All mutations there are.
fn list() -> anyhow::Result<Vec<Mutation>> {
    let mut command = Command::new("cargo");
    command.args(["mutants", "--list", "--json", "-p", "freehold-core", "-p", "freehold-blocks"]);
    FILES.iter().for_each(|file| _ = command.args(["-f", file]));
    let output = command.current_dir(sources::root()).stderr(Stdio::inherit()).output()?;
    ensure!(
        output.status.success(),
        "`cargo mutants --list` failed: cargo install --locked cargo-mutants"
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// So many of them, in the order in which they were drawn.
fn draw(mut all: Vec<Mutation>, count: usize, seed: u64) -> Vec<Mutation> {
    let mut random = Random(seed);
    let mut drawn = Vec::new();
    while drawn.len() < count && !all.is_empty() {
        drawn.push(all.swap_remove(random.below(all.len())));
    }
    drawn
}

/// A checkout of its own, as the tree is committed.
struct Tree {
    folder: PathBuf,
    target: PathBuf,
    /// How long each of [`TESTS`] may take.
    limits: [Duration; TESTS.len()],
}

impl Tree {
    fn new() -> anyhow::Result<Tree> {
        let base = sources::root().join("target/mutations");
        let limits = [Duration::from_secs(24 * 60 * 60); TESTS.len()];
        let mut tree = Tree { folder: base.join("tree"), target: base.join("target"), limits };
        if !tree.folder.exists() {
            tree.git(&["worktree", "prune"], &sources::root())?;
            let folder = tree.folder.to_str().context("a folder with a name of text")?;
            tree.git(&["worktree", "add", "--detach", folder, "HEAD"], &sources::root())?;
        }
        let head = facts::commit();
        tree.git(&["checkout", "--quiet", "--force", head.trim_end_matches('+')], &tree.folder)?;
        tree.git(&["clean", "--quiet", "--force", "-d"], &tree.folder)?;
        for (at, names) in TESTS.iter().enumerate() {
            // Once to build them, and once for the time.
            ensure!(tree.passes(at)?, "the tests of {names:?} fail without a mutation");
            let begin = Instant::now();
            ensure!(tree.passes(at)?, "the tests of {names:?} fail the second time");
            tree.limits[at] = begin.elapsed() * LIMIT.0 + LIMIT.1;
        }
        Ok(tree)
    }

    fn git(&self, words: &[&str], folder: &Path) -> anyhow::Result<()> {
        let status = Command::new("git").args(words).current_dir(folder).status()?;
        ensure!(status.success(), "git {} failed", words.join(" "));
        Ok(())
    }

    /// Makes the mutation, runs the tests, and takes it back.
    fn judge(&self, mutation: &Mutation) -> anyhow::Result<Judged> {
        let path = self.folder.join(&mutation.file);
        let text = std::fs::read_to_string(&path)?;
        let begin = Instant::now();
        std::fs::write(&path, mutated(&text, mutation).context("it lies outside of its file")?)?;
        let outcome = self.outcome();
        std::fs::write(&path, text)?;
        // Inputs that failed are kept for the next run: one mutation's must not judge the next.
        self.git(&["clean", "--quiet", "--force", "-d"], &self.folder)?;
        Ok(Judged {
            name: mutation.name.clone(),
            outcome: outcome?,
            seconds: begin.elapsed().as_secs(),
            commit: facts::commit(),
            equivalent: None,
        })
    }

    fn outcome(&self) -> anyhow::Result<Outcome> {
        if !self.cargo(&["check", "-p", "freehold-core", "-p", "freehold-blocks"], LIMIT.1)? {
            return Ok(Outcome::Unviable);
        }
        for at in 0..TESTS.len() {
            if !self.passes(at)? {
                return Ok(Outcome::Killed);
            }
        }
        Ok(Outcome::Survived)
    }

    /// Whether these of [`TESTS`] pass.
    fn passes(&self, at: usize) -> anyhow::Result<bool> {
        let packages = TESTS[at].iter().flat_map(|package| ["-p", package]);
        let words: Vec<&str> = ["test", "-q"].into_iter().chain(packages).collect();
        self.cargo(&words, self.limits[at])
    }

    /// Whether cargo succeeds in time.
    fn cargo(&self, words: &[&str], limit: Duration) -> anyhow::Result<bool> {
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "cargo"])
            .args(words)
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", &self.target)
            // Warnings are not what kills.
            .env("RUSTFLAGS", "--cap-lints=warn")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(crate::soak::wait(child, limit)?.is_some_and(|status| status.success()))
    }
}

/// The file with the mutation.
fn mutated(text: &str, mutation: &Mutation) -> Option<String> {
    let start = offset(text, &mutation.part.start)?;
    let end = offset(text, &mutation.part.end)?;
    Some([text.get(..start)?, &mutation.replacement, text.get(end..)?].concat())
}

fn offset(text: &str, position: &Position) -> Option<usize> {
    let line_at = match position.line {
        1 => 0,
        line => text.match_indices('\n').nth(line - 2)?.0 + 1,
    };
    let line = text.get(line_at..)?;
    let (within, _) = line.char_indices().nth(position.column - 1)?;
    Some(line_at + within)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a hundred")]
fn print(judged: &[Judged]) {
    let counts = judged.iter().filter(|line| line.equivalent.is_none());
    let mut by_outcome: BTreeMap<Outcome, usize> = BTreeMap::new();
    counts.for_each(|line| *by_outcome.entry(line.outcome).or_default() += 1);
    let of = |outcome| by_outcome.get(&outcome).copied().unwrap_or(0);
    let (killed, survived) = (of(Outcome::Killed), of(Outcome::Survived));
    let equivalent = judged.iter().filter(|line| line.equivalent.is_some()).count();
    let all = killed + survived;
    println!(
        "{} judged: {} do not compile, {equivalent} change nothing; of {all} others tests kill {killed} ({:.0} %)",
        judged.len(),
        of(Outcome::Unviable),
        100.0 * killed as f64 / all.max(1) as f64
    );
    for line in judged {
        if line.outcome == Outcome::Survived && line.equivalent.is_none() {
            println!("survives: {}", line.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: usize, column: usize) -> Position {
        Position { line, column }
    }

    #[test]
    fn a_mutation_replaces_its_part() {
        let mutation = Mutation {
            file: String::new(),
            name: String::new(),
            replacement: "<=".into(),
            part: Part { start: at(2, 7), end: at(2, 8) },
        };
        let text = "fn f() {\n    ä < b\n}\n";
        assert_eq!(mutated(text, &mutation).as_deref(), Some("fn f() {\n    ä <= b\n}\n"));
        assert!(mutated("fn f() {", &mutation).is_none());
    }

    #[test]
    fn a_seed_draws_the_same_and_nothing_twice() {
        let all = || {
            (0..50).map(|number: usize| Mutation {
                file: String::new(),
                name: number.to_string(),
                replacement: String::new(),
                part: Part { start: at(1, 1), end: at(1, 1) },
            })
        };
        let names = |count, seed| -> Vec<String> {
            draw(all().collect(), count, seed).into_iter().map(|it| it.name).collect()
        };
        assert_eq!(names(10, 3), names(10, 3));
        assert_ne!(names(10, 3), names(10, 4));
        let mut every = names(99, 3);
        every.sort();
        every.dedup();
        assert_eq!(every.len(), 50);
    }
}
