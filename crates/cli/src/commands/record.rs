//! `freehold record`: run a program and write down every allocation it makes.
//!
//! The program's input, output and exit status stay its own; all that this command has to say goes
//! to standard error, after the program.

use crate::embedded::{RECORD, RECORD_STACKS};
use crate::ui::{self, Progress};
use anyhow::Result;
use freehold_collect::{Options, Outcome, Stage, WhichStacks, finish_spool, record};
use freehold_trace::Ending;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Run a program and record every allocation it makes.
///
/// Works with any program that loads shared libraries, on any allocator, in all of its threads and in
/// the processes that it starts. What the program prints and how it ends stay as they are.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold record -- python3 script.py                     writes python3.fht
  freehold record -o build.fht -- make -j8                 with all processes that make starts
  LD_PRELOAD=libjemalloc.so.2 freehold record -- ./server  on another allocator
  freehold record --finish build.fht                       after `freehold record` itself was killed

Call stacks follow the unwind tables of programs and libraries; where they cannot be followed, \
they say so. Names come from the files of modules, from separate debug files under /usr/lib/debug, and from perf maps \
(node --perf-basic-prof). A trace holds the command line, paths, and the names of functions and source files; \
`freehold strip` takes them out.

While the program runs, events wait in FILE.spool beside the trace. Ctrl-C reaches the program; the \
recorder stays to write the trace. Recording ends with the program: processes that it leaves behind go \
on unrecorded. Not recorded, though never disturbed: statically linked programs, set-uid programs, and \
programs started with another LD_PRELOAD.

Exit status: the program's own (128 + signal if one killed it); 126 or 127 if it cannot be started; 125 \
if the recording failed or is not complete though the program succeeded; 2 if the command line was wrong.")]
pub struct Args {
    /// The trace to write, a file [default: the program's name with .fht, in this folder].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Which events get the call stack that led to them.
    #[arg(long, value_enum, default_value_t = Stacks::Allocations, value_name = "EVENTS")]
    stacks: Stacks,
    /// Compare each call stack with a plain walk: to test the recorder.
    #[arg(long, hide = true)]
    check_stacks: bool,
    /// Say nothing unless something went wrong.
    #[arg(short, long)]
    quiet: bool,
    /// Print the summary as JSON, on standard error (standard output is the program's).
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Write the trace of a recording that was cut off: names the trace or its .spool file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "program"])]
    finish: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "finish"
    )]
    program: Vec<OsString>,
}

/// The choices of `--stacks`.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Stacks {
    /// None: the quickest.
    Off,
    /// Allocations and reallocations.
    Allocations,
    /// Frees, too.
    All,
}

/// The recording failed, but nothing else.
const EXIT_RECORDER: u8 = 125;

/// Records, or finishes.
pub fn run(args: Args) -> Result<ExitCode> {
    if let Some(output) = &args.output {
        ui::named_file(output, "standard output is the program's")?;
    }
    let mut line = Line::new(args.quiet || args.json);
    let (output, done) = match &args.finish {
        Some(path) => (trace_of(path), finish_spool(path, &mut |stage| line.show(stage))),
        None => {
            let options = options(&args)?;
            let done = record(&options, &mut |stage| line.show(stage));
            (options.output, done)
        }
    };
    drop(line);
    let outcome = match done {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("freehold record: {error}");
            return Ok(error.status().into());
        }
    };
    if args.json {
        eprintln!("{}", json(&output, &outcome));
    } else {
        tell(&args, &output, &outcome);
    }
    Ok(exit_code(&outcome))
}

fn options(args: &Args) -> Result<Options> {
    Ok(Options {
        output: args.output.clone().unwrap_or_else(|| default_output(&args.program)),
        library: if args.stacks == Stacks::Off { RECORD } else { RECORD_STACKS }.unpack()?,
        stacks: match args.stacks {
            Stacks::Off => WhichStacks::Off,
            Stacks::Allocations => WhichStacks::Allocations,
            Stacks::All => WhichStacks::All,
        },
        check_stacks: args.check_stacks,
        command: args.program.clone(),
        environment: None,
        recorder: format!("freehold {}", env!("CARGO_PKG_VERSION")),
        mute: false,
    })
}

