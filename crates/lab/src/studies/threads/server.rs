//! Jobs in processes of their own: on an installed malloc or Freehold's, with the library preloaded; on a heap
//! or the loop, where what a process happens to be given shall not be that of one process.
//!
//! One process an allocator and round, which waits for jobs on its standard input, so that
//! runs of all allocators take turns. Its own memory comes from the tested malloc too, but not while a
//! job runs.

use super::calls::Malloc;
use super::crew::{self, Stop, Took};
use super::heaps::Heap;
use super::lines::Lines;
use super::measure::Latency;
use super::patterns::{Done, Job};
use crate::real::Source;
use crate::simulate::Memory;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a process may take beyond a run's limit before it is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a job is done on.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Served {
    /// The process's malloc.
    Malloc,
    /// The loop without allocations.
    Loop,
    /// A heap, new.
    Heap {
        /// Which.
        heap: Heap,
        /// Bytes of the region that it lives in.
        region: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct Request {
    on: Served,
    job: Job,
    limit_ns: u64,
}

/// What came of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// What it took.
    pub took: Took,
    /// Sequences made.
    pub sequences: u64,
    /// Allocations that failed.
    pub failed: u64,
    /// Blocks that were overwritten.
    pub damaged: u64,
    /// Of single calls, where they were watched.
    pub latency: Option<Latency>,
    /// Resident memory of a malloc, less what there was before the first job; with what still lived.
    pub resident_bytes: u64,
}

impl Answer {
    fn of(took: Took, done: Done) -> Answer {
        Answer {
            took,
            sequences: done.sequences,
            failed: done.failed,
            damaged: done.damaged,
            latency: Latency::of(done.latencies),
            resident_bytes: 0,
        }
    }
}

/// A process that runs jobs.
pub struct Server {
    child: Child,
    jobs: Option<ChildStdin>,
    answers: Lines<ChildStdout>,
}

impl Server {
    /// Starts `command`, whose malloc comes from `source`.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(command: &[OsString], source: &Source) -> io::Result<Server> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        match source {
            Source::Libc => command.env_remove("LD_PRELOAD"),
            Source::Environment => &mut command,
            Source::Library(library) => command.env("LD_PRELOAD", library),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let jobs = child.stdin.take();
        let answers = child.stdout.take().map(Lines::of);
        let answers = answers.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(Server { child, jobs, answers })
    }

    /// Has the job done.
    ///
    /// # Errors
    /// In words: the job could not be done, the process has ended, does not answer, or answers something else.
    pub fn run(&mut self, on: Served, job: &Job, limit: Duration) -> Result<Answer, String> {
        let request = Request { on, job: *job, limit_ns: limit.as_nanos() as u64 };
        let mut line = serde_json::to_string(&request).map_err(|error| error.to_string())?;
        // In one piece, so that its process wakes once.
        line.push('\n');
        let jobs = self.jobs.as_mut().ok_or("its process has no standard input")?;
        let answer = match jobs.write_all(line.as_bytes()) {
            Ok(()) => self.answers.next_within(limit + PATIENCE),
            Err(_) => None,
        };
        match answer {
            Some(line) => serde_json::from_str::<Result<Answer, String>>(&line)
                .unwrap_or_else(|_| Err(format!("its process said: {line}"))),
            None => Err(match self.child.try_wait() {
                Ok(Some(status)) => format!("its process ended with {status}"),
                _ => "its process does not answer".to_owned(),
            }),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Without jobs it ends by itself; one that hangs does not.
        self.jobs = None;
        for _ in 0..20 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let killed = self.child.kill().and_then(|()| self.child.wait());
        drop(killed);
    }
}

/// The other side: does the jobs that come in until there are no more.
///
/// # Errors
/// Input that is no job, or output that is refused.
pub fn serve(jobs: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    let (before, mut memory) = (resident_bytes(), None);
    for line in jobs.lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let never = AtomicBool::new(false);
        let stop = Stop::after(Duration::from_nanos(request.limit_ns), &never);
        let answer = match request.on {
            Served::Malloc => on_malloc(&request.job, &stop, before),
            Served::Loop => {
                let ran = crew::run_loop(&request.job, &stop).map_err(|error| error.to_string());
                ran.map(|ran| Answer::of(ran.took, ran.done))
            }
            Served::Heap { heap, region } => {
                on_heap(heap, &request.job, (&mut memory, region), &stop)
            }
        };
        writeln!(answers, "{}", serde_json::to_string(&answer)?)?;
        answers.flush()?;
    }
    Ok(())
}

fn on_malloc(job: &Job, stop: &Stop<'_>, before: u64) -> Result<Answer, String> {
    let mut ran =
        crew::run(job, stop, &|_| Some(Box::new(Malloc))).map_err(|error| error.to_string())?;
    let resident_bytes = resident_bytes().saturating_sub(before);
    for object in ran.alive.drain(..) {
        // SAFETY: it came from malloc, as all of this run's.
        unsafe { object.free(&mut Malloc) };
    }
    Ok(Answer { resident_bytes, ..Answer::of(ran.took, ran.done) })
}

/// The region stays between jobs, as its pages do in the study's own process.
fn on_heap(
    heap: Heap,
    job: &Job,
    (kept, bytes): (&mut Option<(u64, Memory)>, u64),
    stop: &Stop<'_>,
) -> Result<Answer, String> {
    if kept.as_ref().is_none_or(|(len, _)| *len != bytes) {
        *kept = Some((bytes, Memory::reserve(bytes).map_err(|error| error.to_string())?));
    }
    let Some((_, memory)) = kept else { return Err("there is no region".to_owned()) };
    let out = heap.run(job, (memory, bytes), stop).map_err(|error| error.to_string())?;
    Ok(Answer::of(out.ran.took, out.ran.done))
}

/// This process's resident memory; 0 where the system does not tell.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::super::heaps::{Blocks, Fit, Sharing};
    use super::super::patterns::Pattern;
    use super::*;

    fn request(on: Served) -> Request {
        let (pattern, sizes) = (Pattern::Pairs, (1, 1024));
        let (watch, pin) = (false, false);
        let job =
            Job { pattern, threads: 2, sequences: 500, series: 10, sizes, seed: 1, watch, pin };
        Request { on, job, limit_ns: u64::MAX >> 2 }
    }

    /// A heap, the loop, malloc and what cannot be, all of one process.
    #[test]
    fn jobs_are_answered_in_their_order() {
        let heap =
            Heap { fit: Fit::Best, blocks: Blocks::List, sharing: Sharing::PerThread, stripes: 1 };
        let served = [
            Served::Heap { heap, region: 1 << 20 },
            Served::Loop,
            Served::Malloc,
            Served::Heap { heap, region: 64 },
        ];
        let jobs = served.map(|on| serde_json::to_string(&request(on)).unwrap()).join("\n");
        let mut out = Vec::new();
        serve(jobs.as_bytes(), &mut out).unwrap();
        let answers: Vec<Result<Answer, String>> = String::from_utf8(out)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for answer in &answers[..3] {
            let answer = answer.as_ref().unwrap();
            assert_eq!((answer.sequences, answer.damaged), (500, 0));
            assert!(answer.took.wall_ns > 0);
        }
        assert_eq!(answers[0].as_ref().unwrap().failed, 0, "a heap has room");
        assert_eq!(answers[1].as_ref().unwrap().failed, 500, "the loop gives nothing");
        let refused = answers[3].as_ref().unwrap_err();
        assert!(refused.contains("too short for 2 parts"), "{refused}");
    }
}
