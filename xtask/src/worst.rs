//! `cargo xtask worst`: the longest call of an allocator, in instructions, as adversaries find it. Who counts them is
//! `freehold-stepper`.
//!
//! ```text
//! lines         the lines of cache that they touch
//! cold          cycles of a call that finds nothing in the caches
//! subject       who is measured: three functions of a library
//! adversaries   programs that look for the worst call
//! recorded      a recorded program, as one more
//! loops         which functions hold a loop, from the disassembly
//! ```
//!
//! A counted call is counted to the instruction; programs that must make many calls to get anywhere have one in
//! so many counted. The same programs, seeds, calls and heap lengths for everyone; a peer is named with its functions by
//! `--peer` and must be built outside of the project.

pub mod adversaries;
mod cold;
mod lines;
pub mod loops;
mod recorded;
pub mod subject;

use crate::bench::raw::Raw;
use crate::bench::table::Table;
use crate::bench::{facts, peers, place};
use adversaries::{ADVERSARIES, Adversary};
use anyhow::Context;
use clap::Args;
use cold::{Cold, Spread};
use freehold_stepper::Stepper;
use recorded::Ask;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use subject::{Gauge, Most, Player, Subject, Worst};

/// The functions of the fast mode: create, malloc, free.
pub const FAST: [&str; 3] = ["freehold_fast_create", "freehold_fast_malloc", "freehold_fast_free"];
/// Those of the strict mode.
pub const STRICT: [&str; 3] =
    ["freehold_strict_create", "freehold_strict_malloc", "freehold_strict_free"];

/// Functions that run only when another thread has freed a block, and so apart from the bounds of the others.
pub const TAKING_IN: [&str; 2] = ["malloc_slow", "take_in"];

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
    /// Calls whose cycles are measured with all caches flushed, of each allocator and round; needs an idle machine.
    #[arg(long, value_name = "CALLS", default_value_t = 0)]
    cold: usize,
    /// Only these allocators, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Where the raw results go; else bench/results/worst.jsonl, which they replace.
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
    let built = Library::build()?;
    let mut subjects = ours(&built.path)?;
    for Peer { name, library, functions: [create, malloc, free] } in &options.peers {
        subjects.push(Subject::of(name, library, [create, malloc, free])?);
    }
    subjects.push(Subject::libc());
    subjects.retain(|one| options.only.is_empty() || options.only.contains(&one.name));
    anyhow::ensure!(!subjects.is_empty(), "none of --only {} is there", options.only.join(","));
    let default = crate::sources::root().join("bench/results/worst.jsonl");
    let mut raw = Raw::create(options.output.as_deref().unwrap_or(&default), &head(options))?;
    let programs = programs(options)?;
    let mut found = Vec::new();
    for program in &programs {
        eprintln!("{}", program.name);
        let mut row = Vec::new();
        for subject in &subjects {
            let worst = program.play(subject, Gauge::Lines(&mut stepper), options.calls);
            raw.push(&record(program, subject, &worst))?;
            row.push(worst.ok());
        }
        found.push(row);
    }
    for (title, cell) in TABLES {
        print!("{}", table(title, &programs, &subjects, &found, cell).render());
    }
    if options.cold > 0 {
        print!("{}", cold_calls(&subjects, options.cold, &mut raw)?.render());
    }
    for name in KNOWN.iter().filter(|name| !options.peers.iter().any(|peer| peer.name == **name)) {
        println!("{name} was not measured: name it with --peer (see --help)");
    }
    print!("{}", told_loops(&built.path)?);
    println!("raw data: {}", raw.finish()?.display());
    Ok(ExitCode::SUCCESS)
}

/// What a table says of a malloc or a free.
type Cell = fn(Most) -> String;

const TABLES: [(&str, Cell); 2] = [
    ("Instructions of the longest call: malloc/free", |most| most.instructions.to_string()),
    ("Most distinct lines of cache in a call, data+code: malloc/free", |most| {
        format!("{}+{}", most.data, most.code)
    }),
];

fn table(
    title: &str,
    programs: &[Program],
    subjects: &[Subject],
    found: &[Vec<Option<Worst>>],
    cell: Cell,
) -> Table {
    let shown = |worst: Worst| format!("{}/{}", cell(worst.malloc), cell(worst.free));
    let names = subjects.iter().map(|one| one.name.clone());
    let mut table = Table::new(title, ["program".to_owned()].into_iter().chain(names));
    let mut total = vec![Worst::default(); subjects.len()];
    for (program, row) in programs.iter().zip(found) {
        for (total, worst) in total.iter_mut().zip(row) {
            *total = total.max(worst.unwrap_or_default());
        }
        let cells = row.iter().map(|worst| worst.map_or("failed".to_owned(), shown));
        table.push([program.name.clone()].into_iter().chain(cells));
    }
    table.push(["worst of all".to_owned()].into_iter().chain(total.into_iter().map(shown)));
    table
}

/// What every subject is driven by.
struct Program {
    name: String,
    /// Bytes of the heap.
    len: usize,
    kind: Kind,
}

