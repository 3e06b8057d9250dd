//! One policy, fed one trace: the loop that every replay on simulated memory runs.
//!
//! Invariant: the table of objects names a payload exactly while the object is alive *in the
//! policy*; an object whose allocation failed has none, so its later frees are skipped, and a
//! realloc that fails leaves it as it was.
//!
//! Everything measured is an integer sum or a bounded sample, so that one trace gives one answer.

use super::ahead::{FEW, Few};
use super::external::External;
use super::objects::{Object, Objects};
use super::survey::is_believed;
use crate::measure::{FragmentationMeter, StepHistogram, Timeline};
use crate::results::{Kind, Outcome, Point};
use freehold_blocks::Region;
use freehold_blocks::align::Align;
use freehold_blocks::policy::{Policy, Totals};
use freehold_blocks::probe::{Probe, Step};
use freehold_trace::{Event, ObjectId, Request, Tick, Timed};
use std::ptr::NonNull;

/// Counts steps: every kind of step is one.
#[derive(Default)]
struct Counter(u64);

impl Probe for Counter {
    #[inline(always)]
    fn step(&mut self, _: Step) {
        self.0 += 1;
    }
}

/// A policy in the middle of a trace.
pub struct Engine<P> {
    policy: P,
    objects: Objects,
    most_objects: u64,
    steps: StepHistogram,
    meter: FragmentationMeter,
    gross_sum: u128,
    live: u64,
    allocated: u64,
    events: u64,
    failures: u64,
    last: Tick,
    timeline: Timeline<(Tick, Point)>,
    external: External,
}

impl<P: Policy> Engine<P> {
    /// A fresh policy over `region`; `None` when that is too short for it. No object id of
    /// `most_objects` or above is believed; see [`is_believed`].
    pub fn new(region: Region, most_objects: u64) -> Option<Self> {
        let base = region.base();
        Some(Self {
            policy: P::new(region)?,
            objects: Objects::new(base),
            most_objects,
            steps: StepHistogram::default(),
            meter: FragmentationMeter::default(),
            gross_sum: 0,
            live: 0,
            allocated: 0,
            events: 0,
            failures: 0,
            last: Tick(0),
            timeline: Timeline::default(),
            external: External::default(),
        })
    }

    /// Replays events that follow each other. Looks ahead in them, so that many are faster than
    /// one at a time; what comes out is the same.
    pub fn apply_all(&mut self, events: &[Timed]) {
        let mut next = Few::arrive(&events[..events.len().min(FEW)], &self.objects);
        for (few, at) in events.chunks(FEW).zip(1..) {
            let now = next;
            let following = &events[events.len().min(at * FEW)..];
            next = Few::arrive(following, &self.objects);
            now.foresee(&self.objects, &self.policy);
            for timed in few {
                self.apply(timed.tick, &timed.event);
            }
        }
    }

    /// Replays what happened at `tick`. Only what changes memory counts as an event.
    #[inline]
    pub fn apply(&mut self, tick: Tick, event: &Event) {
        match *event {
            Event::Alloc { object, request } | Event::Inherit { object, request } => {
                self.alloc(object, &request);
            }
            Event::Free { object, .. } => self.release(object),
            Event::Realloc { object, request, .. } => self.realloc(object, &request),
            _ => return,
        }
        self.last = tick;
        self.observe();
    }

    fn alloc(&mut self, object: ObjectId, request: &Request) {
        self.allocated = self.allocated.saturating_add(request.size);
        if !is_believed(object, self.events, self.most_objects) {
            return;
        }
        // Its free was lost with a damaged part of the trace.
        self.release(object);
        match self.place(request) {
            Some(payload) => {
                self.live += request.size;
                self.objects.set(object.0, Object { payload, size: request.size });
            }
            None => self.failures += 1,
        }
    }

    fn place(&mut self, request: &Request) -> Option<NonNull<u8>> {
        let align = Align::from_log2(request.align_log2)?;
        let mut counter = Counter::default();
        let payload = self.policy.alloc(request.size, align, &mut counter);
        self.steps.add(counter.0);
        payload
    }

