//! `freehold info`: what a trace says about a program, on the terminal or as JSON.

mod draw;
mod page;

use crate::ui;
use anyhow::{Context, Result, bail};
use freehold_lab::profile::{Profile, profile};
use freehold_trace::{Damage, ProcessId, Trace};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Damages named one by one before they are only counted.
const MOST_DAMAGES: usize = 10;

/// Look into a trace: sizes, lifetimes, live bytes, threads.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold info app.fht                  all processes together, and a line for each
  freehold info app.fht --process 1      one process, with its threads
  freehold info app.fht --json | jq .total.figures.peak

Sizes are bytes asked for. A lifetime runs from the allocation to the free.
Memory grows with the peak of live objects, never with the length of the trace.

Exit status: 0 the whole trace was read; 1 it is damaged (what is sound was
still read and shown) or cannot be read; 2 the command line was wrong.")]
pub struct Args {
    /// The trace, as `freehold record` or `freehold import` wrote it.
    trace: PathBuf,
    /// Print everything as JSON, for other programs.
    #[arg(long)]
    json: bool,
    /// Only this process of the trace, by its number (0 is the program recorded).
    #[arg(long, value_name = "N")]
    process: Option<u32>,
}

/// Prints the profile.
pub fn run(args: Args) -> Result<ExitCode> {
    let trace = Trace::open(&args.trace)?;
    let only = args.process.map(ProcessId);
    if let Some(process) = only
        && trace.process(process).is_none()
    {
        bail!("{} has no process {}; {}", args.trace.display(), process.0, known(&trace));
    }
    let stop = ui::interrupted();
    let mut progress = ui::Progress::new("reading");
    let profile = profile(&trace, only, &mut |done, total| progress.set(done, total), &stop)?;
    drop(progress);
    let Some(profile) = profile else { return Ok(ExitCode::from(ui::EXIT_INTERRUPTED)) };
    print(&args, &profile).context("cannot print")?;
    report(&args, &profile.damage);
    Ok(if profile.damage.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn known(trace: &Trace) -> String {
    match trace.processes() {
        [] => "it has none".into(),
        [only] => format!("it has only process {}", only.id.0),
        [first, .., last] => format!("it has processes {} to {}", first.id.0, last.id.0),
    }
}

fn print(args: &Args, profile: &Profile) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer_pretty(&mut out, profile)?;
        writeln!(out)?;
    } else {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let style = draw::Style {
            color: io::stdout().is_terminal() && !no_color,
            // Elsewhere than on a terminal lines may be as long as they like.
            columns: ui::terminal_size()
                .map_or(usize::MAX, |(columns, _)| columns.max(draw::WIDTH)),
        };
        let whole = args.process.is_none();
        out.write_all(page::page(&args.trace, profile, whole, style).as_bytes())?;
    }
    out.flush()
}

/// Damage is said where it does not mix with what was asked for.
fn report(args: &Args, damage: &[Damage]) {
    if damage.is_empty() {
        return;
    }
    eprintln!("freehold: {} is damaged; what is sound was read:", args.trace.display());
    for damage in damage.iter().take(MOST_DAMAGES) {
        eprintln!("  {damage}");
    }
    if damage.len() > MOST_DAMAGES {
        eprintln!("  … and {} more (all with --json)", damage.len() - MOST_DAMAGES);
    }
}
