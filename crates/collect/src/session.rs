//! A recording from its beginning to its end.

use crate::clock::Clock;
use crate::door::{Asked, Door};
use crate::drain::{self, Drain, Tally};
use crate::error::RecordError;
use crate::finish::{self, Ended, Finished};
use crate::mapping::{self, Shared};
use crate::socket::Listener;
use crate::spool::facts::FactWriter;
use crate::spool::{Kind, SpoolWriter};
use crate::watch::{Cost, Watch};
use crate::{launch, signals};
use freehold_record::hello;
use freehold_record::ring_set::Doorbell;
use freehold_trace::{Ending, Summary};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Which events have call stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhichStacks {
    /// None.
    #[default]
    Off,
    /// Allocations and reallocations.
    Allocations,
    /// Frees, too.
    All,
}

impl WhichStacks {
    /// As the program is told.
    pub(crate) fn number(self) -> u32 {
        match self {
            WhichStacks::Off => hello::NO_STACKS,
            WhichStacks::Allocations => hello::STACKS_OF_ALLOCATIONS,
            WhichStacks::All => hello::STACKS_OF_ALL,
        }
    }
}

/// What to record, with what, and where to.
pub struct Options {
    /// The trace.
    pub output: PathBuf,
    /// The preload library: the one that knows of stacks, if any are wanted.
    pub library: PathBuf,
    /// Which events have call stacks.
    pub stacks: WhichStacks,
    /// Whether each stack is compared with a plain walk: to test the recorder.
    pub check_stacks: bool,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// All of the program's environment but what the recorder adds; `None`: the caller's.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// What stands in the trace as its recorder.
    pub recorder: String,
    /// Whether what the program writes to its standard output goes nowhere.
    pub mute: bool,
}

/// How far the recording is; told about five times a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The program runs.
    Recording {
        /// Events so far.
        events: u64,
        /// Bytes of the spool.
        bytes: u64,
    },
    /// The trace is being written.
    Writing {
        /// Events written.
        done: u64,
        /// Events in all.
        total: u64,
    },
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// How the program ended; none if this was only the finishing of a spool.
    pub ended: Option<Ending>,
    /// The trace.
    pub summary: Summary,
    /// Events that happened but are not in the trace.
    pub lost: u64,
    /// Sentences for the user: what is missing and why.
    pub notes: Vec<String>,
    /// The recording is not complete.
    pub incomplete: bool,
    /// From the start of the program to its end.
    pub ran: Duration,
    /// What the recorder took after that: to empty the rings and to write the trace.
    pub finishing: Duration,
    /// How often the map of a process was read.
    pub looks: u64,
    /// The processor's time that this took.
    pub looking: Duration,
}

/// The spool of a trace.
pub fn spool_path(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".spool");
    PathBuf::from(name)
}

/// Records a program and writes its trace. Catches SIGINT, SIGQUIT, SIGTERM and SIGHUP for the whole
/// process, from now on (see `signals`).
///
/// # Errors
/// When the program cannot be started, the output not be written, or the kernel refuses something.
/// A program that fails is no error.
pub fn record(options: &Options, progress: &mut dyn FnMut(Stage)) -> Result<Outcome, RecordError> {
    let spool_path = spool_path(&options.output);
    let created = refusal(&options.output).and_then(|()| SpoolWriter::create(&spool_path));
    let spool =
        created.map_err(|source| RecordError::Output { path: options.output.clone(), source })?;
    let running = begin(options, spool).inspect_err(|_| {
        // Nothing ran, so nothing is lost with the empty spool.
        let _ = std::fs::remove_file(&spool_path);
    })?;
    let recorded = running.wait(progress);
    let finished = finish::finish(&spool_path, &options.output, recorded.known, progress)?;
    Ok(recorded.outcome(options, finished))
}

