//! `freehold study radiosity`: the application under every allocator, for real and replayed.

use super::bundled;
use super::outputs::Outputs;
use crate::commands::workload;
use crate::{embedded, ui};
use anyhow::{Context, Result};
use freehold_lab::profile;
use freehold_lab::real::INSTALL_HELP;
use freehold_lab::selection::Selection;
use freehold_lab::shared_heap::SCHEMES;
use freehold_lab::simulate::{self, busiest};
use freehold_lab::studies::radiosity::{
    self, MeasureError, PolicyUse, Profiled, Program, Results, SCHEMA_VERSION, Server,
};
use freehold_trace::Trace;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Run the radiosity application under every allocator, and replay it on policies.
///
/// Measured: speed-up over threads beside a loop that allocates nothing, resident memory, and memory in use as
/// the scene grows, under each installed malloc and on heaps that threads share under one lock, with a lock
/// each, and with inboxes. Recorded once: Figure 1 of Cavin and Alonso, live bytes over bytes allocated.
/// Simulated: the share of memory in use under policies of the registry.
#[derive(clap::Args)]
#[command(after_help = format!("Examples:
  freehold study radiosity
  freehold study radiosity --quick --rounds 9 --on glibc,freehold,mimalloc
  freehold study radiosity --rounds 9 --threads 1,2,4,8
  freehold study radiosity --on glibc,freehold,best-fit
  freehold study radiosity --scale 2e-5,5e-6,1e-6    larger scenes: 40, 120, 320 MB of objects
  freehold study radiosity --trace room.fht      Figure 1 and policies of another recording

In --out: report.html, results.json and runs.parquet (a row for every real run).

{INSTALL_HELP}"))]
pub struct Args {
    /// Thread counts; speed-ups are against the first.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// Runs of each allocator with each thread count.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// A trace of the application, instead of recording one.
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Mallocs to run the program under, and policies to replay its recorded calls on.
    #[arg(
        long,
        value_name = "LIST",
        default_value = "allocators,first-fit,best-fit,good-fit,dmrt,dlmalloc,tlsf,buddy"
    )]
    on: String,
    /// Speed-up, Figure 1 and memory in the program's own scene only: no larger scenes, and no heaps that
    /// threads share in the paper's ways.
    #[arg(long, conflicts_with = "scale")]
    quick: bool,
    /// Leave out the heaps that threads share in the paper's ways.
    #[arg(long)]
    no_schemes: bool,
    /// How fine the larger scenes are: shares of the emitted power that a link may misplace.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2e-5,1e-5",
        value_parser = fineness)]
    scale: Vec<f64>,
    /// The folder for the results; made if it is missing.
    #[arg(short, long, value_name = "FOLDER", default_value = "study-radiosity")]
    out: PathBuf,
    /// Print the results as JSON (schema version 4: crates/lab/src/studies/radiosity.rs).
    #[arg(long)]
    json: bool,
}

fn fineness(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("expected a share: a number above 0, at most 1".to_owned()),
    }
}

/// Records, replays, measures, prints and writes.
pub fn run(args: Args) -> Result<ExitCode> {
    let own = embedded::allocators()?;
    let own: Vec<(&str, &Path)> = own.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let selection = Selection::parse(&args.on, &own)?;
    let outputs = Outputs::in_folder(&args.out, Some("runs.parquet"))?;
    let folder = tempfile::Builder::new().prefix("freehold-").tempdir();
    let folder = folder.context("the trace needs a temporary folder; set TMPDIR to one")?;
    let path = match &args.trace {
        Some(path) => path.clone(),
        // On one thread, as the paper's trace was.
        None => {
            let path = folder.path().join("room.fht");
            bundled::record(&path, &["--threads", "1"])?;
            path
        }
    };
    let interrupted = ui::interrupted();
    let trace = Trace::open(&path)?;
    let Some((profile, policies)) = replay(&trace, &selection.policies, &interrupted)? else {
        return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
    };
    let (measured, rows) = match measure(&args, &selection, &interrupted) {
        Ok(measured) => measured,
        Err(error) => match error.downcast_ref() {
            Some(MeasureError::Interrupted) => return Ok(ExitCode::from(ui::EXIT_INTERRUPTED)),
            _ => return Err(error),
        },
    };
    let results = Results { profile, policies, ..measured };
    outputs.write_rows(|to| radiosity::write_rows(to, &rows))?;
    outputs.write(&radiosity::page(&results, &command_line(&args)), &results)?;
    outputs.print(args.json, &results, |out| print(out, &results))?;
    Ok(ExitCode::SUCCESS)
}

/// All real runs. The results lack what is not measured.
fn measure(
    args: &Args,
    selection: &Selection,
    interrupted: &AtomicBool,
) -> Result<(Results, Vec<radiosity::RunRow>)> {
    let has_schemes = !args.no_schemes && !args.quick;
    let schemes = SCHEMES.into_iter().filter(|_| has_schemes).map(Server::scheme);
    let servers: Vec<Server> =
        selection.allocators.iter().map(Server::malloc).chain(schemes).collect();
    let program = Program { command: workload::default_program()?, heap_at: workload::HEAP_AT };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut bar = ui::Progress::new("running the program");
    let mut progress = |done, of| bar.set(done, of);
    let (allocators, rows) = radiosity::measure(
        &program,
        &servers,
        &args.threads,
        args.rounds,
        &mut progress,
        interrupted,
    )?;
    let locks = radiosity::watch_locks(&program, &servers, &args.threads, interrupted)?;
    drop(bar);
    let mut bar = ui::Progress::new("larger scenes");
    let mut progress = |done, of| bar.set(done, of);
    let threads = processors as u32;
    let scales = if args.quick { &[][..] } else { &args.scale };
    let scaled = radiosity::scale(&program, &servers, scales, threads, &mut progress, interrupted)?;
    let results = Results {
        schema_version: SCHEMA_VERSION,
        processors,
        profile: Profiled::default(),
        allocators,
        locks,
        scaled,
        policies: Vec::new(),
    };
    Ok((results, rows))
}

