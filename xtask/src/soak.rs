//! `cargo xtask soak`: real programs' own tests on libfreehold.so.
//!
//! ```text
//! case      one command: passes if it exits with 0, and prints what it printed under glibc where that is asked
//! column    the ways in which a case is run: under glibc, preloaded, FREEHOLD_SECURE=1, freehold run, freehold record
//! battery   every case under glibc, then in each of its ways; a case that glibc fails does not count
//! suites    which programs, and what their cases are (scripts of ours in xtask/soak, and the programs' own tests)
//! runtimes  languages, servers and desktop programs: a script of ours each
//! mallocs   tests of mallocs that are not ours, with and without FREEHOLD_SECURE=1
//! debian    the sources that hold a program's own tests
//! ours      our own long tests: the oracle for millions of calls, ThreadSanitizer, forks and privileges for minutes
//! ```
//!
//! Invariant: a test counts only if it passed under glibc in the same run, and a test that then fails is run again,
//! alone, under both: only what fails twice is a finding.

mod battery;
mod case;
mod column;
mod debian;
mod mallocs;
mod ours;
mod runtimes;
mod suites;

use crate::bench::{facts, peers, place};
pub use case::wait;

use battery::Tally;
use clap::Args;
use column::{Columns, Way};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// What to run.
#[derive(Args)]
#[command(after_help = "Examples:
  cargo xtask soak --short               some minutes: scripts of ours on every program, as CI does
  cargo xtask soak                       hours: the programs' own test suites (fetches Debian source packages)
  cargo xtask soak --only python,git     two of them
  cargo xtask soak --only perl --under secure    its own tests with FREEHOLD_SECURE=1, too
  cargo xtask soak --only churn --under freehold --minutes 10    forks, signals, dlclose, privileges, rest
  cargo xtask soak --only glibc,ltp --sources FOLDER    tests of mallocs that are not ours
  cargo xtask soak --library ./libmine.so --only redis    any other preload library")]
pub struct Options {
    /// Only what takes a minute each and needs no network.
    #[arg(long)]
    short: bool,
    /// Only these programs, separated by commas (see --list).
    #[arg(long, value_name = "NAMES", default_value = "", hide_default_value = true)]
    only: String,
    /// Only cases whose name contains this.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    case: String,
    /// Only every Nth case, from the Kth: K/N, to share a long run among machines or hours.
    #[arg(long, value_name = "K/N", default_value = "1/1", value_parser = part)]
    part: (usize, usize),
    /// The library to test instead of libfreehold.so as it is in the tree.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Where clones lie of what has to be fetched and built outside of the project (ltp, libc-test; glibc, jemalloc and
    /// mimalloc are taken from Debian's source packages otherwise).
    #[arg(long, value_name = "FOLDER")]
    sources: Option<PathBuf>,
    /// How long `churn` runs.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    minutes: u16,
    /// Cases at a time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Only these ways, separated by commas: freehold, secure, run, record.
    #[arg(long, value_name = "WAYS", value_delimiter = ',', value_parser = Way::parse)]
    under: Vec<Way>,
    /// Print the names of the programs, and what is run of each.
    #[arg(long)]
    list: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What a run has at hand.
pub struct Workshop {
    /// Folders; the library and everything that is built.
    pub place: place::Place,
    /// The short form.
    pub short: bool,
    /// Scripts of ours.
    pub scripts: PathBuf,
    /// Clones of what is no package.
    pub sources: Option<PathBuf>,
    /// How long the churn takes.
    pub minutes: u16,
}

/// What became of one suite.
enum Outcome {
    Ran(Tally),
    Absent(String),
}

/// Runs the chore; the exit code is 1 when anything failed (in CI, also when anything is absent).
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.list {
        all_suites().for_each(|suite| println!("{:11} {}", suite.name, suite.shown()));
        ours::ALL.iter().for_each(|own| println!("{:11} {}", own.name, own.sentence));
        return Ok(ExitCode::SUCCESS);
    }
    let place = place::open()?;
    let library = match &options.library {
        Some(file) => std::path::absolute(file)?,
        None => peers::freehold(&place)?.library,
    };
    let columns = Columns::open(&place, &library, options.by_command(), &options.under)?;
    let scripts = crate::sources::root().join("xtask/soak");
    let sources = options.sources.as_ref().map(std::path::absolute).transpose()?;
    let workshop =
        Workshop { place, short: options.short, scripts, sources, minutes: options.minutes };
    let mut results = Vec::new();
    for suite in all_suites().filter(|suite| options.has(suite)) {
        let began = Instant::now();
        let outcome = run_suite(suite, &workshop, &columns, options);
        report(suite.name, &outcome, began.elapsed().as_secs());
        results.push((suite.name, outcome));
    }
    for own in ours::ALL.iter().filter(|own| !options.short && options.chooses(own.name)) {
        let began = Instant::now();
        let outcome = Outcome::of(ours::run(own, &workshop, &columns));
        report(own.name, &outcome, began.elapsed().as_secs());
        results.push((own.name, outcome));
    }
    summarise(&results);
    if options.json {
        println!("{:#}", document(&results));
    }
    Ok(verdict(&results))
}

