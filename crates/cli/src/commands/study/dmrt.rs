//! `freehold study dmrt`: the tables of the chapter "DmRT for NUMA", published and ours.

use super::chosen::Chosen;
use super::outputs::{Outputs, wrapped};
use crate::ui;
use anyhow::Result;
use freehold_lab::studies::dmrt::{
    self, Plan, Results, RunError, SearchError, SearchMap, SearchStage, Stage, Table,
};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Attempts of each table with --quick.
const QUICK: &[&str] =
    &["attempts=10", "search.points=100", "search.starts=1", "search.rounds=1", "search.confirm=3"];

/// Simulate the four test cases of "DmRT for NUMA" and compare with what is published.
///
/// Requests for memory come from the nodes of a simulated machine and go along a path of memories; the
/// policies and the search for a node are the code that ships. The report shows every published table
/// beside ours, and says where they differ and why.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold study dmrt
  freehold study dmrt --quick --out /tmp/quick
  freehold study dmrt --set machine.nodes=8 --set place.search=complete
  freehold study dmrt --set requests_from.source=app.fht    a recorded program's requests
  freehold study dmrt --search --out readings               which settings would give the printed figures? (20 minutes)
  freehold study dmrt mine.toml                             a file that names only what differs
  freehold study dmrt --settings                            print every setting and its default

In --out: report.html, results.json (the same bytes for the same settings) and attempts.parquet (a row \
for every attempt). With --search: report.html, results.json and map.csv (a line for every reading).")]
pub struct Args {
    #[command(flatten)]
    chosen: Chosen,
    /// The folder for the results; made if it is missing.
    #[arg(short, long, value_name = "FOLDER", default_value = "study-dmrt")]
    out: PathBuf,
    /// Count the instructions of the allocators' calls, too, in one attempt of each case: minutes more.
    #[arg(long)]
    instructions: bool,
    /// In place of the tables: move what the chapter leaves open ([search.open] of the settings), and tell
    /// which readings come near to what it prints.
    #[arg(long, conflicts_with = "instructions")]
    search: bool,
    /// Print the results as JSON instead of tables (schema version 2: crates/lab/src/studies/dmrt/results.rs).
    #[arg(long)]
    json: bool,
}

/// Runs, prints and writes.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.chosen.settings {
        ui::print(dmrt::DEFAULT)?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = Plan::new(&args.chosen.settings(dmrt::DEFAULT, QUICK)?)?;
    if args.search {
        return search(&args, &plan);
    }
    let outputs = Outputs::in_folder(&args.out, Some("attempts.parquet"))?;
    let interrupted = ui::interrupted();
    let Some(mut results) = study(&plan, &interrupted)? else {
        return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
    };
    if args.instructions {
        let mut bar = ui::Progress::new("counting instructions");
        let counted =
            dmrt::count_instructions(&plan, &mut |done, total| bar.set(done, total), &interrupted);
        results.instructions = match counted {
            Err(RunError::Interrupted) => return Ok(ExitCode::from(ui::EXIT_INTERRUPTED)),
            counted => counted?,
        };
    }
    outputs.write_rows(|to| dmrt::write_rows(to, &results.rows))?;
    let mut command = args.chosen.command_line("dmrt");
    if args.instructions {
        command += " --instructions";
    }
    outputs.write(&dmrt::page(&plan, &results, &command), &results)?;
    outputs.print(args.json, &results, |out| print(out, &results))?;
    Ok(ExitCode::SUCCESS)
}

/// The search, its map and its page.
fn search(args: &Args, plan: &Plan) -> Result<ExitCode> {
    let outputs = Outputs::in_folder(&args.out, Some("map.csv"))?;
    let interrupted = ui::interrupted();
    let mut bar = ui::Progress::new("readings");
    let mut progress = |_: SearchStage, done, total| bar.set(done, total);
    let map = match dmrt::search(plan, &mut progress, &interrupted) {
        Err(SearchError::Run(RunError::Interrupted)) => {
            return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
        }
        found => found?,
    };
    drop(bar);
    outputs.write_rows(|to| dmrt::write_search_map(to, &map))?;
    let command = args.chosen.command_line("dmrt") + " --search";
    outputs.write(&dmrt::search_page(&map, &command), &map)?;
    outputs.print(args.json, &map, |out| print_search(out, &map))?;
    Ok(ExitCode::SUCCESS)
}

