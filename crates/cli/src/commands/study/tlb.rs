//! `freehold study tlb`: page sizes and TLB misses of the radiosity application, published and ours.

use super::bundled;
use super::outputs::Outputs;
use crate::commands::workload;
use crate::{embedded, ui};
use anyhow::{Context, Result, anyhow, bail};
use freehold_lab::selection::Selection;
use freehold_lab::simulate::busiest;
use freehold_lab::studies::tlb::{self, Mallocs, PlaceError, Policied, Results, Sources, counted};
use freehold_trace::Trace;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// What is recorded where no trace is given: the furnished room, so fine that its objects are more than
/// twice what 64 pairs of pages of 1 MiB reach. The last of 20 iterations is heard.
const PROGRAM: Recipe = Recipe {
    scene: &["--threads", "1", "--epsilon", "1e-6", "--least-area", "1e-6"],
    of_patches: 4,
    of_units: 2048,
};
/// The same a tenth as fine: 35 MiB.
const QUICK: Recipe = Recipe {
    scene: &["--threads", "1", "--epsilon", "1e-5", "--least-area", "1e-5"],
    of_patches: 2,
    of_units: 2048,
};

/// How the application is run.
struct Recipe {
    scene: &'static [&'static str],
    /// Of the iteration that is told, the work on one surface in so many.
    of_patches: u32,
    /// Of the other iterations, one piece in so many: for the caches only.
    of_units: u32,
}

/// The iteration that is told, of as many.
const ITERATION: &str = "20";
/// Its light is not settled, for the paper's program did not do that either.
const ENDS: &str = "--break-off";

impl Recipe {
    fn of(quick: bool) -> Recipe {
        if quick { QUICK } else { PROGRAM }
    }

    fn recorded(&self) -> Vec<String> {
        let [patches, units] = [self.of_patches, self.of_units].map(|of| of.to_string());
        let told = ["--accesses", ITERATION, "--of-patches", &patches, "--of-units", &units, ENDS];
        self.scene.iter().chain(&told).map(|&word| word.to_owned()).collect()
    }
}

