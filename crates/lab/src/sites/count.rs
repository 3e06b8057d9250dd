//! Events of a process, counted by call stack.
//!
//! What a stack held at the peak is known without looking at all stacks at every new peak: a stack whose live bytes have
//! not changed since the last peak held what it holds. So each stack notes the number of peaks when it last changed,
//! and takes its note only at the first change after another peak.

use freehold_trace::{Event, ObjectId, Run, StackId, ThreadId};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::ops::Add;

/// What a stack or a site did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Bytes asked for, growth of reallocations included.
    pub allocated_bytes: u64,
    /// Allocations and reallocations.
    pub allocations: u64,
    /// Bytes held at the peak of the process's live bytes.
    pub peak_bytes: u64,
    /// Objects held then.
    pub peak_blocks: u64,
    /// Bytes never freed.
    pub leaked_bytes: u64,
    /// Objects never freed.
    pub leaked_blocks: u64,
    /// Objects that their thread freed as its next event.
    pub temporary: u64,
    /// Their bytes.
    pub temporary_bytes: u64,
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, more: Counts) -> Counts {
        Counts {
            allocated_bytes: self.allocated_bytes.saturating_add(more.allocated_bytes),
            allocations: self.allocations + more.allocations,
            peak_bytes: self.peak_bytes.saturating_add(more.peak_bytes),
            peak_blocks: self.peak_blocks + more.peak_blocks,
            leaked_bytes: self.leaked_bytes.saturating_add(more.leaked_bytes),
            leaked_blocks: self.leaked_blocks + more.leaked_blocks,
            temporary: self.temporary + more.temporary,
            temporary_bytes: self.temporary_bytes.saturating_add(more.temporary_bytes),
        }
    }
}

/// A stack while events are read.
#[derive(Default)]
struct Holding {
    counts: Counts,
    live_bytes: u64,
    live_blocks: u64,
    /// Peaks there had been when it last changed.
    peaks: u64,
}

impl Holding {
    /// Before it changes: what it holds now it held at the last peak, if it has not changed since.
    fn note(&mut self, peaks: u64) {
        if self.peaks != peaks {
            self.counts.peak_bytes = self.live_bytes;
            self.counts.peak_blocks = self.live_blocks;
            self.peaks = peaks;
        }
    }
}

/// A live object.
#[derive(Clone, Copy)]
struct Live {
    stack: StackId,
    size: u64,
}

/// Counts the events of a process.
pub(super) struct Counting {
    stacks: FxHashMap<StackId, Holding>,
    live: FxHashMap<ObjectId, Live>,
    /// What each thread allocated in its last event.
    last: FxHashMap<ThreadId, ObjectId>,
    bytes: u64,
    peak: u64,
    peaks: u64,
}

impl Counting {
    /// A process that begins with so many live bytes of its parent's.
    pub(super) fn new(inherited: u64) -> Counting {
        Counting {
            stacks: FxHashMap::default(),
            live: FxHashMap::default(),
            last: FxHashMap::default(),
            bytes: inherited,
            peak: inherited,
            peaks: 1,
        }
    }

    pub(super) fn see(&mut self, run: &Run<'_>) {
        for (index, timed) in run.events.iter().enumerate() {
            let stack = run.stacks.get(index).copied().unwrap_or_default();
            let last = match timed.event {
                Event::Alloc { object, request } => {
                    self.remove(object);
                    self.add(object, stack, request.size, request.size);
                    Some(object)
                }
                Event::Free { object, .. } => {
                    let at_once = self.last.get(&run.thread) == Some(&object);
                    if let Some(live) = self.remove(object).filter(|_| at_once) {
                        let counts = &mut self.stacks.entry(live.stack).or_default().counts;
                        counts.temporary += 1;
                        counts.temporary_bytes = counts.temporary_bytes.saturating_add(live.size);
                    }
                    None
                }
                Event::Realloc { object, request, .. } => {
                    let before = self.remove(object);
                    // One that came without a stack stays where it was.
                    let from = before.map_or(StackId::NONE, |live| live.stack);
                    let stack = if stack == StackId::NONE { from } else { stack };
                    let grown = request.size.saturating_sub(before.map_or(0, |live| live.size));
                    self.add(object, stack, request.size, grown);
                    Some(object)
                }
                Event::Inherit { object, request } => {
                    // Counted from the beginning, as nobody's here.
                    self.bytes = self.bytes.saturating_sub(request.size);
                    self.add(object, StackId::NONE, request.size, 0);
                    None
                }
                _ => None,
            };
            match last {
                Some(object) => self.last.insert(run.thread, object),
                None => self.last.remove(&run.thread),
            };
        }
    }

    fn add(&mut self, object: ObjectId, stack: StackId, size: u64, allocated: u64) {
        let holding = self.stacks.entry(stack).or_default();
        holding.note(self.peaks);
        holding.live_bytes = holding.live_bytes.saturating_add(size);
        holding.live_blocks += 1;
        holding.counts.allocations += 1;
        holding.counts.allocated_bytes = holding.counts.allocated_bytes.saturating_add(allocated);
        self.live.insert(object, Live { stack, size });
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.peak {
            self.peak = self.bytes;
            self.peaks += 1;
        }
    }

    fn remove(&mut self, object: ObjectId) -> Option<Live> {
        let live = self.live.remove(&object)?;
        let holding = self.stacks.entry(live.stack).or_default();
        holding.note(self.peaks);
        holding.live_bytes = holding.live_bytes.saturating_sub(live.size);
        holding.live_blocks = holding.live_blocks.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(live.size);
        Some(live)
    }

    /// What each stack did.
    pub(super) fn finish(self) -> FxHashMap<StackId, Counts> {
        let done = |(stack, mut holding): (StackId, Holding)| {
            holding.note(self.peaks);
            holding.counts.leaked_bytes = holding.live_bytes;
            holding.counts.leaked_blocks = holding.live_blocks;
            (stack, holding.counts)
        };
        self.stacks.into_iter().map(done).collect()
    }
}
