//! One malloc, fed one process of a trace: what its threads do, in the order of time.
//!
//! Resident memory only falls when pages are given back: in a round of the purger, when a long block is cleared or its pages
//! move. So the peak is known exactly if all pages are counted before each of these, and at the end. (They are not if so few page
//! faults came since they were counted last that there can be no new peak.)
//!
//! Everything measured is an integer sum or a bounded sample, so that one trace gives one answer.

use super::calls;
use super::causes::{self, Found, Owned};
use super::machine::Simulated;
use super::objects::{Object, Objects};
use super::purger::Purger;
use super::settings::Settings;
use super::space::{self, KERNEL_PAGE};
use crate::measure::Timeline;
use crate::real::johnstone_wilson;
use crate::results::{Causes, CausesPoint, Changed, Kind, Outcome, Paged, Point};
use crate::simulate::{Survey, is_believed};
use freehold_core::machine::Machine;
use freehold_core::malloc::units::UNIT;
use freehold_core::malloc::{Cache, NodeHeap};
use freehold_trace::{Api, Event, ObjectId, Record, Request, ThreadId, Tick};
use rustc_hash::{FxHashMap, FxHashSet};

/// The thread that never ends, and does what others seem to do after their end.
const MAIN: ThreadId = ThreadId(0);
/// The key of every simulated heap: any number, the same in every run.
const KEY: usize = 0x5DEE_CE66_D1CE_4E5B;

/// A malloc in the middle of a trace.
pub struct Engine<'a> {
    heap: &'a NodeHeap<Simulated>,
    settings: &'a Settings,
    survey: &'a Survey,
    ticks_per_second: u64,
    threads: FxHashMap<ThreadId, Option<&'a Cache>>,
    cache_units: FxHashSet<usize>,
    objects: Objects,
    owned: Owned,
    purger: Purger,
    live: u64,
    allocated: u64,
    events: u64,
    failures: u64,
    live_sum: u128,
    gross: u64,
    gross_sum: u128,
    peak_live: u64,
    last: Tick,
    /// What was resident when pages were counted last, and the page faults until then.
    seen: u64,
    seen_faults: u64,
    peak: Found,
    timeline: Timeline<(Tick, Point, Causes)>,
}

impl<'a> Engine<'a> {
    /// A fresh heap's, at the first event of the process that was surveyed.
    pub fn new(
        heap: &'a NodeHeap<Simulated>,
        settings: &'a Settings,
        survey: &'a Survey,
        ticks_per_second: u64,
    ) -> Engine<'a> {
        heap.set_key(KEY);
        if let Some(limit) = settings.limit {
            heap.set_limit(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        Engine {
            heap,
            settings,
            survey,
            ticks_per_second: ticks_per_second.max(1),
            threads: FxHashMap::default(),
            cache_units: FxHashSet::default(),
            objects: Objects::default(),
            owned: Owned::default(),
            purger: Purger::default(),
            live: 0,
            allocated: 0,
            events: 0,
            failures: 0,
            live_sum: 0,
            gross: 0,
            gross_sum: 0,
            peak_live: 0,
            last: survey.first,
            seen: 0,
            seen_faults: space::faults(),
            peak: Found::default(),
            timeline: Timeline::with_most(settings.points),
        }
    }

    /// Replays one record. Only what changes memory counts as an event.
    pub fn apply(&mut self, record: &Record) {
        let thread = match self.threads.get(&record.thread) {
            Some(None) => MAIN,
            _ => record.thread,
        };
        self.heap.machine().play(thread.0);
        match record.event {
            Event::Alloc { object, request } | Event::Inherit { object, request } => {
                self.purge_until(record.tick);
                self.allocate(thread, object, &request);
            }
            Event::Free { object, .. } => {
                self.purge_until(record.tick);
                self.free(thread, object);
            }
            Event::Realloc { object, request, .. } => {
                self.purge_until(record.tick);
                self.reallocate(thread, object, &request);
            }
            Event::ThreadEnd => return self.end(thread),
            _ => return,
        }
        self.last = record.tick;
        self.observe();
    }

    /// The thread's cache, taken at its first event; `None` where there is no memory for one.
    fn cache(&mut self, thread: ThreadId) -> Option<&'a Cache> {
        if let Some(cache) = self.threads.get(&thread) {
            return *cache;
        }
        let cache = self.heap.attach()?;
        let at = std::ptr::from_ref(cache).addr();
        self.cache_units.insert(at / UNIT * UNIT);
        self.threads.insert(thread, Some(cache));
        Some(cache)
    }