/// Refuses what the trace could not take the place of, before anything runs.
fn refusal(output: &Path) -> io::Result<()> {
    match std::fs::metadata(output) {
        Ok(found) if found.is_dir() => Err(io::Error::other("it is a folder")),
        Ok(found) if !found.is_file() => Err(io::Error::other("it is no regular file")),
        _ => Ok(()),
    }
}

/// A program that runs, and the threads that serve it.
struct Running {
    child: Child,
    started: Instant,
    clock: Clock,
    doorbell: Arc<Shared<Doorbell>>,
    tally: Arc<Tally>,
    finish: OwnedFd,
    ending: mpsc::Sender<Ending>,
    door: thread::JoinHandle<u32>,
    cost: Arc<Cost>,
    drain: thread::JoinHandle<SpoolWriter>,
}

/// What is known when the program has ended.
struct Recorded {
    ended: Ending,
    processes: u32,
    known: Option<Ended>,
    ran: Duration,
    over: Instant,
    looks: u64,
    looking: Duration,
    /// Processes that could not say that they were there.
    filtered: u32,
    /// Why storing stopped, if it did.
    error: Option<String>,
}

fn begin(options: &Options, mut spool: SpoolWriter) -> Result<Running, RecordError> {
    let clock = Clock::start();
    spool.fact(Kind::Start, 0, &start_fact(options, &clock));
    let (doorbell, doorbell_fd) = mapping::new_doorbell().map_err(setup("shared memory"))?;
    let listener = Listener::new().map_err(setup("a socket"))?;
    let address = listener.address().to_owned();
    let (to_drain, messages) = mpsc::channel();
    let check = if options.check_stacks { hello::CHECK_STACKS } else { 0 };
    let asked = Asked { clock: clock.kind, stacks: options.stacks.number() | check };
    let (to_watch, told) = mpsc::channel();
    let cost = Arc::new(Cost::default());
    let watch = Watch {
        told,
        drain: to_drain.clone(),
        clock,
        cost: Arc::clone(&cost),
        seen: BTreeMap::new(),
    };
    let door = Door::new(listener, doorbell_fd, asked, to_drain, to_watch);
    let door = door.map_err(setup("epoll"))?;
    let (finish, finish_door) = event_fd().map_err(setup("an event descriptor"))?;
    let (ending, ended) = mpsc::channel();
    signals::catch();
    let started = Instant::now();
    let child = launch::start(options, &address)?;
    let root = child.id() as i32;
    signals::pass_to(root);
    let (doorbell, tally) = (Arc::new(doorbell), Arc::new(Tally::default()));
    let drain = Drain {
        spool,
        doorbell: Arc::clone(&doorbell),
        messages,
        tally: Arc::clone(&tally),
        clock,
        live: BTreeMap::new(),
    };
    let watch = thread::spawn(move || watch.run());
    let door = thread::spawn(move || {
        door.serve(root, &finish_door, || ended.recv().unwrap_or(Ending::Unknown), watch)
    });
    let drain = thread::spawn(move || drain.run());
    Ok(Running { child, started, clock, doorbell, tally, finish, ending, door, cost, drain })
}

impl Running {
    /// Waits for the program, then for all of its events.
    fn wait(mut self, progress: &mut dyn FnMut(Stage)) -> Recorded {
        let child = pid_fd(self.child.id() as i32);
        while !is_readable(child.as_ref(), PROGRESS_MS) {
            progress(Stage::Recording {
                events: self.tally.events.load(Ordering::Relaxed),
                bytes: self.tally.bytes.load(Ordering::Relaxed),
            });
            if child.is_none() && self.child.try_wait().is_ok_and(|status| status.is_some()) {
                break;
            }
        }
        // Before the child is reaped: its number may be another's then.
        signals::pass_to(0);
        let ended = self.child.wait().map_or(Ending::Unknown, ending);
        let (ran, over) = (self.started.elapsed(), Instant::now());
        // The receiver lives until the door has it.
        let _ = self.ending.send(ended);
        let raised = raise(&self.finish);
        debug_assert!(raised.is_ok(), "an event descriptor takes a one");
        let processes = self.door.join().unwrap_or(0);
        drain::ring(&self.doorbell);
        let (known, error) = match self.drain.join() {
            Ok(spool) => close(spool, &self.clock),
            Err(_) => (None, Some("the drain failed".to_owned())),
        };
        let looks = self.cost.looks.load(Ordering::Relaxed);
        let looking = Duration::from_nanos(self.cost.ns.load(Ordering::Relaxed));
        let filtered = self.doorbell.filtered.load(Ordering::Relaxed);
        Recorded { ended, processes, known, ran, over, looks, looking, filtered, error }
    }
}

