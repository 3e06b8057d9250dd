//! `freehold info`: what a trace says about a program, on the terminal or as JSON.

mod draw;
mod json;
mod page;
mod who;

use crate::ui;
use anyhow::{Context, Result, bail};
use freehold_lab::profile::{ProcessProfile, Profile, profile};
use freehold_lab::sites::{self, Sites};
use freehold_trace::{Damage, ProcessId, Trace};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Damages named one by one before they are only counted.
const MOST_DAMAGES: usize = 10;

/// Look into a trace: who has the memory, sizes, lifetimes, live bytes, threads.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold info app.fht                  all processes together, and a line for each
  freehold info app.fht --process 1      one process, with its threads
  freehold info app.fht --json | jq .total.peak

A recording with call stacks says which sites held the peak, what was never freed, and what was freed as the
next thing its thread did: of the process with the highest peak, or the one that --process names. A site is the
function that called malloc, operator new or the like, with its line; below it stand those who called it.

Sizes are bytes asked for. A lifetime runs from the allocation to the free.
Memory grows with the peak of live objects, never with the length of the trace
or the number of its processes. JSON comes as it is found: the processes first,
then the total.

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
    let found = match args.json {
        true => print_json(&trace, only, &stop)?,
        false => print_page(&args, &trace, only, &stop)?,
    };
    let Some(profile) = found else { return Ok(ExitCode::from(ui::EXIT_INTERRUPTED)) };
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

/// Prints a page; the profile, or none when interrupted.
fn print_page(
    args: &Args,
    trace: &Trace,
    only: Option<ProcessId>,
    stop: &AtomicBool,
) -> Result<Option<Profile>> {
    let mut first = Vec::new();
    let mut keep = |process: ProcessProfile| {
        if first.len() < page::MOST_PROCESSES {
            first.push(process);
        }
        true
    };
    let Some((profile, sites)) = read(trace, only, &mut keep, stop)? else { return Ok(None) };
    let style = draw::Style {
        color: ui::wants_colour(&io::stdout()),
        // Elsewhere than on a terminal lines may be as long as they like.
        columns: ui::terminal_size()
            .map_or(usize::MAX, |(columns, _)| columns.max(draw::LEAST_WIDTH)),
    };
    ui::print(page::page(&args.trace, &profile, &first, sites.as_ref(), style))?;
    Ok(Some(profile))
}

/// Prints JSON, each process as soon as it is known; the profile, or none when interrupted.
fn print_json(
    trace: &Trace,
    only: Option<ProcessId>,
    stop: &AtomicBool,
) -> Result<Option<Profile>> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut printed = json::begin(&mut out, trace);
    let mut any = false;
    let mut put = |process: ProcessProfile| {
        if printed.is_ok() {
            printed = json::process(&mut out, &process, std::mem::replace(&mut any, true));
        }
        printed.is_ok()
    };
    let found = read(trace, only, &mut put, stop)?;
    if printed.is_ok()
        && let Some((profile, sites)) = &found
    {
        printed = json::end(&mut out, profile, sites.as_ref()).and_then(|()| out.flush());
    }
    printed.context("cannot print")?;
    Ok(found.map(|(profile, _)| profile))
}

/// The profile, each process handed to `each`, and the sites of the one with the highest peak, if it has call stacks.
fn read(
    trace: &Trace,
    only: Option<ProcessId>,
    each: &mut dyn FnMut(ProcessProfile) -> bool,
    stop: &AtomicBool,
) -> Result<Option<(Profile, Option<Sites>)>> {
    let mut progress = ui::Progress::new("reading");
    let (mut highest, mut peak) = (None, 0);
    let mut seen = |process: ProcessProfile| {
        if highest.is_none() || process.figures.peak.bytes > peak {
            (highest, peak) = (Some(process.process.id), process.figures.peak.bytes);
        }
        each(process)
    };
    let found =
        profile(trace, only, &mut seen, &mut |done, total| progress.set(done, total), stop)?;
    let Some(mut profile) = found else { return Ok(None) };
    let sites = match highest.filter(|_| trace.has_stacks()) {
        None => None,
        Some(process) => match sites::sites(trace, process, stop)? {
            None => return Ok(None),
            sites => sites,
        },
    };
    profile.damage.extend(sites.iter().flat_map(|sites| sites.damage.iter().cloned()));
    Ok(Some((profile, sites)))
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
