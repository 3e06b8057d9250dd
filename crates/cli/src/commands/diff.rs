//! `freehold diff`: which functions hold more or less than in an earlier recording.

use crate::ui;
use anyhow::{Context, Result, bail};
use freehold_lab::difference::{Change, Difference, FIGURES, difference};
use freehold_lab::results::write_json;
use freehold_lab::sites::{self, Sites};
use freehold_lab::{human, profile};
use freehold_trace::export::Control;
use freehold_trace::import::{ImportError, import};
use freehold_trace::{OpenError, ProcessId, Trace};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Raised when a field of the JSON changes its meaning.
const SCHEMA: u32 = 1;
/// Functions printed.
const MOST: usize = 20;

/// Compare two recordings, or heap profiles of pprof: which functions hold, leak or allocate more, or less.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold diff before.fht after.fht
  freehold diff before.fht after.fht --json | jq '.changes[0]'
  freehold diff monday.pb.gz tuesday.pb.gz

What `freehold import` reads (heaptrack's files, profiles of pprof) is imported for the time of the comparison. Both recordings need call stacks. Functions are matched by name, module and source file; their lines are added up,
because lines move. A change of less than 1 % of the whole is left out. Of several processes those
with the highest peaks are compared.

Exit status: 0 both were read, changed or not; 1 one is damaged (what is sound was compared) or cannot be read.")]
pub struct Args {
    /// The earlier recording.
    before: PathBuf,
    /// The later recording.
    after: PathBuf,
    /// Print JSON, with every function that changed.
    #[arg(long)]
    json: bool,
}

/// The JSON.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    files: [&'a Path; 2],
    #[serde(flatten)]
    difference: &'a Difference,
}

/// Compares and prints.
pub fn run(args: Args) -> Result<ExitCode> {
    let stop = ui::interrupted();
    let interrupted = Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
    let Some((before, sound)) = read(&args.before, &stop)? else { return interrupted };
    let Some((after, also_sound)) = read(&args.after, &stop)? else { return interrupted };
    let found = difference(&before, &after);
    if args.json {
        let files = [args.before.as_path(), &args.after];
        let document = Document { schema: SCHEMA, files, difference: &found };
        write_json(&mut io::stdout().lock(), &document).context("cannot print")?;
    } else {
        ui::print(page(&found))?;
    }
    Ok(if sound && also_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The sites of the process with the highest peak, and whether the trace is sound; none when interrupted.
fn read(path: &Path, stop: &AtomicBool) -> Result<Option<(Sites, bool)>> {
    let folder = tempfile::tempdir().context("no folder for what is imported")?;
    let Some(trace) = open(path, &folder.path().join("imported.fht"), stop)? else {
        return Ok(None);
    };
    if !trace.has_stacks() {
        bail!("{} has no call stacks: record it with --stacks allocations", path.display());
    }
    let mut progress = ui::Progress::new("reading");
    let mut told = |done, total| progress.set(done, total);
    let (mut highest, mut peak) = (ProcessId(0), 0);
    let mut seen = |process: profile::ProcessProfile| {
        if process.figures.peak.bytes > peak {
            (highest, peak) = (process.process.id, process.figures.peak.bytes);
        }
        true
    };
    let Some(profile) = profile::profile(&trace, None, &mut seen, &mut told, stop)? else {
        return Ok(None);
    };
    let sites = sites::sites(&trace, highest, &mut told, stop)?;
    Ok(sites.map(|sites| {
        let damage = profile.damage.iter().chain(&sites.damage);
        let told = damage.map(|damage| eprintln!("freehold: {}: {damage}", path.display())).count();
        (sites, told == 0)
    }))
}

/// The recording; of another tool's file, what `imported` holds of it afterwards. None when interrupted.
fn open(path: &Path, imported: &Path, stop: &AtomicBool) -> Result<Option<Trace>> {
    let foreign = match Trace::open(path) {
        Err(foreign @ OpenError::NotATrace { .. }) => foreign,
        opened => return Ok(Some(opened?)),
    };
    let mut bar = ui::Progress::new("importing");
    let mut control = Control { progress: &mut |done, total| bar.set(done, total), stop };
    match import(path, imported, None, &mut control) {
        Ok(_) => Ok(Some(Trace::open(imported)?)),
        Err(ImportError::Interrupted) => Ok(None),
        Err(ImportError::Unknown { .. }) => Err(foreign.into()),
        Err(error) => Err(error.into()),
    }
}

fn page(found: &Difference) -> String {
    let mut page = String::new();
    for (name, what) in FIGURES {
        let (before, after) = (what(&found.before), what(&found.after));
        page += &format!(
            "{:<12} {:>10} before, {:>10} after: {}\n",
            name,
            human::bytes(before),
            human::bytes(after),
            signed(before, after)
        );
    }
    if found.changes.is_empty() {
        return page + "\nNo function changed by 1 % of the whole.\n";
    }
    page +=
        &format!("\n{:>11} {:>11} {:>11}  function\n", FIGURES[0].0, FIGURES[1].0, FIGURES[2].0);
    for change in found.changes.iter().take(MOST) {
        page += &line(change);
    }
    if found.changes.len() > MOST {
        page += &format!("… and {} more functions (with --json)\n", found.changes.len() - MOST);
    }
    page
}

fn line(change: &Change) -> String {
    let [peak, leaked, allocated] =
        FIGURES.map(|(_, what)| signed(what(&change.before), what(&change.after)));
    let name: String =
        change.text().chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    format!("{peak:>11} {leaked:>11} {allocated:>11}  {name}\n")
}

/// By how much something grew or shrank.
fn signed(before: u64, after: u64) -> String {
    match after.cmp(&before) {
        std::cmp::Ordering::Equal => "=".to_owned(),
        std::cmp::Ordering::Greater => format!("+{}", human::bytes(after - before)),
        std::cmp::Ordering::Less => format!("-{}", human::bytes(before - after)),
    }
}
