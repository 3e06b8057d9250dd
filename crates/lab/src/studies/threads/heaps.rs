//! A fit, merging or not, shared in some way: from names to the heap that runs a job.

use super::calls::{ByHandle, Calls, Unlocked, Way};
use super::crew::{self, CrewError, Ran, Stop};
use super::locks::{Metered, ParkingLot, ParkingLotReadWrite, Seen, Std, StdReadWrite};
use super::patterns::Job;
use crate::holdings::Holdings;
use crate::shared_heap::Parked;
use crate::simulate::Memory;
use freehold_blocks::policy::Policy;
use freehold_blocks::sharing::{
    Exclusive, OneLock, PerThread, ReadWrite, ReaderWriter, Sharing as Shared, Starvation, Striped,
    WriterFirst,
};
use freehold_blocks::{
    BestFit, BestFitList, FirstFit, FirstFitList, Search, Unmerged, WorstFit, WorstFitList,
};
use freehold_os::Linux;
use serde::{Deserialize, Serialize};

/// Which free block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Fit {
    /// The lowest that fits.
    #[serde(rename = "first-fit")]
    First,
    /// The shortest that fits.
    #[serde(rename = "best-fit")]
    Best,
    /// The longest.
    #[serde(rename = "worst-fit")]
    Worst,
}

impl Fit {
    /// In the order of the paper.
    pub const ALL: [Fit; 3] = [Fit::First, Fit::Best, Fit::Worst];

    /// In a report.
    pub const fn name(self) -> &'static str {
        match self {
            Fit::First => "first fit",
            Fit::Best => "best fit",
            Fit::Worst => "worst fit",
        }
    }
}

/// How the free blocks are kept and whether neighbours merge.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blocks {
    /// A list by address, and neighbours merge.
    List,
    /// A list by address; nothing merges.
    ListUnmerged,
    /// Trees, and nothing merges: an ablation, for there is nothing to walk.
    TreeUnmerged,
}

impl Blocks {
    /// In a report.
    pub const fn name(self) -> &'static str {
        match self {
            Blocks::List => "coalescing",
            Blocks::ListUnmerged => "no coalescing",
            Blocks::TreeUnmerged => "no coalescing, trees",
        }
    }
}

/// How the threads share it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Not at all: the program without threads.
    Unlocked,
    /// The paper's lock over a mutex and a condition variable of `std`.
    PaperLock,
    /// `std::sync::RwLock`.
    RwlockStd,
    /// `parking_lot::RwLock`.
    RwlockParkingLot,
    /// The core's own lock.
    MutexFreehold,
    /// `std::sync::Mutex`.
    MutexStd,
    /// `parking_lot::Mutex`.
    MutexParkingLot,
    /// Stripes, each under a lock of the core's.
    Stripes,
    /// A heap a thread.
    PerThread,
}

impl Sharing {
    /// All that threads can use, in the order of reports.
    pub const ALL: [Sharing; 8] = [
        Sharing::PaperLock,
        Sharing::RwlockStd,
        Sharing::RwlockParkingLot,
        Sharing::MutexStd,
        Sharing::MutexParkingLot,
        Sharing::MutexFreehold,
        Sharing::Stripes,
        Sharing::PerThread,
    ];

    /// In a report.
    pub const fn name(self) -> &'static str {
        match self {
            Sharing::Unlocked => "unlocked",
            Sharing::PaperLock => "the paper's lock",
            Sharing::RwlockStd => "rwlock (std)",
            Sharing::RwlockParkingLot => "rwlock (parking_lot)",
            Sharing::MutexStd => "mutex (std)",
            Sharing::MutexParkingLot => "mutex (parking_lot)",
            Sharing::MutexFreehold => "mutex (Freehold's)",
            Sharing::Stripes => "stripes",
            Sharing::PerThread => "heap a thread",
        }
    }

    /// Whether there is a lock that every call takes.
    pub const fn is_locked(self) -> bool {
        !matches!(self, Sharing::Unlocked | Sharing::PerThread)
    }
}

/// One heap of the study.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Heap {
    /// Which free block.
    pub fit: Fit,
    /// How they are kept.
    pub blocks: Blocks,
    /// How they are shared.
    pub sharing: Sharing,
    /// Stripes, where there are stripes.
    pub stripes: u32,
}

/// What a heap looked like when the threads had ended, with what still lived.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct State {
    /// From the start of each part of the region to the highest end that a used block ever had, summed.
    pub heap_bytes: u64,
    /// Free blocks within that.
    pub free_blocks: u64,
    /// Used blocks.
    pub used_blocks: u64,
    /// 1 - longest free block / all free bytes, within that; `None` where nothing is free.
    pub external: Option<f64>,
}

