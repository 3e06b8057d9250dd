//! `freehold compare`: record a program, replay it on everything, tell which is best.

use super::replay::{self, How, ResultsFile};
use crate::embedded;
use crate::ui::{self, quoted};
use anyhow::{Context, Result, bail};
use freehold_collect::{Options, RecordError, WhichStacks};
use freehold_lab::compare::Found;
use freehold_lab::malloc::Settings;
use freehold_lab::profile;
use freehold_lab::real::INSTALL_HELP;
use freehold_lab::report::{HeatMap, Story};
use freehold_lab::results::{Output, write_json};
use freehold_lab::selection::Selection;
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
    let Some((found, heat)) = examine(&trace, &selection, &args, &interrupted)? else {
        return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
    };
    replay::tell_of_omissions(&found.document);
    if args.json {
        write_json(&mut std::io::stdout().lock(), &found.document).context("cannot print")?;
    } else {
        ui::print("\n")?;
        replay::print(&found.document, &path).context("cannot print")?;
    }
    let page = page(&args, &found, &heat, &warnings);
    report.write(|to| to.write_all(page.as_bytes()))?;
    if let Some(results) = results {
        results.write(&found)?;
    }
    if !args.json {
        ui::print(format_args!("\nThe whole report: {}\n", args.output.display()))?;
    }
    Ok(replay::ended(&found.document))
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
        library: embedded::RECORD.unpack()?,
        stacks: WhichStacks::Off,
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

/// Replays everything and looks at the program itself; `None` when interrupted.
fn examine(
    trace: &Trace,
    selection: &Selection,
    args: &Args,
    interrupted: &AtomicBool,
) -> Result<Option<(Found, HeatMap)>> {
    let Some(found) = replay::replay(trace, selection, args.how, Settings::default(), interrupted)?
    else {
        return Ok(None);
    };
    let process = ProcessId(found.document.trace.process);
    let mut bar = ui::Progress::new("looking at the program");
    let mut progress = |done, total| bar.set(done, total);
    let one = Some(process);
    let profile = profile::profile(trace, one, &mut |_| true, &mut progress, interrupted)?;
    Ok(profile.map(|profile| {
        let heat = HeatMap::of(&profile.total.figures.size_by_lifetime);
        (found, heat)
    }))
}

fn page(args: &Args, found: &Found, heat: &HeatMap, warnings: &[String]) -> String {
    let kept = args
        .keep
        .as_ref()
        .map_or_else(|| "app.fht".to_owned(), |path| quoted(&path.to_string_lossy()));
    let story = Story {
        document: &found.document,
        circumstances: &found.circumstances,
        lifetimes: Some(heat),
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
