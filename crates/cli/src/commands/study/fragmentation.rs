//! `freehold study fragmentation`: records named programs and replays them on policies.

use super::outputs::Outputs;
use crate::{embedded, ui};
use anyhow::{Context, Result, bail};
use freehold_collect::{Options, RecordError, Stage};
use freehold_lab::simulate::SimulateError;
use freehold_lab::studies::fragmentation::{self, Found, INPUTS, MEASURES, Plan, Program, Results};
use freehold_trace::Trace;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::AtomicBool;

/// Record programs that were named beforehand, and measure how policies fragment under them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold study fragmentation
  freehold study fragmentation mine.toml --out mine    with programs of one's own
  freehold study fragmentation --print                 print the study's file, and run nothing

Traces go to --out and are used again by the next run; remove one to record it anew. A program whose \
tools are missing is told as missing.")]
pub struct Args {
    /// A study of one's own, in the form of studies/fragmentation-traces.toml.
    file: Option<PathBuf>,
    /// The folder for traces and results; made if it is missing.
    #[arg(short, long, value_name = "FOLDER", default_value = "study-fragmentation")]
    out: PathBuf,
    /// Print the results as JSON instead of tables (schema version 1: crates/lab/src/studies/fragmentation.rs).
    #[arg(long)]
    json: bool,
    /// Print the file of the study that ships.
    #[arg(long)]
    print: bool,
}

/// Records, measures, prints and writes.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.print {
        ui::print(fragmentation::DEFAULT)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (plan, studies) = plan(&args)?;
    let outputs = Outputs::in_folder(&args.out, None)?;
    let out = fs::canonicalize(&args.out)?;
    let interrupted = ui::interrupted();
    let mut traces = Vec::new();
    for program in &plan.programs {
        if ui::is_raised(&interrupted) {
            return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
        }
        let recorded = recorded(program, &out, studies.as_deref())?;
        match recorded.and_then_measure(&plan, program, &interrupted)? {
            Some(found) => traces.push(found),
            None => return Ok(ExitCode::from(ui::EXIT_INTERRUPTED)),
        }
    }
    let results = Results::of(&plan, traces);
    outputs.write(&fragmentation::page(&results, "freehold study fragmentation"), &results)?;
    outputs.print(args.json, &results, |to| print(to, &results))?;
    Ok(ExitCode::SUCCESS)
}

/// The study, and the folder of its file where it is a user's.
fn plan(args: &Args) -> Result<(Plan, Option<PathBuf>)> {
    let Some(path) = &args.file else {
        return Ok((Plan::parse("the study", fragmentation::DEFAULT)?, None));
    };
    let name = path.display().to_string();
    let text = fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
    let folder = fs::canonicalize(path)?.parent().map(Path::to_owned);
    Ok((Plan::parse(&name, &text)?, folder))
}

/// A trace, or why there is none.
enum Recorded {
    At(PathBuf),
    Missing(String),
}

impl Recorded {
    /// `None` when interrupted.
    fn and_then_measure(
        self,
        plan: &Plan,
        program: &Program,
        interrupted: &AtomicBool,
    ) -> Result<Option<Found>> {
        let path = match self {
            Recorded::At(path) => path,
            Recorded::Missing(why) => return Ok(Some(Found::missing(program, why))),
        };
        let trace = Trace::open(&path)?;
        let mut bar = ui::Progress::new("replaying");
        let mut progress = |done, total| bar.set(done, total);
        match fragmentation::measure(plan, program, &trace, &mut progress, interrupted) {
            Ok(found) => Ok(Some(found)),
            Err(SimulateError::Interrupted) => Ok(None),
            Err(error) => Err(error).with_context(|| program.name.clone()),
        }
    }
}

/// Records the program, unless its trace is there already.
fn recorded(program: &Program, out: &Path, studies: Option<&Path>) -> Result<Recorded> {
    let output = out.join(format!("{}.fht", program.name));
    if output.is_file() {
        return Ok(Recorded::At(output));
    }
    let folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|p| std::env::split_paths(&p).collect()).unwrap_or_default();
    if let Some(name) = program.lacks(&folders) {
        return Ok(Recorded::Missing(format!("{name} is not installed")));
    }
    let folder = tempfile::Builder::new().prefix("freehold-").tempdir();
    let folder = folder.context("programs need a temporary folder; set TMPDIR to one")?;
    let studies = match studies {
        Some(studies) => studies.to_owned(),
        None => unpack_inputs(folder.path())?,
    };
    set_up(program, folder.path())?;
    eprintln!("freehold: recording {}: {}", program.name, program.about);
    let command = program.command_in(folder.path(), &studies);
    let options = Options {
        output: output.clone(),
        library: embedded::RECORD.unpack()?,
        command: command.into_iter().map(OsString::from).collect(),
        recorder: format!("freehold {}", env!("CARGO_PKG_VERSION")),
        mute: true,
    };
    match freehold_collect::record(&options, &mut |_: Stage| ()) {
        Ok(_) => Ok(Recorded::At(output)),
        Err(RecordError::Launch { .. }) => {
            Ok(Recorded::Missing("it could not be started".to_owned()))
        }
        Err(error) => Err(error.into()),
    }
}

fn unpack_inputs(folder: &Path) -> Result<PathBuf> {
    for (path, text) in INPUTS {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(folder.to_owned())
}

fn set_up(program: &Program, folder: &Path) -> Result<()> {
    let Some(script) = &program.setup else { return Ok(()) };
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(folder).envs(&program.env);
    let status = shell.stdout(Stdio::null()).stdin(Stdio::null()).status()?;
    if !status.success() {
        bail!("{}: its setup ended with {status}; try it with `sh -ex`", program.name);
    }
    Ok(())
}

fn print(to: &mut dyn Write, results: &Results) -> std::io::Result<()> {
    for found in &results.traces {
        if let Some(why) = &found.missing {
            writeln!(to, "{}: missing, {why}\n", found.name)?;
            continue;
        }
        writeln!(to, "{} ({} events)", found.name, found.events)?;
        write!(to, "{:12}", "")?;
        MEASURES.iter().try_for_each(|measure| write!(to, "{:>21}", measure.title))?;
        writeln!(to)?;
        for outcome in &found.policies {
            write!(to, "{:12}", outcome.name)?;
            for measure in &MEASURES {
                let value = (measure.get)(outcome).map(|value| format!("{:.3} %", 100.0 * value));
                write!(to, "{:>21}", value.unwrap_or_else(|| "–".to_owned()))?;
            }
            writeln!(to)?;
        }
        writeln!(to)?;
    }
    writeln!(to, "{}", results.answer())?;
    if results.note.is_empty() { Ok(()) } else { writeln!(to, "{}", results.note) }
}
