//! `freehold export`: a trace as Parquet or CSV, or its call stacks as pprof, collapsed stacks or for speedscope.

use crate::ui::{self, WrongCommandLine};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use freehold_lab::results::Output;
use freehold_lab::sites::SiteNames;
use freehold_trace::export::{
    Control, ExportError, collapsed, csv, heaptrack, parquet, pprof, speedscope,
};
use freehold_trace::{Damage, ProcessId, Records, Stacks, Trace};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Write a trace as Parquet, CSV, pprof, collapsed stacks, for speedscope or for heaptrack.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold export app.fht -o app.parquet
  freehold export app.fht --format csv -o - | head
  freehold export app.fht --format pprof -o app.pb.gz && pprof -http=: app.pb.gz
  freehold export app.fht --format collapsed -o - | flamegraph.pl > app.svg
  freehold export app.fht -o app.speedscope.json
  freehold export app.fht -o app.zst && heaptrack_print app.zst

parquet and csv: a row an event, in the order of time, with the columns
  tick, seconds, process, thread,
  event     alloc free realloc inherit unknown_free failed thread_start
            thread_end fork read write
  object    its id within the process, recycled after its free
  api       malloc calloc aligned new new_array
  size, usable, align  in bytes; align only where the call names one
  remote    another thread made or last resized the object
  began     the tick at which a realloc began; its own tick is its return
  offset    of an access; child: the process forked
  site      the function and line that asked for memory, where there are call stacks
pprof: alloc_objects, alloc_space, inuse_objects and inuse_space (live at the
  end) of each call stack, with files and lines.
collapsed: a line a stack, outermost function first, and the bytes it allocated.
speedscope: two profiles, bytes allocated and bytes in use at the end.
heaptrack: every event with its call stack, for heaptrack_gui and
  heaptrack_print; of several processes as if they were one.
  In pprof, collapsed and speedscope a trace without call stacks has process, thread, family of
  functions and size class instead.

Exit status: 0 all was exported; 1 the trace is damaged (what is sound was
exported) or the export failed (then nothing is left); 2 a wrong command line.")]
pub struct Args {
    /// The trace.
    trace: PathBuf,
    /// The format [default: by the ending of the output, .parquet, .csv, .pb.gz, .collapsed, .speedscope.json or .zst (heaptrack)].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Where to write; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Only this process of the trace, by its number.
    #[arg(long, value_name = "N")]
    process: Option<u32>,
}

/// What can be written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Columns, zstd-compressed: for data frames and SQL.
    Parquet,
    /// Comma-separated text.
    Csv,
    /// For the pprof tool.
    Pprof,
    /// Collapsed stacks: for flame graphs.
    Collapsed,
    /// For speedscope.
    Speedscope,
    /// For heaptrack's viewers, zstd-compressed.
    Heaptrack,
}

/// Exports.
pub fn run(args: Args) -> Result<ExitCode> {
    let format = args.format.map_or_else(|| by_ending(&args.output), Ok)?;
    let to_stdout = args.output == Path::new("-");
    let is_text = !matches!(format, Format::Parquet | Format::Pprof | Format::Heaptrack);
    if to_stdout && !is_text && io::stdout().is_terminal() {
        bail!("this format is not text; name a file with -o, or send it into a pipe");
    }
    let trace = Trace::open(&args.trace)?;
    let (mut records, expected) = choose(&trace, &args)?;
    let stop = ui::interrupted();
    let (stacks, lost) = trace.stacks()?;
    let mut work =
        Work { trace: &trace, format, stacks, records: &mut records, expected, stop: &stop };
    let done = if to_stdout {
        work.write(&mut io::BufWriter::new(io::stdout())).context("cannot write to standard output")
    } else {
        work.write_file(&args.output)
    };
    if ui::is_raised(&stop) && done.is_err() {
        return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
    }
    done?;
    Ok(report(&args.trace, trace.damage().iter().chain(&lost).chain(records.damage())))
}

fn by_ending(output: &Path) -> Result<Format> {
    let name = output.to_string_lossy();
    let endings = [
        (".parquet", Format::Parquet),
        (".csv", Format::Csv),
        (".pb.gz", Format::Pprof),
        (".pprof", Format::Pprof),
        (".collapsed", Format::Collapsed),
        (".speedscope.json", Format::Speedscope),
        (".zst", Format::Heaptrack),
    ];
    let found = endings.iter().find(|(ending, _)| name.ends_with(ending));
    let unknown = || {
        let what = "does not end as a known format does: name one with --format";
        WrongCommandLine(format!("{name} {what}"))
    };
    Ok(found.map(|(_, format)| *format).ok_or_else(unknown)?)
}

fn choose(trace: &Trace, args: &Args) -> Result<(Records, u64)> {
    let Some(process) = args.process.map(ProcessId) else {
        return Ok((trace.records()?, trace.events()));
    };
    if trace.process(process).is_none() {
        bail!("{} has no process {}", args.trace.display(), process.0);
    }
    Ok((trace.records_of(process)?, trace.events_of(process)))
}

struct Work<'a> {
    trace: &'a Trace,
    format: Format,
    stacks: Stacks,
    records: &'a mut Records,
    expected: u64,
    stop: &'a AtomicBool,
}

impl Work<'_> {
    fn write(&mut self, out: &mut (dyn Write + Send)) -> Result<(), ExportError> {
        let mut progress = ui::Progress::new("exporting");
        let progress = &mut |done, total| progress.set(done, total);
        let mut control = Control { progress, stop: self.stop };
        let (header, records, expected) = (self.trace.header(), &mut *self.records, self.expected);
        let processes = self.trace.processes();
        match self.format {
            Format::Parquet | Format::Csv => {
                let sites = SiteNames::new(&self.stacks);
                let site_of = |stack| sites.of(stack);
                match self.format {
                    Format::Csv => csv(header, records, expected, &site_of, out, &mut control),
                    _ => parquet(header, records, expected, &site_of, out, &mut control),
                }
            }
            Format::Pprof => {
                pprof(header, processes, &self.stacks, records, expected, out, &mut control)
            }
            Format::Collapsed => {
                collapsed(processes, &self.stacks, records, expected, out, &mut control)
            }
            Format::Speedscope => {
                speedscope(processes, &self.stacks, records, expected, out, &mut control)
            }
            Format::Heaptrack => {
                heaptrack(header, processes, &self.stacks, records, expected, out, &mut control)
            }
        }?;
        out.flush().map_err(ExportError::Write)
    }

    /// Whole or not at all: an unfinished export is worth nothing.
    fn write_file(&mut self, path: &Path) -> Result<()> {
        let mut failed = None;
        let written = Output::at(path)?.write(|out| {
            self.write(out).map_err(|error| match error {
                ExportError::Write(error) => error,
                other => {
                    let message = other.to_string();
                    failed = Some(other);
                    io::Error::other(message)
                }
            })
        });
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(written?),
        }
    }
}

fn report<'a>(trace: &Path, damage: impl Iterator<Item = &'a Damage>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for damage in damage {
        eprintln!("freehold: {} is damaged at {damage}", trace.display());
        code = ExitCode::FAILURE;
    }
    code
}
