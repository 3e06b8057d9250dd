//! `freehold replay`: one trace on policies, on allocators and on Freehold's malloc, as tables.

mod decisions;

use crate::embedded;
use crate::ui::{self, Which, WrongCommandLine};
use anyhow::{Context, Result};
use freehold_lab::answer::Answer;
use freehold_lab::compare::{self, Found, Plan, Stage};
use freehold_lab::human;
use freehold_lab::malloc::Settings;
use freehold_lab::real::INSTALL_HELP;
use freehold_lab::report;
use freehold_lab::results::{Document, Output, ProcessFacts, Several, write_json, write_parquet};
use freehold_lab::selection::Selection;
use freehold_lab::simulate::{self, SimulateError};
use freehold_trace::{ProcessId, Trace};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Replay a trace on policies and Freehold's malloc (simulated, exact) and on real allocators (measured).
#[derive(clap::Args)]
#[command(after_help = format!("Examples:
  freehold replay app.fht
  freehold replay app.fht --on policies --json
  freehold replay app.fht --on best-fit,jemalloc,./libmine.so --limit 64M
  freehold replay app.fht --on all -o results.parquet
  freehold replay app.fht --on policies --process all   each process that has much memory
  freehold replay app.fht --on malloc --set reserve.bytes=2M --set purge.from=off
  freehold replay app.fht --on malloc --page-size 16K --huge-pages --json
  freehold replay --decisions                      what --set can change, with reasons

`--on malloc` runs the code of libfreehold.so on a simulated machine with pages: resident memory, page faults, and \
where memory is that no object has, by cause. The program is taken to touch every page of every block.

{INSTALL_HELP}

The results of policies are the same, byte for byte, on every machine. With -o, the machine and the \
time the simulation took go to a second file beside it (results.machine.json).

