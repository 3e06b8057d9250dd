//! Real runs of the application under preloaded allocators, beside a loop that allocates nothing.

use crate::real::Allocator;
use crate::studies::columns::{
    self,
    Column::{self, Real, Text, Whole},
};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Steps of the loop in all, however many threads share them.
const LOOP_STEPS: u64 = 600_000_000;

/// Why a run gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// It could not be started or waited for.
    #[error("{allocator}: the program cannot be run: {source}")]
    Run {
        /// Under which allocator.
        allocator: String,
        /// What the system said.
        source: io::Error,
    },
    /// It failed, or did not print its statistics.
    #[error("{allocator}: the program {what}")]
    Failed {
        /// Under which allocator.
        allocator: String,
        /// How.
        what: String,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// The application: a command that takes `--threads N --json`.
#[derive(Clone, Debug)]
pub struct Program {
    /// Words of the command.
    pub command: Vec<OsString>,
}

/// One run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunRow {
    /// The allocator.
    pub allocator: String,
    /// Threads.
    pub threads: u32,
    /// Round, from 0.
    pub round: u32,
    /// Seconds of the solution (link to closure), as the program says.
    pub seconds: f64,
    /// Seconds of the loop with as many threads, in the same round.
    pub loop_seconds: f64,
    /// Peak resident memory of the process, bytes.
    pub peak_resident: u64,
    /// Bytes of the solution's objects, as the program says.
    pub useful_bytes: u64,
}

/// The runs of an allocator with a thread count.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The allocator.
    pub allocator: String,
    /// Threads.
    pub threads: u32,
    /// Median seconds.
    pub seconds: f64,
    /// Median of each round's seconds with one thread over those with so many.
    pub speed_up: f64,
    /// The same of the loop.
    pub loop_speed_up: f64,
    /// Median of each round's quotient of the two.
    pub against_loop: f64,
    /// Median peak of resident memory, bytes.
    pub peak_resident: u64,
}

const COLUMNS: &[(&str, Column<RunRow>)] = &[
    ("allocator", Text(|row| &row.allocator)),
    ("threads", Whole(|row| row.threads.into())),
    ("round", Whole(|row| row.round.into())),
    ("seconds", Real(|row| row.seconds)),
    ("loop_seconds", Real(|row| row.loop_seconds)),
    ("peak_resident", Whole(|row| row.peak_resident)),
    ("useful_bytes", Whole(|row| row.useful_bytes)),
];

/// Writes the runs as one Parquet file.
///
/// # Errors
/// Whatever `to` refuses.
pub fn write_rows(to: &mut (dyn Write + Send), rows: &[RunRow]) -> io::Result<()> {
    columns::write(to, "run", COLUMNS, rows)
}

/// Runs every allocator with every thread count, `rounds` times, taking turns. The first thread count
/// is the one that speed-ups are against.
///
/// # Errors
/// The first run that failed, or `interrupted` became true.
pub fn measure(
    program: &Program,
    allocators: &[Allocator],
    threads: &[u32],
    rounds: u32,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<(Vec<Summary>, Vec<RunRow>), MeasureError> {
    let total = u64::from(rounds) * (allocators.len() * threads.len()) as u64;
    let mut rows = Vec::new();
    for round in 0..rounds {
        for allocator in allocators {
            for &threads in threads {
                if interrupted.load(Ordering::Relaxed) {
                    return Err(MeasureError::Interrupted);
                }
                progress(rows.len() as u64, total);
                let loop_seconds = loop_seconds(threads);
                let run = run(program, allocator, threads)?;
                rows.push(RunRow { round, loop_seconds, ..run });
            }
        }
    }
    let base = threads.first().copied().unwrap_or(1);
    let summaries = allocators.iter().flat_map(|allocator| {
        let rows = &rows;
        threads.iter().map(move |&threads| summary(rows, &allocator.name, base, threads))
    });
    Ok((summaries.collect(), rows))
}

/// Seconds that `threads` threads need for a fixed number of steps that touch no memory.
pub fn loop_seconds(threads: u32) -> f64 {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads.max(1) {
            scope.spawn(move || {
                let mut x = u64::from(thread) + 1;
                for _ in 0..LOOP_STEPS / u64::from(threads.max(1)) {
                    x ^= x << 13;
                    x ^= x >> 7;
                    x ^= x << 17;
                }
                std::hint::black_box(x)
            });
        }
    });
    began.elapsed().as_secs_f64()
}

