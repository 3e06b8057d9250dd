//! `cargo xtask bench`: Freehold beside its peers, measured so that a reader can trust or repeat it.
//!
//! What runs is data (`bench/workloads.toml`), who competes is `allocators`, how is `rounds` (interleaved, rotated, warmed
//! up, bindings verified) and `launch` (one run's cost), what is printed is `summary`; raw data always stays. Nothing
//! missing is passed over: a peer or program that is not there, or a run that fails, fails the bench.

pub mod allocators;
pub mod binding;
mod blowup;
pub mod callgrind;
pub mod compile;
pub mod facts;
mod given;
mod history;
mod instructions;
mod latency;
pub mod launch;
pub mod peers;
pub mod place;
mod public;
pub mod raw;
pub mod recorder;
mod redis;
mod returns;
pub mod rounds;
pub mod rows;
mod single_calls;
mod startup;
pub mod stats;
pub mod suite;
mod summary;
pub mod table;

use allocators::Allocator;
use clap::{Args, Subcommand};
use place::Place;
use raw::Raw;
use std::path::PathBuf;
use std::process::ExitCode;
use suite::Suite;

/// What to measure, against whom.
#[derive(Args)]
#[command(after_help = "Examples:
  cargo xtask bench                                     everything, about two hours
  cargo xtask bench --quick --only larson,prodcons      two rows, small
  cargo xtask bench --allocators glibc,glibc-again,freehold,mine=/opt/lib/libmine.so
  cargo xtask bench instructions --only mixed           counted instructions instead of time")]
pub struct Options {
    #[command(subcommand)]
    what: Option<What>,
    /// Only rows whose name contains one of these, or is one after a =, separated by commas (also returns, blowup, latency, start-up and single-calls).
    #[arg(
        long,
        global = true,
        value_name = "PATTERNS",
        default_value = "",
        hide_default_value = true
    )]
    only: String,
    /// Columns, separated by commas: names, or NAME=LIBRARY for any other preload library.
    #[arg(long, global = true, value_name = "LIST", default_value = allocators::DEFAULT)]
    allocators: String,
    /// Counted rounds per row, after one that is not.
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Smaller parameters: a look at whether all is well, not a measurement.
    #[arg(long, global = true)]
    quick: bool,
    /// Where the raw data goes (JSON lines); by default bench/results/NAME.jsonl.
    #[arg(long, global = true, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The NAME in that default.
    #[arg(long, global = true, default_value = "run")]
    name: String,
    /// Print the summary of the timed rows as JSON instead of tables.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Count instructions: of single calls by stepping, of whole workloads under valgrind.
    Instructions,
    /// Print the list of rows as WORKLOADS.md shows it.
    List,
}

/// Runs the chore; the exit code is 1 when any run failed.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let suite = suite::load()?;
    if matches!(options.what, Some(What::List)) {
        print!("{}", suite::markdown(&suite));
        return Ok(ExitCode::SUCCESS);
    }
    let place = place::open()?;
    let chosen = Suite {
        micro: suite.micro.into_iter().filter(|row| options.chooses(&row.name)).collect(),
        program: suite.program.into_iter().filter(|row| options.chooses(&row.name)).collect(),
        public: suite.public.into_iter().filter(|row| options.chooses(&row.name)).collect(),
    };
    compile::all(&place, chosen.micro.iter().map(|row| row.source.as_str()))?;
    let allocators = allocators::resolve(&options.allocators, &place)?;
    let head = facts::head(&allocators, usize::from(options.runs), options.quick);
    let mut raw = Raw::create(&options.raw_file(), &head)?;
    let bench = Bench { options, place: &place, allocators: &allocators };
    let whole = match options.what {
        Some(What::Instructions) => bench.instructions(&chosen, &mut raw)?,
        _ => bench.everything(&chosen, &mut raw)?,
    };
    eprintln!("raw data: {}", raw.finish()?.display());
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Options {
    fn chooses(&self, name: &str) -> bool {
        let fits = |pattern: &str| match pattern.strip_prefix('=') {
            Some(whole) => name == whole,
            None => name.contains(pattern),
        };
        self.only.is_empty() || self.only.split(',').map(str::trim).any(fits)
    }

    fn raw_file(&self) -> PathBuf {
        let default = || suite::folder().join("results").join(format!("{}.jsonl", self.name));
        self.out.clone().unwrap_or_else(default)
    }
}

