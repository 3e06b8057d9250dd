//! `freehold compare`: record a program, replay it on everything, tell which is best.

use super::replay::{self, How, ResultsFile};
use crate::embedded;
use crate::ui::{self, Which, quoted};
use anyhow::{Context, Result, bail};
use freehold_collect::{Options, RecordError, WhichStacks};
use freehold_lab::answer::{self, Answer, Program, Tried};
use freehold_lab::compare::Found;
use freehold_lab::held;
use freehold_lab::malloc::Settings;
use freehold_lab::profile::{self, Figures};
use freehold_lab::real::{self, Allocator, INSTALL_HELP};
use freehold_lab::report::{HeatMap, Other, Story};
use freehold_lab::resident::{self, WhatThereIs};
use freehold_lab::results::{Held, Output, ProcessFacts};
use freehold_lab::selection::Selection;
use freehold_lab::simulate;
use freehold_lab::sites::{self, Sites};
use freehold_lab::trial;
use freehold_trace::{Ending, ProcessId, Trace};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Record a program, replay it on every policy and allocator, write report.html.
#[derive(clap::Args)]
#[command(after_help = format!("Examples:
  freehold compare                              the bundled program
  freehold compare -- python3 script.py
  freehold compare --keep app.fht -- ./server   keep the trace for later
  freehold compare --on glibc,jemalloc,best-fit -o small.html -- ls -R /usr
  freehold compare --process all -- tar --zstd -cf usr.tar.zst /usr   tar and zstd
  freehold compare --process all --json -- make | jq -r '.judged[].trace.command[0]'

Of several processes the one with the most memory of malloc is judged, or the one that --process names. With \
`--process all` each is judged that had at least a tenth of that: one after the other, on the terminal and in the report, \
behind a list of all processes by memory. Each takes as long as a comparison of its own.

The program's own output passes through; a program that fails is compared all the same. Ctrl-C while \
it runs ends the program and goes on with what was recorded; a second one ends the comparison.