impl Outcome {
    fn of(result: anyhow::Result<Tally>) -> Outcome {
        result.map_or_else(|why| Outcome::Absent(format!("{why:#}")), Outcome::Ran)
    }
}

impl Options {
    /// Who is named runs in the short form as well.
    fn has(&self, suite: &suites::Suite) -> bool {
        self.chooses(suite.name) && (suite.short || !self.short || !self.only.is_empty())
    }

    /// Whether some way of this run may need the command, which takes minutes to build; it carries our library only.
    fn by_command(&self) -> bool {
        let by_it = |way: &Way| matches!(way, Way::Run | Way::Record);
        self.library.is_none() && (self.under.is_empty() || self.under.iter().any(by_it))
    }

    fn chooses(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.split(',').any(|wanted| wanted.trim() == name)
    }
}

/// K/N, with 1 <= K <= N.
fn part(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    numbers
        .filter(|(k, n)| (1..=*n).contains(k))
        .ok_or_else(|| format!("{text} is not K/N with K from 1 to N, such as 2/5"))
}

fn all_suites() -> impl Iterator<Item = &'static suites::Suite> {
    suites::ALL.iter().chain(runtimes::ALL).chain(mallocs::ALL)
}

fn run_suite(
    suite: &suites::Suite,
    workshop: &Workshop,
    columns: &Columns,
    options: &Options,
) -> Outcome {
    let mut plan = match (suite.plan)(workshop) {
        Ok(plan) => plan,
        Err(why) => return Outcome::Absent(format!("{why:#}")),
    };
    plan.cases.retain(|case| case.name.contains(&options.case));
    let (part, parts) = options.part;
    plan.cases = plan.cases.into_iter().skip(part - 1).step_by(parts).collect();
    Outcome::of(battery::run(suite.name, plan, workshop, columns, usize::from(options.jobs)))
}

fn report(name: &str, outcome: &Outcome, seconds: u64) {
    match outcome {
        Outcome::Absent(why) => eprintln!("{name:11} skipped: {why}"),
        Outcome::Ran(tally) => {
            eprintln!("{name:11} {tally}, {seconds} s");
            for finding in &tally.findings {
                eprintln!(
                    "    FAILED {}: {} ({})",
                    finding.case,
                    finding.why,
                    finding.log.display()
                );
            }
            for case in &tally.unsteady {
                eprintln!("    unsteady {case}: failed once, passed when run again");
            }
        }
    }
}

fn summarise(results: &[(&str, Outcome)]) {
    let skipped = results.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Absent(_)));
    let skipped: Vec<&str> = skipped.map(|(name, _)| *name).collect();
    eprintln!(
        "{} ran, {} skipped {}",
        results.len() - skipped.len(),
        skipped.len(),
        skipped.join(" ")
    );
}

fn document(results: &[(&str, Outcome)]) -> serde_json::Value {
    let suites = results.iter().map(|(name, outcome)| match outcome {
        Outcome::Absent(why) => json!({"name": name, "absent": why}),
        Outcome::Ran(tally) => json!({
            "name": name,
            "counted": tally.counted,
            "passed": tally.counted - tally.findings.len(),
            "fail_under_glibc": tally.fail_under_glibc,
            "skip_themselves": tally.skipped,
            "unsteady": tally.unsteady,
            "failed": tally.findings.iter().map(|finding| json!({
                "case": finding.case, "why": finding.why, "log": finding.log,
            })).collect::<Vec<_>>(),
        }),
    });
    json!({
        "date": facts::date(),
        "commit": facts::commit(),
        "command": std::env::args().skip(1).collect::<Vec<_>>(),
        "suites": suites.collect::<Vec<_>>(),
    })
}

fn verdict(results: &[(&str, Outcome)]) -> ExitCode {
    let in_ci = std::env::var_os("CI").is_some();
    let bad = results.iter().any(|(_, outcome)| match outcome {
        Outcome::Absent(_) => in_ci,
        // Where nothing counts, nothing was shown.
        Outcome::Ran(tally) => !tally.findings.is_empty() || tally.counted == 0,
    });
    if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
