//! `freehold import`: a trace from what other tools recorded.

use crate::ui;
use anyhow::Result;
use clap::ValueEnum;
use freehold_lab::human;
use freehold_trace::export::Control;
use freehold_trace::import::{ImportError, Imported, Source, import};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make a trace from a heaptrack or mtrace file, a glibc workload, or a heap profile of pprof.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heaptrack ./app && freehold import heaptrack.app.4711.zst -o app.fht
  MALLOC_TRACE=app.mtrace LD_PRELOAD=libc_malloc_debug.so.0 ./app
  freehold import app.mtrace -o app.fht
  freehold import app.wl -o app.fht
  curl -o heap.pb.gz localhost:6060/debug/pprof/heap
  freehold import heap.pb.gz -o heap.fht

heaptrack  what heaptrack leaves on disk (.zst, .gz or neither), interpreted or
           raw (--raw). It has no threads, alignments or families of functions;
           its times are steps of 10 ms. An interpreted file does not say which
           of several objects of one size and call stack was freed: the
           youngest is taken. It keeps its call stacks (a raw one's have no
           names, and are left out).
mtrace     what glibc's mtrace() writes. It has no times, threads or alignments:
           a tick of the trace is then one event.
workload   a .wl of glibc's malloc trace utilities (trace2wl). It has threads and
           what they wait for, but no times: threads take turns, an operation
           each, where it does not order them.
pprof      a heap profile (Go's, what `freehold run --profile` writes, or what
           `pprof -proto` makes of others), with its call stacks. It is a moment:
           what was in use then is allocated, and nothing is freed. `freehold
           info` says who holds it; a replay of it says nothing of time.

Lines that cannot be understood are told with their numbers (operations of a
workload with their offsets, samples of a profile), counted, and skipped.

Exit status: 0 all was imported; 1 lines were skipped (the rest is in the
trace) or nothing was written; 2 the command line was wrong.")]
pub struct Args {
    /// The file to import.
    file: PathBuf,
    /// The trace to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The file's format [default: found by its first line].
    #[arg(long, value_enum)]
    format: Option<Format>,
}

/// What can be read.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// heaptrack's file.
    Heaptrack,
    /// glibc's mtrace file.
    Mtrace,
    /// A workload of glibc's malloc trace utilities.
    Workload,
    /// A heap profile of pprof.
    Pprof,
}

/// Imports.
pub fn run(args: Args) -> Result<ExitCode> {
    let format = args.format.map(|format| match format {
        Format::Heaptrack => Source::Heaptrack,
        Format::Mtrace => Source::Mtrace,
        Format::Workload => Source::Workload,
        Format::Pprof => Source::Pprof,
    });
    ui::named_file(&args.output, "a trace takes its name when it is whole")?;
    let stop = ui::interrupted();
    let mut bar = ui::Progress::new("importing");
    let mut control = Control { progress: &mut |done, total| bar.set(done, total), stop: &stop };
    let imported = import(&args.file, &args.output, format, &mut control);
    drop(bar);
    match imported {
        Err(ImportError::Interrupted) => Ok(ExitCode::from(ui::EXIT_INTERRUPTED)),
        Err(error) => Err(error.into()),
        Ok(imported) => Ok(report(&args.file, &args.output, &imported)),
    }
}

/// Says what came of it, all on standard error: the trace is the output.
fn report(from: &Path, to: &Path, imported: &Imported) -> ExitCode {
    let summary = &imported.summary;
    eprintln!(
        "{}: {} events from {} {} of {}, {}",
        to.display(),
        human::exact(summary.events),
        human::exact(imported.lines),
        imported.format.unit(),
        imported.format,
        human::bytes(summary.bytes)
    );
    for note in &imported.notes {
        eprintln!("note: {note}");
    }
    let anomalies = &imported.anomalies;
    for (count, what) in [
        (anomalies.unknown_frees, "frees of addresses that nothing allocated"),
        (anomalies.implied_frees, "allocations at live addresses, whose frees are implied"),
        (anomalies.impossible, "allocations at impossible addresses, left out"),
    ] {
        if count > 0 {
            eprintln!("note: {} {what}", human::exact(count));
        }
    }
    for skipped in &imported.first_malformed {
        eprintln!("{}:{}: skipped: {}", from.display(), skipped.line, skipped.problem);
    }
    let untold = imported.malformed - imported.first_malformed.len() as u64;
    if untold > 0 {
        let unit = imported.format.unit();
        eprintln!("{}: {} more {unit} skipped", from.display(), human::exact(untold));
    }
    if imported.cut_short {
        eprintln!(
            "{}: its compressed data ends early; what came before is imported",
            from.display()
        );
    }
    if imported.malformed > 0 || imported.cut_short { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
