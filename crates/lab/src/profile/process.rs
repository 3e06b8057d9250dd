//! One process: its events folded into counts, histograms and curves.

use super::calls::Calls;
use super::figures::{Figures, Level, Lifetimes};
use super::frees_between::{FreesBetween, Matrix};
use super::histogram::Histogram;
use super::live::{Change, Held, Live, LiveTable};
use super::size_by_lifetime::SizeByLifetime;
use super::top_sizes::TopSizes;
use freehold_trace::{Event, Header, ObjectId, ProcessId, ProcessInfo, Request, ThreadId, Tick};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;

/// One thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ThreadProfile {
    /// Its number.
    pub thread: u32,
    /// Its events.
    pub events: u64,
    /// Objects it allocated.
    pub allocations: u64,
    /// Bytes it allocated.
    pub allocated_bytes: u64,
    /// Objects it resized.
    pub reallocs: u64,
    /// Objects it freed.
    pub frees: u64,
    /// Of those, objects of other threads.
    pub remote_frees: u64,
}

/// What one process did.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessProfile {
    /// Who it is.
    pub process: ProcessInfo,
    /// What it did, in figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// Each thread.
    pub threads: Vec<ThreadProfile>,
    /// The thread matrix: who frees whose.
    pub frees_between: Vec<FreesBetween>,
}

impl ProcessProfile {
    /// The greatest is judged, and listed first.
    pub fn weight(&self) -> (u64, u64, Reverse<ProcessId>) {
        let own_peak = self.process.own(self.figures.peak.bytes);
        self.process.weight(own_peak, self.figures.events)
    }
}

/// What can be added up over processes.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) events: u64,
    pub(super) calls: Calls,
    pub(super) allocated: u64,
    pub(super) sizes: Histogram,
    pub(super) by_events: Histogram,
    pub(super) by_bytes: Histogram,
    pub(super) by_ticks: Histogram,
    pub(super) heat: SizeByLifetime,
    pub(super) top: TopSizes,
}

pub(super) struct Process {
    info: ProcessInfo,
    pub(super) sums: Sums,
    table: LiveTable<Live>,
    level: Level,
    threads: Vec<ThreadProfile>,
    thread_index: FxHashMap<u32, usize>,
    /// The thread whose run is being read.
    current: usize,
    matrix: Matrix,
}

impl Process {
    pub(super) fn new(info: &ProcessInfo) -> Self {
        Self {
            info: info.clone(),
            sums: Sums::default(),
            table: LiveTable::default(),
            level: Level::new(info.first, info.inherited_bytes, info.inherited_objects),
            threads: Vec::new(),
            thread_index: FxHashMap::default(),
            current: 0,
            matrix: Matrix::default(),
        }
    }

    /// The events that follow are this thread's.
    pub(super) fn enter(&mut self, thread: ThreadId) {
        if self.threads.get(self.current).is_some_and(|current| current.thread == thread.0) {
            return;
        }
        let threads = &mut self.threads;
        self.current = *self.thread_index.entry(thread.0).or_insert_with(|| {
            threads.push(ThreadProfile { thread: thread.0, ..ThreadProfile::default() });
            threads.len() - 1
        });
    }

    pub(super) fn see(&mut self, tick: Tick, event: &Event) -> Change {
        self.sums.events += 1;
        self.threads[self.current].events += 1;
        let change = match *event {
            Event::Alloc { object, request } => self.alloc(tick, object, &request),
            Event::Free { object, .. } => self.free(tick, object),
            Event::Realloc { object, request, .. } => self.realloc(object, &request),
            Event::Inherit { object, request } => self.inherit(tick, object, &request),
            _ => return self.count_other(event),
        };
        self.level.mark(tick, self.sums.allocated);
        change
    }

    fn count_other(&mut self, event: &Event) -> Change {
        let calls = &mut self.sums.calls;
        match event {
            Event::UnknownFree => calls.unknown_frees += 1,
            Event::Failed { .. } => calls.failed += 1,
            Event::Fork { .. } => calls.forks += 1,
            Event::Access { .. } => calls.accesses += 1,
            _ => {}
        }
        Change::default()
    }

    fn alloc(&mut self, tick: Tick, object: ObjectId, request: &Request) -> Change {
        let size = request.size;
        self.sums.calls.count(request.api);
        self.sums.sizes.add(size, size);
        self.sums.top.add(size);
        let thread = &mut self.threads[self.current];
        thread.allocations += 1;
        thread.allocated_bytes = thread.allocated_bytes.saturating_add(size);
        let lost = self.place(tick, object, size, false);
        self.grow(size, 1);
        Change::came(size, lost)
    }

