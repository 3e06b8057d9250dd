//! `freehold study dmrt`: the tables of the chapter "DmRT for NUMA", published and ours.

use crate::ui;
use anyhow::{Context, Result};
use freehold_lab::results::{Output, write_json};
use freehold_lab::studies::dmrt::{self, Plan, Results, RunError, Stage, Table};
use freehold_lab::studies::settings::Settings;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Attempts of each table with --quick.
const QUICK_ATTEMPTS: &str = "attempts=10";

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
  freehold study dmrt mine.toml                             a file that names only what differs
  freehold study dmrt --settings                            print every setting and its default

In --out: report.html, results.json (the same bytes for the same settings) and attempts.parquet (a row
for every attempt).")]
pub struct Args {
    /// Settings that differ from the default, as TOML.
    file: Option<PathBuf>,
    /// Change one setting; may be given again.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Ten attempts of each table instead of a hundred (unless --set says otherwise).
    #[arg(long)]
    quick: bool,
    /// The folder for the results; made if it is missing.
    #[arg(short, long, value_name = "FOLDER", default_value = "study-dmrt")]
    out: PathBuf,
    /// Print the results as JSON instead of tables (schema version 1: crates/lab/src/studies/dmrt/results.rs).
    #[arg(long)]
    json: bool,
    /// Print the default settings, with what each means, and run nothing.
    #[arg(long)]
    settings: bool,
}

/// Runs, prints and writes.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.settings {
        print!("{}", dmrt::DEFAULT);
        return Ok(ExitCode::SUCCESS);
    }
    let plan = Plan::new(&settings(&args)?)?;
    let files = Files::in_folder(&args.out)?;
    let interrupted = ui::interrupted();
    let Some(results) = study(&plan, &interrupted)? else {
        return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
    };
    files.write(&plan, &results, &command_line(&args))?;
    if args.json {
        write_json(&mut std::io::stdout().lock(), &results)?;
    } else {
        print(&results, &args.out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The default, then --quick, then the file, then every --set.
fn settings(args: &Args) -> Result<Settings> {
    let mut settings = Settings::of_default(dmrt::DEFAULT)?;
    if args.quick {
        settings.set(QUICK_ATTEMPTS)?;
    }
    if let Some(path) = &args.file {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
        settings.lay_over(&name, &text).with_context(|| name.clone())?;
    }
    for change in &args.set {
        settings.set(change).with_context(|| format!("--set {change}"))?;
    }
    Ok(settings)
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

/// The three files, found writable before the work.
struct Files {
    page: Output,
    results: Output,
    attempts: Output,
}

impl Files {
    fn in_folder(folder: &Path) -> Result<Files> {
        let context = || format!("the folder {} cannot be made", folder.display());
        fs::create_dir_all(folder).with_context(context)?;
        Ok(Files {
            page: Output::at(&folder.join("report.html"))?,
            results: Output::at(&folder.join("results.json"))?,
            attempts: Output::at(&folder.join("attempts.parquet"))?,
        })
    }

    fn write(&self, plan: &Plan, results: &Results, command: &str) -> Result<()> {
        let page = dmrt::page(plan, results, command);
        self.attempts.write(|to| dmrt::write_rows(to, &results.rows))?;
        self.results.write(|to| {
            let mut to = to;
            write_json(&mut to, results)
        })?;
        self.page.write(|to| to.write_all(page.as_bytes()))?;
        Ok(())
    }
}

/// The command as it could be typed again.
fn command_line(args: &Args) -> String {
    let mut words = vec!["freehold study dmrt".to_owned()];
    words.extend(args.file.as_ref().map(|file| file.display().to_string()));
    if args.quick {
        words.push("--quick".to_owned());
    }
    words.extend(args.set.iter().map(|change| format!("--set {}", quoted(change))));
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Published and ours, a table each; then the account.
fn print(results: &Results, folder: &Path) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for table in &results.tables {
        print_table(&mut out, table)?;
    }
    for sentence in &results.answer {
        writeln!(out, "{}", wrapped(sentence))?;
    }
    writeln!(out, "\nWhere ours differs from what is published, and why")?;
    for finding in &results.account {
        writeln!(out, "\n* {}\n{}", finding.title, wrapped(&finding.text))?;
    }
    writeln!(out, "\nThe whole report: {}", folder.join("report.html").display())?;
    Ok(())
}

fn print_table(out: &mut impl Write, table: &Table) -> std::io::Result<()> {
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

/// Lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line =
            lines.last_mut().filter(|line| line.chars().count() + word.chars().count() < 100);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}
