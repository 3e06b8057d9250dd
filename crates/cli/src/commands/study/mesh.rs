//! `freehold study mesh`: distributed heaps on a mesh of nodes, published and ours.

use super::chosen::Chosen;
use super::outputs::{Outputs, wrapped};
use crate::ui;
use anyhow::Result;
use freehold_lab::results::write_json;
use freehold_lab::studies::mesh::{self, Plan, Results, RunError, Speed, Verdict};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// What --quick changes.
const QUICK: &[&str] = &[
    "events=4000",
    "events_per_node=10",
    "least_per_node=2",
    "index_up_to=8x8",
    "repeats=1",
    "larger=16x16",
];

/// Simulate heaps distributed over a mesh of nodes and compare with what is published.
///
/// Every node has a heap; a full one has to find room on others, by messages. Three allocators, four
/// orders of asking and five improvements run on simulated platforms of 4 to 4,096 nodes; who is
/// asked and which block is taken is decided by the code that ships. The report shows the published
/// ratios beside ours, where the cycles go, where the mesh is hot, and what each improvement gains.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold study mesh
  freehold study mesh --quick --out /tmp/quick
  freehold study mesh --set platforms='[\"4x4\", \"4x8\"]' --set larger=32x32
  freehold study mesh --set costs.router=3 --set load.think=1000
  freehold study mesh mine.toml                             a file that names only what differs
  freehold study mesh --settings                            print every setting and its default
  freehold study mesh --time                                time a million calls on 64x64, on one core

In --out: report.html, results.json (the same bytes for the same settings) and runs.parquet (a row for \
every run).")]
pub struct Args {
    #[command(flatten)]
    chosen: Chosen,
    /// The folder for the results; made if it is missing.
    #[arg(short, long, value_name = "FOLDER", default_value = "study-mesh")]
    out: PathBuf,
    /// Print the results as JSON instead of tables (schema version 3: crates/lab/src/studies/mesh/results.rs).
    #[arg(long)]
    json: bool,
    /// Run nothing but so many calls on the largest platform, everything improved, on one core, and print how
    /// long it took; exit with 1 if longer than the budget of 30 seconds.
    #[arg(long, value_name = "CALLS", num_args = 0..=1, default_missing_value = "1000000",
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    time: Option<u64>,
}

/// Runs, prints and writes.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.chosen.settings {
        ui::print(mesh::DEFAULT)?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = Plan::new(&args.chosen.settings(mesh::DEFAULT, QUICK)?)?;
    if let Some(calls) = args.time {
        return time(&plan, calls, args.json);
    }
    let outputs = Outputs::in_folder(&args.out, Some("runs.parquet"))?;
    let interrupted = ui::interrupted();
    let Some(results) = study(&plan, &interrupted)? else {
        return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
    };
    outputs.write_rows(|to| mesh::write_rows(to, &results.rows))?;
    let command = args.chosen.command_line("mesh");
    outputs.write(&mesh::page(&plan, &results, &command), &results)?;
    outputs.print(args.json, &results, |out| print(out, &results))?;
    Ok(ExitCode::SUCCESS)
}

/// One large run against the clock.
fn time(plan: &Plan, calls: u64, json: bool) -> Result<ExitCode> {
    let Some(speed) = mesh::speed(plan, calls)? else { return Ok(ExitCode::SUCCESS) };
    let mut out = io::stdout().lock();
    if json {
        write_json(&mut out, &speed)?;
    } else {
        let Speed { platform, events, warm_up_per_node, seconds, budget, .. } = &speed;
        writeln!(
            out,
            "{platform}: {events} calls counted after at least {warm_up_per_node} of every node: {seconds:.1} s on \
             one core (budget {budget} s)"
        )?;
    }
    Ok(ExitCode::from(u8::from(speed.seconds > speed.budget)))
}

/// With a progress bar; `None` when interrupted.
fn study(plan: &Plan, interrupted: &AtomicBool) -> Result<Option<Results>> {
    let mut bar = ui::Progress::new("simulating");
    match mesh::study(plan, &mut |done, total| bar.set(done, total), interrupted) {
        Ok(results) => Ok(Some(results)),
        Err(RunError::Interrupted) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Published and ours, then the goals, then the answer.
fn print(out: &mut dyn Write, results: &Results) -> io::Result<()> {
    print_verdicts(out, "published", &results.verdicts)?;
    print_verdicts(out, "at most", &results.goals)?;
    results.answer.iter().try_for_each(|sentence| writeln!(out, "{}", wrapped(sentence)))
}

fn print_verdicts(out: &mut dyn Write, wanted: &str, verdicts: &[Verdict]) -> io::Result<()> {
    writeln!(out, "{:62} {wanted:>10} {:>8}", "", "ours")?;
    for Verdict { what, wanted, ours, class, apart, .. } in verdicts {
        let apart = if apart.is_empty() { String::new() } else { format!(", {apart}") };
        writeln!(out, "{what:62} {wanted:>10.2} {ours:>8.2}  {}{apart}", class.name())?;
    }
    writeln!(out)
}