/// The scene of the paper's Figure 1, whose loads and stores are counted beside those of what is recorded.
const FIGURE_1: [&str; 2] = ["--threads", "1"];

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
  freehold study tlb --quick --every-access   count stacks, too (valgrind; some minutes)
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
    /// Policies that place the objects (the first is that of Table 1), and mallocs that place them for real
    /// [default: four policies and every malloc of this machine].
    #[arg(long, value_name = "LIST")]
    on: Option<String>,
    /// Also count which of all loads and stores of the program the caches would hold, stacks included, as the
    /// paper's counters did: the recorded scene and that of its Figure 1 run under valgrind's cachegrind, which
    /// takes half an hour, with --quick some minutes.
    #[arg(long, conflicts_with = "trace")]
    every_access: bool,
    /// The folder for the results; made if it is missing.
    #[arg(short, long, value_name = "FOLDER", default_value = "study-tlb")]
    out: PathBuf,
    /// Print the results as JSON instead of tables (schema version 4: crates/lab/src/studies/tlb/tables.rs).
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
    if args.trace.is_none() {
        let words = recipe.recorded();
        bundled::record(&path, &words.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    // Neither mallocs nor counts measure time: they run beside the simulation.
    let (results, really, uses) = std::thread::scope(|scope| {
        let really = scope.spawn(|| place_really(&selection, &path, &interrupted));
        let uses = scope.spawn(|| match args.every_access {
            true => every_access(&recipe, folder.path()),
            false => Ok(Vec::new()),
        });
        let results = simulate(&path, &selection, &interrupted);
        (results, really.join(), uses.join())
    });
    let really = really.map_err(|_| anyhow!("placing by a malloc failed"))?;
    let Some((mut results, really)) = unless_interrupted(results, really)? else {
        return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
    };
    results.policies.extend(really);
    add_counted(&mut results, uses.map_err(|_| anyhow!("counting failed"))??, &recipe);
    outputs.write_rows(|to| tlb::write_rows(to, &results.rows))?;
    outputs.write(&tlb::page(&results, &command_line(&args)), &results)?;
    outputs.print(args.json, &results, |out| print(out, &results))?;
    Ok(ExitCode::SUCCESS)
}

/// `None` when interrupted.
fn unless_interrupted<A, B>(
    one: Result<A, PlaceError>,
    other: Result<B, PlaceError>,
) -> Result<Option<(A, B)>, PlaceError> {
    match (one, other) {
        (Err(PlaceError::Interrupted), _) | (_, Err(PlaceError::Interrupted)) => Ok(None),
        (one, other) => Ok(Some((one?, other?))),
    }
}

/// What to place the objects with.
fn select(args: &Args) -> Result<Selection> {
    let own = embedded::allocators()?;
    let own: Vec<(&str, &Path)> = own.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let list = match &args.on {
        Some(list) => list.clone(),
        None if args.quick => QUICK_ON.to_owned(),
        None => format!("{POLICIES},allocators"),
    };
    let selection = Selection::parse(&list, &own)?;
    if selection.policies.is_empty() {
        bail!("--on names no policy; Table 1 needs one, for example best-fit");
    }
    Ok(selection)
}

/// By each malloc in a process of its own: this very command.
fn place_really(
    selection: &Selection,
    trace: &Path,
    interrupted: &AtomicBool,
) -> Result<Vec<Policied>, PlaceError> {
    let no_command = |error: anyhow::Error| PlaceError::Counted { what: error.to_string() };
    let command = workload::placing_program().map_err(no_command)?;
    let mallocs = Mallocs { command: &command, allocators: &selection.allocators, trace };
    tlb::run_really(&mallocs, interrupted)
}

/// With a progress bar.
fn simulate(
    path: &Path,
    selection: &Selection,
    interrupted: &AtomicBool,
) -> Result<Results, PlaceError> {
    let trace = &Trace::open(path)?;
    let process = busiest(trace).ok_or(PlaceError::NoAccesses)?;
    let sources = Sources { trace, process, policies: &selection.policies };
    let mut bar = ui::Progress::new("simulating");
    let mut progress = |done, total| bar.set(done, total);
    tlb::run(&sources, &mut progress, interrupted)
}

/// All loads and stores of the scene of Figure 1, and then of the recorded one.
fn every_access(recipe: &Recipe, folder: &Path) -> Result<Vec<tlb::CacheUse>> {
    let count = |what: &str, scene: &[&str]| {
        let mut command = workload::default_program()?;
        command.extend(scene.iter().chain(&[ENDS]).map(Into::into));
        let what = format!("All loads and stores, {what}");
        Ok(counted::count(&counted::Counted { what, command: &command }, folder)?)
    };
    let uses = [("the scene of Figure 1", &FIGURE_1[..]), (RECORDED, recipe.scene)];
    uses.into_iter().map(|(what, scene)| count(what, scene)).collect()
}

const RECORDED: &str = "the recorded scene";

/// The last of the counts is of the recorded program.
fn add_counted(results: &mut Results, uses: Vec<tlb::CacheUse>, recipe: &Recipe) {
    let words = counted::heap_words(&results.sample, recipe.of_patches, recipe.of_units);
    results.accesses_a_word = uses.last().map(|all| all.words as f64 / words.max(1) as f64);
    results.caches.extend(uses);
}

fn command_line(args: &Args) -> String {
    let trace = args.trace.iter().map(|path| format!(" --trace {}", path.display()));
    let on = args.on.iter().map(|on| format!(" --on {on}"));
    let quick = args.quick.then(|| " --quick".to_owned());
    let every = args.every_access.then(|| " --every-access".to_owned());
    let start = std::iter::once("freehold study tlb".to_owned());
    start.chain(quick).chain(every).chain(trace).chain(on).collect()
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
