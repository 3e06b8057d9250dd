//! `freehold strip`: a trace without command lines, paths and names, and without memory outside of malloc.

use crate::ui;
use anyhow::{Result, bail};
use freehold_lab::human;
use freehold_trace::Trace;
use freehold_trace::export::Control;
use freehold_trace::strip::{StripError, strip};
use std::path::PathBuf;
use std::process::ExitCode;

/// Take command lines, paths and names of functions out of a trace.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold strip app.fht -o public.fht
  freehold info public.fht                 sites are module and offset now

Events, times, processes, threads, sizes, and facts about the machine stay, and so do call stacks, each frame as module-N and an
offset. Memory outside of malloc is left out, and so are the names of processes. Build ids of modules stay, by which you can find out which function an offset is in; who does not have your
modules cannot.

Exit status: 0 done; 1 the trace is damaged (what is sound was written) or nothing was written; 2 the command line
was wrong.")]
pub struct Args {
    /// The trace.
    trace: PathBuf,
    /// The trace to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Strips.
pub fn run(args: Args) -> Result<ExitCode> {
    ui::named_file(&args.output, "a trace takes its name when it is whole")?;
    let trace = Trace::open(&args.trace)?;
    let same = |a: &PathBuf, b: &PathBuf| Some(a.canonicalize().ok()? == b.canonicalize().ok()?);
    if same(&args.trace, &args.output) == Some(true) {
        bail!("{} is the trace itself; name another file with -o", args.output.display());
    }
    let stop = ui::interrupted();
    let mut bar = ui::Progress::new("stripping");
    let mut control = Control { progress: &mut |done, total| bar.set(done, total), stop: &stop };
    let (summary, damage) = match strip(&trace, &args.output, &mut control) {
        Err(StripError::Interrupted) => return Ok(ExitCode::from(ui::EXIT_INTERRUPTED)),
        done => done?,
    };
    drop(bar);
    let (events, bytes) = (human::exact(summary.events), human::bytes(summary.bytes));
    eprintln!("{}: {events} events without names, {bytes}", args.output.display());
    damage
        .iter()
        .for_each(|damage| eprintln!("freehold: {} is damaged at {damage}", args.trace.display()));
    Ok(if damage.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
