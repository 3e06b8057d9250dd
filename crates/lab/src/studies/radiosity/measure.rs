//! Real runs of the application under preloaded allocators, beside a loop that allocates nothing.

use super::median::Median;
use crate::real::Allocator;
use crate::shared_heap::Scheme;
use crate::studies::columns::{
    self,
    Column::{self, Real, Text, Whole},
};
use crate::studies::loop_gain;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Steps of the loop in all, however many threads share them: about half as long as the program takes, for it
/// runs before and after it.
const LOOP_STEPS: u64 = 300_000_000;

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
    /// Before which of them `--heap SCHEME` belongs.
    pub heap_at: usize,
}

/// What serves the application's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// The malloc that is preloaded.
    pub allocator: Allocator,
    /// The scheme that serves in its place.
    pub scheme: Option<Scheme>,
}

impl Server {
    /// A malloc.
    pub fn malloc(allocator: &Allocator) -> Server {
        Server { name: allocator.name.clone(), allocator: allocator.clone(), scheme: None }
    }

    /// A scheme of core's.
    pub fn scheme(scheme: Scheme) -> Server {
        let (name, allocator) = (scheme.name.to_owned(), Allocator::glibc());
        Server { name, allocator, scheme: Some(scheme) }
    }
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
    /// Seconds of the loop with as many threads, directly before the run and directly after it, together.
    pub loop_seconds: f64,
    /// Peak resident memory of the process, bytes.
    pub peak_resident: u64,
    /// Bytes of the solution's objects, as the program says.
    pub useful_bytes: u64,
    /// Seconds of processor time, all threads together, as the program says.
    pub processor_seconds: f64,
    /// Bytes of the heaps, under a scheme; else 0.
    pub heap_bytes: u64,
    /// External fragmentation within them with the solution alive; no number under a malloc.
    pub external: f64,
    /// Times their locks were taken, if they were watched.
    pub locks_taken: u64,
    /// Times they had to be waited for.
    pub locks_contended: u64,
    /// Seconds waited, all threads together.
    pub lock_wait_s: f64,
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
    /// The same of the loop, without refused rounds; no number where all were refused.
    pub loop_speed_up: f64,
    /// Of each round's quotient of the two, without refused rounds.
    pub against_loop: Median,
    /// Rounds in which the loop gained more than there are processors: nothing is divided by that.
    pub refused: usize,
    /// Median peak of resident memory, bytes.
    pub peak_resident: u64,
    /// Bytes of the solution's objects.
    pub useful_bytes: u64,
    /// Median of each round's processor time with so many threads over that with one: what the threads
    /// cost each other, whoever else uses the machine.
    pub more_work: f64,
    /// Under a scheme, median bytes of its heaps; else 0.
    pub heap_bytes: u64,
    /// Under a scheme, median external fragmentation within them.
    pub external: Option<f64>,
}

/// What a run with watched locks saw.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Locks {
    /// The scheme.
    pub scheme: String,
    /// Threads.
    pub threads: u32,
    /// Times a lock was taken.
    pub taken: u64,
    /// Times it had to be waited for.
    pub contended: u64,
    /// Seconds waited, all threads together.
    pub wait_s: f64,
    /// Seconds of the run, which the watching made longer.
    pub seconds: f64,
}

/// One run of a larger scene.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Scaled {
    /// What served it.
    pub server: String,
    /// The share of the emitted power that a link may misplace: how fine the scene is.
    pub epsilon: f64,
    /// Bytes of the solution's objects.
    pub useful_bytes: u64,
    /// Peak resident memory of the process.
    pub peak_resident: u64,
    /// Under a scheme, bytes of its heaps; else 0.
    pub heap_bytes: u64,
    /// Under a scheme, external fragmentation within them.
    pub external: Option<f64>,
}

const COLUMNS: &[(&str, Column<RunRow>)] = &[
    ("allocator", Text(|row| &row.allocator)),
    ("threads", Whole(|row| row.threads.into())),
    ("round", Whole(|row| row.round.into())),
    ("seconds", Real(|row| row.seconds)),
    ("loop_seconds", Real(|row| row.loop_seconds)),
    ("peak_resident", Whole(|row| row.peak_resident)),
    ("useful_bytes", Whole(|row| row.useful_bytes)),
    ("processor_seconds", Real(|row| row.processor_seconds)),
    ("heap_bytes", Whole(|row| row.heap_bytes)),
    ("external", Real(|row| row.external)),
];

/// Writes the runs as one Parquet file.
///
/// # Errors
/// Whatever `to` refuses.
pub fn write_rows(to: &mut (dyn Write + Send), rows: &[RunRow]) -> io::Result<()> {
    columns::write(to, "run", COLUMNS, rows)
}

