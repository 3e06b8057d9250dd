//! The workers of a sweep: processes that do cells, each watched by a thread of the parent.
//!
//! A worker that ends in the middle of a cell is replaced, and the cell tried once more; then the cell has an error.

use super::found::Found;
use super::plan::Cell;
use super::worker::Answer;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often a worker may end in the same cell.
const ATTEMPTS: usize = 2;

/// How often the flag that stops a sweep is looked at.
const BEAT: Duration = Duration::from_millis(50);

/// How to start a worker, and how many.
#[derive(Clone, Copy, Debug)]
pub struct Crew<'a> {
    /// This command.
    pub exe: &'a Path,
    /// The arguments with which it is a worker.
    pub arguments: &'a [&'a str],
    /// A folder for what workers leave.
    pub scratch: &'a Path,
    /// Workers at once.
    pub workers: usize,
}

/// A cell that was done.
#[derive(Debug)]
pub struct Done {
    /// Which of the cells.
    pub at: usize,
    /// What it found.
    pub found: Found,
    /// Seconds that the cell itself took.
    pub seconds: f64,
    /// Whether what was found says something of the cell, and not only of this attempt: then it may be kept.
    pub lasts: bool,
}

impl Crew<'_> {
    /// Does the cells, in their order as workers become free. `each` gets what was found as it comes, on this thread; an error of it,
    /// or the flag, stops all workers at once.
    ///
    /// # Errors
    /// Of `each`; when no worker can be started.
    pub fn work<E: From<io::Error>>(
        &self,
        cells: &[&Cell],
        interrupted: &AtomicBool,
        mut each: impl FnMut(Done) -> Result<(), E>,
    ) -> Result<(), E> {
        // SAFETY: no memory is involved. A worker that was killed closes its pipe, which is an error of writing and not our end.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let groups: Vec<Mutex<Option<u32>>> =
            (0..self.workers.min(cells.len())).map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            let (tells, told) = channel();
            for (number, group) in groups.iter().enumerate() {
                let watcher =
                    Watcher { crew: self, number, cells, next: &next, stop: &stop, group };
                let tells = tells.clone();
                scope.spawn(move || watcher.watch(&tells));
            }
            drop(tells);
            let mut failed = None;
            loop {
                match told.recv_timeout(BEAT) {
                    Err(RecvTimeoutError::Disconnected) => return failed.map_or(Ok(()), Err),
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(Ok(done)) => failed = failed.or(each(done).err()),
                    Ok(Err(error)) => failed = failed.or(Some(E::from(error))),
                }
                if failed.is_some() || interrupted.load(Ordering::Relaxed) {
                    stop.store(true, Ordering::Relaxed);
                    groups.iter().for_each(end_group);
                }
            }
        })
    }
}

/// Ends a worker and the study that it runs: both are in a group of their own.
fn end_group(group: &Mutex<Option<u32>>) {
    let group = group.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(id) = *group {
        // SAFETY: no memory is involved. The group is that of a child that was not waited for yet (the lock is held from
        // its start to the number's keeping, and while it is waited for), so the number means no other.
        unsafe { libc::kill(-(id as i32), libc::SIGKILL) };
    }
}

/// The parent's side of one worker after another.
struct Watcher<'a> {
    crew: &'a Crew<'a>,
    number: usize,
    cells: &'a [&'a Cell],
    next: &'a AtomicUsize,
    stop: &'a AtomicBool,
    group: &'a Mutex<Option<u32>>,
}

impl Watcher<'_> {
    fn watch(&self, tells: &Sender<io::Result<Done>>) {
        let mut worker = None;
        while !self.stop.load(Ordering::Relaxed) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = self.cells.get(at) else { break };
            let done = self.do_cell(&mut worker, cell);
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let done =
                done.map(|Answer { found, seconds, lasts }| Done { at, found, seconds, lasts });
            if tells.send(done).is_err() {
                break;
            }
        }
        if let Some(worker) = worker {
            // Its standard input ends, and with it the worker.
            let _ = self.ended(worker);
        }
    }

    fn do_cell(&self, worker: &mut Option<Worker>, cell: &Cell) -> io::Result<Answer> {
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            let mut one = match worker.take() {
                Some(one) => one,
                None => self.start()?,
            };
            match one.ask(cell) {
                Ok(answer) => {
                    *worker = Some(one);
                    return Ok(answer);
                }
                Err(_) if self.stop.load(Ordering::Relaxed) => {
                    self.ended(one)?;
                    break;
                }
                Err(_) => why = self.epitaph(one)?,
            }
        }
        let found = Found::failed(format!(
            "the worker ended in this cell, {ATTEMPTS} times: {why}; the same command tries it again"
        ));
        Ok(Answer { found, seconds: 0.0, lasts: false })
    }

    fn said(&self) -> PathBuf {
        self.crew.scratch.join(format!("worker-{}.txt", self.number))
    }

    fn start(&self) -> io::Result<Worker> {
        let mut command = Command::new(self.crew.exe);
        command.args(self.crew.arguments).arg(self.crew.scratch);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // A group of its own: Ctrl-C is the parent's business.
        command.stderr(File::create(self.said())?).process_group(0);
        let mut group = self.group.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut child = command.spawn()?;
        *group = Some(child.id());
        let (Some(cells), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a worker has no pipes"));
        };
        Ok(Worker { child, cells, answers: BufReader::new(answers) })
    }

    /// Waits for a worker whose pipes are closed.
    fn ended(&self, worker: Worker) -> io::Result<ExitStatus> {
        let Worker { mut child, cells, answers } = worker;
        drop((cells, answers));
        let mut group = self.group.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *group = None;
        child.wait()
    }

    /// How a worker ended, and the last it said.
    fn epitaph(&self, worker: Worker) -> io::Result<String> {
        end_group(self.group);
        let status = self.ended(worker)?;
        let said = std::fs::read_to_string(self.said()).unwrap_or_default();
        let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
        let how = match status.signal() {
            Some(libc::SIGKILL) => {
                "it was killed, as the system does when memory is short".to_owned()
            }
            Some(signal) => format!("signal {signal}"),
            None => status.to_string(),
        };
        Ok(if said.is_empty() { how } else { format!("{how}: {said}") })
    }
}

/// A process that does cells.
struct Worker {
    child: Child,
    cells: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn ask(&mut self, cell: &Cell) -> io::Result<Answer> {
        let mut line = serde_json::to_vec(cell)?;
        line.push(b'\n');
        self.cells.write_all(&line)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }
}
