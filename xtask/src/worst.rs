//! `cargo xtask worst`: the longest call of an allocator, in instructions, as adversaries find it.
//!
//! ```text
//! step          counts the instructions of one call
//! subject       who is measured: three functions of a library
//! adversaries   programs that look for the worst call
//! recorded      a recorded program, as one more
//! loops         which functions hold a loop, from the disassembly
//! ```
//!
//! A counted call is counted to the instruction; programs that must make many calls to get anywhere have one in
//! so many counted. The same programs, seeds, calls and heap lengths for everyone; a peer is named with its functions by
//! `--peer` and must be built outside of the project.

mod adversaries;
mod loops;
mod recorded;
mod step;
mod subject;

use crate::bench::raw::Raw;
use crate::bench::table::Table;
use crate::bench::{facts, peers, place};
use adversaries::{ADVERSARIES, Adversary};
use anyhow::Context;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use step::Stepper;
use subject::{Player, Subject, Worst};

/// The functions of our two modes.
const FAST: [&str; 3] = ["freehold_fast_create", "freehold_fast_malloc", "freehold_fast_free"];
const STRICT: [&str; 3] =
    ["freehold_strict_create", "freehold_strict_malloc", "freehold_strict_free"];

/// Functions that run only when another thread has freed a block, and so apart from the bounds of the others.
const TAKING_IN: [&str; 2] = ["malloc_slow", "take_in"];

/// Names in the table that are looked for and missed.
const KNOWN: [&str; 3] = ["tlsf", "o1heap", "rlsf"];

/// What to measure.
#[derive(Args)]
#[command(after_help = "Examples:
  cargo xtask worst
  cargo xtask worst --peer tlsf=./libtlsf.so:tlsf_create_with_pool,tlsf_malloc,tlsf_free \\
                    --peer o1heap=./libo1heap.so:o1heapInit,o1heapAllocate,o1heapFree
  freehold export app.fht --format csv -o app.csv && cargo xtask worst --trace app.csv

A peer is a library and its functions create(memory, size), malloc(heap, size), free(heap, block).")]
pub struct Options {
    /// A further allocator: NAME=LIBRARY:CREATE,MALLOC,FREE.
    #[arg(long = "peer", value_name = "PEER", value_parser = peer)]
    peers: Vec<Peer>,
    /// A recorded program as CSV; may be given several times.
    #[arg(long = "trace", value_name = "FILE")]
    traces: Vec<PathBuf>,
    /// Calls of a program that are counted, about. An instruction takes a microsecond, or 30 on some virtual machines.
    #[arg(long, default_value_t = 1_000)]
    calls: usize,
    /// Only these allocators, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Where the raw results go.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A peer as it was named.
#[derive(Clone)]
struct Peer {
    name: String,
    library: PathBuf,
    functions: [String; 3],
}

fn peer(text: &str) -> Result<Peer, String> {
    let wrong = || format!("{text}: not NAME=LIBRARY:CREATE,MALLOC,FREE");
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    let (library, functions) = rest.rsplit_once(':').ok_or_else(wrong)?;
    let functions: Vec<String> = functions.split(',').map(str::to_owned).collect();
    let functions = functions.try_into().map_err(|_| wrong())?;
    Ok(Peer { name: name.to_owned(), library: library.into(), functions })
}

/// Measures, prints a table, and writes every program's figures.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut stepper = Stepper::new().context("instructions are counted on x86-64 Linux only")?;
    let place = place::open()?;
    let library = peers::freehold(&place)?.library;
    let mut subjects = ours(&library)?;
    for Peer { name, library, functions: [create, malloc, free] } in &options.peers {
        subjects.push(Subject::of(name, library, [create, malloc, free])?);
    }
    subjects.push(Subject::libc());
    subjects.retain(|one| options.only.is_empty() || options.only.contains(&one.name));
    anyhow::ensure!(!subjects.is_empty(), "none of --only {} is there", options.only.join(","));
    let date = facts::date();
    let default = crate::sources::root().join(format!("bench/results/{date}-worst.jsonl"));
    let mut raw = Raw::create(options.output.as_deref().unwrap_or(&default), &head(options))?;
    let mut table = Table::new(
        "Instructions of the longest call: malloc/free",
        ["program".to_owned()].into_iter().chain(subjects.iter().map(|one| one.name.clone())),
    );
    let mut total = vec![Worst::default(); subjects.len()];
    let mut row = |name: &str, cells: Vec<Option<Worst>>| {
        for (total, cell) in total.iter_mut().zip(&cells) {
            *total = total.max(cell.unwrap_or_default());
        }
        let shown = cells.iter().map(|cell| cell.map_or("failed".to_owned(), shown));
        table.push([name.to_owned()].into_iter().chain(shown));
    };
    for adversary in ADVERSARIES {
        eprintln!("{}", adversary.name);
        let mut cells = Vec::new();
        for subject in &subjects {
            let worst = play(subject, &mut stepper, adversary, options.calls);
            raw.push(&record(adversary.name, subject, adversary.len, &worst))?;
            cells.push(worst.ok());
        }
        row(adversary.name, cells);
    }
    for trace in &options.traces {
        let asks = recorded::read(trace)?;
        let stride = (asks.len() / options.calls.max(1)).max(1);
        let name = trace.file_stem().map_or("trace".into(), |name| name.to_string_lossy());
        let len = recorded::needs(&asks);
        eprintln!("{name}");
        let mut cells = Vec::new();
        for subject in &subjects {
            let worst = Player::new(subject, &mut stepper, len, stride).map(|mut player| {
                recorded::play(&mut player, &asks);
                player.worst
            });
            raw.push(&record(&name, subject, len, &worst))?;
            cells.push(worst.ok());
        }
        row(&name, cells);
    }
    table.push(["worst of all".to_owned()].into_iter().chain(total.iter().map(|&one| shown(one))));
    print!("{}", table.render());
    for name in KNOWN.iter().filter(|name| !options.peers.iter().any(|peer| peer.name == **name)) {
        println!("{name} was not measured: name it with --peer (see --help)");
    }
    print!("{}", told_loops(&library)?);
    println!("raw data: {}", raw.finish()?.display());
    Ok(ExitCode::SUCCESS)
}

