//! A program's pieces of work on P processors: what they touch, allocate and wait for.
//!
//! ```text
//!   phase ── tasks, dealt out by what they work on, stolen from whoever has most left
//!     task ── words touched (TLB, caches) and objects made and freed (locks of the allocator)
//! ```
//!
//! Each processor has a clock, a TLB and caches of its own. The one whose clock is behind goes next, so
//! locks are taken in the order of time. A phase ends when its last task does; all wait for that.
//!
//! Invariant: an outcome is a function of the work and the machine; times are whole nanoseconds.
//! Not modelled: coherence (a write does not take the line from other caches), distance between nodes,
//! contention for memory, the cost of stealing.

mod alone;

pub use alone::{Found, alone};

use crate::cache::{CacheSpec, Caches, Hits};
use crate::tlb::{Tlb, TlbSpec};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

/// One thing that a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// So many words, from this address on, are read or written one after another.
    Touch {
        /// Of the first.
        address: u64,
        /// At least 1.
        words: u32,
    },
    /// An object, by its number, is allocated.
    Alloc(u32),
    /// An object is freed.
    Free(u32),
}

/// Phases of tasks of ops.
#[derive(Clone, Default, Debug)]
pub struct Work {
    /// All ops, in the order of the tasks.
    pub ops: Vec<Op>,
    /// Where each task ends in `ops`; it begins where the one before it ends.
    pub task_ends: Vec<usize>,
    /// The home of each task: an address that stands for the data it works on.
    pub homes: Vec<u64>,
    /// Where each phase ends in `task_ends`.
    pub phase_ends: Vec<usize>,
    /// Objects are numbered below this.
    pub objects: u32,
}

impl Work {
    /// The ops of these tasks, which follow each other.
    fn phase(&self, tasks: Range<usize>) -> Range<usize> {
        match (self.task_ends.get(..tasks.start), self.task_ends.get(..tasks.end)) {
            (Some(before), Some(within)) => {
                before.last().copied().unwrap_or(0)..within.last().copied().unwrap_or(0)
            }
            _ => 0..0,
        }
    }

    fn task(&self, task: usize) -> Range<usize> {
        let start = task.checked_sub(1).map_or(0, |before| self.task_ends[before]);
        start..self.task_ends[task]
    }
}

/// Who begins with which tasks of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dealing {
    /// Each takes a run of tasks in their order.
    InOrder,
    /// Each owns a part of the memory, and takes the tasks whose home lies there.
    ByHome,
}

/// How the allocator's memory is shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// One lock around everything (the IRIX allocators).
    OneLock,
    /// A heap and a lock per processor; a free locks the heap that the object came from (the paper's
    /// first design).
    PerProcessor,
    /// The same, but a free of another's object goes to that heap's inbox without a lock (glibc's
    /// design with its scaling faults mended).
    Inbox,
    /// So many heaps, dealt out in turn (glibc as it was, with "four or eight").
    Heaps(u32),
}

/// What things cost, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Computing per word touched, the word in the first-level cache.
    pub word: u64,
    /// More, where only the second level has it.
    pub second: u64,
    /// More, where no cache has it.
    pub memory: u64,
    /// An allocation or a free, the lock held.
    pub call: u64,
    /// A free into another heap's inbox.
    pub inbox: u64,
}

/// A machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MachineSpec {
    /// Processors, at least 1.
    pub processors: u32,
    /// The TLB of each.
    pub tlb: TlbSpec,
    /// The caches of each.
    pub caches: [CacheSpec; 2],
    /// What things cost.
    pub costs: Costs,
    /// How the allocator is shared.
    pub sharing: Sharing,
    /// How tasks are dealt out.
    pub dealing: Dealing,
}

/// What came of it, summed over processors unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Run {
    /// When the last task ended.
    pub time_ns: u64,
    /// Words touched.
    pub accesses: u64,
    /// TLB misses.
    pub tlb_misses: u64,
    /// Hits of the two cache levels.
    pub caches: [Hits; 2],
    /// Time in TLB misses.
    pub tlb_ns: u64,
    /// Waiting for locks.
    pub lock_wait_ns: u64,
    /// Waiting at the ends of phases.
    pub idle_ns: u64,
    /// Calls of the allocator that had to wait.
    pub contended: u64,
    /// Calls of the allocator.
    pub calls: u64,
}

struct Processor {
    tlb: Tlb,
    caches: Caches,
    /// Tasks dealt to it and not begun, in their order.
    tasks: VecDeque<u32>,
    /// What is left of the task under way.
    ops: Range<usize>,
}

struct Machine<'a> {
    spec: &'a MachineSpec,
    work: &'a Work,
    processors: Vec<Processor>,
    /// When each lock is free again.
    locks: Vec<u64>,
    /// The heap that an object came from.
    owners: Vec<u32>,
    run: Run,
}