    /// Puts an object into the table; one that is there already lost its free to damage.
    fn place(&mut self, tick: Tick, object: ObjectId, size: u64, inherited: bool) -> Change {
        let live = Live {
            held: Held { size, inherited },
            born_tick: tick.0,
            born_event: self.sums.events,
            born_bytes: self.sums.allocated,
            owner: self.threads[self.current].thread,
        };
        match self.table.insert(object.0, live) {
            None => Change::default(),
            Some(old) => {
                self.sums.calls.contradictions += 1;
                self.remove(&old.held)
            }
        }
    }

    fn grow(&mut self, bytes: u64, objects: u64) {
        self.level.bytes = self.level.bytes.saturating_add(bytes);
        self.level.objects += objects;
        self.sums.allocated = self.sums.allocated.saturating_add(bytes);
    }

    /// An object is live no more.
    fn remove(&mut self, old: &Held) -> Change {
        self.level.bytes = self.level.bytes.saturating_sub(old.size);
        self.level.objects = self.level.objects.saturating_sub(1);
        Change::went(old)
    }

    fn free(&mut self, tick: Tick, object: ObjectId) -> Change {
        let Some(old) = self.table.remove(object.0) else {
            self.sums.calls.contradictions += 1;
            return Change::default();
        };
        let thread = &mut self.threads[self.current];
        let remote = old.owner != thread.thread;
        thread.frees += 1;
        thread.remote_frees += u64::from(remote);
        self.matrix.add(old.owner, thread.thread, old.held.size);
        self.sums.calls.frees += 1;
        self.sums.calls.remote_frees += u64::from(remote);
        if !old.held.inherited {
            self.sums.died(tick, &old);
        }
        self.remove(&old.held)
    }

    fn realloc(&mut self, object: ObjectId, request: &Request) -> Change {
        let thread = &mut self.threads[self.current];
        let Some(live) = self.table.get_mut(object.0).and_then(Option::as_mut) else {
            self.sums.calls.contradictions += 1;
            return Change::default();
        };
        let (Live { held: old, owner, .. }, new) = (*live, request.size);
        thread.reallocs += 1;
        self.sums.calls.reallocs += 1;
        self.sums.calls.remote_reallocs += u64::from(owner != thread.thread);
        live.held = Held { size: new, inherited: false };
        live.owner = thread.thread;
        let change = Change::resized(&old, new);
        self.level.bytes = self.level.bytes.saturating_sub(old.size).saturating_add(new);
        self.sums.allocated = self.sums.allocated.saturating_add(change.allocated);
        change
    }

    /// An inherited object is named: it was live from the beginning.
    fn inherit(&mut self, tick: Tick, object: ObjectId, request: &Request) -> Change {
        self.sums.calls.inherited += 1;
        // Where the table of processes was lost, this is the first that is heard of the object.
        if self.sums.calls.inherited > self.info.inherited_objects {
            self.level.bytes = self.level.bytes.saturating_add(request.size);
            self.level.objects += 1;
        }
        self.place(tick, object, request.size, true)
    }

    pub(super) fn finish(mut self, header: &Header) -> ProcessProfile {
        self.threads.sort_by_key(|thread| thread.thread);
        ProcessProfile {
            process: self.info,
            figures: self.level.finish(&self.sums, header),
            threads: self.threads,
            frees_between: self.matrix.finish(),
        }
    }
}

impl Sums {
    fn died(&mut self, tick: Tick, old: &Live) {
        let (ticks, size) = (tick.0.saturating_sub(old.born_tick), old.held.size);
        self.by_events.add(self.events - old.born_event, size);
        self.by_bytes.add(self.allocated.saturating_sub(old.born_bytes), size);
        self.by_ticks.add(ticks, size);
        self.heat.add(size, ticks);
    }

    pub(super) fn merge(&mut self, other: &Sums) {
        self.events += other.events;
        self.calls.merge(&other.calls);
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.sizes.merge(&other.sizes);
        self.by_events.merge(&other.by_events);
        self.by_bytes.merge(&other.by_bytes);
        self.by_ticks.merge(&other.by_ticks);
        self.heat.merge(&other.heat);
        self.top.merge(&other.top);
    }

    pub(super) fn lifetimes(&self, second: f64) -> Lifetimes {
        Lifetimes {
            events: self.by_events.finish(1.0),
            bytes: self.by_bytes.finish(1.0),
            seconds: self.by_ticks.finish(second),
        }
    }
}