    fn release(&mut self, object: ObjectId) {
        let Some(Object { payload, size }) = self.objects.take(object.0) else { return };
        let mut counter = Counter::default();
        // SAFETY: by the invariant of the table the payload came from this policy and is alive;
        // the table names it no more, so it is freed once.
        unsafe { self.policy.free(payload, &mut counter) };
        self.steps.add(counter.0);
        self.live -= size;
    }

    /// In place if the policy can, else a new place and then the old one freed, as `realloc` must
    /// (the bytes themselves are not copied).
    fn realloc(&mut self, object: ObjectId, request: &Request) {
        let Some(Object { payload, size }) = self.objects.get(object.0) else {
            return self.realloc_of_nothing(object, request);
        };
        self.allocated = self.allocated.saturating_add(request.size.saturating_sub(size));
        let mut counter = Counter::default();
        // SAFETY: by the invariant of the table the payload came from this policy and is alive.
        let stays = unsafe { self.policy.resize_in_place(payload, request.size, &mut counter) };
        if stays {
            self.steps.add(counter.0);
            self.live = self.live - size + request.size;
            self.objects.set(object.0, Object { payload, size: request.size });
            return;
        }
        let Some(align) = Align::from_log2(request.align_log2) else { return };
        match self.policy.alloc(request.size, align, &mut counter) {
            Some(moved) => {
                self.live += request.size;
                self.live -= size;
                self.objects.set(object.0, Object { payload: moved, size: request.size });
                // SAFETY: the old payload was alive, and the table names the new one now.
                unsafe { self.policy.free(payload, &mut counter) };
            }
            None => self.failures += 1,
        }
        self.steps.add(counter.0);
    }

    /// The object's own allocation failed, or was lost with damage: it begins here.
    #[cold]
    fn realloc_of_nothing(&mut self, object: ObjectId, request: &Request) {
        self.alloc(object, request);
    }

    #[inline]
    fn observe(&mut self) {
        self.events += 1;
        let totals = self.policy.totals();
        self.meter.observe(self.live, totals.extent);
        self.gross_sum += u128::from(totals.used());
        if self.timeline.is_due(self.events) {
            self.timeline.push(self.events, (self.last, self.point(&totals)));
        }
        if self.external.is_due(self.events) {
            self.external.sample(&self.policy, &totals, self.events);
        }
    }

    fn point(&self, totals: &Totals) -> Point {
        Point {
            events: self.events,
            allocated: self.allocated,
            seconds: 0.0,
            live: self.live,
            used: totals.extent,
        }
    }

    /// Events replayed so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// What was found. Ticks become seconds by `ticks_per_second`, from `first` on.
    pub fn finish(self, name: &str, ticks_per_second: u64, first: Tick) -> Outcome {
        let totals = self.policy.totals();
        let last = (self.last, self.point(&totals));
        let external = self.external.finish(&self.policy, &totals, self.events);
        let timed = |(tick, point): (Tick, Point)| Point {
            seconds: tick.0.saturating_sub(first.0) as f64 / ticks_per_second.max(1) as f64,
            ..point
        };
        let nothing = self.events == 0;
        let timeline = self.timeline.finish(self.events, last);
        let live_sum = self.meter.live_sum() as f64;
        let internal = 1.0 - live_sum / (self.gross_sum.max(1)) as f64;
        Outcome {
            name: name.to_owned(),
            kind: Kind::Policy,
            events: self.events,
            failures: self.failures,
            peak_live: self.meter.peak_live(),
            peak_memory: self.meter.peak_used(),
            final_memory: totals.extent,
            johnstone_wilson: self.meter.finish(),
            internal_fragmentation: (self.gross_sum > 0).then_some(internal),
            external_fragmentation: (!nothing).then_some(external),
            steps: Some(self.steps.finish()),
            timeline: if nothing {
                Vec::new()
            } else {
                timeline.into_iter().map(|(_, sample)| timed(sample)).collect()
            },
            ..Outcome::default()
        }
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
