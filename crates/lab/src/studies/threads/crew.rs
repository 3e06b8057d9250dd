//! Threads that begin together, and what it took until the last one was done.

use super::calls::{Calls, Way};
use super::patterns::{Done, Job, Mailbox, Object, Worker};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Stack of a thread of an experiment: nothing recurses, and a thousand of them shall not need gigabytes.
const STACK: usize = 128 << 10;

/// When a run ends though its work is not done.
pub struct Stop<'a> {
    interrupted: &'a AtomicBool,
    deadline: Instant,
}

impl Stop<'_> {
    /// After `limit`, or when `interrupted` becomes true.
    pub fn after(limit: Duration, interrupted: &AtomicBool) -> Stop<'_> {
        Stop { interrupted, deadline: Instant::now() + limit }
    }

    /// Whether it is time.
    #[inline]
    pub fn is_now(&self) -> bool {
        self.interrupted.load(Relaxed) || Instant::now() >= self.deadline
    }
}

/// What a run took.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Took {
    /// From the first thread's beginning to the last one's end.
    pub wall_ns: u64,
    /// The same with making and joining the threads.
    pub whole_ns: u64,
    /// Processor time of the process, user and system, in the time of `whole_ns`.
    pub processor_ns: u64,
    /// Context switches because a thread waited.
    pub voluntary: u64,
    /// Context switches because its time was up.
    pub involuntary: u64,
}

/// A run: what it took, what was done, what still lives.
pub struct Ran {
    /// What it took.
    pub took: Took,
    /// What all threads did together.
    pub done: Done,
    /// What was not freed. To be freed before the heap ends.
    pub alive: Vec<Object>,
}

/// Why threads could not run.
#[derive(Debug, thiserror::Error)]
pub enum CrewError {
    /// The system gives no more.
    #[error("thread {thread} of {of} could not be started: {source}; ask for fewer threads")]
    Thread {
        /// Which one.
        thread: usize,
        /// Of how many.
        of: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The heap has no place for so many.
    #[error("the heap has no handle for thread {thread} of {of}")]
    Handle {
        /// Which one.
        thread: usize,
        /// Of how many.
        of: usize,
    },
}

/// Opens when all are there; or never, when one could not come.
struct Gate {
    /// How many are there, and whether it was opened or cancelled.
    state: Mutex<(usize, Option<bool>)>,
    changed: Condvar,
    /// Whether `state` says so, for those who wait awake.
    decided: AtomicBool,
    of: usize,
}

/// So long a thread waits awake: one that sleeps is woken tens of microseconds late on an idle processor.
const AWAKE: Duration = Duration::from_millis(2);

impl Gate {
    fn new(of: usize) -> Gate {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Gate { state, changed, decided: AtomicBool::new(false), of }
    }

    fn state(&self) -> MutexGuard<'_, (usize, Option<bool>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, mut state: MutexGuard<'_, (usize, Option<bool>)>, open: bool) {
        state.1 = Some(open);
        self.decided.store(true, Relaxed);
        self.changed.notify_all();
    }

