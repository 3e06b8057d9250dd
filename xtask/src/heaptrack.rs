//! `cargo xtask heaptrack`: the sites that have most, by a recording of ours and by heaptrack's of the same program.
//!
//! heaptrack's file is imported with its call stacks, so both are folded into sites by the same rules: what differs is who walked the
//! stacks and who counted. Programs run without address randomisation and with fixed hashes, because the order of a hash table decides what is
//! alive at the peak.
//!
//! Sites are compared by function, where both know it (the two resolve lines of inlined code differently); else by module, because
//! heaptrack gives stripped code the names of other libraries (`gammal_positive` in libsqlite3). What the C++ runtime allocates in programs that are not
//! C++ is left out: heaptrack brings it along.

use crate::bench::{facts, raw::Raw};
use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// How far a site's bytes may lie apart, of heaptrack's.
const NEAR: f64 = 0.02;
/// Sites that are compared.
const MOST: usize = 10;
/// How the file of the C++ runtime begins.
const CXX_RUNTIME: &str = "libstdc++";
/// Real programs with something to do.
const PROGRAMS: [(&str, &[&str]); 5] = [
    (
        "python3",
        &[
            "/usr/bin/python3",
            "-c",
            "import json; kept = [json.dumps(list(range(n % 97))) for n in range(40000)]; print(len(kept))",
        ],
    ),
    (
        "sqlite3",
        &[
            "sqlite3",
            ":memory:",
            "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 100000) \
             insert into t select x, hex(x) || 'abcdefgh' from c; create index i on t(b); select count(*) from t;",
        ],
    ),
    (
        "perl",
        &["perl", "-e", "my %h; $h{$_ % 5000} .= 'x' x ($_ % 50) for 1..200000; print scalar %h"],
    ),
    ("git", &["git", "log", "--oneline", "--stat", "-n", "60"]),
    ("objdump", &["objdump", "-dC", "/usr/bin/perl"]),
];

/// Which, by what, and where to.
#[derive(Args)]
#[command(after_help = "Example:
  cargo xtask heaptrack --only perl,sqlite3

Needs heaptrack (Debian has it) and the programs. Fails if a site of heaptrack's ten with most at the peak, or never freed, has other bytes by ours \
(2 %).")]
pub struct Options {
    /// Programs by name, parted by commas, instead of all.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The command to record with, instead of one that is built for it.
    #[arg(long, value_name = "FILE")]
    freehold: Option<PathBuf>,
    /// The file of results; else bench/results/heaptrack-sites.jsonl, which it replaces.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Bytes by function.
type Bytes = BTreeMap<String, u64>;

/// Runs the chore.
///
/// # Errors
/// When a program or tool cannot be run.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let root = crate::sources::root();
    let results = root.join("bench/results/heaptrack-sites.jsonl");
    let mut raw = Raw::create(options.out.as_ref().unwrap_or(&results), &head())?;
    let freehold = match &options.freehold {
        Some(file) => std::path::absolute(file)?,
        None => built()?,
    };
    let mut all_near = true;
    for (name, words) in PROGRAMS {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
            continue;
        }
        let folder = tempfile::tempdir()?;
        let (theirs, ours) = (folder.path().join("theirs.fht"), folder.path().join("ours.fht"));
        by_heaptrack(&freehold, words, folder.path(), &theirs)?;
        by_freehold(&freehold, words, &ours)?;
        let (theirs, ours) = (sites(&freehold, &theirs)?, sites(&freehold, &ours)?);
        for (what, field) in [("at the peak", "peak_bytes"), ("never freed", "leaked_bytes")] {
            let common = common(&theirs, &ours);
            let rows = beside(&by_name(&theirs, field, &common), &by_name(&ours, field, &common));
            for (function, theirs, ours) in rows {
                let near = ours.abs_diff(theirs) as f64 <= theirs as f64 * NEAR;
                all_near &= near;
                let mark = if near { "" } else { "  APART" };
                println!("{name:8} {what:12} {theirs:>12} {ours:>12}  {function}{mark}");
                raw.push(&json!({
                    "kind": "site", "program": name, "what": what, "function": function,
                    "heaptrack": theirs, "freehold": ours, "near": near,
                }))?;
            }
        }
    }
    println!("{}", raw.finish()?.display());
    Ok(if all_near { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn head() -> Value {
    json!({
        "kind": "head",
        "date": facts::date(),
        "command": "cargo xtask heaptrack",
        "commit": facts::commit(),
        "bytes": "of functions, folded by the same rules; the ten with most by heaptrack",
    })
}

fn built() -> anyhow::Result<PathBuf> {
    let build = ["build", "--release", "--quiet", "--bin", "freehold"];
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    must(Command::new(cargo).args(build).current_dir(crate::sources::root()))?;
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| crate::sources::root().join("target"), PathBuf::from);
    Ok(target.join("release/freehold"))
}

/// The same addresses and hashes each time.
fn steady(first: &Path) -> Command {
    let mut command = Command::new("setarch");
    command.arg("-R").arg(first).current_dir(crate::sources::root()).stdin(Stdio::null());
    command.env("PYTHONHASHSEED", "0").env("PERL_HASH_SEED", "0").env("PERL_PERTURB_KEYS", "0");
    command
}

fn by_heaptrack(freehold: &Path, words: &[&str], folder: &Path, to: &Path) -> anyhow::Result<()> {
    let base = folder.join("heaptrack");
    must(steady(Path::new("heaptrack")).arg("-o").arg(&base).args(words))?;
    let left = ["zst", "gz"].map(|ending| base.with_extension(ending));
    let file = left.iter().find(|file| file.exists()).context("heaptrack left no file")?;
    must(Command::new(freehold).arg("import").arg(file).arg("-o").arg(to))
}

fn by_freehold(freehold: &Path, words: &[&str], to: &Path) -> anyhow::Result<()> {
    must(steady(freehold).args(["record", "-q", "-o"]).arg(to).arg("--").args(words))
}

fn must(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?} cannot be run"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    Ok(())
}

