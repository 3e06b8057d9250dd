//! `cargo xtask bench-recorder`: what recording costs, beside no tool, heaptrack and glibc's mtrace.
//!
//! Every round runs each program once under each tool, in an order that moves by one from round to
//! round, so that slow spells of the machine meet all tools alike. Raw data always stays. A tool or a
//! program that is not there is said aloud and left out.

use super::{facts, raw::Raw, stats};
use crate::sources;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// How often, and where to.
#[derive(clap::Args)]
pub struct Options {
    /// Rounds, after one that is not counted.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Only programs whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Pairs of malloc and free a thread in the pair loop.
    #[arg(long, default_value_t = 3_000_000)]
    pairs: u64,
    /// Where the raw data goes.
    #[arg(long, default_value = "bench/results/recorder.jsonl")]
    out: PathBuf,
}

const TOOLS: [&str; 4] = ["none", "freehold", "heaptrack", "mtrace"];

/// The folders and the tools.
struct Bench {
    sources: PathBuf,
    scratch: PathBuf,
    freehold: PathBuf,
}

/// A program: how its command line is made from a tool's words, and what its number means.
struct Program {
    name: &'static str,
    unit: &'static str,
    command: fn(&Bench, &Options, &[String]) -> Vec<String>,
}

const PROGRAMS: [Program; 6] = [
    Program { name: "pair-1", unit: "ns/event", command: |b, o, tool| pair(b, o, tool, "1") },
    Program { name: "pair-2", unit: "ns/event", command: |b, o, tool| pair(b, o, tool, "2") },
    Program {
        name: "python3",
        unit: "s",
        command: |b, _, tool| after(tool, &["python3", &b.source("python.py")]),
    },
    Program {
        name: "gcc",
        unit: "s",
        command: |b, _, tool| {
            after(tool, &["g++", "-O2", "-c", "-o", &b.made("out.o"), &b.source("compile.cc")])
        },
    },
    Program {
        name: "sqlite3",
        unit: "s",
        command: |b, _, tool| {
            after(tool, &["sqlite3", ":memory:", &format!(".read {}", b.source("table.sql"))])
        },
    },
    Program {
        name: "redis",
        unit: "s",
        command: |b, _, tool| {
            let script = b.source("redis.sh");
            let scratch = b.scratch.display().to_string();
            after(&[script, scratch, "40000".into()], &as_strs(tool))
        },
    },
];

fn pair(bench: &Bench, options: &Options, tool: &[String], threads: &str) -> Vec<String> {
    after(tool, &[&bench.made("pair"), threads, &options.pairs.to_string()])
}

fn after(words: &[String], more: &[&str]) -> Vec<String> {
    words.iter().cloned().chain(more.iter().map(|&word| word.to_owned())).collect()
}

fn as_strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

impl Bench {
    fn source(&self, name: &str) -> String {
        self.sources.join(name).display().to_string()
    }

    fn made(&self, name: &str) -> String {
        self.scratch.join(name).display().to_string()
    }

    /// The words before the program's.
    fn tool(&self, tool: &str) -> Vec<String> {
        match tool {
            "freehold" => {
                let freehold = self.freehold.display().to_string();
                after(&[freehold], &["record", "--json", "-o", &self.made("t.fht"), "--"])
            }
            "heaptrack" => {
                after(&[], &["heaptrack", "--record-only", "-o", &self.made("heaptrack")])
            }
            "mtrace" => {
                let preload =
                    format!("LD_PRELOAD=libc_malloc_debug.so.0:{}", self.made("mtrace.so"));
                let file = format!("MALLOC_TRACE={}", self.made("mtrace.txt"));
                after(&[], &["env", &preload, &file])
            }
            _ => Vec::new(),
        }
    }

    fn open() -> anyhow::Result<Bench> {
        let root = sources::root();
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let bench = Bench {
            sources: root.join("bench/recorder"),
            scratch: target.join("bench-recorder"),
            freehold: target.join("release/freehold"),
        };
        std::fs::create_dir_all(&bench.scratch)?;
        must("cargo", &["build", "--release", "--quiet", "-p", "freehold-cli"])?;
        let (pair, shim) = (bench.made("pair"), bench.made("mtrace.so"));
        must("cc", &["-O2", "-fno-builtin", "-pthread", "-o", &pair, &bench.source("pair.c")])?;
        must("cc", &["-O2", "-shared", "-fPIC", "-o", &shim, &bench.source("mtrace.c")])?;
        Ok(bench)
    }