/// The worst of about `calls` counted calls of an adversary.
fn play(
    subject: &Subject,
    stepper: &mut Stepper,
    adversary: &Adversary,
    calls: usize,
) -> anyhow::Result<Worst> {
    let mut player = Player::new(subject, stepper, adversary.len, adversary.stride)?;
    (adversary.run)(&mut player, calls * adversary.stride);
    Ok(player.worst)
}

/// Our two modes, out of libfreehold.so.
fn ours(library: &Path) -> anyhow::Result<Vec<Subject>> {
    Ok(vec![
        Subject::of("freehold fast", library, FAST)?,
        Subject::of("freehold strict", library, STRICT)?,
    ])
}

fn shown(worst: Worst) -> String {
    format!("{}/{}", worst.malloc, worst.free)
}

fn head(options: &Options) -> serde_json::Value {
    let command: Vec<String> = std::env::args().skip(1).collect();
    json!({
        "kind": "head",
        "command": format!("cargo xtask {}", command.join(" ")),
        "commit": facts::commit(),
        "date": facts::date(),
        "calls": options.calls,
        "method": "trap flag: every instruction from the function's first to its return",
    })
}

fn record(
    program: &str,
    subject: &Subject,
    len: usize,
    worst: &anyhow::Result<Worst>,
) -> serde_json::Value {
    let known = worst.as_ref().ok();
    json!({
        "kind": "worst",
        "program": program,
        "allocator": subject.name,
        "heap_bytes": len,
        "malloc": known.map(|worst| worst.malloc),
        "free": known.map(|worst| worst.free),
        "calls": known.map(|worst| worst.calls),
        "failure": worst.as_ref().err().map(|why| format!("{why:#}")),
    })
}

/// How long our calls can be by their code, and the loops that they can reach, function by function.
fn told_loops(library: &Path) -> anyhow::Result<String> {
    let Some(functions) = loops::functions(library)? else {
        return Ok("loops were not looked for: there is no objdump here\n".to_owned());
    };
    let mut text = String::new();
    for root in [FAST[1], FAST[2], STRICT[1], STRICT[2]] {
        let found = loops::loops_below(&functions, root)?;
        let found: Vec<String> = found.iter().map(|(name, n)| format!("{n} in {name}")).collect();
        let loops = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
        let longest = loops::longest(&functions, root, &TAKING_IN);
        let longest = longest.map_or("unknown".to_owned(), |longest| longest.to_string());
        text += &format!(
            "{root}: {longest} instructions on its longest path, taking in apart; loops below: {loops}\n"
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