/// The sites of the process with most memory.
fn sites(freehold: &Path, trace: &Path) -> anyhow::Result<Value> {
    let output = Command::new(freehold).args(["info", "--json"]).arg(trace).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let mut info: Value =
        serde_json::from_slice(&output.stdout).with_context(|| said.into_owned())?;
    Ok(info["sites"]["sites"].take())
}

/// The functions with names that both have as sites.
fn common(theirs: &Value, ours: &Value) -> BTreeSet<String> {
    let functions = |sites: &Value| -> BTreeSet<String> {
        let all = sites.as_array().into_iter().flatten();
        all.filter_map(|site| site["function"].as_str()).map(bare).collect()
    };
    functions(theirs).intersection(&functions(ours)).cloned().collect()
}

fn by_name(sites: &Value, field: &str, common: &BTreeSet<String>) -> Bytes {
    let mut bytes = Bytes::new();
    for site in sites.as_array().into_iter().flatten() {
        let function = bare(site["function"].as_str().unwrap_or("?"));
        let module = site["module"].as_str().unwrap_or("?");
        let name = if common.contains(&function) { function } else { module.to_owned() };
        if module.starts_with(CXX_RUNTIME) {
            continue;
        }
        *bytes.entry(name).or_default() += site[field].as_u64().unwrap_or(0);
    }
    bytes
}

/// A function without its arguments.
fn bare(function: &str) -> String {
    function.split('(').next().unwrap_or(function).to_owned()
}

/// The functions that have most by heaptrack, with both counts.
fn beside(theirs: &Bytes, ours: &Bytes) -> Vec<(String, u64, u64)> {
    let mut most: Vec<(&String, u64)> = theirs.iter().map(|(name, bytes)| (name, *bytes)).collect();
    most.retain(|(_, bytes)| *bytes > 0);
    most.sort_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), *name));
    let both = |(name, bytes): &(&String, u64)| {
        ((*name).clone(), *bytes, ours.get(*name).copied().unwrap_or(0))
    };
    most.iter().take(MOST).map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_compared_by_function() {
        let site = |function: &str, module: &str, bytes: u64| json!({ "function": function, "module": module, "peak_bytes": bytes });
        let theirs = json!([
            site("grow(int)", "app", 10),
            site("grow(long)", "app", 5),
            site("sinhl", "libx.so", 20),
            site("pool", "libstdc++.so.6", 72704),
            site("idle", "app", 0),
        ]);
        let ours = json!([site("grow(int)", "app", 15), site("libx.so+0x99", "libx.so", 21)]);
        let common = common(&theirs, &ours);
        let of = |sites| by_name(sites, "peak_bytes", &common);
        let told = [("libx.so".to_owned(), 20, 21), ("grow".to_owned(), 15, 15)];
        assert_eq!(beside(&of(&theirs), &of(&ours)), told);
    }
}
