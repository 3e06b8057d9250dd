//! `freehold study banks`: page frames and memory banks, published and ours.

mod recorded;

use super::chosen::Chosen;
use super::outputs::{Outputs, wrapped};
use crate::ui;
use anyhow::Result;
use freehold_lab::results::{Output, write_json};
use freehold_lab::studies::banks::{self, BanksError, Plan, Replayed, Results, Timed};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Minutes of each workload instead of hours, two thirds of the policies' thresholds kept.
const QUICK: &[&str] = &[
    "workloads.light.seconds=1800",
    "workloads.medium.seconds=1800",
    "workloads.storms.seconds=3600",
    "sweep_seconds=900",
    "robust_seeds=1",
    "stream_seeds=1",
    "verdict_seeds=2",
];

/// Simulate page-frame allocators on memory banks that can be switched off, beside what is published.
///
/// Processes, page cache, kernel pages and storms of files use the memory of a simulated machine; a policy chooses
/// frames, a task empties banks. Policies and task are the code of the core that a kernel would run. The report
/// shows the tables and figures of Panwar's thesis beside ours, every policy at equal copying, footprints of the
/// kernel as pictures, and energy.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold study banks
  freehold study banks --quick --out /tmp/quick
  freehold study banks --set robust_seeds=100
  freehold study banks --set migration.slack_permille=1000 --set policies=fullest
  freehold study banks mine.toml                            a file that names only what differs
  freehold study banks --settings                           print every setting and its default
  perf record -a -e kmem:mm_page_alloc,kmem:mm_page_free -- sleep 60; perf script > pages.txt
  freehold study banks --trace pages.txt --machine m32      a recorded machine, and nothing else
  trace-cmd record -e kmem:mm_page_alloc -e kmem:mm_page_free sleep 60
  freehold study banks --trace trace.dat                    the same; trace-cmd prints its binary file
  freehold record -o app.fht -- ./app
  freehold study banks --trace app.fht                      a program's blocks, turned into pages