    /// One run: the number measured, and what the recorder said of itself.
    fn run(
        &self,
        program: &Program,
        options: &Options,
        tool: &str,
    ) -> anyhow::Result<(f64, Value)> {
        let words = (program.command)(self, options, &self.tool(tool));
        let (first, rest) = words.split_first().context("a program has a name")?;
        let begun = Instant::now();
        let output = Command::new(first).args(rest).stdin(Stdio::null()).output();
        let wall = begun.elapsed().as_secs_f64();
        let output = output.with_context(|| format!("{first} cannot be run"))?;
        if !output.status.success() {
            bail!("{words:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        Ok((measured(&output).unwrap_or(wall), said(&output)))
    }
}

fn must(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new(program).args(arguments).current_dir(sources::root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("{program} {arguments:?}: {status}"),
        Err(error) => bail!("{program} cannot be run: {error}"),
    }
}

/// The number that a program measured itself.
fn measured(output: &Output) -> Option<f64> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().find_map(|line| line.strip_prefix("measured ")?.trim().parse().ok())
}

/// The summary of `freehold record --json`.
fn said(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.starts_with('{'));
    line.and_then(|line| serde_json::from_str(line).ok()).unwrap_or(Value::Null)
}

/// Whether a tool or program is installed.
fn is_there(name: &str) -> bool {
    let found = match name {
        "none" | "freehold" | "pair-1" | "pair-2" => true,
        "mtrace" => {
            Path::new("/usr/lib/x86_64-linux-gnu/libc_malloc_debug.so.0").exists()
                || Path::new("/usr/lib64/libc_malloc_debug.so.0").exists()
        }
        _ => {
            let program = match name {
                "redis" => "redis-server",
                "gcc" => "g++",
                other => other,
            };
            let paths = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&paths).any(|folder| folder.join(program).exists())
        }
    };
    if !found {
        println!("left out: {name} is not installed");
    }
    found
}

/// Measures, prints the medians, keeps the raw data.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let bench = Bench::open()?;
    let tools: Vec<&str> = TOOLS.into_iter().filter(|tool| is_there(tool)).collect();
    let head = facts::head(&[], usize::from(options.runs), false);
    let mut raw = Raw::create(&sources::root().join(&options.out), &head)?;
    for program in PROGRAMS.iter().filter(|program| program.name.contains(&options.only)) {
        if !is_there(program.name) {
            continue;
        }
        let mut numbers: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut bytes = Vec::new();
        for round in 0..=usize::from(options.runs) {
            for step in 0..tools.len() {
                let tool = tools[(round + step) % tools.len()];
                let (number, summary) = bench.run(program, options, tool)?;
                let counted = round > 0;
                raw.push(&json!({
                    "kind": "run", "program": program.name, "tool": tool, "round": round,
                    "counted": counted, "unit": program.unit, "value": number, "summary": summary,
                }))?;
                if counted {
                    numbers.entry(tool).or_default().push(number);
                    bytes.extend(bytes_per_event(&summary));
                }
            }
        }
        print(program, &tools, &numbers, &bytes);
    }
    println!("raw data: {}", raw.finish()?.display());
    Ok(())
}

fn bytes_per_event(summary: &Value) -> Option<f64> {
    let events = summary["events"].as_f64().filter(|&events| events > 0.0)?;
    Some(summary["bytes"].as_f64()? / events)
}

fn print(program: &Program, tools: &[&str], numbers: &BTreeMap<&str, Vec<f64>>, bytes: &[f64]) {
    let none = stats::median(&numbers["none"]);
    println!("{}", program.name);
    for tool in tools {
        let median = stats::median(&numbers[tool]);
        let cost = match program.unit {
            "ns/event" => format!("{:+.1} ns/event", median - none),
            _ => format!("{:.2} x", median / none),
        };
        println!("  {tool:10} {median:10.3} {:8}  {cost}", program.unit);
    }
    if !bytes.is_empty() {
        println!("  {:.2} bytes an event on disk", stats::median(bytes));
    }
}