    fn end(&mut self, thread: ThreadId) {
        if thread == MAIN {
            return;
        }
        if let Some(Some(cache)) = self.threads.insert(thread, None) {
            self.heap.detach(cache);
        }
    }

    fn allocate(&mut self, thread: ThreadId, id: ObjectId, request: &Request) {
        self.allocated = self.allocated.saturating_add(request.size);
        if !is_believed(id, self.events, self.survey.records) {
            return;
        }
        // Its free was lost with a damaged part of the trace.
        self.free(thread, id);
        let decisions = self.heap.machine().decisions();
        if request.api == Api::Calloc && request.size >= decisions.large_discarded_from as u64 {
            self.count_before_pages_go();
        }
        let cache = self.cache(thread);
        let ask = |cache| calls::allocate(self.heap, cache, request);
        let block = cache.map_or(std::ptr::null_mut(), ask);
        self.born(id, block, request.size, 0);
    }

    /// A block for an object of `size` bytes, of which the first `touched` are resident already; null: none.
    fn born(&mut self, id: ObjectId, block: *mut u8, size: u64, touched: u64) {
        let Some(usable) = self.usable(block) else {
            self.failures += u64::from(size > 0);
            return;
        };
        let object = Object { block, size, usable };
        // SAFETY: the heap gave the block for so many bytes, and nobody else has it.
        unsafe { touch(block, touched, size) };
        self.owned.add(&object);
        self.live += size;
        self.gross += usable;
        self.peak_live = self.peak_live.max(self.live);
        self.objects.set(id, object);
    }

    fn usable(&self, block: *mut u8) -> Option<u64> {
        let usable = (!block.is_null()).then(|| self.heap.usable_size(block))?;
        usable.ok().map(|usable| usable as u64)
    }

    fn free(&mut self, thread: ThreadId, id: ObjectId) {
        let Some(object) = self.objects.take(id) else { return };
        self.died(&object);
        // SAFETY: the table named the block, hence it is in use, and names it no more.
        let freed = unsafe {
            match self.cache(thread) {
                Some(cache) => calls::free(self.heap, cache, object.block),
                None => self.heap.free_without_cache(object.block),
            }
        };
        debug_assert_eq!(freed, Ok(()), "a block in use is freed once");
    }

    fn died(&mut self, object: &Object) {
        self.owned.remove(object);
        self.live -= object.size;
        self.gross -= object.usable;
    }

    fn reallocate(&mut self, thread: ThreadId, id: ObjectId, request: &Request) {
        let Some(old) = self.objects.get(id) else {
            // Its own allocation failed, or was lost with damage: it begins here.
            return self.allocate(thread, id, request);
        };
        self.allocated = self.allocated.saturating_add(request.size.saturating_sub(old.size));
        if old.usable >= self.heap.machine().decisions().large_moved_from as u64 {
            self.count_before_pages_go();
        }
        let Some(cache) = self.cache(thread) else { return self.failures += 1 };
        // SAFETY: the table names the block, hence it is in use; from here on only the answer is.
        match unsafe { calls::reallocate(self.heap, cache, old.block, request.size) } {
            Ok(block) if !block.is_null() => {
                self.died(&old);
                self.born(id, block, request.size, old.size);
            }
            _ => self.failures += 1,
        }
    }

    fn observe(&mut self) {
        self.events += 1;
        self.live_sum += u128::from(self.live);
        self.gross_sum += u128::from(self.gross);
        self.purger.consider(self.heap, self.nanoseconds(self.last));
        if self.timeline.is_due(self.events) {
            let sample = self.sample();
            self.timeline.push(self.events, sample);
        }
    }

    /// Does the purger's rounds that were due before `tick`.
    fn purge_until(&mut self, tick: Tick) {
        let now = self.nanoseconds(tick);
        while self.purger.is_due(now) {
            self.count_before_pages_go();
            self.purger.round(self.heap);
        }
    }