/// One invocation.
struct Bench<'a> {
    options: &'a Options,
    place: &'a Place,
    allocators: &'a [Allocator],
}

impl Bench<'_> {
    fn everything(&self, chosen: &Suite, raw: &mut Raw) -> anyhow::Result<bool> {
        let (place, allocators, options) = (self.place, self.allocators, self.options);
        let mut whole = self.timed(chosen, raw)?;
        for pattern in self.patterns("returns", returns::PATTERNS) {
            whole &= self.show(returns::measure(place, allocators, pattern, options.quick, raw)?);
        }
        let patterns = self.patterns("blowup", blowup::PATTERNS);
        if !patterns.is_empty() {
            whole &= self.show(blowup::measure(place, allocators, &patterns, options.quick, raw)?);
        }
        if self.begins("latency") {
            let rounds = usize::from(options.runs.min(5));
            whole &= self.show(latency::measure(place, allocators, rounds, options.quick, raw)?);
        }
        if self.begins("start-up") {
            whole &= self.show(startup::measure(place, allocators, options.quick, raw)?);
        }
        Ok(whole)
    }

    /// Whether a part of the bench is chosen; if so, it is announced.
    fn begins(&self, name: &str) -> bool {
        let chosen = self.options.chooses(name);
        if chosen {
            eprintln!("{name}");
        }
        chosen
    }

    /// The chosen patterns of a part that has several.
    fn patterns<'p>(&self, part: &str, all: &[&'p str]) -> Vec<&'p str> {
        all.iter().copied().filter(|pattern| self.begins(&format!("{part}-{pattern}"))).collect()
    }

    /// The micro workloads, the programs, and mimalloc-bench's.
    fn timed(&self, chosen: &Suite, raw: &mut Raw) -> anyhow::Result<bool> {
        let quick = self.options.quick;
        let micro = chosen.micro.iter().map(|row| Ok(rows::of_micro(self.place, row, quick)));
        let programs = chosen.program.iter().map(|row| rows::of_program(self.place, row, quick));
        let public = chosen.public.iter().map(|row| rows::of_public(self.place, row));
        let rows = micro.chain(programs).chain(public).collect::<anyhow::Result<Vec<_>>>()?;
        if rows.is_empty() {
            return Ok(true);
        }
        let mut measured = Vec::new();
        for row in &rows {
            eprintln!("{}", row.name);
            measured.push(rounds::measure(
                self.place,
                row,
                self.allocators,
                usize::from(self.options.runs),
                raw,
            )?);
        }
        let summary = summary::Summary { allocators: self.allocators, rows: &measured };
        if self.options.json {
            println!("{:#}", summary.json());
        } else {
            print!("{}", summary.tables());
        }
        Ok(summary.is_whole())
    }

    fn instructions(&self, chosen: &Suite, raw: &mut Raw) -> anyhow::Result<bool> {
        let mut whole = true;
        if self.options.chooses("single-calls") {
            whole &= self.show(single_calls::measure(
                self.place,
                self.allocators,
                self.options.quick,
                raw,
            )?);
        }
        if !chosen.micro.is_empty() {
            whole &=
                self.show(instructions::measure(self.place, self.allocators, &chosen.micro, raw)?);
        }
        Ok(whole)
    }

    fn show(&self, (table, whole): (String, bool)) -> bool {
        if self.options.json {
            eprint!("{table}");
        } else {
            print!("{table}");
        }
        whole
    }
}