impl Recorded {
    fn outcome(self, options: &Options, finished: Finished) -> Outcome {
        let mut notes = Vec::new();
        if self.processes == 0 {
            let program = options.command.first().map_or(OsStr::new(""), |word| word);
            let reason = launch::why_unrecorded(program);
            notes.push(format!("nothing was recorded of {}: {reason}", program.display()));
        }
        if self.filtered > 0 {
            notes.push(format!(
                "{} forked processes are missing: a filter for system calls (seccomp), set before, might have killed them for asking",
                self.filtered
            ));
        }
        if let Some(error) = self.error {
            notes.push(format!("the recording stopped early: {error}"));
        }
        let incomplete = !notes.is_empty() || finished.lost > 0;
        notes.extend(finished.notes);
        let (summary, lost) = (finished.summary, finished.lost);
        let (ran, finishing) = (self.ran, self.over.elapsed());
        let (looks, looking) = (self.looks, self.looking);
        Outcome {
            ended: Some(self.ended),
            summary,
            lost,
            notes,
            incomplete,
            ran,
            finishing,
            looks,
            looking,
        }
    }
}

/// Ends the spool; what it says at its end, and why it could not be written on, if so.
fn close(mut spool: SpoolWriter, clock: &Clock) -> (Option<Ended>, Option<String>) {
    let ended = Ended { ticks_per_second: clock.ticks_per_second(), lost: spool.lost() };
    let facts = FactWriter::default().number(ended.ticks_per_second);
    let facts = ended.lost.write(facts);
    spool.fact(Kind::Finish, 0, &facts);
    let path = spool.path().display();
    let error = spool.error().map(|error| format!("{path} cannot be written on: {error}"));
    (Some(ended), error)
}

/// How often progress is told.
const PROGRESS_MS: i32 = 200;

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Code(code),
        (None, Some(signal)) => Ending::Signal(signal),
        (None, None) => Ending::Unknown,
    }
}

fn pid_fd(pid: i32) -> Option<OwnedFd> {
    // SAFETY: makes a descriptor, which is ours.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }
}

fn is_readable(fd: Option<&OwnedFd>, timeout_ms: i32) -> bool {
    // A negative descriptor is skipped by poll, which then only waits.
    let fd = fd.map_or(-1, AsRawFd::as_raw_fd);
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, as told.
    unsafe { libc::poll(&mut poll, 1, timeout_ms) > 0 }
}

/// An event descriptor, twice: to raise, and to wait for.
fn event_fd() -> io::Result<(OwnedFd, OwnedFd)> {
    // SAFETY: makes a descriptor, which is ours.
    let raise = unsafe {
        let fd = libc::eventfd(0, libc::EFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let wait = raise.try_clone()?;
    Ok((raise, wait))
}

fn raise(event: &OwnedFd) -> io::Result<()> {
    std::fs::File::from(event.try_clone()?).write_all(&1u64.to_ne_bytes())
}

fn setup(what: &'static str) -> impl FnOnce(io::Error) -> RecordError {
    move |source| RecordError::Setup { what, source }
}

fn start_fact(options: &Options, clock: &Clock) -> FactWriter {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let command: Vec<String> =
        options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    FactWriter::default()
        .number(clock.origin())
        .number(since_1970.as_millis() as u64)
        .text(&options.recorder)
        .texts(&command)
        .number(options.stacks.number().into())
}