enum Kind {
    Made(&'static Adversary),
    Recorded(Vec<Ask>),
}

/// The adversaries and the recorded programs.
fn programs(options: &Options) -> anyhow::Result<Vec<Program>> {
    let made = ADVERSARIES
        .iter()
        .map(|one| Ok(Program { name: one.name.to_owned(), len: one.len, kind: Kind::Made(one) }));
    let recorded = options.traces.iter().map(|trace| {
        let asks = recorded::read(trace)?;
        let name = trace.file_stem().map_or("trace".into(), |name| name.to_string_lossy());
        Ok(Program {
            name: name.into_owned(),
            len: recorded::needs(&asks),
            kind: Kind::Recorded(asks),
        })
    });
    made.chain(recorded).collect()
}

impl Program {
    fn play(&self, subject: &Subject, gauge: Gauge<'_>, calls: usize) -> anyhow::Result<Worst> {
        match &self.kind {
            Kind::Made(adversary) => play(subject, gauge, adversary, calls),
            Kind::Recorded(asks) => {
                let stride = (asks.len() / calls.max(1)).max(1);
                let mut player = Player::new(subject, gauge, self.len, stride)?;
                recorded::play(&mut player, asks);
                Ok(player.worst)
            }
        }
    }
}

/// Rounds of cold calls; the subjects take turns.
const ROUNDS: usize = 5;

/// Cold cycles: the first adversary, which has a heap that is flushed in a fraction of a millisecond.
fn cold_calls(subjects: &[Subject], calls: usize, raw: &mut Raw) -> anyhow::Result<Table> {
    let mut spreads = vec![Vec::new(); subjects.len()];
    for round in 0..ROUNDS {
        for (subject, spreads) in subjects.iter().zip(&mut spreads) {
            let mut cold = Cold::new().context("cycles are counted on x86-64 only")?;
            play(subject, Gauge::Cold(&mut cold), &ADVERSARIES[0], calls)?;
            let both = [Spread::of(&cold.mallocs), Spread::of(&cold.frees)];
            raw.push(&cold_record(subject, round, &cold, both))?;
            spreads.push(both);
        }
    }
    let title = format!(
        "Cycles of a cold call, {}: median, 99.9 % and longest of malloc, of free (medians of {ROUNDS} rounds)",
        ADVERSARIES[0].name
    );
    let head = ["allocator", "malloc", "99.9 %", "longest", "free", "99.9 %", "longest"];
    let mut table = Table::new(title, head.map(str::to_owned));
    for (subject, spreads) in subjects.iter().zip(&spreads) {
        let middle = |get: &dyn Fn(&[Spread; 2]) -> u64| {
            let values: Vec<u64> = spreads.iter().map(get).collect();
            Spread::of(&values).median.to_string()
        };
        let of = |call: usize| {
            [
                middle(&|both| both[call].median),
                middle(&|both| both[call].p999),
                middle(&|both| both[call].max),
            ]
        };
        table.push([subject.name.clone()].into_iter().chain(of(0)).chain(of(1)));
    }
    Ok(table)
}

fn cold_record(
    subject: &Subject,
    round: usize,
    cold: &Cold,
    both: [Spread; 2],
) -> serde_json::Value {
    let shown = |spread: Spread, samples: &[u64]| json!({"calls": samples.len(), "median": spread.median, "p999": spread.p999, "max": spread.max});
    json!({
        "kind": "cold",
        "allocator": subject.name,
        "round": round,
        "malloc": shown(both[0], &cold.mallocs),
        "free": shown(both[1], &cold.frees),
    })
}

/// The worst of about `calls` counted calls of an adversary.
///
/// # Errors
/// When there is no such heap.
pub fn play(
    subject: &Subject,
    gauge: Gauge<'_>,
    adversary: &Adversary,
    calls: usize,
) -> anyhow::Result<Worst> {
    let mut player = Player::new(subject, gauge, adversary.len, adversary.stride)?;
    (adversary.run)(&mut player, calls * adversary.stride);
    Ok(player.worst)
}

/// libfreehold.so, built; the copy is gone with it.
pub struct Library {
    /// Where it is.
    pub path: PathBuf,
    _place: place::Place,
}

impl Library {
    /// Builds it.
    ///
    /// # Errors
    /// Those of the build.
    pub fn build() -> anyhow::Result<Library> {
        let place = place::open()?;
        Ok(Library { path: peers::freehold(&place)?.library, _place: place })
    }
}

/// Our two modes, out of libfreehold.so.
///
/// # Errors
/// When it cannot be loaded.
pub fn ours(library: &Path) -> anyhow::Result<Vec<Subject>> {
    Ok(vec![
        Subject::of("freehold fast", library, FAST)?,
        Subject::of("freehold strict", library, STRICT)?,
    ])
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
    program: &Program,
    subject: &Subject,
    worst: &anyhow::Result<Worst>,
) -> serde_json::Value {
    let known = worst.as_ref().ok();
    let lines = |most: Most| json!({"data": most.data, "code": most.code});
    json!({
        "kind": "worst",
        "program": program.name,
        "allocator": subject.name,
        "heap_bytes": program.len,
        "malloc": known.map(|worst| worst.malloc.instructions),
        "free": known.map(|worst| worst.free.instructions),
        "malloc_lines": known.map(|worst| lines(worst.malloc)),
        "free_lines": known.map(|worst| lines(worst.free)),
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
mod tests {
    use super::peer;

    #[test]
    fn a_peer_is_named_with_its_functions() {
        let named = peer("tlsf=./a:b/libtlsf.so:make,take,give").expect("all there");
        assert_eq!(
            (named.name.as_str(), named.library.to_str()),
            ("tlsf", Some("./a:b/libtlsf.so"))
        );
        assert_eq!(named.functions, ["make", "take", "give"]);
        for wrong in ["tlsf", "tlsf=lib.so", "tlsf=lib.so:one,two"] {
            assert!(peer(wrong).is_err(), "{wrong}");
        }
    }
}
