//! `cargo xtask bench-recorder`: what recording costs, without call stacks, with those of allocations and with those of
//! frees, too, beside no tool, heaptrack, memray (of Python alone: with the stacks of Python's functions, and with those of C's, too) and glibc's mtrace.
//!
//! Every round runs each program once under each tool, in an order that moves by one from round to
//! round, so that slow spells of the machine meet all tools alike. Raw data always stays. A tool or a
//! program that is not there is said aloud and left out.
//!
//! Of a program, two times are told apart: until the program itself has ended, which is what recording
//! slows down, and what the tool takes after that. The pair loop and the load on redis measure
//! themselves.

mod memray;
mod program_end;

use super::{facts, raw::Raw, stats};
use crate::sources;
use anyhow::{Context, bail};
use program_end::ProgramEnd;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How often, and where to.
#[derive(clap::Args)]
pub struct Options {
    /// Rounds, after one that is not counted.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Only programs whose name contains this.
    #[arg(long, default_value = "", hide_default_value = true)]
    only: String,
    /// Pairs of malloc and free a thread in the pair loop.
    #[arg(long, default_value_t = 3_000_000)]
    pairs: u64,
    /// Ends a run under mtrace after so many seconds, and leaves mtrace out of the further rounds: it looks up the
    /// caller's name among all names of the program, one after the other, and takes minutes on some.
    #[arg(long, default_value_t = 20)]
    patience: u32,
    /// Only these tools, separated by commas; `none` is always run.
    #[arg(long, value_delimiter = ',')]
    tools: Vec<String>,
    /// Measures this command instead of building one.
    #[arg(long)]
    freehold: Option<PathBuf>,
    /// Where the raw data goes.
    #[arg(long, default_value = "bench/results/recorder.jsonl")]
    out: PathBuf,
}

/// `stamps` is no tool: the pair loop reads the time stamp counter once an event, which is the floor
/// of every recorder that knows when something happened.
const TOOLS: [&str; 9] = [
    "none",
    "stamps",
    "freehold-off",
    "freehold-allocations",
    "freehold-all",
    "heaptrack",
    "memray",
    "memray-native",
    "mtrace",
];
/// A tool of ours is this and what it takes stacks of.
const OURS: &str = "freehold-";

/// The folders and the tools.
struct Bench {
    sources: PathBuf,
    scratch: PathBuf,
    freehold: PathBuf,
    /// The interpreter itself: what `PATH` names may be a script that starts dozens of processes first.
    python: String,
    /// The one that has memray; none where it is not wanted or cannot be had.
    memray: Option<PathBuf>,
    /// What `g++ -O2` starts to compile: `cc1plus` and its arguments. Empty where there is no g++.
    compiler: Vec<String>,
}

/// A program: how its command line is made from a tool's words, and what its number means.
struct Program {
    name: &'static str,
    unit: &'static str,
    command: fn(&Bench, &Options, &[String]) -> Vec<String>,
}

