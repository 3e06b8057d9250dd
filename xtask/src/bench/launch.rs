//! Runs one program through `launch.c` and reads what it cost.
//!
//! The small launcher stands between, because Linux counts the caller's resident memory towards a new program's peak.

use super::allocators::Allocator;
use super::compile;
use super::place::Place;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A run that takes longer is killed and counts as failed.
const LIMIT_S: u32 = 180;

/// What one run cost: the program and every process it waited for.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Usage {
    /// From fork to reaping.
    pub wall_ns: u64,
    /// CPU time in the program.
    pub user_us: u64,
    /// CPU time in the kernel.
    pub system_us: u64,
    /// Page faults without input.
    pub minor_faults: u64,
    /// Page faults with input.
    pub major_faults: u64,
    /// The largest resident set of any process of the tree.
    pub peak_rss_kib: u64,
    /// The exit code, or -1.
    pub exit: i32,
    /// The signal that ended it, or 0.
    pub signal: i32,
}

/// A program with its parameters and environment.
#[derive(Clone)]
pub struct Job {
    /// The program's file.
    pub program: PathBuf,
    /// Its parameters.
    pub args: Vec<String>,
    /// Environment beyond the allocator's.
    pub env: Vec<(String, String)>,
    /// What it reads as its standard input, if anything.
    pub input: Option<PathBuf>,
    /// What is preloaded where the allocator is the C library's own: nothing, or `libc.so.6` itself, for programs that
    /// bring another malloc along.
    pub preload_libc: bool,
    /// Whether what it prints is kept in every run, not only in the warm-up.
    pub keep_output: bool,
}

impl Usage {
    /// The same with times, of which only so large a part counts.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "some seconds"
    )]
    pub fn with_part_of_times(self, part: f64) -> Self {
        let of = |time: u64| (time as f64 * part) as u64;
        let (wall_ns, user_us) = (of(self.wall_ns), of(self.user_us));
        Self { wall_ns, user_us, system_us: of(self.system_us), ..self }
    }
}

impl Job {
    /// A program of our own: it links no malloc but libc's and prints what is read afterwards.
    pub fn of_ours(place: &Place, source: &str, args: Vec<String>) -> Self {
        let program = compile::binary(place, source);
        let env = Vec::new();
        Self { program, args, env, input: None, preload_libc: false, keep_output: true }
    }
}

/// How a job ended.
pub struct Outcome {
    /// What it cost.
    pub usage: Usage,
    /// What it printed.
    pub stdout: String,
    /// What it complained.
    pub stderr: String,
}

impl Outcome {
    /// Why the run does not count, if it does not.
    pub fn failure(&self) -> Option<String> {
        let said = self.stderr.lines().last().unwrap_or("no message");
        match (self.usage.exit, self.usage.signal) {
            (0, 0) => None,
            (_, 9) => Some(format!("killed after {LIMIT_S} s: {said}")),
            (_, signal) if signal != 0 => Some(format!("ended by signal {signal}: {said}")),
            (code, _) => Some(format!("exit code {code}: {said}")),
        }
    }
}

/// A job under way.
pub struct Started {
    launcher: Child,
    report: PathBuf,
    stdout: PathBuf,
}

/// Starts a job under an allocator; `debug` prefixes the files in which the loader lists its bindings.
pub fn start(
    place: &Place,
    allocator: &Allocator,
    job: &Job,
    debug: Option<&Path>,
) -> anyhow::Result<Started> {
    let report = place.scratch.join("usage.json");
    let kept = job.keep_output || debug.is_some();
    let stdout = if kept { place.scratch.join("stdout.txt") } else { PathBuf::from("/dev/null") };
    for file in [&report, &stdout] {
        std::fs::write(file, "")
            .with_context(|| format!("{} cannot be written", file.display()))?;
    }
    let mut command = Command::new(compile::binary(place, "launch.c"));
    command.arg(&report).arg(preload(allocator, job)).arg(&stdout).arg(LIMIT_S.to_string());
    command.arg(&job.program).args(&job.args);
    command
        .env_remove("LD_PRELOAD")
        .envs(job.env.iter().cloned())
        .envs(allocator.env.iter().cloned());
    if let Some(prefix) = debug {
        command.env("BENCH_BINDINGS", prefix);
    }
    let input = match &job.input {
        Some(file) => {
            let read = std::fs::File::open(file);
            read.with_context(|| format!("{} cannot be read", file.display()))?.into()
        }
        None => Stdio::null(),
    };
    command.stdin(input).stdout(Stdio::null()).stderr(Stdio::piped());
    let launcher = command.spawn().context("launch.c's program cannot be started")?;
    Ok(Started { launcher, report, stdout })
}

impl Started {
    /// Waits for the end and reads the report.
    pub fn finish(self) -> anyhow::Result<Outcome> {
        let output = self.launcher.wait_with_output()?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = std::fs::read_to_string(&self.report)?;
        let usage = serde_json::from_str(text.trim())
            .with_context(|| format!("the launcher reported nothing: {stderr}"))?;
        let stdout = String::from_utf8_lossy(&std::fs::read(&self.stdout)?).into_owned();
        Ok(Outcome { usage, stdout, stderr })
    }
}

/// Runs a job to its end.
pub fn run(
    place: &Place,
    allocator: &Allocator,
    job: &Job,
    debug: Option<&Path>,
) -> anyhow::Result<Outcome> {
    start(place, allocator, job, debug)?.finish()
}

/// What `launch` sets as LD_PRELOAD; `-` is nothing.
pub fn preload(allocator: &Allocator, job: &Job) -> String {
    match &allocator.library {
        Some(library) => library.display().to_string(),
        None if job.preload_libc => "libc.so.6".to_owned(),
        None => "-".to_owned(),
    }
}