In --out: report.html, results.json and runs.parquet (the same bytes for the same settings), and times.json (real \
time of table 6.1's sequence on this machine); with --trace recording.pages instead, the recording as a page trace. The \
default takes ten minutes or so, --quick one, --trace seconds.")]
pub struct Args {
    #[command(flatten)]
    chosen: Chosen,
    /// Run a recording, and nothing else: kernel events as `perf script` or `trace-cmd report` print them, trace-cmd's
    /// own file (trace.dat, if trace-cmd is installed), a freehold page trace, or a malloc trace. On machines of several
    /// nodes each task's memory lies on one of them.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The machine that the recording runs on: a name of the settings' machines.
    #[arg(long, value_name = "NAME", requires = "trace", default_value = banks::MACHINE)]
    machine: String,
    /// Do not measure real time (table 6.1).
    #[arg(long)]
    no_times: bool,
    /// The folder for the results; made if it is missing.
    #[arg(short, long, value_name = "FOLDER", default_value = "study-banks")]
    out: PathBuf,
    /// Print the results as JSON instead of tables (schema version 3: crates/lab/src/studies/banks/results.rs).
    #[arg(long)]
    json: bool,
}

/// Runs, prints and writes.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.chosen.settings {
        ui::print(banks::DEFAULT)?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = Plan::new(&args.chosen.settings(banks::DEFAULT, QUICK)?)?;
    if let Some(trace) = &args.trace {
        return replay(&args, &plan, trace);
    }
    let outputs = Outputs::in_folder(&args.out, Some("runs.parquet"))?;
    let times_file = Output::at(&args.out.join("times.json"))?;
    let interrupted = ui::interrupted();
    let Some(results) = study(&plan, &interrupted)? else {
        return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
    };
    let times = if args.no_times { Vec::new() } else { banks::measure_speed(&plan.policies) };
    outputs.write_rows(|to| banks::write_rows(to, &results))?;
    times_file.write(|mut to| write_json(&mut to, &times))?;
    let command = args.chosen.command_line("banks");
    outputs.write(&banks::page(&results, &times, &command), &results)?;
    outputs.print(args.json, &results, |out| print(out, &results, &times))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a recording alone, and writes it as a page trace besides.
fn replay(args: &Args, plan: &Plan, path: &Path) -> Result<ExitCode> {
    let trace = recorded::read(path)?;
    let outputs = Outputs::in_folder(&args.out, None)?;
    let pages = Output::at(&args.out.join("recording.pages"))?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let interrupted = ui::interrupted();
    let replayed = match banks::replay(plan, &name, &trace, &args.machine, &interrupted) {
        Ok(replayed) => replayed,
        Err(BanksError::Interrupted) => return Ok(ExitCode::from(ui::EXIT_INTERRUPTED)),
        Err(error) => return Err(error.into()),
    };
    pages.write(|mut to| trace.write(&mut to))?;
    let command = format!(
        "{} --trace {} --machine {}",
        args.chosen.command_line("banks"),
        ui::quoted(&name),
        args.machine
    );
    outputs.write(&banks::page_of_recording(&replayed, &command), &replayed)?;
    outputs.print(args.json, &replayed, |out| print_replayed(out, &replayed))?;
    Ok(ExitCode::SUCCESS)
}

/// Every policy's row; then the answer.
fn print_replayed(out: &mut dyn Write, replayed: &Replayed) -> std::io::Result<()> {
    let head = "free memory that is off";
    writeln!(out, "{head:44} {:>8} {:>13} {:>8}", "c", "copied/freed", "bound")?;
    for row in &replayed.rows {
        let name = format!("{}, {}", row.policy, row.task);
        let (copied, bound) = (row.copied_per_freed, row.c_bound);
        writeln!(out, "{name:44} {:>8.4} {copied:>13.4} {bound:>8.4}", row.c)?;
    }
    writeln!(out)?;
    replayed.answer.iter().try_for_each(|sentence| writeln!(out, "{}", wrapped(sentence)))
}

/// Runs with a progress bar; `None` when interrupted.
fn study(plan: &Plan, interrupted: &AtomicBool) -> Result<Option<Results>> {
    let bar = Mutex::new(ui::Progress::new("simulating"));
    let progress = |done, total| {
        if let Ok(mut bar) = bar.lock() {
            bar.set(done, total);
        }
    };
    match banks::study(plan, &progress, interrupted) {
        Ok(results) => Ok(Some(results)),
        Err(BanksError::Interrupted) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Tables 5.1, 5.2 and 6.1; then the answer.
fn print(out: &mut dyn Write, results: &Results, times: &[Timed]) -> std::io::Result<()> {
    writeln!(
        out,
        "{:26} {:16} {:>6} {:>6} {:>6} {:>7} {:>9} {:>13} {:>13}",
        "percent of memory",
        "",
        "off",
        "most",
        "best",
        "c",
        "off/best",
        "copied/freed",
        "copied/off"
    )?;
    for row in &results.tables {
        writeln!(
            out,
            "{:26} {:16} {:>6.1} {:>6.1} {:>6.1} {:>7.3} {:>9.3} {:>13.4} {:>13.2}",
            format!("{}, {}", row.machine, row.workload),
            row.policy,
            row.offline_mean,
            row.offline_max,
            row.best_mean,
            row.c,
            row.of_best,
            row.copied_per_freed,
            row.copied_per_offlined
        )?;
    }
    for timed in times {
        writeln!(
            out,
            "{:26} {:16} {:>6.1} ns a page, longest {} ns, free {:.1} ns",
            format!("{} pages", timed.pages),
            timed.policy,
            timed.mean_ns,
            timed.worst_ns,
            timed.free_ns
        )?;
    }
    writeln!(out)?;
    results.answer.iter().try_for_each(|sentence| writeln!(out, "{}", wrapped(sentence)))
}