/// Runs the work. O(ops x (ways + log processors)).
pub fn run(work: &Work, spec: &MachineSpec) -> Run {
    let count = spec.processors.max(1);
    let processor = |number: u32| Processor {
        tlb: Tlb::new(&spec.tlb, number.into()),
        caches: Caches::new(spec.caches[0], spec.caches[1]),
        tasks: VecDeque::new(),
        ops: 0..0,
    };
    let heaps = match spec.sharing {
        Sharing::OneLock => 1,
        Sharing::Heaps(heaps) => heaps.clamp(1, count),
        Sharing::PerProcessor | Sharing::Inbox => count,
    };
    let mut machine = Machine {
        spec,
        work,
        processors: (0..count).map(processor).collect(),
        locks: vec![0; heaps as usize],
        // What was made before the work is anybody's.
        owners: (0..work.objects).map(|object| object % heaps).collect(),
        run: Run::default(),
    };
    let mut first = 0;
    for &end in &work.phase_ends {
        machine.phase(first..end);
        first = end;
    }
    machine.finish()
}

impl Machine<'_> {
    fn phase(&mut self, tasks: Range<usize>) {
        self.deal(tasks);
        let begun = self.run.time_ns;
        let mut waiting: BinaryHeap<Reverse<(u64, usize)>> =
            (0..self.processors.len()).map(|processor| Reverse((begun, processor))).collect();
        let (mut last, mut ends) = (begun, 0);
        while let Some(mut behind) = waiting.peek_mut() {
            let Reverse((clock, index)) = *behind;
            if self.processors[index].ops.is_empty() && !self.next_task(index) {
                last = last.max(clock);
                ends += clock;
                PeekMut::pop(behind);
                continue;
            }
            *behind = Reverse((self.step(index, clock), index));
        }
        self.run.idle_ns += last * self.processors.len() as u64 - ends;
        self.run.time_ns = last;
    }

    /// Cuts the tasks, in the order that the dealing asks for, into parts of as many ops. O(n log n).
    fn deal(&mut self, tasks: Range<usize>) {
        let mut order: Vec<u32> = tasks.clone().map(|task| task as u32).collect();
        if self.spec.dealing == Dealing::ByHome {
            order.sort_by_key(|&task| self.work.homes[task as usize]);
        }
        let count = self.processors.len();
        let total: usize = tasks.map(|task| self.work.task(task).len()).sum();
        let mut dealt = 0;
        for task in order {
            let ops = self.work.task(task as usize).len();
            // Its middle decides, so that a part is neither always too long nor too short.
            let part = (2 * dealt + ops) * count / (2 * total).max(1);
            self.processors[part.min(count - 1)].tasks.push_back(task);
            dealt += ops;
        }
        for processor in &mut self.processors {
            processor.tasks.make_contiguous().sort_unstable();
        }
    }

    /// Begins the next task of this processor, or the last one of whoever has most left.
    fn next_task(&mut self, index: usize) -> bool {
        let own = self.processors[index].tasks.pop_front();
        let task = own.or_else(|| {
            let most = self.processors.iter_mut().max_by_key(|other| other.tasks.len());
            most.and_then(|victim| victim.tasks.pop_back())
        });
        if let Some(task) = task {
            self.processors[index].ops = self.work.task(task as usize);
        }
        task.is_some()
    }

    /// Runs on from `clock` up to the next call of the allocator, or the end of the task. A call that
    /// stands first is made now: nobody's clock is behind.
    fn step(&mut self, index: usize, mut clock: u64) -> u64 {
        let mut may_call = true;
        while let Some(at) = self.processors[index].ops.clone().next() {
            match self.work.ops[at] {
                Op::Touch { address, words } => clock += self.touch(index, address, words),
                _ if !may_call => return clock,
                op => clock = self.call(index, op, clock),
            }
            may_call = false;
            self.processors[index].ops.start += 1;
        }
        clock
    }

    fn touch(&mut self, index: usize, address: u64, words: u32) -> u64 {
        let (costs, processor) = (&self.spec.costs, &mut self.processors[index]);
        let misses = processor.tlb.touch(address, words);
        let [second, memory] = processor.caches.touch(address, words);
        u64::from(words) * costs.word
            + misses * self.spec.tlb.miss_ns
            + second * costs.second
            + memory * costs.memory
    }

    fn call(&mut self, index: usize, op: Op, clock: u64) -> u64 {
        let own = index % self.locks.len();
        let heap = match op {
            Op::Alloc(object) => {
                self.owners[object as usize] = own as u32;
                own
            }
            Op::Free(object) => self.owners[object as usize] as usize,
            Op::Touch { .. } => return clock,
        };
        self.run.calls += 1;
        if self.spec.sharing == Sharing::Inbox {
            let costs = &self.spec.costs;
            return clock + if heap == own { costs.call } else { costs.inbox };
        }
        let begins = clock.max(self.locks[heap]);
        self.run.contended += u64::from(begins > clock);
        self.run.lock_wait_ns += begins - clock;
        self.locks[heap] = begins + self.spec.costs.call;
        self.locks[heap]
    }

    fn finish(mut self) -> Run {
        for processor in &self.processors {
            self.run.accesses += processor.tlb.accesses;
            self.run.tlb_misses += processor.tlb.misses;
            self.run.caches.iter_mut().zip(processor.caches.hits).for_each(|(a, b)| a.add(b));
        }
        self.run.tlb_ns = self.run.tlb_misses * self.spec.tlb.miss_ns;
        self.run
    }
}

#[cfg(test)]
#[path = "processors/tests.rs"]
mod tests;