/// The command as it could be typed again.
fn command_line(args: &Args) -> String {
    let threads: Vec<String> = args.threads.iter().map(u32::to_string).collect();
    let (threads, rounds, on) = (threads.join(","), args.rounds, &args.on);
    let trace = args.trace.iter().map(|path| format!(" --trace {}", path.display()));
    let trace: String = trace.collect();
    let scale: Vec<String> = args.scale.iter().map(|share| format!("{share:e}")).collect();
    let less = match (args.quick, args.no_schemes) {
        (true, _) => " --quick".to_owned(),
        (false, true) => format!(" --no-schemes --scale {}", scale.join(",")),
        (false, false) => format!(" --scale {}", scale.join(",")),
    };
    format!("freehold study radiosity --threads {threads} --rounds {rounds} --on {on}{less}{trace}")
}

/// Figure 1 and the policies; `None` when interrupted.
fn replay(
    trace: &Trace,
    policies: &[&str],
    interrupted: &AtomicBool,
) -> Result<Option<(Profiled, Vec<PolicyUse>)>> {
    let process = busiest(trace).context("the trace has no process")?;
    let found = profile::profile(trace, Some(process), &mut |_| true, &mut |_, _| {}, interrupted)?;
    let Some(found) = found else { return Ok(None) };
    let total = found.total;
    let profiled = Profiled {
        allocated: total.figures.allocated_bytes,
        peak_live: total.figures.peak.bytes,
        objects: total.figures.calls.allocations(),
        curve: total.figures.live_over_bytes,
    };
    let mut bar = ui::Progress::new("replaying");
    let survey = simulate::survey(trace, process, &mut |_, _| {}, interrupted)?;
    let options = simulate::Options { process, limit: None };
    let mut progress = |done, of| bar.set(done, of);
    let simulated =
        match simulate::replay(trace, &survey, policies, options, &mut progress, interrupted) {
            Err(simulate::SimulateError::Interrupted) => return Ok(None),
            other => other?,
        };
    let uses = simulated.into_iter().map(|simulated| {
        let outcome = simulated.outcome;
        PolicyUse {
            in_use: outcome.peak_live as f64 / outcome.peak_memory.max(1) as f64,
            peak_memory: outcome.peak_memory,
            external: outcome.external_fragmentation,
            policy: outcome.name,
        }
    });
    Ok(Some((profiled, uses.collect())))
}

/// A gain, or that it was refused.
fn shown(gain: f64) -> String {
    if gain.is_finite() { format!("{gain:.2}") } else { "refused".to_owned() }
}

fn print(out: &mut dyn Write, results: &Results) -> std::io::Result<()> {
    writeln!(
        out,
        "{:18} {:>7} {:>9} {:>9} {:>9} {:>11} {:>10} {:>12}",
        "allocator",
        "threads",
        "seconds",
        "speed-up",
        "the loop",
        "of the loop",
        "more work",
        "peak memory"
    )?;
    for summary in &results.allocators {
        writeln!(
            out,
            "{:18} {:>7} {:>9.2} {:>9.2} {:>9} {:>11} {:>10.2} {:>12}",
            summary.allocator,
            summary.threads,
            summary.seconds,
            summary.speed_up,
            shown(summary.loop_speed_up),
            shown(summary.against_loop.median),
            summary.more_work,
            freehold_lab::human::bytes(summary.peak_resident)
        )?;
    }
    for locks in &results.locks {
        let (scheme, threads) = (&locks.scheme, locks.threads);
        writeln!(
            out,
            "{scheme:18} {threads:>7} locks taken {:>11}, waited for {:>9}, {:.2} s",
            locks.taken, locks.contended, locks.wait_s
        )?;
    }
    if !results.scaled.is_empty() {
        writeln!(
            out,
            "\n{:18} {:>9} {:>12} {:>12} {:>9}",
            "", "epsilon", "objects", "peak memory", "in use"
        )?;
    }
    for run in &results.scaled {
        let in_use = run.useful_bytes as f64 * 100.0 / run.peak_resident.max(1) as f64;
        let (objects, peak) = (run.useful_bytes, run.peak_resident);
        let [objects, peak] = [objects, peak].map(freehold_lab::human::bytes);
        writeln!(
            out,
            "{:18} {:>9e} {objects:>12} {peak:>12} {in_use:>7.1} %",
            run.server, run.epsilon
        )?;
    }
    writeln!(out, "\n{:18} {:>12} {:>9}", "policy", "peak heap", "in use")?;
    for policy in &results.policies {
        let peak = freehold_lab::human::bytes(policy.peak_memory);
        writeln!(out, "{:18} {peak:>12} {:>8.1} %", policy.policy, policy.in_use * 100.0)?;
    }
    writeln!(out)?;
    results.answer().iter().try_for_each(|sentence| writeln!(out, "{sentence}"))
}