/// What was seen of a scheme besides.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Scheme {
    /// Of all its locks, where they were watched.
    pub locks: Seen,
    /// Searches under a read lock that were in vain, of all.
    pub in_vain: Option<f64>,
    /// What the paper's lock did to its readers.
    pub starvation: Option<Starvation>,
}

/// A run on a heap.
pub struct Outcome {
    /// What it took and what was done.
    pub ran: Ran,
    /// What the heap looked like then.
    pub state: State,
    /// What was seen of the scheme.
    pub scheme: Scheme,
}

/// Why a run on a heap came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum HeapError {
    /// The threads could not run.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// No region of that length.
    #[error("{bytes} B of address space cannot be had: {source}")]
    Memory {
        /// How many.
        bytes: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// Cut in parts it holds not one block.
    #[error("a region of {bytes} B is too short for {parts} parts; set region to more")]
    Short {
        /// Its length.
        bytes: u64,
        /// In how many parts it was to be cut.
        parts: u32,
    },
    /// The heap is damaged: a defect, not a result.
    #[error("{heap} is damaged after {sequences} sequences on {threads} threads: {what}")]
    Broken {
        /// The heap's name.
        heap: String,
        /// How many sequences were made.
        sequences: u64,
        /// On how many threads.
        threads: usize,
        /// What does not hold.
        what: String,
    },
}

impl Heap {
    /// In a report.
    pub fn name(&self) -> String {
        format!("{}, {}, {}", self.fit.name(), self.blocks.name(), self.sharing.name())
    }

    /// Runs `job` on such a heap, new, over `memory` of `bytes` bytes.
    ///
    /// # Errors
    /// Threads that cannot be made, a region that is too short, a heap that is damaged.
    pub fn run(
        &self,
        job: &Job,
        (memory, bytes): (&mut Memory, u64),
        stop: &Stop<'_>,
    ) -> Result<Outcome, HeapError> {
        let on = On { heap: *self, job, memory, bytes, stop };
        use Blocks::{List, ListUnmerged, TreeUnmerged};
        match (self.fit, self.blocks) {
            (Fit::First, List) => on.over::<FirstFitList>(),
            (Fit::Best, List) => on.over::<BestFitList>(),
            (Fit::Worst, List) => on.over::<WorstFitList>(),
            (Fit::First, ListUnmerged) => on.over::<Unmerged<FirstFitList>>(),
            (Fit::Best, ListUnmerged) => on.over::<Unmerged<BestFitList>>(),
            (Fit::Worst, ListUnmerged) => on.over::<Unmerged<WorstFitList>>(),
            (Fit::First, TreeUnmerged) => on.over::<Unmerged<FirstFit>>(),
            (Fit::Best, TreeUnmerged) => on.over::<Unmerged<BestFit>>(),
            (Fit::Worst, TreeUnmerged) => on.over::<Unmerged<WorstFit>>(),
        }
    }
}

/// A job that waits for its policy.
struct On<'a> {
    heap: Heap,
    job: &'a Job,
    memory: &'a mut Memory,
    bytes: u64,
    stop: &'a Stop<'a>,
}