    /// Nanoseconds from the process's first event to `tick`, on the purger's clock.
    fn nanoseconds(&self, tick: Tick) -> u64 {
        let ticks = tick.0.saturating_sub(self.survey.first.0);
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second);
        (ns as f64 / self.settings.speed) as u64
    }

    /// Counts all pages if there may be more resident than ever.
    fn count_before_pages_go(&mut self) {
        let most = self.seen + self.heap.machine().grown_since(self.seen_faults);
        if most > self.peak.causes.resident() {
            self.count();
        }
    }

    fn count(&mut self) -> Found {
        let found = causes::find(self.heap, &self.owned, &self.cache_units);
        self.seen = found.causes.resident();
        self.seen_faults = space::faults();
        if self.seen > self.peak.causes.resident() {
            self.peak = found;
        }
        found
    }

    fn sample(&mut self) -> (Tick, Point, Causes) {
        let causes = self.count().causes;
        let point = Point {
            events: self.events,
            allocated: self.allocated,
            seconds: 0.0,
            live: self.live,
            used: causes.resident(),
        };
        (self.last, point, causes)
    }

    /// Events replayed so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Where each object lies, and its bytes.
    pub fn places(&self) -> super::Places {
        self.objects
            .all()
            .map(|(id, object)| (id, object.block.addr() as u64, object.size))
            .collect()
    }

    /// What was found.
    pub fn finish(mut self) -> Outcome {
        let last = self.sample();
        let (final_memory, machine) = (last.1.used, self.heap.machine());
        let (faults, purged) = (machine.faults(final_memory), machine.purged());
        let samples = std::mem::take(&mut self.timeline).finish(self.events, last);
        let seconds = |tick: Tick| {
            tick.0.saturating_sub(self.survey.first.0) as f64 / self.ticks_per_second as f64
        };
        let timed = |(_, (tick, point, _)): &(u64, (Tick, Point, Causes))| Point {
            seconds: seconds(*tick),
            ..*point
        };
        let timeline: Vec<Point> = samples.iter().map(timed).collect();
        let peak_memory = self.peak.causes.resident();
        let internal = 1.0 - self.live_sum as f64 / self.gross_sum.max(1) as f64;
        let sum: u128 = timeline.iter().map(|point| u128::from(point.used)).sum();
        Outcome {
            name: super::NAME.to_owned(),
            kind: Kind::Malloc,
            events: self.events,
            failures: self.failures,
            peak_live: self.peak_live,
            peak_memory,
            final_memory,
            johnstone_wilson: johnstone_wilson(&timeline, peak_memory, self.peak_live),
            internal_fragmentation: (self.gross_sum > 0).then_some(internal),
            page_faults: Some(faults),
            paged: Some(Paged {
                page_size: self.settings.page as u64,
                huge_pages: self.settings.huge_pages,
                speed: self.settings.speed,
                changed: self.changed(),
                mean_memory: (sum / timeline.len().max(1) as u128) as u64,
                purged,
                banks: self.peak.banks,
                at_peak: self.peak.causes,
                over_time: samples
                    .iter()
                    .map(|(events, (_, _, causes))| CausesPoint {
                        events: *events,
                        causes: *causes,
                    })
                    .collect(),
            }),
            timeline,
            ..Outcome::default()
        }
    }

    fn changed(&self) -> Vec<Changed> {
        let changed = self.settings.changed().into_iter();
        changed
            .map(|(name, value)| Changed { name: name.to_owned(), value: value as u64 })
            .collect()
    }
}

/// Writes to bytes `from..size` of a block as `freehold-replayer` does: the first, and the first of each further page.
///
/// # Safety
/// The block has `size` bytes and is the caller's.
unsafe fn touch(block: *mut u8, from: u64, size: u64) {
    const MARK: u8 = 0x5A;
    let (mut offset, size) = (from as usize, size as usize);
    while offset < size {
        // SAFETY: below the block's size.
        unsafe { block.add(offset).write_volatile(MARK) };
        offset += KERNEL_PAGE - (block.addr() + offset) % KERNEL_PAGE;
    }
}