    /// One more is there. Whether it shall begin.
    fn arrive(&self) -> bool {
        let mut state = self.state();
        state.0 += 1;
        if state.0 == self.of && state.1.is_none() {
            self.decide(state, true);
            return true;
        }
        drop(state);
        let came = Instant::now();
        while !self.decided.load(Relaxed) && came.elapsed() < AWAKE {
            std::thread::yield_now();
        }
        let mut state = self.state();
        loop {
            if let Some(open) = state.1 {
                return open;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Those who are there, or will come, are sent home.
    fn cancel(&self) {
        self.decide(self.state(), false);
    }
}

/// The processors that this process may use.
pub fn processors() -> Vec<usize> {
    let mut set = std::mem::MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the kernel fills in the set; zeroed, it is valid in any case.
    let set = unsafe {
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr());
        set.assume_init()
    };
    // SAFETY: numbers below the length of a set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Keeps the calling thread on one of them. Where that is refused it goes where the system wants it.
fn pin(processor: usize) {
    let mut set = std::mem::MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: a zeroed set is an empty one, and the number is one of `processors`.
    unsafe {
        libc::CPU_SET(processor, &mut *set.as_mut_ptr());
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set.as_ptr());
    }
}

/// Runs `job` on threads of its own; `calls` gives each its way in.
///
/// # Errors
/// A thread cannot be made, or has no way in. Live sets that others had by then are lost with the heap.
pub fn run<'h>(
    job: &Job,
    stop: &Stop<'_>,
    calls: &(dyn Fn(usize) -> Option<Way<'h>> + Sync),
) -> Result<Ran, CrewError> {
    let gate = Gate::new(job.threads);
    let processors = if job.pin { processors() } else { Vec::new() };
    let mailboxes: Vec<Mailbox> = (0..job.threads).map(|_| Mailbox::new(job.series)).collect();
    let before = Usage::now();
    let began = Instant::now();
    let work = |thread: usize| {
        if !processors.is_empty() {
            pin(processors[thread % processors.len()]);
        }
        let worker = calls(thread).map(|calls| Worker::new(job, thread, calls, stop, &mailboxes));
        // One that has no way in arrives, too, or the others would wait for it.
        let open = gate.arrive();
        let mut worker = worker.ok_or(CrewError::Handle { thread, of: job.threads })?;
        let began = Instant::now();
        if open {
            worker.work();
        }
        let ended = Instant::now();
        let (done, alive) = worker.finish();
        Ok((began, ended, done, alive))
    };
    let ends = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(job.threads);
        for thread in 0..job.threads {
            let work = &work;
            match Builder::new().stack_size(STACK).spawn_scoped(scope, move || work(thread)) {
                Ok(handle) => threads.push(handle),
                Err(source) => {
                    gate.cancel();
                    return Err(CrewError::Thread { thread, of: job.threads, source });
                }
            }
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>, CrewError>>()
    })?;
    let whole = began.elapsed();
    let used = Usage::now().since(before);
    let first = ends.iter().map(|end| end.0).min().unwrap_or(began);
    let last = ends.iter().map(|end| end.1).max().unwrap_or(began);
    let mut alive: Vec<Object> = mailboxes.iter().flat_map(Mailbox::empty).collect();
    let mut done = Done::default();
    for (_, _, theirs, held) in ends {
        done.sequences += theirs.sequences;
        done.failed += theirs.failed;
        done.damaged += theirs.damaged;
        done.latencies.extend(theirs.latencies);
        alive.extend(held);
    }
    let took = used.took(last - first, whole);
    Ok(Ran { took, done, alive })
}

/// Runs `job`, which is for one thread, on the calling one: the program without threads.
pub fn run_here(job: &Job, stop: &Stop<'_>, calls: Way<'_>) -> Ran {
    let mailboxes = [Mailbox::new(job.series)];
    let before = Usage::now();
    let prepared = Instant::now();
    let mut worker = Worker::new(job, 0, calls, stop, &mailboxes);
    let began = Instant::now();
    worker.work();
    let wall = began.elapsed();
    let took = Usage::now().since(before).took(wall, prepared.elapsed());
    let (done, mut alive) = worker.finish();
    alive.extend(mailboxes[0].empty());
    Ran { took, done, alive }
}

/// As [`run`], of a loop that computes and allocates nothing: what the machine itself gives to threads.
///
/// # Errors
/// As [`run`].
pub fn run_loop(job: &Job, stop: &Stop<'_>) -> Result<Ran, CrewError> {
    run(job, stop, &|thread| Some(Box::new(Idle(thread as u64 + 1))))
}

/// Steps of the loop for one sequence of calls.
const STEPS_A_CALL: u64 = 8;

/// Computes, and has no memory to give.
struct Idle(u64);

impl Calls for Idle {
    #[inline]
    fn alloc(&mut self, _: u32) -> Option<std::ptr::NonNull<u8>> {
        let mut x = self.0;
        for _ in 0..STEPS_A_CALL {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        self.0 = std::hint::black_box(x);
        None
    }

    unsafe fn free(&mut self, _: std::ptr::NonNull<u8>) {}
}

/// What the process has used so far.
#[derive(Clone, Copy, Default)]
struct Usage {
    processor_ns: u64,
    voluntary: u64,
    involuntary: u64,
}

impl Usage {
    fn now() -> Usage {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel fills in the structure; zeroed, it is valid in any case.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Usage {
            processor_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
            voluntary: usage.ru_nvcsw as u64,
            involuntary: usage.ru_nivcsw as u64,
        }
    }

    fn since(self, before: Usage) -> Usage {
        Usage {
            processor_ns: self.processor_ns.saturating_sub(before.processor_ns),
            voluntary: self.voluntary - before.voluntary,
            involuntary: self.involuntary - before.involuntary,
        }
    }

    fn took(self, wall: Duration, whole: Duration) -> Took {
        Took {
            wall_ns: wall.as_nanos() as u64,
            whole_ns: whole.as_nanos() as u64,
            processor_ns: self.processor_ns,
            voluntary: self.voluntary,
            involuntary: self.involuntary,
        }
    }
}
