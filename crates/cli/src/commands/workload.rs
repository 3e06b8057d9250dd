//! `freehold workload`: the programs that come with the command, to be recorded, replayed or looked at.

use crate::ui;
use anyhow::{Context, Result, bail};
use freehold_lab::shared_heap::{self, SCHEMES};
use freehold_lab::simulate::busiest;
use freehold_lab::studies::tlb;
use freehold_trace::Trace;
use freehold_workloads::kernels::command as kernel;
use freehold_workloads::radiosity::command as radiosity;
use freehold_workloads::radiosity::statistics::HeapStatistics;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run a program that comes with this command; `compare` runs radiosity when it is given none.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold workload radiosity --scene cornell --picture box.png
  freehold workload kernel fast
  freehold workload --heap heaps-with-inboxes radiosity --threads 2
  freehold record -o room.fht -- freehold workload radiosity --threads 2")]
pub struct Args {
    /// Serve radiosity's memory by one of the sharing schemes of the library, in place of malloc.
    #[arg(long, value_name = "SCHEME", value_parser = SCHEMES.map(|scheme| scheme.name))]
    heap: Option<String>,
    /// Count who waits for the locks of that scheme; the clock that this takes makes them slower.
    #[arg(long, requires = "heap")]
    watch_locks: bool,
    #[command(subcommand)]
    program: Program,
}

#[derive(clap::Subcommand)]
enum Program {
    Radiosity(radiosity::Args),
    Kernel(kernel::Args),
    /// Place a trace's objects by the malloc of this process; `study tlb` asks for it.
    #[command(hide = true)]
    Placed {
        /// The trace.
        trace: PathBuf,
    },
}

/// Runs it; the exit status is the program's.
pub fn run(args: Args) -> Result<ExitCode> {
    match (args.program, args.heap) {
        (Program::Radiosity(program), Some(heap)) => on_heap(&program, &heap, args.watch_locks),
        (Program::Radiosity(program), None) => radiosity::run(&program),
        (Program::Kernel(program), None) => kernel::run(&program),
        (Program::Placed { trace }, None) => placed(&trace),
        (_, Some(_)) => bail!("--heap is for radiosity"),
    }
}

fn on_heap(args: &radiosity::Args, name: &str, watch_locks: bool) -> Result<ExitCode> {
    let threads = match args.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let threads = u32::try_from(threads).context("so many threads cannot be had")?;
    let mut serving = shared_heap::switch_on(name, threads, watch_locks)?;
    radiosity::run_on_heap(args, || {
        // SAFETY: the workers of the pool sleep once their work is done, and there are no other threads.
        let found = unsafe { serving.look() }?;
        Ok(Some(HeapStatistics {
            scheme: name.to_owned(),
            heap_bytes: found.heap_bytes,
            used_bytes: found.used_bytes,
            external_fragmentation: found.external,
            locks_taken: found.locks_taken,
            locks_contended: found.locks_contended,
            lock_wait_ns: found.lock_wait_ns,
        }))
    })
}

/// Prints as JSON where malloc puts the objects of a trace. What this command needs for itself comes from
/// elsewhere, so that malloc serves the recorded calls only.
fn placed(trace: &Path) -> Result<ExitCode> {
    shared_heap::switch_on(SCHEMES[3].name, 2, false)?;
    let trace = Trace::open(trace)?;
    let process = busiest(&trace).context("the trace has no process")?;
    let placed = serde_json::to_string(&tlb::look_here(&trace, process)?)?;
    ui::print(format_args!("{placed}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The command that does that, but for the trace.
///
/// # Errors
/// When the path of this file cannot be found out.
pub fn placing_program() -> Result<Vec<OsString>> {
    let this = std::env::current_exe().context("the path of this command is not known")?;
    Ok(vec![this.into_os_string(), "workload".into(), "placed".into()])
}

/// The command line that `compare` records when it is given none: this very file.
///
/// # Errors
/// When the path of this file cannot be found out.
pub fn default_program() -> Result<Vec<OsString>> {
    let this = std::env::current_exe().context("the path of this command is not known")?;
    Ok(vec![this.into_os_string(), "workload".into(), "radiosity".into()])
}

/// Before which word of [`default_program`] `--heap` belongs.
pub const HEAP_AT: usize = 2;