fn run(program: &Program, allocator: &Allocator, threads: u32) -> Result<RunRow, MeasureError> {
    let name = || allocator.name.clone();
    let run_error = |source| MeasureError::Run { allocator: name(), source };
    let failed = |what: String| MeasureError::Failed { allocator: name(), what };
    let Some((first, rest)) = program.command.split_first() else {
        return Err(failed("is not named".to_owned()));
    };
    let mut command = Command::new(first);
    command.args(rest).args(["--threads", &threads.to_string(), "--json"]);
    allocator.preload(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(run_error)?;
    let mut text = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut text).map_err(run_error)?;
    }
    let status = child.wait().map_err(run_error)?;
    if !status.success() {
        return Err(failed(format!("ended with {status}")));
    }
    let json: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| failed(format!("printed no statistics: {error}")))?;
    let parts = ["sort", "link", "refine", "gather", "push_pull", "closure"];
    let seconds = parts.iter().filter_map(|part| json["seconds"][part].as_f64()).sum();
    let useful_bytes = json["useful_bytes"].as_u64().unwrap_or(0);
    // Its own word: the peak that the system tells a parent begins with the parent's.
    let peak_resident = json["peak_resident_bytes"].as_u64().unwrap_or(0);
    Ok(RunRow {
        allocator: name(),
        threads,
        round: 0,
        seconds,
        loop_seconds: 0.0,
        peak_resident,
        useful_bytes,
    })
}

fn summary(rows: &[RunRow], allocator: &str, base: u32, threads: u32) -> Summary {
    let of = |threads: u32| {
        rows.iter().filter(move |row| row.allocator == allocator && row.threads == threads)
    };
    let pairs: Vec<(&RunRow, &RunRow)> = of(base).zip(of(threads)).collect();
    let median_of = |get: fn(&RunRow, &RunRow) -> f64| {
        median(pairs.iter().map(|(one, many)| get(one, many)).collect())
    };
    Summary {
        allocator: allocator.to_owned(),
        threads,
        seconds: median_of(|_, many| many.seconds),
        speed_up: median_of(|one, many| one.seconds / many.seconds),
        loop_speed_up: median_of(|one, many| one.loop_seconds / many.loop_seconds),
        against_loop: median_of(|one, many| {
            (one.seconds / many.seconds) / (one.loop_seconds / many.loop_seconds)
        }),
        peak_resident: median_of(|_, many| many.peak_resident as f64) as u64,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(threads: u32, round: u32, seconds: f64, loop_seconds: f64) -> RunRow {
        let allocator = "glibc".to_owned();
        let (peak_resident, useful_bytes) = (1 << 20, 1);
        RunRow { allocator, threads, round, seconds, loop_seconds, peak_resident, useful_bytes }
    }

    #[test]
    fn a_speed_up_is_compared_with_the_loop_of_its_round() {
        // In the second round the machine was busy: both halves of a pair suffered alike.
        let rows = [
            row(1, 0, 4.0, 2.0),
            row(2, 0, 2.0, 1.0),
            row(1, 1, 8.0, 4.0),
            row(2, 1, 8.0, 4.0),
            row(1, 2, 4.0, 2.0),
            row(2, 2, 2.5, 1.0),
        ];
        let found = summary(&rows, "glibc", 1, 2);
        assert_eq!((found.speed_up, found.against_loop, found.seconds), (1.6, 1.0, 2.5));
        let mut file = Vec::new();
        write_rows(&mut file, &rows).unwrap();
        assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
    }

    #[test]
    fn a_program_is_run_and_its_failure_is_named() {
        let program = |script: &str| Program {
            command: ["/bin/sh", "-c", script].into_iter().map(Into::into).collect(),
        };
        let glibc = Allocator::glibc();
        let good = program(
            r#"echo '{"seconds": {"link": 1.5, "refine": 0.5}, "useful_bytes": 7, "peak_resident_bytes": 9}'"#,
        );
        let found = run(&good, &glibc, 2).unwrap();
        assert_eq!((found.seconds, found.useful_bytes, found.threads), (2.0, 7, 2));
        assert_eq!(found.peak_resident, 9);
        let error = run(&program("exit 3"), &glibc, 1).unwrap_err().to_string();
        assert!(error.contains("glibc: the program ended with exit status: 3"), "{error}");
        let error = run(&program("echo no"), &glibc, 1).unwrap_err().to_string();
        assert!(error.contains("printed no statistics"), "{error}");
    }
}