Exit status: 0 all was replayed; 1 the trace is damaged (what is sound was replayed), or nothing could \
be; 2 the command line was wrong; 130 interrupted."))]
pub struct Args {
    /// The trace, from `freehold record` or `freehold import`.
    #[arg(required_unless_present = "decisions")]
    trace: Option<PathBuf>,
    /// Policies, allocators and paths of libraries, separated by commas; or `malloc` (Freehold's, simulated),
    /// `policies`, `models` (of allocators), `allocators`, `all`.
    #[arg(long, value_name = "LIST", default_value = "all")]
    on: String,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    machine: Machine,
    /// List the malloc's decisions, with their shipped values and the reasons, and replay nothing.
    #[arg(long)]
    decisions: bool,
    /// Print JSON instead of tables (schema version 1: crates/lab/src/results.rs).
    #[arg(long)]
    json: bool,
    /// Also write the results to a file: .json or .parquet.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What `replay` and `compare` have in common.
#[derive(clap::Args, Clone, Copy)]
pub struct How {
    /// Memory that each policy and allocator may have, such as 64M or 2GiB. Without it a policy
    /// has four times the peak of live bytes.
    #[arg(long, value_name = "BYTES", value_parser = ui::bytes)]
    pub limit: Option<u64>,
    /// Replay this process of the trace instead of the one with the most memory of malloc at once; or `all`: one after the
    /// other, each process that had at least a tenth of what that one had. (JSON is then one object, with an entry of
    /// `judged` for each. What all of them add up to, `freehold info --process all` says.)
    #[arg(long, value_name = "N|all")]
    pub process: Option<Which>,
    /// Timing runs of each allocator; by default 2 to 5, fewer for longer traces.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
}

impl How {
    /// One for each process that is to be replayed, the heaviest first; `None` when interrupted.
    pub fn each(self, trace: &Trace, interrupted: &AtomicBool) -> Result<Option<Vec<How>>> {
        if !self.all() {
            return Ok(Some(vec![self]));
        }
        let mut bar = ui::Progress::new("reading");
        let mut progress = |done, total| bar.set(done, total);
        match simulate::heavy(trace, &mut progress, interrupted) {
            Ok(heavy) => {
                let one = |process: ProcessId| How { process: Some(Which::One(process.0)), ..self };
                Ok(Some(heavy.into_iter().map(one).collect()))
            }
            Err(SimulateError::Interrupted) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether several processes are asked for.
    pub fn all(self) -> bool {
        self.process == Some(Which::All)
    }
}

/// The simulated machine of `--on malloc`.
#[derive(clap::Args, Clone)]
pub struct Machine {
    /// Change a decision of the malloc, such as reserve.bytes=2M or purge.from=off; may be given again.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Bytes of a page of the malloc's simulated machine: 4K, 8K, 16K, 32K or 64K.
    #[arg(long, value_name = "BYTES", value_parser = ui::bytes, default_value = "4K")]
    page_size: u64,
    /// The malloc's simulated machine gives huge pages of 2 MiB where the malloc asks for them.
    #[arg(long)]
    huge_pages: bool,
    /// How many times faster than recorded the program runs on the malloc's simulated machine. It matters for the purger,
    /// which runs at intervals.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
    /// Replay only the first events on the simulated malloc.
    #[arg(long, value_name = "EVENTS")]
    first: Option<u64>,
    /// Most points of the series over time of the simulated malloc.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    points: u32,
}

impl Machine {
    /// As the laboratory takes it.
    ///
    /// # Errors
    /// On a decision, a page size or a speed that there is not.
    pub fn settings(&self) -> Result<Settings> {
        let mut settings = Settings {
            huge_pages: self.huge_pages,
            first: self.first,
            points: self.points as usize,
            ..Settings::default()
        };
        let wrong = |option, error| WrongCommandLine(format!("{option}: {error}"));
        settings.set_page(self.page_size).map_err(|error| wrong("--page-size", error))?;
        settings.set_speed(self.speed).map_err(|error| wrong("--speed", error))?;
        for change in &self.set {
            settings.set(change).map_err(|error| wrong("--set", error))?;
        }
        Ok(settings)
    }
}

/// Replays and prints.
pub fn run(args: Args) -> Result<ExitCode> {
    let Some(path) = args.trace.as_deref().filter(|_| !args.decisions) else {
        decisions::print(args.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    let settings = args.machine.settings()?;
    let own = embedded::allocators()?;
    let selection = select(&args.on, &own)?;
    let output = args.output.as_deref().map(ResultsFile::at).transpose()?;
    let trace = Trace::open(path)?;
    let interrupted = ui::interrupted();
    let Some(each) = args.how.each(&trace, &interrupted)? else {
        return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
    };
    let mut all = Vec::new();
    for how in each {
        let Some(found) = replay(&trace, &selection, how, settings, &interrupted)? else {
            return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
        };
        let answer = Answer::of_comparison(None, &found.document);
        all.push((found, answer));
    }
    let shown: Vec<_> = all.iter().map(|(found, answer)| (found, answer)).collect();
    show(&shown, path, args.how, args.json).context("cannot print")?;
    let found: Vec<&Found> = all.iter().map(|(found, _)| found).collect();
    if let Some(output) = output {
        output.write(&found, args.how)?;
    }
    Ok(ended(&found))
}

/// Prints what was found of each process, as tables or JSON; what is missing from it, on standard error.
pub fn show(all: &[(&Found, &Answer)], trace: &Path, how: How, json: bool) -> io::Result<()> {
    let documents = || all.iter().map(|(found, _)| &found.document);
    documents().for_each(tell_of_omissions);
    let mut out = io::stdout().lock();
    match (json, all) {
        (true, [(only, _)]) if !how.all() => write_json(&mut out, &only.document)?,
        (true, _) => write_json(&mut out, &Several::of(documents()))?,
        (false, _) => {
            if how.all()
                && let Some(first) = documents().next()
            {
                let judged: Vec<u32> = documents().map(|document| document.trace.process).collect();
                let colour = ui::wants_colour(&io::stdout());
                let columns = ui::terminal_size().map_or(usize::MAX, |(columns, _)| columns);
                let processes = &first.trace.processes;
                write!(out, "{}", report::processes(processes, &judged, colour, columns))?;
            }
            for (found, answer) in all {
                if how.all() {
                    writeln!(out)?;
                }
                print(&mut out, &found.document, trace, answer, !how.all())?;
            }
        }
    }
    out.flush()
}

/// Failure where nothing at all could be replayed, or not the whole trace.
pub fn ended(all: &[&Found]) -> ExitCode {
    let is_whole =
        |one: &&Found| !one.document.results.is_empty() && one.document.trace.damage.is_empty();
    match all.is_empty() || !all.iter().all(is_whole) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// Reads `--on`.
///
/// # Errors
/// On a name that means nothing.
pub fn select(list: &str, own: &[(&'static str, PathBuf)]) -> Result<Selection> {
    let own: Vec<(&str, &Path)> = own.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let wrong = |error| WrongCommandLine(format!("--on: {error}"));
    Ok(Selection::parse(list, &own).map_err(wrong)?)
}

/// Replays with a progress bar; `None` when interrupted.
pub fn replay(
    trace: &Trace,
    selection: &Selection,
    how: How,
    malloc: Settings,
    interrupted: &AtomicBool,
) -> Result<Option<Found>> {
    let replayer = embedded::REPLAYER.unpack()?;
    let plan = Plan {
        trace,
        process: match how.process {
            Some(Which::One(process)) => Some(ProcessId(process)),
            Some(Which::All) | None => None,
        },
        selection,
        limit: how.limit,
        runs: how.runs,
        replayer: &replayer,
        malloc,
    };
    let mut bar = ui::Progress::new("reading");
    let mut shown = Stage::Survey;
    let mut progress = |stage, done, total| {
        if stage != shown {
            shown = stage;
            bar = ui::Progress::new(label(stage));
        }
        bar.set(done, total);
    };
    match compare::run(&plan, &mut progress, interrupted) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_interruption() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn label(stage: Stage) -> &'static str {
    match stage {
        Stage::Survey => "reading",
        Stage::Measure => "measuring allocators",
        Stage::Simulate => "simulating policies",
        Stage::Malloc => "simulating the malloc",
    }
}

/// Says on standard error what is missing from the results.
fn tell_of_omissions(document: &Document) {
    for damage in &document.trace.damage {
        eprintln!("freehold: damaged trace: {damage}; what is sound was replayed");
    }
    for refused in &document.refused {
        eprintln!("freehold: {} is missing: {}", refused.name, refused.reason);
    }
}

/// Prints what was replayed, the answer and the tables. `alone`: nothing was said of the other processes yet.
fn print(
    out: &mut dyn Write,
    document: &Document,
    trace: &Path,
    answer: &Answer,
    alone: bool,
) -> io::Result<()> {
    let colour = ui::wants_colour(&io::stdout());
    let columns = ui::terminal_size().map_or(usize::MAX, |(columns, _)| columns);
    writeln!(out, "{}", headline(document, trace))?;
    write!(out, "{}", report::answer(answer, colour, columns))?;
    if let Some(others) = other_processes(document).filter(|_| alone) {
        writeln!(out, "{others}")?;
    }
    write!(out, "\n{}", report::tables(&document.results, colour, columns))?;
    let held = report::held(&document.held, colour, columns);
    if !held.is_empty() {
        write!(out, "\n{held}")?;
    }
    Ok(())
}

fn headline(document: &Document, trace: &Path) -> String {
    let facts = &document.trace;
    let live = document.results.iter().map(|outcome| outcome.peak_live).max();
    let command = || facts.command.first().map(|path| path.rsplit('/').next().unwrap_or(path));
    let program = facts.title().or_else(command);
    let program = program.map_or_else(|| trace.display().to_string(), str::to_owned);
    // The results alone know it: without any, nothing is said.
    let alive =
        live.map_or(String::new(), |live| format!(", at most {} alive", human::bytes(live)));
    format!(
        "{program}: {} events in {} thread{}, {} asked for{alive}",
        human::count(facts.events),
        facts.threads,
        if facts.threads == 1 { "" } else { "s" },
        human::bytes(facts.allocated),
    )
}

/// Which process this is of how many, where there are several.
fn other_processes(document: &Document) -> Option<String> {
    const NAMED: usize = 4;
    let facts = &document.trace;
    let mut others: Vec<_> =
        facts.processes.iter().filter(|p| p.process != facts.process).collect();
    if others.is_empty() {
        return None;
    }
    others.sort_by_key(|process| std::cmp::Reverse((process.peak_bytes, process.events)));
    let name = |process: &&ProcessFacts| {
        let most = match process.peak_bytes {
            Some(peak) => human::bytes(peak),
            None => format!("{} events", human::count(process.events)),
        };
        format!("{} {} ({most})", process.process, process.name())
    };
    let named: Vec<String> = others.iter().take(NAMED).map(name).collect();
    let more = others.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!(
        "This is process {} of {}; --process chooses another, or all: {}{rest}",
        facts.process,
        facts.processes.len(),
        named.join(", ")
    ))
}

/// A file for results, and the one beside it for what is not the trace's doing.
pub struct ResultsFile {
    results: Output,
    circumstances: Output,
    parquet: bool,
}

impl ResultsFile {
    /// Checks both files before the long work.
    pub fn at(path: &Path) -> Result<Self> {
        let parquet = match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => false,
            Some("parquet") => true,
            _ => {
                let what = "results are written as .json or .parquet";
                return Err(WrongCommandLine(format!("{}: {what}", path.display())).into());
            }
        };
        let results = Output::at(path)?;
        let circumstances = Output::at(&path.with_extension("machine.json"))?;
        Ok(Self { results, circumstances, parquet })
    }

    /// Writes both.
    pub fn write(&self, found: &[&Found], how: How) -> Result<()> {
        let documents: Vec<&Document> = found.iter().map(|one| &one.document).collect();
        let all = found.iter().map(|one| &one.circumstances);
        self.results.write(|to| match (self.parquet, &documents[..]) {
            (true, documents) => write_parquet(to, documents),
            (false, [only]) if !how.all() => write_json(to, only),
            (false, _) => write_json(to, &Several::of(documents.iter().copied())),
        })?;
        self.circumstances
            .write(|to| match found {
                [only] if !how.all() => write_json(to, &only.circumstances),
                _ => write_json(to, &Several::of(all)),
            })
            .context("the results themselves were written")
    }
}