{INSTALL_HELP}"))]
pub struct Args {
    /// The report.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Policies, allocators and paths of libraries, separated by commas; or `malloc` (Freehold's, simulated), `policies`,
    /// `allocators`, `all` (which leave out the slow `-list` variants of policies).
    #[arg(long, value_name = "LIST", default_value = "all")]
    on: String,
    #[command(flatten)]
    how: How,
    /// Keep the trace under this name.
    #[arg(long, value_name = "TRACE")]
    keep: Option<PathBuf>,
    /// Also write the results to a file: .json or .parquet.
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Print JSON instead of tables, as `freehold replay --json` does (after the program's output).
    #[arg(long)]
    json: bool,
    /// The program and its arguments; the bundled radiosity application if there is none.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Compares.
pub fn run(args: Args) -> Result<ExitCode> {
    let why = "standard output is the program's and the table's";
    for output in std::iter::once(&args.output).chain(&args.keep) {
        ui::named_file(output, why)?;
    }
    let own = embedded::allocators()?;
    let selection = replay::select(&args.on, &own)?;
    // Whether the results can be written is asked before minutes are spent on them.
    let report = Output::at(&args.output)?;
    let results = args.results.as_deref().map(ResultsFile::at).transpose()?;
    let folder = tempfile::Builder::new().prefix("freehold-").tempdir();
    let folder = folder.context("the trace needs a temporary folder; set TMPDIR to one")?;
    let path = args.keep.clone().unwrap_or_else(|| folder.path().join("program.fht"));

    let mut warnings = match record(&args, &path) {
        Ok(warnings) => warnings,
        Err(error) => return failed_recording(error),
    };
    let interrupted = ui::interrupted();
    let trace = Trace::open(&path)?;
    if trace.events() == 0 {
        bail!(
            "{} made no allocation that the recorder could see: is it statically linked, or not \
             using malloc?",
            named(&args)
        );
    }
    warnings.extend(trace.header().notes.iter().cloned());
    let Some(each) = args.how.each(&trace, &interrupted)? else {
        return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
    };
    let mut all = Vec::new();
    for how in each {
        let Some(examined) = examine(&trace, &selection, how, &interrupted)? else {
            return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
        };
        let answer = answer_of(&trace, &examined);
        all.push((examined, answer));
    }
    if !args.json {
        ui::print("\n")?;
    }
    let shown: Vec<_> = all.iter().map(|(one, answer)| (&one.found, answer)).collect();
    replay::show(&shown, &path, args.how, args.json).context("cannot print")?;
    let page = page(&args, &all, &warnings);
    report.write(|to| to.write_all(page.as_bytes()))?;
    let found: Vec<&Found> = all.iter().map(|(examined, _)| &examined.found).collect();
    if let Some(results) = results {
        results.write(&found, args.how)?;
    }
    if !args.json {
        ui::print(format_args!("\nThe whole report: {}\n", args.output.display()))?;
    }
    Ok(replay::ended(&found))
}

/// A program that cannot be started gives the exit code that a shell gives.
fn failed_recording(error: anyhow::Error) -> Result<ExitCode> {
    match error.downcast_ref() {
        Some(RecordError::Interrupted { .. }) => Ok(ExitCode::from(ui::EXIT_INTERRUPTED)),
        Some(refusal @ RecordError::Launch { .. }) => {
            eprintln!("freehold: {}", ui::in_one_line(&error));
            Ok(ExitCode::from(refusal.status()))
        }
        _ => Err(error),
    }
}

/// Records the program. What the reader of the results must know comes back as sentences, which
/// standard error has seen, too.
fn record(args: &Args, path: &Path) -> Result<Vec<String>> {
    let command = match args.program.as_slice() {
        [] => super::workload::default_program()?,
        program => program.to_vec(),
    };
    let options = Options {
        output: path.to_owned(),
        library: embedded::RECORD_STACKS.unpack()?,
        stacks: WhichStacks::Allocations,
        check_stacks: false,
        command,
        environment: None,
        recorder: format!("freehold {}", env!("CARGO_PKG_VERSION")),
        mute: false,
    };
    let mut bar = ui::Progress::new("writing the trace");
    let outcome = freehold_collect::record(&options, &mut |stage| {
        if let freehold_collect::Stage::Writing { done, total } = stage {
            bar.set(done, total);
        }
    })?;
    drop(bar);
    let mut warnings = Vec::new();
    match outcome.ended {
        Some(Ending::Code(0)) | None => {}
        Some(Ending::Code(code)) => warnings.push(format!(
            "The program failed with exit code {code}; what it did until then is compared."
        )),
        Some(Ending::Signal(signal)) => warnings.push(format!(
            "The program was ended by signal {signal}; what it did until then is compared."
        )),
        Some(Ending::Unknown) => warnings.push("How the program ended is not known.".to_owned()),
    }
    warnings.extend(outcome.notes);
    warnings.iter().for_each(|warning| eprintln!("freehold: {warning}"));
    Ok(warnings)
}

/// What the user calls the program.
fn named(args: &Args) -> String {
    match args.program.first() {
        Some(program) => program.to_string_lossy().into_owned(),
        None => "freehold-radiosity".to_owned(),
    }
}

/// What was replayed, and the program itself.
struct Examined {
    found: Found,
    figures: Figures,
    there: Option<WhatThereIs>,
    sites: Option<Sites>,
    tried: Vec<Tried>,
}

/// Replays everything and looks at the program itself; `None` when interrupted.
fn examine(
    trace: &Trace,
    selection: &Selection,
    how: How,
    interrupted: &AtomicBool,
) -> Result<Option<Examined>> {
    let found = replay::replay(trace, selection, how, Settings::default(), interrupted)?;
    let Some(mut found) = found else { return Ok(None) };
    let process = ProcessId(found.document.trace.process);
    let mut bar = ui::Progress::new("looking at the program");
    let mut progress = |done, total| bar.set(done, total);
    let one = Some(process);
    let profile = profile::profile(trace, one, &mut |_| true, &mut progress, interrupted)?;
    let Some(profile) = profile else { return Ok(None) };
    let figures = profile.total.figures;
    let (there, damage) = resident::at_peak(trace, process)?;
    found.document.trace.damage.extend(damage.iter().map(ToString::to_string));
    if !trace.has_stacks() {
        return Ok(Some(Examined { found, figures, there, sites: None, tried: Vec::new() }));
    }
    let Some(sites) = sites::sites(trace, process, &mut progress, interrupted)? else {
        return Ok(None);
    };
    drop(bar);
    if held::matters(&sites) {
        let Some(held) = held_pages(trace, &found, (selection, how), interrupted)? else {
            return Ok(None);
        };
        found.document.held = held;
    }
    let tried = try_advice(trace, &found, &sites, (selection, how), interrupted)?;
    Ok(tried.map(|tried| Examined { found, figures, there, sites: Some(sites), tried }))
}

/// Who holds pages for few bytes, under everything that could replay the program; `None` when interrupted.
fn held_pages(
    trace: &Trace,
    found: &Found,
    (selection, how): (&Selection, How),
    interrupted: &AtomicBool,
) -> Result<Option<Vec<Held>>> {
    let _bar = ui::Progress::new("looking who holds pages");
    let process = ProcessId(found.document.trace.process);
    let whole = |name: &str| {
        found.document.results.iter().any(|outcome| outcome.name == name && outcome.failures == 0)
    };
    let allocators = selection.allocators.iter().filter(|one| whole(&one.name)).cloned();
    let allocators: Vec<Allocator> = allocators.collect();
    let replayer = embedded::REPLAYER.unpack()?;
    let options = real::Options { limit: how.limit, ..real::Options::default() };
    let survey = simulate::survey(trace, process, &mut |_, _| (), interrupted);
    let settings = Settings { limit: how.limit, ..Settings::default() };
    let plan = |malloc| held::Plan {
        trace,
        process,
        allocators: &allocators,
        replayer: &replayer,
        options: &options,
        malloc,
    };
    let held = match survey {
        Ok(survey) => {
            let malloc = selection.malloc.then_some((&survey, &settings));
            held::held(&plan(malloc), interrupted)
        }
        Err(error) => Err(error.into()),
    };
    match held {
        Ok(held) => Ok(Some(held)),
        Err(error) if error.is_interruption() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Replays what the advice about sites would change, on the usual allocator where that was measured; `None` when interrupted.
fn try_advice(
    trace: &Trace,
    found: &Found,
    sites: &Sites,
    (selection, how): (&Selection, How),
    interrupted: &AtomicBool,
) -> Result<Option<Vec<Tried>>> {
    let mut tried = Vec::new();
    let malloc = found.document.trace.malloc.as_deref();
    let Some(before) = answer::usual_of(&found.document.results, malloc) else {
        return Ok(Some(tried));
    };
    let mut allocators = selection.allocators.iter();
    let usual = allocators.find(|allocator| allocator.name == before.name).cloned();
    let selection = Selection { allocators: usual.into_iter().collect(), ..Selection::default() };
    let how = How { process: Some(Which::One(sites.process)), ..how };
    for trial in answer::trials(sites, trace.header().ticks_are_events) {
        let folder = tempfile::Builder::new().prefix("freehold-").tempdir();
        let folder =
            folder.context("trying the advice needs a temporary folder; set TMPDIR to one")?;
        let path = folder.path().join("changed.fht");
        let apart = trial::write(trace, ProcessId(sites.process), &trial, &path)?;
        let changed = Trace::open(&path)?;
        let found = replay::replay(&changed, &selection, how, Settings::default(), interrupted)?;
        let Some(found) = found else { return Ok(None) };
        if let Some(after) = answer::usual_of(&found.document.results, malloc) {
            tried.push(Tried { trial, before: before.clone(), after: after.clone(), apart });
        }
    }
    Ok(Some(tried))
}

fn answer_of(trace: &Trace, examined: &Examined) -> Answer {
    let document = &examined.found.document;
    let facts = &document.trace;
    let judged = facts.processes.iter().find(|process| process.process == facts.process);
    let name = judged.map_or("?", ProcessFacts::name);
    let name = format!("{name} (process {} of {})", facts.process, facts.processes.len());
    let program = Program {
        figures: &examined.figures,
        resident: examined.there.as_ref(),
        sites: examined.sites.as_ref(),
        process: (facts.processes.len() > 1).then_some(name.as_str()),
        ticks_are_events: trace.header().ticks_are_events,
        tried: &examined.tried,
    };
    let mut answer = Answer::of_comparison(Some(program), document);
    answer.add_held(document);
    answer
}

/// The report: all of the first process, and of the others what matters most.
fn page(args: &Args, all: &[(Examined, Answer)], warnings: &[String]) -> String {
    let ((first, answer), others) = all.split_first().expect("at least one process is judged");
    let Examined { found, figures, sites, .. } = first;
    let heat = HeatMap::of(&figures.size_by_lifetime);
    let others: Vec<Other<'_>> = others
        .iter()
        .map(|(one, answer)| Other { document: &one.found.document, answer })
        .collect();
    let kept = args
        .keep
        .as_ref()
        .map_or_else(|| "app.fht".to_owned(), |path| quoted(&path.to_string_lossy()));
    let story = Story {
        document: &found.document,
        circumstances: &found.circumstances,
        lifetimes: Some(&heat),
        sites: sites.as_ref(),
        others: &others,
        answer,
        command: &command_line(args),
        trace_file: &kept,
        kept: args.keep.is_some(),
        warnings,
    };
    story.html()
}

/// The command as it could be typed again.
fn command_line(args: &Args) -> String {
    let mut words = vec!["freehold compare".to_owned()];
    if args.on != "all" {
        words.push(format!("--on {}", quoted(&args.on)));
    }
    if let Some(limit) = args.how.limit {
        words.push(format!("--limit {limit}"));
    }
    if let Some(process) = args.how.process {
        words.push(format!("--process {process}"));
    }
    if let Some(runs) = args.how.runs {
        words.push(format!("--runs {runs}"));
    }
    if !args.program.is_empty() {
        words.push("--".to_owned());
        words.extend(args.program.iter().map(|word| quoted(&word.to_string_lossy())));
    }
    words.join(" ")
}
