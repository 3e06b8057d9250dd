//! `freehold probe`: measurements of the machine one sits at.

use crate::ui;
use anyhow::Result;
use freehold_lab::human;
use freehold_lab::probe::tlb::{self, Measured, ProbeError};
use freehold_lab::results::{Output, write_json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure what this machine's pages cost.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold probe tlb                       do huge pages extend the TLB's reach here?
  freehold probe tlb --most 1024 --json")]
pub struct Args {
    #[command(subcommand)]
    probe: Probe,
}

/// One line a probe.
#[derive(clap::Subcommand)]
enum Probe {
    Tlb(Tlb),
}

/// Time strided and random accesses with and without transparent huge pages.
///
/// One line of every 4 KiB page of a buffer is touched, so caches see the same either way and only
/// translation differs. The verdict is about this machine, now: under many hypervisors huge pages of
/// a guest do not reach the TLB.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold probe tlb
  freehold probe tlb --most 1024 -o tlb.html
  freehold probe tlb --json")]
struct Tlb {
    /// Longest buffer in MiB (two of it are needed).
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    most: u64,
    /// The report, with plots.
    #[arg(short, long, value_name = "FILE", default_value = "probe-tlb.html")]
    output: PathBuf,
    /// Print the measurement as JSON (schema version 1: crates/lab/src/probe/tlb.rs).
    #[arg(long)]
    json: bool,
}

/// Runs the probe.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.probe {
        Probe::Tlb(args) => probe_tlb(&args),
    }
}

fn probe_tlb(args: &Tlb) -> Result<ExitCode> {
    let report = Output::at(&args.output)?;
    let interrupted = ui::interrupted();
    let mut bar = ui::Progress::new("measuring");
    let measured = match tlb::measure(args.most, &mut |done, of| bar.set(done, of), &interrupted) {
        Ok(measured) => measured,
        Err(ProbeError::Interrupted) => return Ok(ExitCode::from(ui::EXIT_INTERRUPTED)),
        Err(error) => return Err(error.into()),
    };
    drop(bar);
    let page = tlb::page(&measured, &format!("freehold probe tlb --most {}", args.most));
    report.write(|to| to.write_all(page.as_bytes()))?;
    if args.json {
        write_json(&mut std::io::stdout().lock(), &measured)?;
    } else {
        print(&measured, args)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(measured: &Measured, args: &Tlb) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:>10} {:>22} {:>22} {:>14}",
        "buffer", "strided, 4 KiB / huge", "random, 4 KiB / huge", "on huge pages"
    )?;
    for point in &measured.points {
        let pair = |small: f64, huge: f64| format!("{small:.1} / {huge:.1} ns");
        writeln!(
            out,
            "{:>10} {:>22} {:>22} {:>13.0} %",
            human::bytes(point.bytes),
            pair(point.small.strided_ns, point.huge.strided_ns),
            pair(point.small.random_ns, point.huge.random_ns),
            point.huge_share * 100.0
        )?;
    }
    measured.sentences().iter().try_for_each(|sentence| writeln!(out, "{sentence}"))?;
    writeln!(out, "\nWith plots: {}", args.output.display())?;
    Ok(())
}
