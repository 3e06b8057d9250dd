//! `cargo xtask nodes`: what the tests in guests with several memories measure, kept as a file of results.

use crate::bench::{facts, raw::Raw};
use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The tests that keep figures, as (package, test): placement beside other mallocs, a node that is full, huge pages, leaving
/// a node, unplugging.
const TESTS: [(&str, &str); 5] = [
    ("freehold-guest", "placement"),
    ("freehold-guest", "full"),
    ("freehold-guest", "purged"),
    ("freehold-guest", "vacate"),
    ("freehold-cli", "hotplug_guest"),
];

/// Which, and where to.
#[derive(Args)]
#[command(after_help = "Example:
  cargo xtask nodes --out nodes.jsonl

Every test must pass. Figures are byte counts of an emulated kernel: they depend little on how busy this machine is.")]
pub struct Options {
    /// Tests by name, parted by commas, instead of all.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The file; else bench/results/nodes.jsonl, which it replaces.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the chore.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let results = crate::sources::root().join("bench/results");
    let out = options.out.clone();
    let out = out.unwrap_or_else(|| results.join("nodes.jsonl"));
    let mut raw = Raw::create(&out, &head())?;
    let figures = out.with_extension(format!("figures-{}", std::process::id()));
    for (package, test) in TESTS {
        if options.only.is_empty() || options.only.iter().any(|only| only == test) {
            keep(package, test, &figures, &mut raw)?;
        }
    }
    println!("{}", raw.finish()?.display());
    Ok(ExitCode::SUCCESS)
}

fn head() -> Value {
    json!({
        "kind": "head",
        "date": facts::date(),
        "command": std::env::args().skip(1).collect::<Vec<_>>(),
        "commit": facts::commit(),
        "guest": "Debian's cloud kernel under QEMU's emulation; bytes unless the name says otherwise",
    })
}

/// Runs one test and keeps what it has measured.
fn keep(package: &str, test: &str, figures: &Path, raw: &mut Raw) -> anyhow::Result<()> {
    let figures = std::path::absolute(figures)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["test", "--package", package, "--test", test, "--", "--test-threads", "1"])
        .current_dir(crate::sources::root())
        // A tool that is missing is an error here.
        .env("CI", "true")
        .env("FREEHOLD_FIGURES", &figures)
        .status()
        .context("cargo cannot be started")?;
    let text = std::fs::read_to_string(&figures).unwrap_or_default();
    let _ = std::fs::remove_file(&figures);
    anyhow::ensure!(status.success(), "{test} failed");
    anyhow::ensure!(!text.is_empty(), "{test} measured nothing");
    for line in text.lines() {
        raw.push(&serde_json::from_str(line).with_context(|| format!("{test}: {line}"))?)?;
    }
    Ok(())
}
