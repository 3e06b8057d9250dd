//! `freehold info`: what a trace says about a program, on the terminal or as JSON.

mod draw;
mod json;
mod page;
mod who;

use crate::ui::{self, Which};
use anyhow::{Context, Result, bail};
use freehold_lab::profile::{Figures, ProcessProfile, Profile, profile};
use freehold_lab::resident::{self, WhatThereIs};
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
  freehold info app.fht                  the process with the most memory, and a line for each other
  freehold info app.fht --process 1      one process, with its threads
  freehold info app.fht --process all    what all of them add up to
  freehold info app.fht --json | jq .total.peak

A recording with call stacks says which sites held the peak, what was never freed, and what was freed as the
next thing its thread did: of the process with the most memory of malloc at once, or the one that --process names. A site is the
innermost function that you wrote, with its line: malloc, operator new and standard libraries are left out.
Below it stand those who called it. A program that holds no memory that it should not, and spends no time that
it need not on allocations, is told to stay as it is.

It opens with what the process had in memory when it had most, by the kernel's own map: what malloc explains, the
heaps of runtimes, files, stacks. The recorder's own memory is left out. Sizes are bytes asked for. A lifetime runs from the allocation to the free.
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
    /// This process of the trace, by its number (0 is the program recorded), or `all` for their sum. Without it, the one
    /// with the most memory.
    #[arg(long, value_name = "N|all")]
    process: Option<Which>,
}

/// Prints the profile.
pub fn run(args: Args) -> Result<ExitCode> {
    let trace = Trace::open(&args.trace)?;
    let only = match args.process {
        Some(Which::One(number)) => Some(ProcessId(number)),
        Some(Which::All) | None => None,
    };
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
    let mut most = page::Most::default();
    let mut keep = |process: ProcessProfile| {
        most.add(process);
        true
    };
    let Some((profile, judged)) = read(trace, only, &mut keep, stop)? else { return Ok(None) };
    let style = draw::Style {
        color: ui::wants_colour(&io::stdout()),
        // Elsewhere than on a terminal lines may be as long as they like.
        columns: ui::terminal_size()
            .map_or(usize::MAX, |(columns, _)| columns.max(draw::LEAST_WIDTH)),
    };
    let shown = page::Shown {
        profile: &profile,
        processes: &most.processes,
        sums: args.process == Some(Which::All),
        judged: judged.as_ref(),
    };
    ui::print(page::page(&args.trace, &shown, style))?;
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
        && let Some((profile, judged)) = &found
    {
        printed = json::end(&mut out, profile, judged.as_ref()).and_then(|()| out.flush());
    }
    printed.context("cannot print")?;
    Ok(found.map(|(profile, ..)| profile))
}

/// The process that the answer is about: the one with the most memory of malloc at once.
pub struct Judged {
    /// Its number.
    pub process: ProcessId,
    /// What it did.
    pub figures: Figures,
    /// Its sites, if there are call stacks.
    pub sites: Option<Sites>,
    /// What it had in memory, if that was looked at.
    pub there: Option<WhatThereIs>,
}

/// The profile, each process handed to `each`, and the process that is judged, if there is any.
fn read(
    trace: &Trace,
    only: Option<ProcessId>,
    each: &mut dyn FnMut(ProcessProfile) -> bool,
    stop: &AtomicBool,
) -> Result<Option<(Profile, Option<Judged>)>> {
    let mut progress = ui::Progress::new("reading");
    let (mut judged, mut heaviest) = (None, None);
    let mut seen = |process: ProcessProfile| {
        let weight = process.weight();
        if heaviest.is_none_or(|most| weight > most) {
            heaviest = Some(weight);
            let figures = process.figures.clone();
            let process = process.process.id;
            judged = Some(Judged { process, figures, sites: None, there: None });
        }
        each(process)
    };
    let mut told = |done, total| progress.set(done, total);
    let Some(mut profile) = profile(trace, only, &mut seen, &mut told, stop)? else {
        return Ok(None);
    };
    if let Some(judged) = &mut judged {
        let (there, damage) = resident::at_peak(trace, judged.process)?;
        judged.there = there;
        profile.damage.extend(damage);
        if trace.has_stacks() {
            let found = sites::sites(trace, judged.process, &mut told, stop)?;
            let Some(sites) = found else { return Ok(None) };
            profile.damage.extend(sites.damage.iter().cloned());
            judged.sites = Some(sites);
        }
    }
    Ok(Some((profile, judged)))
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