/// The answer, and the nearest reading for each aim.
fn print_search(out: &mut dyn Write, map: &SearchMap) -> std::io::Result<()> {
    for sentence in &map.answer {
        writeln!(out, "{}", wrapped(sentence))?;
    }
    for best in &map.best {
        writeln!(
            out,
            "\n{}: {:.1} points from its printed rows on average, at most {:.1} (no reading below {:.1}); {} of {} \
             readings of the design within 5 of all\n{}",
            best.aim,
            best.mean,
            best.largest,
            best.least_possible,
            best.near,
            best.of,
            wrapped(&best.changes.join(" "))
        )?;
    }
    Ok(())
}

/// Runs with a progress bar; `None` when interrupted.
fn study(plan: &Plan, interrupted: &AtomicBool) -> Result<Option<Results>> {
    let mut bar = ui::Progress::new("simulating");
    let mut shown = Stage::Tables;
    let mut progress = |stage, done, total| {
        if stage != shown {
            shown = stage;
            bar = ui::Progress::new("changing one thing");
        }
        bar.set(done, total);
    };
    match dmrt::study(plan, &mut progress, interrupted) {
        Ok(results) => Ok(Some(results)),
        Err(RunError::Interrupted) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Published and ours, a table each; then the account.
fn print(out: &mut dyn Write, results: &Results) -> std::io::Result<()> {
    for table in &results.tables {
        print_table(out, table)?;
    }
    if let Some(counted) = &results.instructions {
        print_instructions(out, counted)?;
    }
    for gap in &results.gaps {
        writeln!(
            out,
            "{:12} {:.1} points from the printed requests satisfied on average, at most {:.1}; {} of {} rows within 5",
            gap.allocator, gap.mean, gap.largest, gap.near, gap.rows
        )?;
    }
    for tally in dmrt::tallies(&results.verdicts) {
        let ([holds, open, fails], printed) = (tally.ours, tally.printed);
        let counts = format!(
            "holds in {holds}, undecidable in {open}, fails in {fails}; printed: holds in {} of {}",
            printed.0, printed.1
        );
        writeln!(
            out,
            "{}",
            wrapped(&format!("{}: {} ({counts})", tally.claim, tally.class.name()))
        )?;
    }
    for sentence in &results.answer {
        writeln!(out, "{}", wrapped(sentence))?;
    }
    writeln!(out, "\nWhere ours differs from what is published, and why")?;
    for finding in &results.account {
        writeln!(out, "\n* {}\n{}", finding.title, wrapped(&finding.text))?;
    }
    Ok(())
}

fn print_instructions(out: &mut dyn Write, counted: &[dmrt::Instructions]) -> std::io::Result<()> {
    writeln!(
        out,
        "Instructions of a request or free\n{:4} {:12} {:>8} {:>8} {:>8}",
        "case", "", "mean", "p99", "longest"
    )?;
    for one in counted {
        let (case, name) = (one.case, one.allocator);
        writeln!(out, "{case:4} {name:12} {:>8.0} {:>8} {:>8}", one.mean, one.p99, one.max)?;
    }
    writeln!(out)
}

fn print_table(out: &mut dyn Write, table: &Table) -> std::io::Result<()> {
    writeln!(
        out,
        "{}: case {}, {} requests\n{:12} {:>10} {:>18} {:>8} {:>15} {:>8} {:>15}",
        table.name,
        table.case,
        table.requests,
        "",
        "time, ms",
        "ours, µs",
        "fragm.",
        "ours, %",
        "satisf.",
        "ours, %"
    )?;
    for entry in &table.entries {
        let published = |get: fn(&dmrt::Published) -> f64| match &entry.published {
            Some(row) => format!("{:.1}", get(row)),
            None => "–".to_owned(),
        };
        let ours = |key| {
            let of = entry.of(key);
            format!("{:.1} ± {:.1}", of.mean, of.half_width)
        };
        writeln!(
            out,
            "{:12} {:>10} {:>18} {:>8} {:>15} {:>8} {:>15}",
            entry.allocator,
            published(|row| row.time_ms),
            ours("time"),
            published(|row| row.fragmentation),
            ours("external"),
            published(|row| row.satisfied),
            ours("satisfied"),
        )?;
    }
    writeln!(out)
}
