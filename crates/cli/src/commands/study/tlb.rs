//! `freehold study tlb`: page sizes and TLB misses of the radiosity application, published and ours.

use super::bundled;
use super::outputs::Outputs;
use crate::commands::workload;
use crate::{embedded, ui};
use anyhow::{Context, Result, anyhow, bail};
use freehold_lab::selection::Selection;
use freehold_lab::simulate::busiest;
use freehold_lab::studies::tlb::{self, PlaceError, Program, Results, Sources};
use freehold_trace::Trace;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// What is recorded where no trace is given: the furnished room, so fine that its objects are more than
/// twice what 64 pairs of pages of 1 MiB reach. The last of 20 iterations is heard.
const PROGRAM: Recipe = Recipe {
    scene: &["--threads", "1", "--epsilon", "1e-6", "--least-area", "1e-6"],
    told: &["--accesses", "20", "--of-patches", "4"],
    parts: "2048",
};
/// The same a tenth as fine: 35 MiB.
const QUICK: Recipe = Recipe {
    scene: &["--threads", "1", "--epsilon", "1e-5", "--least-area", "1e-5"],
    told: &["--accesses", "20", "--of-patches", "2"],
    parts: "2048",
};

/// How the application is run.
struct Recipe {
    scene: &'static [&'static str],
    /// What it tells, and of which share of its surfaces.
    told: &'static [&'static str],
    /// Of the other iterations, one piece in so many: for the trace only.
    parts: &'static str,
}

impl Recipe {
    fn of(quick: bool) -> Recipe {
        if quick { QUICK } else { PROGRAM }
    }

    fn under_a_malloc(&self) -> impl Iterator<Item = &'static str> {
        self.scene.iter().chain(self.told).copied().chain(["--break-off"])
    }

    fn recorded(&self) -> Vec<&'static str> {
        self.under_a_malloc().chain(["--of-units", self.parts]).collect()
    }
}

/// Policies by default; the first is that of Table 1. The others of the registry differ little from these.
const POLICIES: &str = "best-fit,first-fit,buddy,tcmalloc";
const QUICK_ON: &str = "best-fit,buddy,glibc,freehold";

/// Simulate TLBs and caches on a recorded program and compare with what is published.
///
/// The radiosity application says which words it touches; a policy places its objects; P simulated
/// processors with a TLB and caches each do its pieces of work. The report shows Table 1 of Cavin and
/// Alonso beside ours, the hits of the caches, how sharing schemes scale, and how densely each policy
/// and each malloc of this machine fill pages.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold study tlb
  freehold study tlb --quick                  a tenth of the data, within 20 seconds
  freehold study tlb --keep room.fht          keep what was recorded
  freehold study tlb --trace room.fht --on best-fit,first-fit,buddy
  freehold study tlb --on best-fit,glibc,jemalloc
  freehold record -o big.fht -- freehold workload radiosity --threads 1 --epsilon 4e-6 --accesses 20
  freehold study tlb --trace big.fht

