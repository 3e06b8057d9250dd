//! What is told alike of one process and of all together, and how what is live is followed.

use super::calls::Calls;
use super::curve::{Curve, Point};
use super::histogram::Bucket;
use super::process::Sums;
use super::size_by_lifetime::Cell;
use super::top_sizes::TopSize;
use freehold_trace::{Header, Tick};
use serde::Serialize;

/// The most that was live at once, by bytes, and when.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Peak {
    /// Live bytes.
    pub bytes: u64,
    /// Live objects at that moment.
    pub objects: u64,
    /// When: seconds from the beginning of the trace.
    pub at_s: f64,
    /// When: bytes allocated before.
    pub at_bytes: u64,
}

/// How long objects lived, counted in three ways; objects that were never freed are not here.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Lifetimes {
    /// In events of the process.
    pub events: Vec<Bucket>,
    /// In bytes the process allocated meanwhile.
    pub bytes: Vec<Bucket>,
    /// In seconds.
    pub seconds: Vec<Bucket>,
}

/// Counts, histograms and curves.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Events.
    pub events: u64,
    /// Counts by kind.
    pub calls: Calls,
    /// Bytes asked for: sizes of allocations and growth by reallocations.
    pub allocated_bytes: u64,
    /// Most live bytes at once.
    pub peak: Peak,
    /// Most live objects, at whatever moment.
    pub peak_objects: u64,
    /// Live bytes at the end: never freed.
    pub end_bytes: u64,
    /// Live objects at the end.
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

/// What is live now, the most that ever was, and how it came to be so.
pub(super) struct Level {
    pub(super) bytes: u64,
    pub(super) objects: u64,
    peak: Peak,
    peak_tick: Tick,
    peak_objects: u64,
    over_bytes: Curve,
    over_ticks: Curve,
}

impl Level {
    /// At `first`, so much is live already.
    pub(super) fn new(first: Tick, bytes: u64, objects: u64) -> Self {
        Self {
            bytes,
            objects,
            peak: Peak { bytes, objects, ..Peak::default() },
            peak_tick: first,
            peak_objects: objects,
            over_bytes: Curve::new(0, bytes, objects),
            over_ticks: Curve::new(first.0, bytes, objects),
        }
    }

    /// `bytes` and `objects` are what is live at `tick`, after `allocated` bytes.
    #[inline]
    pub(super) fn mark(&mut self, tick: Tick, allocated: u64) {
        self.over_bytes.add(allocated, self.bytes, self.objects);
        self.over_ticks.add(tick.0, self.bytes, self.objects);
        if self.bytes > self.peak.bytes {
            let (bytes, objects) = (self.bytes, self.objects);
            self.peak = Peak { bytes, objects, at_s: 0.0, at_bytes: allocated };
            self.peak_tick = tick;
        }
        self.peak_objects = self.peak_objects.max(self.objects);
    }

    pub(super) fn finish(self, sums: &Sums, header: &Header) -> Figures {
        let second = 1.0 / header.ticks_per_second.max(1) as f64;
        Figures {
            events: sums.events,
            calls: sums.calls,
            allocated_bytes: sums.allocated,
            peak: Peak { at_s: header.seconds(self.peak_tick), ..self.peak },
            peak_objects: self.peak_objects,
            end_bytes: self.bytes,
            end_objects: self.objects,
            sizes: sums.sizes.finish(1.0),
            top_sizes: sums.top.finish(),
            lifetimes: sums.lifetimes(second),
            size_by_lifetime: sums.heat.finish(second),
            live_over_bytes: self.over_bytes.finish(1.0),
            live_over_seconds: self.over_ticks.finish(second),
        }
    }
}
