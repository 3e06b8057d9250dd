//! `freehold sweep`: many replays, or many runs of a study, as one dataset.

mod known;
mod lines;

use self::known::Known;
use crate::ui::{self, WrongCommandLine};
use anyhow::{Context, Result};
use freehold_lab::human;
use freehold_lab::results::write_json;
use freehold_lab::sweep::{self, Cell, Crew, Done, Found, Job, Plan, Request, Store, Version};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Replay many traces on many policies, limits and settings (or run a study with many settings), into one dataset.
///
/// One combination is a cell. Each cell's result is a file in --out, named by a hash of the trace's content, of this command and of the
/// cell's arguments: if you run the same command again, it computes only the missing cells. At the end all cells are written as one
/// Parquet file, with one flat row per cell (of a study: per run). Its bytes are the same, whichever worker computed which cell.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold sweep --traces 'traces/*.fht'
  freehold sweep --traces a.fht b.fht --on policies,malloc --limit 1.05,1.1,1.5,2
  freehold sweep --traces 'traces/*.fht' --on malloc --set reserve.bytes=1M,8M,32M --set purge.from=8M,off
  freehold sweep --study mesh --quick --set seed=1..100 --out seeds
  freehold sweep --study banks --quick --set seed=1..10 --set migration.per_thousand_freed=40,60
  freehold sweep --traces 'traces/*.fht' --print | parallel    then the same without --print writes the dataset
  python3 -c \"import pandas; print(pandas.read_parquet('sweep/sweep.parquet'))\"

A cell that cannot be done is a row with its error. A wrong trace, policy or setting stays so; what this machine was to blame for \
(memory, a full disk, a study that failed) the same command tries again. After Ctrl-C, a full disk or a crash it continues where it \
stopped; at most the cells in flight are lost. docs/columns.md explains the \
columns. Measured replays (`--on glibc`) cannot be part of a sweep; Python's `freehold.measure` does many.

Exit status: 0 every cell has a result; 1 some have errors, or it failed; 2 the command line was wrong; 130 interrupted.")]
pub struct Args {
    /// Traces, or patterns such as 'traces/*.fht'.
    #[arg(long, value_name = "TRACE", num_args = 1.., required_unless_present_any = ["study", "worker"])]
    traces: Vec<String>,
    /// Policies, `policies`, `models` (of allocators), `malloc` (Freehold's, simulated), separated by commas.
    #[arg(long, value_name = "LIST", default_value = "policies,malloc")]
    on: String,
    /// Limits on memory, separated by commas: 1.5 is one and a half times the trace's peak of live bytes; 64M is in bytes; `none`.
    #[arg(long, value_name = "LIST", default_value = "none")]
    limit: String,
    /// A setting with its values: a decision of the malloc (`freehold replay --decisions`) or, with --study, a setting of the study. May be
    /// given again: every combination is tried. FIRST..LAST are whole numbers, both included.
    #[arg(long, value_name = "NAME=VALUE,…")]
    set: Vec<String>,
    /// Run a study instead: banks, dmrt or mesh.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["traces", "on", "limit"])]
    study: Option<String>,
    /// The study's short form.
    #[arg(long, requires = "study")]
    quick: bool,
    /// The folder for cells and dataset; made if it is missing.
    #[arg(short, long, value_name = "FOLDER", default_value = "sweep")]
    out: PathBuf,
    /// Cells at once; by default as many as there are processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Option<u32>,
    /// Compute nothing; print commands that compute the missing cells, one per line, for GNU parallel, a Slurm array or HyperQueue.
    #[arg(long)]
    print: bool,
    /// Compute the cells but write no dataset; the commands that --print prints do this.
    #[arg(long)]
    part: bool,
    /// Print what was done as JSON; with --print, each command as JSON with the names of its cells.
    #[arg(long)]
    json: bool,
    /// Errors that are known already: JSON with sentences by `cells` (names) and by `traces` (paths). These cells are not tried.
    #[arg(long, hide = true, value_name = "FILE")]
    errors: Option<PathBuf>,
    /// Tell of each cell on standard error: `cells DONE TOTAL`.
    #[arg(long, hide = true)]
    count: bool,
    /// Be a worker: read cells from standard input. The folder is for what studies leave.
    #[arg(long, hide = true, value_name = "FOLDER")]
    worker: Option<PathBuf>,
}

impl Args {
    fn request(&self) -> Request {
        Request {
            traces: self.traces.clone(),
            on: self.on.clone(),
            limit: self.limit.clone(),
            study: self.study.clone(),
            quick: self.quick,
            set: self.set.clone(),
        }
    }

    fn known(&self) -> Result<Known> {
        self.errors.as_deref().map_or_else(|| Ok(Known::default()), Known::read)
    }

    fn workers(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.map_or_else(all, |workers| workers as usize)
    }
}

/// What a sweep did.
#[derive(Serialize)]
struct Summary {
    schema_version: u32,
    /// Of the command: cells of two versions are never mixed.
    version: Version,
    cells: usize,
    /// Cells that an earlier run had done.
    found: usize,
    done: usize,
    /// Cells without a result.
    errors: usize,
    /// An error, so that one is seen.
    first_error: Option<String>,
    /// Errors of this attempt only, by the cell's name: they are not kept.
    passing: BTreeMap<String, String>,
    workers: usize,
    seconds: f64,
    /// Seconds that the replays themselves took, of all workers together.
    work_seconds: f64,
    dataset: Option<PathBuf>,
}

