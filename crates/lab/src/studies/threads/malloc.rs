//! The installed mallocs and Freehold's: the same jobs in a process of their own, with the library
//! preloaded.
//!
//! One process an allocator and round, which waits for jobs on its standard input, so that
//! runs of all allocators take turns. Its own memory comes from the tested malloc too, but not while a
//! job runs.

use super::calls::Malloc;
use super::crew::{self, Stop, Took};
use super::measure::Latency;
use super::patterns::Job;
use crate::real::{Allocator, Source};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// What a process may take beyond a run's limit before it is given up.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Serialize, Deserialize)]
struct Request {
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
    /// Resident memory, less what there was before the first job; with what still lived.
    pub resident_bytes: u64,
}

/// A process that runs jobs on a malloc.
pub struct Server {
    child: Child,
    jobs: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Server {
    /// Starts `command`, whose allocator is `allocator`.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(command: &[OsString], allocator: &Allocator) -> io::Result<Server> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        match &allocator.source {
            Source::Libc => command.env_remove("LD_PRELOAD"),
            Source::Environment => &mut command,
            Source::Library(library) => command.env("LD_PRELOAD", library),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let (to, answers) = mpsc::channel();
        let out = child.stdout.take();
        // Ends with the pipe, which ends with the process.
        std::thread::spawn(move || {
            let lines = out.into_iter().flat_map(|out| BufReader::new(out).lines());
            lines.map_while(Result::ok).try_for_each(|line| to.send(line))
        });
        let jobs = child.stdin.take();
        Ok(Server { child, jobs, answers })
    }

    /// Has the job done.
    ///
    /// # Errors
    /// In words: the process has ended, does not answer, or answers something else.
    pub fn run(&mut self, job: &Job, limit: Duration) -> Result<Answer, String> {
        let request = Request { job: *job, limit_ns: limit.as_nanos() as u64 };
        let line = serde_json::to_string(&request).map_err(|error| error.to_string())?;
        let jobs = self.jobs.as_mut().ok_or("its process has no standard input")?;
        let sent = writeln!(jobs, "{line}").and_then(|()| jobs.flush());
        let answer = match sent {
            Ok(()) => self.answers.recv_timeout(limit + PATIENCE).ok(),
            Err(_) => None,
        };
        match answer {
            Some(line) => {
                serde_json::from_str(&line).map_err(|_| format!("its process said: {line}"))
            }
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

/// The other side: does the jobs that come in on this process's malloc, until there are no more.
///
/// # Errors
/// Input that is no job, or output that is refused.
pub fn serve_malloc(jobs: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    let before = resident_bytes();
    for line in jobs.lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let never = AtomicBool::new(false);
        let stop = Stop::after(Duration::from_nanos(request.limit_ns), &never);
        let mut ran = crew::run(&request.job, &stop, |_| Some(Malloc)).map_err(io::Error::other)?;
        let resident_bytes = resident_bytes().saturating_sub(before);
        for object in ran.alive.drain(..) {
            // SAFETY: it came from malloc, as all of this run's.
            unsafe { object.free(&mut Malloc) };
        }
        let answer = Answer {
            took: ran.took,
            sequences: ran.done.sequences,
            failed: ran.done.failed,
            damaged: ran.done.damaged,
            latency: Latency::of(ran.done.latencies),
            resident_bytes,
        };
        writeln!(answers, "{}", serde_json::to_string(&answer)?)?;
        answers.flush()?;
    }
    Ok(())
}

/// This process's resident memory; 0 where the system does not tell.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}
