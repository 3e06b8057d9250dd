//! All processes together: what was live at once, on one axis of time.
//!
//! Invariant: an object counts from its allocation to its free or to the end of its process,
//! whichever comes first, and an inherited one only for the process that made it.

use super::calls::Calls;
use super::curve::{Curve, Point};
use super::histogram::Bucket;
use super::process::{Change, Lifetimes, Peak, Process, Sums};
use super::size_by_lifetime::Cell;
use super::top_sizes::TopSize;
use freehold_trace::{Header, ProcessId, ProcessInfo, Tick};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// What all processes did.
#[derive(Clone, Debug, Serialize)]
pub struct TotalProfile {
    /// Events.
    pub events: u64,
    /// Threads with events.
    pub threads: u64,
    /// From the first event to the last, seconds.
    pub seconds: f64,
    /// Counts by kind.
    pub calls: Calls,
    /// Bytes asked for: sizes of allocations and growth by reallocations.
    pub allocated_bytes: u64,
    /// Most live bytes at once.
    pub peak: Peak,
    /// Most live objects at once.
    pub peak_objects: u64,
    /// Bytes never freed, over all processes.
    pub end_bytes: u64,
    /// Objects never freed.
    pub end_objects: u64,
    /// Sizes asked for, bytes.
    pub sizes: Vec<Bucket>,
    /// The most frequent sizes.
    pub top_sizes: Vec<TopSize>,
    /// Lifetimes of freed objects.
    pub lifetimes: Lifetimes,
    /// Size × lifetime of freed objects.
    pub size_by_lifetime: Vec<Cell>,
    /// Live memory over bytes allocated.
    pub live_over_bytes: Vec<Point>,
    /// Live memory over seconds.
    pub live_over_seconds: Vec<Point>,
}

pub(super) struct Total {
    bytes: u64,
    objects: u64,
    allocated: u64,
    peak: Peak,
    peak_tick: Tick,
    peak_objects: u64,
    over_bytes: Curve,
    over_ticks: Curve,
    /// Bytes and objects each process made and holds.
    held: FxHashMap<ProcessId, (u64, u64)>,
    /// When processes end, the next one last.
    ends: Vec<(Tick, ProcessId)>,
    ended: (u64, u64),
    first: Tick,
    last: Tick,
    threads: u64,
    /// The process of the last event and what it holds, outside the map.
    recent: (ProcessId, (u64, u64)),
}

impl Total {
    pub(super) fn new(infos: &[ProcessInfo]) -> Self {
        let mut ends: Vec<_> = infos.iter().map(|info| (info.last, info.id)).collect();
        ends.sort_by(|a, b| b.cmp(a));
        let first = infos.iter().map(|info| info.first).min().unwrap_or_default();
        Self {
            bytes: 0,
            objects: 0,
            allocated: 0,
            peak: Peak::default(),
            peak_tick: first,
            peak_objects: 0,
            over_bytes: Curve::new(0, 0, 0),
            over_ticks: Curve::new(first.0, 0, 0),
            held: FxHashMap::default(),
            ends,
            ended: (0, 0),
            first,
            last: infos.iter().map(|info| info.last).max().unwrap_or_default(),
            threads: infos.iter().map(|info| u64::from(info.threads)).sum(),
            recent: (ProcessId(0), (0, 0)),
        }
    }

    /// Time has come to `tick`: processes that ended before hold nothing any more.
    #[inline]
    pub(super) fn advance(&mut self, tick: Tick) {
        while let Some(&(end, process)) = self.ends.last()
            && end < tick
        {
            self.end(process);
        }
    }

    #[cold]
    fn end(&mut self, process: ProcessId) {
        self.ends.pop();
        self.switch_to(process);
        let (bytes, objects) = std::mem::take(&mut self.recent.1);
        self.ended = (self.ended.0.saturating_add(bytes), self.ended.1 + objects);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.objects = self.objects.saturating_sub(objects);
    }

    fn switch_to(&mut self, process: ProcessId) {
        self.held.insert(self.recent.0, self.recent.1);
        self.recent = (process, self.held.get(&process).copied().unwrap_or_default());
    }

    #[inline]
    pub(super) fn see(&mut self, process: ProcessId, tick: Tick, change: Change) {
        if self.recent.0 != process {
            self.switch_to(process);
        }
        for (bytes, objects) in
            [(&mut self.bytes, &mut self.objects), (&mut self.recent.1.0, &mut self.recent.1.1)]
        {
            *bytes = bytes.saturating_add_signed(change.bytes);
            *objects = objects.saturating_add_signed(change.objects);
        }
        self.allocated = self.allocated.saturating_add(change.allocated);
        self.over_bytes.add(self.allocated, self.bytes, self.objects);
        self.over_ticks.add(tick.0, self.bytes, self.objects);
        if self.bytes > self.peak.bytes {
            let (bytes, objects) = (self.bytes, self.objects);
            self.peak = Peak { bytes, objects, at_s: 0.0, at_bytes: self.allocated };
            self.peak_tick = tick;
        }
        self.peak_objects = self.peak_objects.max(self.objects);
    }

    pub(super) fn finish<'a>(
        self,
        header: &Header,
        processes: impl Iterator<Item = &'a Process>,
    ) -> TotalProfile {
        let second = 1.0 / header.ticks_per_second.max(1) as f64;
        let mut sums = Sums::default();
        processes.for_each(|process| sums.merge(&process.sums));
        TotalProfile {
            events: sums.events,
            threads: self.threads,
            seconds: header.seconds(Tick(self.last.0.saturating_sub(self.first.0))),
            calls: sums.calls,
            allocated_bytes: sums.allocated,
            peak: Peak { at_s: header.seconds(self.peak_tick), ..self.peak },
            peak_objects: self.peak_objects,
            end_bytes: self.bytes.saturating_add(self.ended.0),
            end_objects: self.objects + self.ended.1,
            sizes: sums.sizes.finish(1.0),
            top_sizes: sums.top.finish(),
            lifetimes: sums.lifetimes(second),
            size_by_lifetime: sums.heat.finish(second),
            live_over_bytes: self.over_bytes.finish(1.0),
            live_over_seconds: self.over_ticks.finish(second),
        }
    }
}