In --out: report.html, results.json (the same bytes for the same trace, real mallocs aside) and runs.parquet (a row for
every simulated run of Table 1's policy).")]
pub struct Args {
    /// A trace with memory accesses, instead of recording one.
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Keep the trace that is recorded.
    #[arg(long, value_name = "TRACE", conflicts_with = "trace")]
    keep: Option<PathBuf>,
    /// A tenth of the data, two policies and two mallocs: within the reach of 1 MiB pages, so that their
    /// rows of Table 1 say nothing.
    #[arg(long, conflicts_with = "trace")]
    quick: bool,
    /// Policies that place the objects (the first is that of Table 1), and mallocs under which the program
    /// runs once more for real [default: four policies and every malloc of this machine; with --trace the
    /// policies].
    #[arg(long, value_name = "LIST")]
    on: Option<String>,
    /// The folder for the results; made if it is missing.
    #[arg(short, long, value_name = "FOLDER", default_value = "study-tlb")]
    out: PathBuf,
    /// Print the results as JSON instead of tables (schema version 3: crates/lab/src/studies/tlb/tables.rs).
    #[arg(long)]
    json: bool,
}

/// Records, simulates, prints and writes.
pub fn run(args: Args) -> Result<ExitCode> {
    let selection = select(&args)?;
    let outputs = Outputs::in_folder(&args.out, Some("runs.parquet"))?;
    let folder = tempfile::Builder::new().prefix("freehold-").tempdir();
    let folder = folder.context("the trace needs a temporary folder; set TMPDIR to one")?;
    let path = match (&args.trace, &args.keep) {
        (Some(path), _) | (None, Some(path)) => path.clone(),
        (None, None) => folder.path().join("room.fht"),
    };
    let interrupted = ui::interrupted();
    let recipe = Recipe::of(args.quick);
    let mut command = workload::default_program()?;
    command.extend(recipe.under_a_malloc().map(Into::into));
    let program =
        Program { command: &command, allocators: &selection.allocators, folder: folder.path() };
    // The mallocs measure no time: they run beside the recording and what is made of it.
    let (results, really) = std::thread::scope(|scope| {
        let really = scope.spawn(|| tlb::run_really(&program, &interrupted));
        let results = record_and_simulate(&args, &recipe, &path, &selection, &interrupted);
        (results, really.join())
    });
    let really = really.map_err(|_| anyhow!("running the program under a malloc failed"))?;
    let (mut results, really) = match (results?, really) {
        (None, _) | (_, Err(PlaceError::Interrupted)) => {
            return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
        }
        (Some(results), really) => (results, really?),
    };
    results.policies.extend(really);
    outputs.write_rows(|to| tlb::write_rows(to, &results.rows))?;
    outputs.write(&tlb::page(&results, &command_line(&args)), &results)?;
    outputs.print(args.json, &results, |out| print(out, &results))?;
    Ok(ExitCode::SUCCESS)
}

/// What to place the objects with.
fn select(args: &Args) -> Result<Selection> {
    let own = embedded::allocators()?;
    let own: Vec<(&str, &Path)> = own.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let list = match (&args.on, &args.trace) {
        (Some(list), _) => list.clone(),
        (None, Some(_)) => POLICIES.to_owned(),
        (None, None) if args.quick => QUICK_ON.to_owned(),
        (None, None) => format!("{POLICIES},allocators"),
    };
    let selection = Selection::parse(&list, &own)?;
    if selection.policies.is_empty() {
        bail!("--on names no policy; Table 1 needs one, for example best-fit");
    }
    if args.trace.is_some() && !selection.allocators.is_empty() {
        bail!(
            "a trace says nothing of where {} would put its objects; leave --trace out, so that the \
             program runs for real",
            selection.allocators[0].name
        );
    }
    Ok(selection)
}

/// With a progress bar; `None` when interrupted.
fn record_and_simulate(
    args: &Args,
    recipe: &Recipe,
    path: &Path,
    selection: &Selection,
    interrupted: &AtomicBool,
) -> Result<Option<Results>> {
    if args.trace.is_none() {
        bundled::record(path, &recipe.recorded())?;
    }
    let trace = &Trace::open(path)?;
    let process = busiest(trace).context("the trace has no process")?;
    let sources = Sources { trace, process, policies: &selection.policies };
    let mut bar = ui::Progress::new("simulating");
    let mut progress = |done, total| bar.set(done, total);
    match tlb::run(&sources, &mut progress, interrupted) {
        Ok(results) => Ok(Some(results)),
        Err(PlaceError::Interrupted) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn command_line(args: &Args) -> String {
    let trace = args.trace.iter().map(|path| format!(" --trace {}", path.display()));
    let on = args.on.iter().map(|on| format!(" --on {on}"));
    let quick = args.quick.then(|| " --quick".to_owned());
    let start = std::iter::once("freehold study tlb".to_owned());
    start.chain(quick).chain(trace).chain(on).collect()
}

/// Table 1, three lines a page size; then the answer.
fn print(out: &mut dyn Write, results: &Results) -> std::io::Result<()> {
    write!(out, "\n{:34}", "processors")?;
    results.processors.iter().try_for_each(|p| write!(out, "{p:>9}"))?;
    writeln!(out)?;
    for share in &results.table {
        let page = freehold_lab::human::bytes(share.page_bytes);
        for (what, cells) in [("misses, millions", &share.misses), ("time, s", &share.time)] {
            let name = format!("{page}, {} entries, {what}", 64 / share.divisor);
            write!(out, "{name:34}")?;
            cells.iter().try_for_each(|cell| write!(out, "{:>9.0}", cell.ours))?;
            write!(out, "\n{:>34}", "published")?;
            for cell in cells {
                match cell.published {
                    Some(published) => write!(out, "{published:>9.0}")?,
                    None => write!(out, "{:>9}", "–")?,
                }
            }
            write!(out, "\n{:>34}", "ratio")?;
            for cell in cells {
                match cell.ratio {
                    Some(ratio) => write!(out, "{ratio:>9.2}")?,
                    None => write!(out, "{:>9}", "–")?,
                }
            }
            writeln!(out)?;
        }
    }
    writeln!(out)?;
    results.answer().iter().try_for_each(|sentence| writeln!(out, "{sentence}"))
}