/// Runs every server with every thread count, `rounds` times, taking turns; every round begins with another
/// server. The first thread count is the one that speed-ups are against. The loop runs before and after
/// each run, with as many threads: what else goes on on the machine meets both.
///
/// # Errors
/// The first run that failed, or `interrupted` became true.
pub fn measure(
    program: &Program,
    servers: &[Server],
    threads: &[u32],
    rounds: u32,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<(Vec<Summary>, Vec<RunRow>), MeasureError> {
    let total = u64::from(rounds) * (servers.len() * threads.len()) as u64;
    let mut rows = Vec::new();
    for round in 0..rounds {
        let first = round as usize % servers.len().max(1);
        for server in servers[first..].iter().chain(&servers[..first]) {
            for &threads in threads {
                if interrupted.load(Ordering::Relaxed) {
                    return Err(MeasureError::Interrupted);
                }
                progress(rows.len() as u64, total);
                let before = loop_seconds(threads);
                let run = run(program, server, threads, &[])?;
                let loop_seconds = before + loop_seconds(threads);
                rows.push(RunRow { round, loop_seconds, ..run });
            }
        }
    }
    let base = threads.first().copied().unwrap_or(1);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let summaries = servers.iter().flat_map(|server| {
        let rows = &rows;
        threads.iter().map(move |&threads| summary(rows, &server.name, base, threads, processors))
    });
    Ok((summaries.collect(), rows))
}

/// Runs every scheme once with each thread count and its locks watched.
///
/// # Errors
/// As [`measure`].
pub fn watch_locks(
    program: &Program,
    servers: &[Server],
    threads: &[u32],
    interrupted: &AtomicBool,
) -> Result<Vec<Locks>, MeasureError> {
    let mut program = program.clone();
    program.command.insert(program.heap_at.min(program.command.len()), "--watch-locks".into());
    let mut found = Vec::new();
    for server in servers.iter().filter(|server| server.scheme.is_some()) {
        for &threads in threads {
            if interrupted.load(Ordering::Relaxed) {
                return Err(MeasureError::Interrupted);
            }
            let row = run(&program, server, threads, &[])?;
            found.push(Locks {
                scheme: row.allocator,
                threads,
                taken: row.locks_taken,
                contended: row.locks_contended,
                wait_s: row.lock_wait_s,
                seconds: row.seconds,
            });
        }
    }
    Ok(found)
}

/// Runs the scene ever finer under every server, with so many threads: memory only, so the light is
/// neither settled nor judged.
///
/// # Errors
/// As [`measure`].
pub fn scale(
    program: &Program,
    servers: &[Server],
    epsilons: &[f64],
    threads: u32,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Vec<Scaled>, MeasureError> {
    let mut found = Vec::new();
    let total = (epsilons.len() * servers.len()) as u64;
    for &epsilon in epsilons {
        // As fine in area as in light, but never coarser than the room's own meshes.
        let (light, area) = (epsilon.to_string(), epsilon.min(1e-4).to_string());
        let finer = ["--epsilon", &light, "--least-area", &area, "--break-off"];
        for server in servers {
            if interrupted.load(Ordering::Relaxed) {
                return Err(MeasureError::Interrupted);
            }
            progress(found.len() as u64, total);
            let row = run(program, server, threads, &finer)?;
            found.push(Scaled {
                server: row.allocator,
                epsilon,
                useful_bytes: row.useful_bytes,
                peak_resident: row.peak_resident,
                heap_bytes: row.heap_bytes,
                external: Some(row.external).filter(|share| share.is_finite()),
            });
        }
    }
    Ok(found)
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

fn run(
    program: &Program,
    server: &Server,
    threads: u32,
    more: &[&str],
) -> Result<RunRow, MeasureError> {
    let name = || server.name.clone();
    let run_error = |source| MeasureError::Run { allocator: name(), source };
    let failed = |what: String| MeasureError::Failed { allocator: name(), what };
    let mut words = program.command.clone();
    if let Some(scheme) = server.scheme {
        let at = program.heap_at.min(words.len());
        words.splice(at..at, ["--heap".into(), scheme.name.into()]);
    }
    let Some((first, rest)) = words.split_first() else {
        return Err(failed("is not named".to_owned()));
    };
    let mut command = Command::new(first);
    command.args(rest).args(["--threads", &threads.to_string(), "--json"]).args(more);
    server.allocator.preload(&mut command);
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
    let whole = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
    let heap = &json["heap"];
    // Its own word: the peak that the system tells a parent begins with the parent's.
    let peak_resident = whole(&json["peak_resident_bytes"]);
    Ok(RunRow {
        allocator: name(),
        threads,
        round: 0,
        seconds,
        loop_seconds: 0.0,
        peak_resident,
        useful_bytes: whole(&json["useful_bytes"]),
        processor_seconds: json["processor_seconds"].as_f64().unwrap_or(f64::NAN),
        heap_bytes: whole(&heap["heap_bytes"]),
        external: heap["external_fragmentation"].as_f64().unwrap_or(f64::NAN),
        locks_taken: whole(&heap["locks_taken"]),
        locks_contended: whole(&heap["locks_contended"]),
        lock_wait_s: whole(&heap["lock_wait_ns"]) as f64 * 1e-9,
    })
}

fn summary(
    rows: &[RunRow],
    allocator: &str,
    base: u32,
    threads: u32,
    processors: usize,
) -> Summary {
    let of = |threads: u32| {
        rows.iter().filter(move |row| row.allocator == allocator && row.threads == threads)
    };
    let pairs: Vec<(&RunRow, &RunRow)> = of(base).zip(of(threads)).collect();
    let spread_of = |pairs: &[(&RunRow, &RunRow)], get: fn(&RunRow, &RunRow) -> f64| {
        Median::of(pairs.iter().map(|(one, many)| get(one, many)).collect())
    };
    let median_of = |get: fn(&RunRow, &RunRow) -> f64| spread_of(&pairs, get).median;
    let gained = |one: &RunRow, many: &RunRow| one.loop_seconds / many.loop_seconds;
    let is_possible = |&&(one, many): &&(&RunRow, &RunRow)| {
        loop_gain::is_possible(gained(one, many), threads as usize, processors)
    };
    let possible: Vec<(&RunRow, &RunRow)> = pairs.iter().filter(is_possible).copied().collect();
    Summary {
        allocator: allocator.to_owned(),
        threads,
        seconds: median_of(|_, many| many.seconds),
        speed_up: median_of(|one, many| one.seconds / many.seconds),
        loop_speed_up: spread_of(&possible, gained).median,
        against_loop: spread_of(&possible, |one, many| {
            (one.seconds / many.seconds) / (one.loop_seconds / many.loop_seconds)
        }),
        refused: pairs.len() - possible.len(),
        peak_resident: median_of(|_, many| many.peak_resident as f64) as u64,
        useful_bytes: median_of(|_, many| many.useful_bytes as f64) as u64,
        more_work: median_of(|one, many| many.processor_seconds / one.processor_seconds),
        heap_bytes: median_of(|_, many| many.heap_bytes as f64) as u64,
        external: Some(median_of(|_, many| many.external)).filter(|share| share.is_finite()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_heap::SCHEMES;

    fn row(threads: u32, round: u32, seconds: f64, loop_seconds: f64) -> RunRow {
        let allocator = "glibc".to_owned();
        RunRow {
            allocator,
            threads,
            round,
            seconds,
            loop_seconds,
            peak_resident: 1 << 20,
            useful_bytes: 1,
            processor_seconds: 4.0 + f64::from(threads),
            heap_bytes: 0,
            external: f64::NAN,
            locks_taken: 0,
            locks_contended: 0,
            lock_wait_s: 0.0,
        }
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
        let found = summary(&rows, "glibc", 1, 2, 2);
        assert_eq!((found.speed_up, found.seconds), (1.6, 2.5));
        assert_eq!(found.against_loop, Median { median: 1.0, low: 0.8, high: 1.0 });
        assert_eq!((found.more_work, found.external), (1.2, None));
        assert_eq!(found.refused, 0);
        // The loop "gained" 2.87 on 2 processors: that round divides nothing.
        let rows = [&rows[..], &[row(1, 3, 4.0, 2.87), row(2, 3, 2.0, 1.0)]].concat();
        let found = summary(&rows, "glibc", 1, 2, 2);
        assert_eq!((found.refused, found.loop_speed_up, found.against_loop.high), (1, 2.0, 1.0));
        let found = summary(&rows[6..], "glibc", 1, 2, 2);
        assert!(found.refused == 1 && found.against_loop.median.is_nan(), "{found:?}");
        let mut file = Vec::new();
        write_rows(&mut file, &rows).unwrap();
        assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
    }

    #[test]
    fn a_program_is_run_and_its_failure_is_named() {
        let program = |script: &str| Program {
            command: ["/bin/sh", "-c", script].into_iter().map(Into::into).collect(),
            heap_at: 3,
        };
        let glibc = Server::malloc(&Allocator::glibc());
        let good = program(
            r#"echo '{"seconds": {"link": 1.5, "refine": 0.5}, "useful_bytes": 7, "peak_resident_bytes": 9}'"#,
        );
        let found = run(&good, &glibc, 2, &[]).unwrap();
        assert_eq!((found.seconds, found.useful_bytes, found.threads), (2.0, 7, 2));
        assert_eq!(found.peak_resident, 9);
        let error = run(&program("exit 3"), &glibc, 1, &[]).unwrap_err().to_string();
        assert!(error.contains("glibc: the program ended with exit status: 3"), "{error}");
        let error = run(&program("echo no"), &glibc, 1, &[]).unwrap_err().to_string();
        assert!(error.contains("printed no statistics"), "{error}");
        // A scheme is asked for where the command wants it; the script sees its words.
        let scheme = Server::scheme(SCHEMES[3]);
        let words = program(
            r#"echo "{\"seconds\": {}, \"heap\": {\"heap_bytes\": $#}}"; test "$0" = --heap"#,
        );
        let found = run(&words, &scheme, 2, &["--epsilon", "1"]).unwrap();
        assert_eq!((found.heap_bytes, &*found.allocator), (6, "heaps-with-inboxes"));
    }
}
