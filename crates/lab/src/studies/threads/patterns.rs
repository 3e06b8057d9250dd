//! What one thread of an experiment does: the paper's sequences, the series it wished for, and what a
//! server would do.
//!
//! Every block is marked at both ends when it comes and looked at when it goes: a block handed out
//! twice, or overwritten by an allocator, is noticed.

use super::calls::{Calls, Way};
use super::crew::Stop;
use serde::{Deserialize, Serialize};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The order of calls. A *sequence* is one allocation and its deallocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One allocation, then its deallocation: the paper's.
    Pairs,
    /// A series of allocations, then one of frees in the same order: the paper's wish.
    InOrder,
    /// The same, freed in reverse.
    Reverse,
    /// The same, freed in random order.
    Random,
    /// The same, but each thread frees what its neighbour has allocated.
    Handed,
    /// A constant number of live blocks: a random one is freed, a new one allocated.
    Live,
}

impl Pattern {
    /// All, in the order of reports.
    pub const ALL: [Pattern; 6] = [
        Pattern::Pairs,
        Pattern::InOrder,
        Pattern::Reverse,
        Pattern::Random,
        Pattern::Handed,
        Pattern::Live,
    ];

    /// In a report.
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::Pairs => "one by one",
            Pattern::InOrder => "series, in order",
            Pattern::Reverse => "series, reverse",
            Pattern::Random => "series, random",
            Pattern::Handed => "series, freed by the neighbour",
            Pattern::Live => "constant live set",
        }
    }
}

/// How many of what: all threads together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The order of calls.
    pub pattern: Pattern,
    /// Threads, at least 1.
    pub threads: usize,
    /// Sequences, split over the threads.
    pub sequences: u64,
    /// Blocks of a series, and of the live set of all threads together.
    pub series: u32,
    /// Sizes are uniform from the first to the second, in bytes.
    pub sizes: (u32, u32),
    /// Of the sizes.
    pub seed: u64,
    /// Whether every call is timed.
    pub watch: bool,
    /// Whether threads are kept on processors, in turn.
    pub pin: bool,
}

impl Job {
    /// The sequences of one thread.
    fn share(&self, thread: usize) -> u64 {
        let (each, rest) =
            (self.sequences / self.threads as u64, self.sequences % self.threads as u64);
        each + u64::from((thread as u64) < rest)
    }
}

/// A block that lives.
pub struct Object {
    payload: NonNull<u8>,
    size: u32,
    mark: u8,
}

// SAFETY: a block is its holder's alone, whichever thread that is.
unsafe impl Send for Object {}

/// What one thread did.
#[derive(Default)]
pub struct Done {
    /// Sequences.
    pub sequences: u64,
    /// Allocations that failed.
    pub failed: u64,
    /// Blocks whose marks had changed.
    pub damaged: u64,
    /// Nanoseconds of each call, where they were watched.
    pub latencies: Vec<u32>,
}

/// The draws of one thread: Marsaglia's xorshift, good enough for sizes.
#[derive(Clone)]
struct Draws(u64);

impl Draws {
    fn new(seed: u64, thread: usize) -> Draws {
        let mixed = (seed ^ (thread as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Draws(mixed | 1)
    }

    /// Below `bound`.
    #[inline]
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) * bound) >> 32
    }
}

/// Where a thread puts what its neighbour shall free.
#[derive(Default)]
pub struct Mailbox(Mutex<Vec<Object>>);

/// So many series may wait in a mailbox; then they are freed at home.
const MOST_WAITING: usize = 4;

impl Mailbox {
    /// With room for as much as may wait.
    pub fn new(series: u32) -> Mailbox {
        Mailbox(Mutex::new(Vec::with_capacity((MOST_WAITING + 1) * series as usize)))
    }

    fn open<R>(&self, work: impl FnOnce(&mut Vec<Object>) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is left in it.
    pub fn empty(&self) -> Vec<Object> {
        self.open(std::mem::take)
    }
}

/// One thread at work.
pub struct Worker<'a> {
    job: &'a Job,
    thread: usize,
    calls: Way<'a>,
    draws: Draws,
    stop: &'a Stop<'a>,
    mailboxes: &'a [Mailbox],
    done: Done,
    held: Vec<Object>,
}

impl<'a> Worker<'a> {
    /// Ready to begin; has its live set already.
    pub fn new(
        job: &'a Job,
        thread: usize,
        calls: Way<'a>,
        stop: &'a Stop<'a>,
        mailboxes: &'a [Mailbox],
    ) -> Self {
        let share = job.share(thread);
        let watched = if job.watch { 2 * share as usize + job.series as usize } else { 0 };
        let done = Done { latencies: Vec::with_capacity(watched), ..Done::default() };
        let held = Vec::with_capacity((MOST_WAITING + 1) * job.series as usize);
        let draws = Draws::new(job.seed, thread);
        let mut worker = Worker { job, thread, calls, draws, stop, mailboxes, done, held };
        if job.pattern == Pattern::Live {
            let live = (job.series as usize / job.threads).max(1);
            for _ in 0..live {
                let object = worker.take();
                worker.held.extend(object);
            }
            worker.done.latencies.clear();
        }
        worker
    }