impl On<'_> {
    fn over<P: Search + Send + Sync>(mut self) -> Result<Outcome, HeapError> {
        match self.heap.sharing {
            Sharing::Unlocked => self.unlocked::<P>(),
            Sharing::PaperLock => self
                .reader_writer::<P, WriterFirst<Std>>(WriterFirst::new(Std::default()), |lock| {
                    Some(lock.starvation())
                }),
            Sharing::RwlockStd => self.reader_writer::<P, _>(StdReadWrite::default(), |_| None),
            Sharing::RwlockParkingLot => {
                self.reader_writer::<P, _>(ParkingLotReadWrite::default(), |_| None)
            }
            Sharing::MutexStd => self.one_lock::<P, _>(Std::default()),
            Sharing::MutexParkingLot => self.one_lock::<P, _>(ParkingLot::default()),
            Sharing::MutexFreehold => self.one_lock::<P, _>(Parked::new(Linux)),
            Sharing::Stripes => self.stripes::<P>(),
            Sharing::PerThread => self.per_thread::<P>(),
        }
    }

    fn short(&self, parts: u32) -> HeapError {
        HeapError::Short { bytes: self.bytes, parts }
    }

    /// The whole region, for one heap at a time.
    fn region(&mut self) -> Result<freehold_blocks::Region, HeapError> {
        let parts = 1;
        // SAFETY: every run makes its heap anew from this, and drops it before it returns.
        unsafe { self.memory.region() }.ok_or(HeapError::Short { bytes: self.bytes, parts })
    }

    fn policy<P: Policy>(&mut self) -> Result<P, HeapError> {
        let region = self.region()?;
        P::new(region).ok_or_else(|| self.short(1))
    }

    fn unlocked<P: Policy>(&mut self) -> Result<Outcome, HeapError> {
        let mut policy = self.policy::<P>()?;
        let mut ran = crew::run_here(self.job, self.stop, Box::new(Unlocked(&mut policy)));
        let mut holds = Holdings::default();
        holds.add(&policy);
        free_all(&mut ran, &mut Unlocked(&mut policy));
        let mut left = Holdings::default();
        left.add(&policy);
        self.outcome(ran, holds, left, Scheme::default())
    }

    fn reader_writer<P: Search + Send + Sync, L: ReadWrite>(
        &mut self,
        lock: L,
        starvation: impl Fn(&L) -> Option<Starvation>,
    ) -> Result<Outcome, HeapError> {
        let policy = self.policy::<P>()?;
        let heap = ReaderWriter::new(policy, Metered::new(lock, self.job.watch));
        self.shared(heap, |heap| {
            let (locks, searches) = (heap.lock().seen(), heap.searches());
            let all = searches.good + searches.in_vain;
            let in_vain = Some(searches.in_vain as f64 / all.max(1) as f64);
            Scheme { locks, in_vain, starvation: starvation(heap.lock().lock()) }
        })
    }

    fn one_lock<P: Policy + Send, L: Exclusive>(&mut self, lock: L) -> Result<Outcome, HeapError> {
        let policy = self.policy::<P>()?;
        let heap = OneLock::new(policy, Metered::new(lock, self.job.watch));
        self.shared(heap, |heap| Scheme { locks: heap.lock().seen(), ..Scheme::default() })
    }

    fn stripes<P: Policy + Send>(&mut self) -> Result<Outcome, HeapError> {
        let (count, watch) = (self.heap.stripes, self.job.watch);
        let lock = || Metered::new(Parked::new(Linux), watch);
        let heap = Striped::<Vec<_>, P, _>::new(self.region()?, count, lock);
        let heap = heap.ok_or_else(|| self.short(count))?;
        self.shared(heap, |heap| {
            let locks = heap.stripes().iter().map(|stripe| stripe.lock().seen());
            Scheme { locks: locks.fold(Seen::default(), Seen::plus), ..Scheme::default() }
        })
    }

    fn per_thread<P: Policy + Send>(&mut self) -> Result<Outcome, HeapError> {
        let count = self.job.threads as u32;
        let heap = PerThread::<Vec<_>, P>::new(self.region()?, count);
        let heap = heap.ok_or_else(|| self.short(count))?;
        self.shared(heap, |_| Scheme::default())
    }

    fn shared<H: Shared>(
        &self,
        mut heap: H,
        scheme: impl Fn(&H) -> Scheme,
    ) -> Result<Outcome, HeapError> {
        let calls =
            |thread| heap.handle(thread).map(|handle| Box::new(ByHandle(handle)) as Way<'_>);
        let mut ran = crew::run(self.job, self.stop, &calls)?;
        let scheme = scheme(&heap);
        let mut holds = Holdings::default();
        heap.inspect(|policy| holds.add(policy));
        if let Some(handle) = heap.handle(0) {
            free_all(&mut ran, &mut ByHandle(handle));
        }
        let mut left = Holdings::default();
        heap.inspect(|policy| left.add(policy));
        self.outcome(ran, holds, left, scheme)
    }

    /// Everything must be as it was, and whole.
    fn outcome(
        &self,
        ran: Ran,
        holds: Holdings,
        left: Holdings,
        scheme: Scheme,
    ) -> Result<Outcome, HeapError> {
        let broken = |what: String| HeapError::Broken {
            heap: self.heap.name(),
            sequences: ran.done.sequences,
            threads: self.job.threads,
            what,
        };
        if let Some(what) = holds.broken.or(left.broken) {
            return Err(broken(what.to_string()));
        }
        if ran.done.damaged > 0 {
            return Err(broken(format!("{} blocks were overwritten", ran.done.damaged)));
        }
        if left.used_blocks > 0 {
            return Err(broken(format!("{} blocks were lost", left.used_blocks)));
        }
        Ok(Outcome { state: state(&holds), ran, scheme })
    }
}

/// Frees what still lives.
fn free_all(ran: &mut Ran, calls: &mut dyn Calls) {
    for object in ran.alive.drain(..) {
        // SAFETY: whoever made the run made `calls`, of the same heap.
        unsafe { object.free(calls) };
    }
}

fn state(holds: &Holdings) -> State {
    State {
        heap_bytes: holds.heap_bytes,
        free_blocks: holds.free_blocks,
        used_blocks: holds.used_blocks,
        external: holds.external(),
    }
}
