//! `cargo xtask pages`: the page allocations of a real kernel, recorded in a guest.
//!
//! A stock kernel boots under emulation (`crates/guest`), does what `pages/work.sh` says, and prints its own events
//! `kmem:mm_page_alloc` and `kmem:mm_page_free`. `freehold study banks --trace` reads them.

use crate::bench::place;
use anyhow::{Context, ensure};
use clap::Args;
use freehold_guest::{Bytes, Job, Kernel, Machine};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// What the guest does.
const WORK: &str = include_str!("pages/work.sh");
/// What its compiler compiles, in the project's folder.
const SOURCE: &str = "studies/fragmentation/words.cc";
/// Emulation on a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Where to put what the kernel says.
#[derive(Args)]
#[command(after_help = "Example:
  cargo xtask pages --out kernel.txt
  freehold study banks --trace kernel.txt        (also writes it as a page trace: study-banks/recording.pages)

Needs what `cargo xtask guest` needs, and g++. Takes some ten minutes; another run is another recording.")]
pub struct Options {
    /// The events as text, as the kernel prints them.
    #[arg(short, long, value_name = "FILE", default_value = "kernel.txt")]
    out: PathBuf,
}

/// Boots, works, and writes the events.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let place = place::open()?;
    let kernel = Kernel::find(&place.target.join("guest"))?;
    let folder = tempfile::tempdir().context("a folder for the guest's source")?;
    let source = folder.path().join("words.ii");
    let words = crate::sources::root().join(SOURCE);
    output(Command::new("g++").arg("-E").arg(words).arg("-o").arg(&source))?;
    let compiler = output(Command::new("g++").arg("-print-prog-name=cc1plus"))?;
    let machine = Machine::even(1, 2, Bytes(1 << 30))?;
    let mut job = Job::new(machine, WORK);
    job.files.push((Path::new(compiler.trim()).to_owned(), "/cc1plus".to_owned()));
    job.files.push((source, "/words.ii".to_owned()));
    job.patience = PATIENCE;
    let done = job.run(&kernel)?;
    eprint!("{}", done.stderr);
    let lost = done
        .stderr
        .lines()
        .any(|line| line.strip_prefix("dropped events: ").is_some_and(|count| count.trim() != "0"));
    ensure!(!lost, "the kernel dropped events: its buffer was read too slowly");
    std::fs::write(&options.out, &done.stdout)
        .with_context(|| format!("{} cannot be written", options.out.display()))?;
    let events = done.stdout.lines().filter(|line| line.contains(": mm_page_")).count();
    println!("{events} events in {}", options.out.display());
    Ok(ExitCode::SUCCESS)
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?} cannot be started"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {complaint}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