/// The program's own name with `.fht`.
fn default_output(program: &[OsString]) -> PathBuf {
    let name = program.first().and_then(|path| Path::new(path).file_name());
    let mut name = name.map_or_else(|| OsString::from("program"), OsString::from);
    name.push(".fht");
    PathBuf::from(name)
}

/// The trace that a spool becomes.
fn trace_of(path: &Path) -> PathBuf {
    match path.extension() {
        Some(extension) if extension == "spool" => path.with_extension(""),
        _ => path.to_owned(),
    }
}

fn exit_code(outcome: &Outcome) -> ExitCode {
    let status = match outcome.ended {
        Some(Ending::Code(code)) => code as u8,
        Some(Ending::Signal(signal)) => 128 + signal as u8,
        Some(Ending::Unknown) | None => 0,
    };
    ExitCode::from(if status == 0 && outcome.incomplete { EXIT_RECORDER } else { status })
}

fn tell(args: &Args, output: &Path, outcome: &Outcome) {
    if !args.quiet {
        let summary = &outcome.summary;
        eprintln!(
            "freehold record: {} events of {} in {} ({}, {:.2} bytes an event)",
            summary.events,
            counted(summary.threads, "thread"),
            output.display(),
            bytes(summary.bytes),
            summary.bytes as f64 / summary.events.max(1) as f64,
        );
    }
    if !args.quiet || outcome.incomplete {
        outcome.notes.iter().for_each(|note| eprintln!("freehold record: {note}"));
    }
}

fn json(output: &Path, outcome: &Outcome) -> serde_json::Value {
    let (code, signal) = match outcome.ended {
        Some(Ending::Code(code)) => (Some(code), None),
        Some(Ending::Signal(signal)) => (None, Some(signal)),
        _ => (None, None),
    };
    serde_json::json!({
        "trace": output,
        "events": outcome.summary.events,
        "bytes": outcome.summary.bytes,
        "processes": outcome.summary.processes,
        "threads": outcome.summary.threads,
        "lost_events": outcome.lost,
        "ran_s": outcome.ran.as_secs_f64(),
        "finishing_s": outcome.finishing.as_secs_f64(),
        "looks": outcome.looks,
        "looking_s": outcome.looking.as_secs_f64(),
        "complete": !outcome.incomplete,
        "exit_code": code,
        "signal": signal,
        "notes": outcome.notes,
    })
}

fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// The line that shows progress while a person looks.
struct Line {
    shown: bool,
    began: Instant,
    drawn: bool,
    writing: Progress,
}

impl Line {
    /// Programs shorter than this show nothing: their own output is what matters.
    const PATIENCE: Duration = Duration::from_secs(2);

    fn new(quiet: bool) -> Line {
        let shown = !quiet && ui::obeys(&std::io::stderr()) && !std::io::stdout().is_terminal();
        let (began, drawn) = (Instant::now(), false);
        Line { shown, began, drawn, writing: Progress::new("writing the trace") }
    }

    /// While the program runs, a line is drawn only where it cannot mix with the program's output.
    fn show(&mut self, stage: Stage) {
        match stage {
            Stage::Recording { events, bytes: spooled } => {
                if self.shown && self.began.elapsed() > Self::PATIENCE {
                    let spooled = bytes(spooled);
                    eprint!("\r\x1b[Kfreehold record: {events} events, {spooled} so far");
                    // A terminal that is gone shows nothing, and that is all.
                    let _ = std::io::stderr().flush();
                    self.drawn = true;
                }
            }
            Stage::Writing { done, total } => {
                self.clear();
                self.writing.set(done, total);
            }
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            eprint!("\r\x1b[K");
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}
