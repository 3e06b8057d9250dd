//! `freehold study threads`: fits under locks and heaps per thread, on real threads.

use super::chosen::Chosen;
use super::outputs::{Outputs, wrapped};
use crate::{embedded, ui};
use anyhow::{Context, Result};
use freehold_lab::real::{INSTALL_HELP, installed};
use freehold_lab::studies::threads::{self, Measured, Plan, Results};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Run fits under locks, heaps per thread and installed mallocs on real threads.
///
/// First, best and worst fit over one region, shared under the lock of Quintana (2019), under locks of
/// std, parking_lot and Freehold's own, in stripes and in a heap a thread; with and without coalescing. The
/// report shows the paper's three experiments beside ours, the one it wished for, from how many allocations
/// on threads are faster, latencies, lock waits, and which of its conclusions hold here.
#[derive(clap::Args)]
#[command(after_help = format!("Examples:
  freehold study threads
  freehold study threads --quick --out /tmp/quick
  freehold study threads --set threads.counts=[1,2,4,8] --set sizes.to=65536
  freehold study threads --set 'on.sharing=[\"paper-lock\",\"per-thread\"]' --set runs=20
  freehold study threads mine.toml          a file that names only what differs
  freehold study threads --settings         print every setting and its default

In --out: report.html, results.json and runs.parquet (a row for every run). Ctrl-C ends the study with \
what was measured until then. Nothing else should run on the machine meanwhile.

{INSTALL_HELP}"))]
pub struct Args {
    #[command(flatten)]
    chosen: Chosen,
    /// The folder for the results; made if it is missing.
    #[arg(short, long, value_name = "FOLDER", default_value = "study-threads")]
    out: PathBuf,
    /// Print the results as JSON instead of tables (schema version 3: crates/lab/src/studies/threads/results.rs).
    #[arg(long)]
    json: bool,
    /// Run jobs from standard input: what the study starts for every malloc, and for heaps a thread.
    #[arg(long, hide = true)]
    serve: bool,
}

/// Measures, prints and writes.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.chosen.settings {
        ui::print(threads::DEFAULT)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.serve {
        threads::serve(io::stdin().lock(), io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = Plan::new(&args.chosen.settings(threads::DEFAULT, threads::QUICK)?)?;
    let outputs = Outputs::in_folder(&args.out, Some("runs.parquet"))?;
    let interrupted = ui::interrupted();
    let (measured, mallocs) = measure(&plan, &interrupted)?;
    let results = Results::of(&plan, &measured, &mallocs);
    outputs.write_rows(|to| threads::write_rows(to, &measured.rows, &mallocs))?;
    let command = args.chosen.command_line("threads");
    outputs.write(&threads::page(&results, &command), &results)?;
    outputs.print(args.json, &results, |out| print(out, &results))?;
    let status = if results.interrupted { ui::EXIT_INTERRUPTED } else { 0 };
    Ok(ExitCode::from(status))
}

/// With a progress bar; the names of the mallocs beside what was measured.
fn measure(plan: &Plan, interrupted: &AtomicBool) -> Result<(Measured, Vec<String>)> {
    let own = embedded::allocators()?;
    let own: Vec<(&str, &Path)> = own.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let mallocs = installed(&own);
    let this = std::env::current_exe().context("the path of this command is not known")?;
    let mut command = vec![this.into_os_string()];
    command.extend(["study", "threads", "--serve"].map(OsString::from));
    let mut bar = ui::Progress::new("measuring");
    let mut progress = |done, total| bar.set(done, total);
    let measured = threads::measure(plan, &mallocs, &command, &mut progress, interrupted)?;
    Ok((measured, mallocs.into_iter().map(|malloc| malloc.name).collect()))
}

/// Rates over threads; the answer; the account.
fn print(out: &mut dyn Write, results: &Results) -> io::Result<()> {
    writeln!(
        out,
        "Millions of sequences a second over threads (coalescing; {} processors)\n",
        results.processors
    )?;
    let mut counts: Vec<usize> = results
        .steady
        .iter()
        .flat_map(|curve| curve.points.iter().map(|point| point.threads))
        .collect();
    counts.sort_unstable();
    counts.dedup();
    write!(out, "{:36}", "threads")?;
    counts.iter().try_for_each(|count| write!(out, "{count:>9}"))?;
    writeln!(out)?;
    for curve in &results.steady {
        write!(out, "{:36}", curve.on.name)?;
        for &count in &counts {
            match curve.at(count) {
                Some(point) => write!(out, "{:>9.2}", point.rate.mean / 1e6)?,
                None => write!(out, "{:>9}", "–")?,
            }
        }
        writeln!(out)?;
    }
    writeln!(out)?;
    for sentence in &results.answer {
        writeln!(out, "{}", wrapped(sentence))?;
    }
    for finding in &results.account {
        let claim = format!("{} ({})", finding.claim, finding.said());
        writeln!(
            out,
            "\n* {}\n{}\n{}",
            wrapped(&claim),
            wrapped(&finding.text),
            wrapped(&finding.cause)
        )?;
    }
    Ok(())
}