const PROGRAMS: [Program; 13] = [
    Program { name: "pair-1", unit: "ns/event", command: |b, o, tool| pair(b, o, tool, "1", "10") },
    Program { name: "pair-2", unit: "ns/event", command: |b, o, tool| pair(b, o, tool, "2", "10") },
    // The same, thirty calls deep instead of ten.
    Program {
        name: "pair-1-deep",
        unit: "ns/event",
        command: |b, o, tool| pair(b, o, tool, "1", "30"),
    },
    Program {
        name: "pair-2-deep",
        unit: "ns/event",
        command: |b, o, tool| pair(b, o, tool, "2", "30"),
    },
    Program { name: "python3", unit: "s", command: |b, _, tool| b.python(tool) },
    // The interpreter's own allocator serves small objects; without it, every one of them is malloc's.
    Program { name: "python3-malloc", unit: "s", command: |b, _, tool| b.python(tool) },
    Program {
        name: "gcc",
        unit: "s",
        command: |b, _, tool| {
            let (object, source) = (b.made("out.o"), b.source("compile.cc"));
            b.started(tool, &["g++", "-O2", "-c", "-o", &object, &source])
        },
    },
    // The compiler proper, without the driver that starts it: what a tool that follows no `exec` can see.
    Program {
        name: "cc1plus",
        unit: "s",
        command: |b, _, tool| b.started(tool, &as_strs(&b.compiler)),
    },
    // One process: clang's driver compiles by itself.
    Program {
        name: "clang",
        unit: "s",
        command: |b, _, tool| {
            let (object, source) = (b.made("clang.o"), b.source("compile.cc"));
            b.started(tool, &["clang++", "-O2", "-c", "-o", &object, &source])
        },
    },
    Program {
        name: "node",
        unit: "s",
        command: |b, _, tool| b.started(tool, &["node", &b.source("objects.js")]),
    },
    Program {
        name: "sqlite3",
        unit: "s",
        command: |b, _, tool| {
            b.started(tool, &["sqlite3", ":memory:", &format!(".read {}", b.source("table.sql"))])
        },
    },
    Program {
        name: "git-log",
        unit: "s",
        command: |b, _, tool| {
            let root = sources::root().display().to_string();
            b.started(tool, &["git", "-C", &root, "log", "--stat"])
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

fn pair(
    bench: &Bench,
    options: &Options,
    tool: &[String],
    threads: &str,
    depth: &str,
) -> Vec<String> {
    let (program, pairs) = (bench.made("pair"), options.pairs.to_string());
    match tool {
        [word] if word == "stamps" => after(&[], &[&program, threads, &pairs, "stamps"]),
        tool => after(tool, &[&program, threads, &pairs, depth]),
    }
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

    /// The program under the tool, its process id left in a file. Heaptrack looks at the first program
    /// only, not at what that becomes: there the whole time counts as the program's.
    fn started(&self, tool: &[String], words: &[&str]) -> Vec<String> {
        if tool.first().is_some_and(|word| word == "heaptrack") {
            return after(tool, words);
        }
        let (start, file) = (self.made("start"), self.process_file());
        let begun = after(tool, &[&start, &file.display().to_string()]);
        after(&begun, words)
    }

    /// The script of Python under the tool.
    fn python(&self, tool: &[String]) -> Vec<String> {
        let script = self.source("python.py");
        match (tool, &self.memray) {
            ([word, more @ ..], Some(python)) if word == "memray" => {
                let (python, out) = (python.display().to_string(), self.made("memray.bin"));
                let run = [&python, "-m", "memray", "run", "--quiet", "--force", "--output", &out];
                let words = after(more, &[&script]);
                self.started(&[], &[&run[..], &as_strs(&words)].concat())
            }
            _ => self.started(tool, &[&self.python, &script]),
        }
    }

    fn process_file(&self) -> PathBuf {
        self.scratch.join("process")
    }

    /// The words before the program's.
    fn tool(&self, tool: &str) -> Vec<String> {
        match tool {
            tool if tool.starts_with(OURS) => {
                let (freehold, stacks) = (self.freehold.display().to_string(), &tool[OURS.len()..]);
                let record = ["record", "--json", "--stacks", stacks];
                after(&after(&[freehold], &record), &["-o", &self.made("t.fht"), "--"])
            }
            "heaptrack" => after(&[], &["heaptrack", "--raw", "-o", &self.made("heaptrack")]),
            "mtrace" => {
                let preload =
                    format!("LD_PRELOAD=libc_malloc_debug.so.0:{}", self.made("mtrace.so"));
                let file = format!("MALLOC_TRACE={}", self.made("mtrace.txt"));
                after(&[], &["env", &preload, &file])
            }
            "memray" => after(&[], &["memray"]),
            "memray-native" => after(&[], &["memray", "--native"]),
            "stamps" => after(&[], &["stamps"]),
            _ => Vec::new(),
        }
    }

    fn open(options: &Options) -> anyhow::Result<Bench> {
        let root = sources::root();
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let (sources, scratch) = (root.join("bench/recorder"), target.join("bench-recorder"));
        let python = interpreter().unwrap_or_else(|| "python3".to_owned());
        let bench = Bench {
            memray: memray_of(options, &python),
            compiler: compiler(&sources.join("compile.cc"), &scratch.join("out.s")),
            sources,
            scratch,
            freehold: options.freehold.clone().unwrap_or_else(|| target.join("release/freehold")),
            python,
        };
        std::fs::create_dir_all(&bench.scratch)?;
        if options.freehold.is_none() {
            must("cargo", &["build", "--release", "--quiet", "--bin", "freehold"])?;
        }
        let (pair, start, shim) =
            (bench.made("pair"), bench.made("start"), bench.made("mtrace.so"));
        must("cc", &["-O2", "-o", &start, &bench.source("start.c")])?;
        must("cc", &["-O2", "-fno-builtin", "-pthread", "-o", &pair, &bench.source("pair.c")])?;
        must("cc", &["-O2", "-shared", "-fPIC", "-o", &shim, &bench.source("mtrace.c")])?;
        Ok(bench)
    }

    /// One run.
    fn run(&self, program: &Program, options: &Options, tool: &str) -> anyhow::Result<Run> {
        let mut words = (program.command)(self, options, &self.tool(tool));
        if tool == "mtrace" {
            let seconds = options.patience.to_string();
            words = [&["timeout", "--signal=KILL", &seconds].map(str::to_owned), &*words].concat();
        }
        let (first, rest) = words.split_first().context("a program has a name")?;
        let _ = std::fs::remove_file(self.process_file());
        let mut command = Command::new(first);
        command.args(rest).stdin(Stdio::null());
        if program.name == "python3-malloc" {
            command.env("PYTHONMALLOC", "malloc");
        }
        let over = AtomicBool::new(false);
        let (begun, cpu) = (Instant::now(), children_cpu_s());
        let (output, ended) = std::thread::scope(|scope| {
            let end = ProgramEnd::watch(scope, self.process_file(), &over);
            let output = command.output();
            over.store(true, Ordering::Relaxed);
            (output, end.when())
        });
        let whole = begun.elapsed().as_secs_f64();
        let output = output.with_context(|| format!("{first} cannot be run"))?;
        if tool == "mtrace" && whole >= f64::from(options.patience) {
            return Ok(Run::ended(whole, lines(&self.made("mtrace.txt"))));
        }
        if !output.status.success() {
            bail!("{words:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        let cpu = number_after("cpu ", &output).unwrap_or(children_cpu_s() - cpu);
        let ran = ended.map_or(whole, |ended| (ended - begun).as_secs_f64());
        let wall = number_after("measured ", &output).unwrap_or(ran);
        Ok(Run { wall, after_s: whole - ran, cpu, said: said(&output), is_whole: true })
    }
}

/// How many lines a file has: one an event in mtrace's, but two for a realloc. 0 where it cannot be read.
fn lines(path: &str) -> usize {
    std::fs::read(path).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

/// What one run gave, in the unit of its program.
struct Run {
    /// What passed until the program had ended, or what the program measured itself.
    wall: f64,
    /// Seconds that passed between the program's end and the tool's.
    after_s: f64,
    /// Processor time: of the loop's slowest thread in the pair loop, elsewhere of all processes
    /// together, the recorder's included. It stands still while a busy machine runs others.
    cpu: f64,
    /// What the recorder said of itself.
    said: Value,
    /// False where patience ended first.
    is_whole: bool,
}

impl Run {
    /// One that was ended, after `lines` lines of mtrace's file.
    fn ended(seconds: f64, lines: usize) -> Run {
        let said = json!({ "ended_after_lines": lines });
        Run { wall: seconds, after_s: 0.0, cpu: 0.0, said, is_whole: false }
    }
}

/// Memray, where a program of Python is measured under it.
fn memray_of(options: &Options, python: &str) -> Option<PathBuf> {
    let wanted = options.tools.is_empty() || options.tools.iter().any(|tool| is_memray(tool));
    if !wanted
        || !PROGRAMS.iter().any(|one| is_python(one.name) && one.name.contains(&options.only))
    {
        return None;
    }
    let found = memray::interpreter(python);
    found.map_err(|error| println!("left out: memray cannot be had: {error:#}")).ok()
}

fn is_memray(tool: &str) -> bool {
    tool.starts_with("memray")
}

fn is_python(program: &str) -> bool {
    program.starts_with("python3")
}

/// The interpreter that `python3` ends up in.
fn interpreter() -> Option<String> {
    let asked = ["-c", "import sys; print(sys.executable)"];
    let output = Command::new("python3").args(asked).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!path.is_empty()).then_some(path)
}

/// The command by which `g++ -O2` has a source compiled, as the driver itself tells it.
fn compiler(source: &Path, to: &Path) -> Vec<String> {
    let mut driver = Command::new("g++");
    driver.args(["-###", "-O2", "-S", "-o"]).args([to, source]).env("LC_ALL", "C");
    let said = driver.output().map(|output| output.stderr).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let told = said.lines().find(|line| line.contains("/cc1plus")).unwrap_or_default();
    told.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect()
}

/// Processor seconds of all children that have ended, to 10 ms. 0 where /proc does not tell.
fn children_cpu_s() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in brackets, may hold blanks: fields are counted from behind it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace();
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>()
        / TICKS_PER_SECOND
}

fn must(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new(program).args(arguments).current_dir(sources::root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("{program} {arguments:?}: {status}"),
        Err(error) => bail!("{program} cannot be run: {error}"),
    }
}

/// A number that a program measured itself.
fn number_after(word: &str, output: &Output) -> Option<f64> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
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
        "none" | "stamps" => true,
        ours if ours.starts_with(OURS) || ours.starts_with("pair-") => true,
        // Known when the bench is open.
        tool if is_memray(tool) => true,
        "mtrace" => {
            Path::new("/usr/lib/x86_64-linux-gnu/libc_malloc_debug.so.0").exists()
                || Path::new("/usr/lib64/libc_malloc_debug.so.0").exists()
        }
        _ => {
            let program = match name {
                "redis" => "redis-server",
                "gcc" | "cc1plus" => "g++",
                "python3-malloc" => "python3",
                "clang" => "clang++",
                "git-log" => "git",
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
    let bench = Bench::open(options)?;
    let wanted = |tool: &&str| {
        let named = options.tools.is_empty() || options.tools.iter().any(|name| name == tool);
        *tool == "none" || named
    };
    let tools: Vec<&str> = TOOLS.into_iter().filter(wanted).filter(|tool| is_there(tool)).collect();
    let head = facts::head(&[], usize::from(options.runs), false);
    let mut raw = Raw::create(&sources::root().join(&options.out), &head)?;
    for program in PROGRAMS.iter().filter(|program| program.name.contains(&options.only)) {
        if !is_there(program.name) {
            continue;
        }
        let counts_events = program.unit == "ns/event";
        let fits = |tool: &&str| match *tool {
            "stamps" => counts_events,
            // See the driver, which allocates nothing, and not the compiler it starts (or write both into one file).
            "heaptrack" | "mtrace" => program.name != "gcc",
            tool if is_memray(tool) => bench.memray.is_some() && is_python(program.name),
            _ => true,
        };
        let tools: Vec<&str> = tools.iter().copied().filter(fits).collect();
        let mut ended = Vec::new();
        let mut seen = Seen::default();
        for round in 0..=usize::from(options.runs) {
            for step in 0..tools.len() {
                let tool = tools[(round + step) % tools.len()];
                if ended.contains(&tool) {
                    continue;
                }
                let run = bench.run(program, options, tool)?;
                let counted = round > 0;
                raw.push(&json!({
                    "kind": "run", "program": program.name, "tool": tool, "round": round,
                    "counted": counted, "unit": program.unit, "value": run.wall,
                    "after_s": run.after_s, "cpu": run.cpu, "summary": run.said,
                    "is_whole": run.is_whole,
                }))?;
                if !run.is_whole {
                    println!(
                        "{}: {tool} was ended after {:.0} s: {}",
                        program.name, run.wall, run.said
                    );
                    ended.push(tool);
                } else if counted {
                    seen.add(tool, &run);
                }
            }
        }
        let whole: Vec<&str> = tools.into_iter().filter(|tool| !ended.contains(tool)).collect();
        seen.print(program, &whole);
    }
    println!("raw data: {}", raw.finish()?.display());
    Ok(())
}

/// Of each tool, one number a round.
type Numbers<'a> = BTreeMap<&'a str, Vec<f64>>;

/// What was measured of one program.
#[derive(Default)]
struct Seen<'a> {
    walls: Numbers<'a>,
    afters: Numbers<'a>,
    cpus: Numbers<'a>,
    /// Bytes of the trace for each event in it.
    bytes: Numbers<'a>,
    /// Nanoseconds that the finisher took for each event.
    finishing: Numbers<'a>,
}

impl<'a> Seen<'a> {
    fn add(&mut self, tool: &'a str, run: &Run) {
        self.walls.entry(tool).or_default().push(run.wall);
        self.afters.entry(tool).or_default().push(run.after_s);
        self.cpus.entry(tool).or_default().push(run.cpu);
        if let Some(events) = run.said["events"].as_f64().filter(|&events| events > 0.0) {
            let bytes = run.said["bytes"].as_f64().map(|bytes| bytes / events);
            self.bytes.entry(tool).or_default().extend(bytes);
            let finishing = run.said["finishing_s"].as_f64().map(|s| s * 1e9 / events);
            self.finishing.entry(tool).or_default().extend(finishing);
        }
    }

    /// Of each tool the median and the best round: on a machine that others use too, the best is the
    /// one that was disturbed least.
    fn print(&self, program: &Program, tools: &[&str]) {
        println!(
            "{}: median [best] of wall, of the tool's time after it, of processor time",
            program.name
        );
        for tool in tools {
            let after = stats::median(&self.afters[tool]);
            let (wall, cpu) = (cost(program, &self.walls, tool), cost(program, &self.cpus, tool));
            println!("  {tool:20} {wall}  after {after:6.3} s  cpu {cpu}");
        }
        for (tool, bytes) in &self.bytes {
            let Some(all) = self.finishing.get(tool).filter(|all| !all.is_empty()) else {
                continue;
            };
            let (bytes, finishing, best) = (stats::median(bytes), stats::median(all), best(all));
            println!(
                "  {tool}: {bytes:.2} bytes an event; {finishing:.0} [{best:.0}] ns an event after the program"
            );
        }
    }
}

/// What a tool costs, beside no tool.
fn cost(program: &Program, numbers: &Numbers<'_>, tool: &str) -> String {
    let (some, none) = (&numbers[tool], &numbers["none"]);
    let (median, least) = (stats::median(some), best(some));
    let (beside, least_beside) = (stats::median(none), best(none));
    match program.unit {
        "ns/event" => {
            let (more, least_more) = (median - beside, least - least_beside);
            format!("{median:8.1} ({more:+.1}) [{least:.1} ({least_more:+.1})] ns/event")
        }
        _ => {
            let (times, least_times) = (median / beside, least / least_beside);
            format!("{median:7.3} s ({times:.2} x) [{least:.3} ({least_times:.2} x)]")
        }
    }
}

fn best(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}