/// Plans, does what is missing, writes the dataset.
pub fn run(args: Args) -> Result<ExitCode> {
    let exe = std::env::current_exe().context("cannot find this command's own file")?;
    if let Some(scratch) = &args.worker {
        sweep::serve(io::stdin().lock(), io::stdout().lock(), &exe, scratch)?;
        return Ok(ExitCode::SUCCESS);
    }
    let began = Instant::now();
    let interrupted = ui::interrupted();
    let version = Version::of(&exe).context("cannot read this command's own file")?;
    let mut bar = ui::Progress::new("reading traces");
    let plan = args.request().plan(&version, &mut |done, total| bar.set(done, total));
    drop(bar);
    let plan = plan.map_err(|error| WrongCommandLine(error.to_string()))?;
    let store = Store::at(&args.out)?;
    let mut work = Work::new(&plan, &store, args.known()?);
    if args.print {
        ui::print(lines::of(&args, work.missing()))?;
        return Ok(ExitCode::SUCCESS);
    }
    work.run(&exe, &args, &interrupted)?;
    if ui::is_raised(&interrupted) {
        let (left, cells) = (work.missing().count(), plan.jobs.len());
        eprintln!(
            "freehold: interrupted; {left} of {cells} cells are missing, the same command does them"
        );
        return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
    }
    let mut errors = Vec::new();
    for job in &plan.jobs {
        errors.extend(work.found(job).error);
    }
    if !args.part {
        store.write_dataset(|to| sweep::write(to, &plan, |job| work.found(job)))?;
    }
    let summary = Summary {
        schema_version: 1,
        version,
        cells: plan.jobs.len(),
        found: work.were_there,
        done: work.missing.len(),
        errors: errors.len(),
        first_error: errors.into_iter().next(),
        passing: work.known.cells,
        workers: args.workers(),
        seconds: began.elapsed().as_secs_f64(),
        work_seconds: work.seconds,
        dataset: (!args.part).then(|| store.dataset()),
    };
    match args.json {
        true => write_json(&mut io::stdout().lock(), &summary).context("cannot print")?,
        false => ui::print(summary.text())?,
    }
    Ok(ExitCode::from(u8::from(summary.errors > 0)))
}

fn is_there(store: &Store, job: &Job) -> bool {
    job.name.as_ref().is_ok_and(|name| store.has(name))
}

/// The cells, and what became of them.
struct Work<'a> {
    store: &'a Store,
    /// The cells that were not there, each name once.
    missing: Vec<&'a Job>,
    were_there: usize,
    /// Errors that are told and not kept: those known before, and those of this attempt.
    known: Known,
    seconds: f64,
}

impl<'a> Work<'a> {
    fn new(plan: &'a Plan, store: &'a Store, known: Known) -> Self {
        // Two traces of the same content have the same cells.
        let mut seen = HashSet::new();
        let is_new = |job: &&Job| job.name.as_ref().is_ok_and(|name| seen.insert(name.clone()));
        let (there, missing): (Vec<&Job>, Vec<&Job>) =
            plan.jobs.iter().filter(is_new).partition(|job| is_there(store, job));
        let were_there = there.len();
        let missing = missing.into_iter().filter(|job| known.error(job).is_none()).collect();
        Self { store, missing, were_there, known, seconds: 0.0 }
    }

    /// The cells that are not there now.
    fn missing(&self) -> impl Iterator<Item = &'a Job> {
        let store = self.store;
        self.missing.iter().copied().filter(move |job| !is_there(store, job))
    }

    /// Does what is missing, or what of it comes before the interruption.
    fn run(&mut self, exe: &Path, args: &Args, interrupted: &AtomicBool) -> Result<()> {
        let scratch = tempfile::Builder::new().prefix("freehold-").tempdir();
        let scratch = scratch.context("workers need a temporary folder; set TMPDIR to one")?;
        let (arguments, workers) = (&["sweep", "--worker"], args.workers());
        let crew = Crew { exe, arguments, scratch: scratch.path(), workers };
        let cells: Vec<&Cell> = self.missing.iter().map(|job| &job.cell).collect();
        let total = cells.len() as u64;
        let mut bar = ui::Progress::new("doing cells");
        let mut finished = 0;
        crew.work(&cells, interrupted, |done: Done| {
            finished += 1;
            bar.set(finished, total);
            if args.count {
                // Whoever listened may be gone, as after Ctrl-C.
                let _ = writeln!(io::stderr(), "cells {finished} {total}");
            }
            self.keep(done)
        })
    }

    fn keep(&mut self, done: Done) -> Result<()> {
        let Ok(name) = &self.missing[done.at].name else { return Ok(()) };
        self.seconds += done.seconds;
        match done.lasts {
            true => self.store.put(name, &done.found)?,
            false => self.known.add(name, done.found),
        }
        Ok(())
    }

    /// What a cell found.
    fn found(&self, job: &Job) -> Found {
        let known = || self.known.error(job).map(Found::failed);
        match &job.name {
            Ok(name) => {
                let lost = || Found::failed("its file was taken away while the sweep ran");
                self.store.get(name).or_else(known).unwrap_or_else(lost)
            }
            Err(why) => known().unwrap_or_else(|| Found::failed(why)),
        }
    }
}

impl Summary {
    fn text(&self) -> String {
        let seconds = human::seconds(self.seconds);
        let mut text = format!(
            "{} cells: {} were there, {} done in {seconds} by {} worker{}",
            self.cells,
            self.found,
            self.done,
            self.workers,
            if self.workers == 1 { "" } else { "s" },
        );
        if self.done > 0 {
            let each = human::seconds(self.work_seconds / self.done as f64);
            text += &format!(", {each} of work a cell");
        }
        if let Some(error) = &self.first_error {
            text += &format!("\n{} without a result; the first: {error}", self.errors);
        }
        if let Some(dataset) = &self.dataset {
            text += &format!("\nThe dataset: {}", dataset.display());
        }
        text + "\n"
    }
}