    /// Does this thread's share.
    pub fn work(&mut self) {
        let share = self.job.share(self.thread);
        match self.job.pattern {
            Pattern::Pairs => self.pairs(share),
            Pattern::Live => self.live(share),
            _ => self.series(share),
        }
    }

    /// What was done, and what still lives.
    pub fn finish(self) -> (Done, Vec<Object>) {
        (self.done, self.held)
    }

    /// Whether to go on, asked now and then.
    #[inline]
    fn goes_on(&self) -> bool {
        !self.done.sequences.is_multiple_of(64) || !self.stop.is_now()
    }

    fn pairs(&mut self, share: u64) {
        while self.done.sequences < share && self.goes_on() {
            if let Some(object) = self.take() {
                self.give(object);
            }
            self.done.sequences += 1;
        }
    }

    fn live(&mut self, share: u64) {
        while self.done.sequences < share && self.goes_on() {
            if !self.held.is_empty() {
                let victim = self.draws.below(self.held.len() as u64) as usize;
                let object = self.held.swap_remove(victim);
                self.give(object);
            }
            let object = self.take();
            self.held.extend(object);
            self.done.sequences += 1;
        }
    }

    fn series(&mut self, share: u64) {
        while self.done.sequences < share {
            let count = (share - self.done.sequences).min(self.job.series.into());
            for _ in 0..count {
                if !self.goes_on() {
                    return;
                }
                let object = self.take();
                self.held.extend(object);
                self.done.sequences += 1;
            }
            // Half of the last series lives on, to be looked at.
            let keep = if self.done.sequences == share { self.held.len() / 2 } else { 0 };
            self.free_series(keep);
        }
    }

    /// Frees all but `keep` of what is held.
    fn free_series(&mut self, keep: usize) {
        match self.job.pattern {
            Pattern::InOrder => {
                let mut held = std::mem::take(&mut self.held);
                let kept = held.len() - keep;
                held.drain(..kept).for_each(|object| self.give(object));
                self.held = held;
            }
            Pattern::Random => {
                while self.held.len() > keep {
                    let victim = self.draws.below(self.held.len() as u64) as usize;
                    let object = self.held.swap_remove(victim);
                    self.give(object);
                }
            }
            Pattern::Handed => self.hand_over(),
            Pattern::Reverse | Pattern::Pairs | Pattern::Live => {
                while self.held.len() > keep
                    && let Some(object) = self.held.pop()
                {
                    self.give(object);
                }
            }
        }
    }

    /// Puts what is held before the neighbour's door and frees what lies before the own one.
    fn hand_over(&mut self) {
        let most = MOST_WAITING * self.job.series as usize;
        let next = &self.mailboxes[(self.thread + 1) % self.mailboxes.len()];
        next.open(|waiting| {
            if waiting.len() < most {
                waiting.append(&mut self.held);
            }
        });
        while let Some(object) = self.held.pop() {
            self.give(object);
        }
        let own = &self.mailboxes[self.thread];
        own.open(|waiting| std::mem::swap(waiting, &mut self.held));
        while let Some(object) = self.held.pop() {
            self.give(object);
        }
    }

    #[inline]
    fn take(&mut self) -> Option<Object> {
        let (from, to) = self.job.sizes;
        let size = from + self.draws.below(u64::from(to - from) + 1) as u32;
        let payload = match self.job.watch {
            true => {
                let began = Instant::now();
                let payload = self.calls.alloc(size);
                self.note(began);
                payload
            }
            false => self.calls.alloc(size),
        };
        let Some(payload) = payload else {
            self.done.failed += 1;
            return None;
        };
        let object = Object { payload, size, mark: self.draws.0 as u8 };
        let [first, last] = object.ends();
        // SAFETY: the payload has `size` bytes, at least one, and is this thread's alone.
        unsafe {
            first.write(object.mark);
            last.write(object.mark);
        }
        Some(object)
    }

    #[inline]
    fn give(&mut self, object: Object) {
        let [first, last] = object.ends();
        // SAFETY: as in `take`; the object has come here with all that was done to it.
        let whole = unsafe { first.read() == object.mark && last.read() == object.mark };
        self.done.damaged += u64::from(!whole);
        let began = self.job.watch.then(Instant::now);
        // SAFETY: it came from this allocator, and objects are not copied.
        unsafe { self.calls.free(object.payload) };
        if let Some(began) = began {
            self.note(began);
        }
    }

    fn note(&mut self, began: Instant) {
        if self.done.latencies.len() < self.done.latencies.capacity() {
            let ns = began.elapsed().as_nanos();
            self.done.latencies.push(u32::try_from(ns).unwrap_or(u32::MAX));
        }
    }
}

impl Object {
    fn ends(&self) -> [*mut u8; 2] {
        let first = self.payload.as_ptr();
        [first, first.wrapping_add(self.size as usize - 1)]
    }

    /// Frees it by `calls`.
    ///
    /// # Safety
    /// `calls` is of the allocator that it came from.
    pub unsafe fn free(self, calls: &mut dyn Calls) {
        // SAFETY: the caller's promise; objects are not copied.
        unsafe { calls.free(self.payload) };
    }
}
