//! What must be known of a process before it is replayed: one cheap pass over its events.

use super::SimulateError;
use crate::results::{ProcessFacts, TraceFacts};
use freehold_trace::{Damage, Event, ObjectId, ProcessId, ProcessInfo, Tick, Trace};
use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, Ordering};

/// The process replayed, in numbers.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// For the results.
    pub facts: TraceFacts,
    /// Most bytes alive at once, as asked for.
    pub peak_live: u64,
    /// When the process's first event was.
    pub first: Tick,
    /// Records of every kind that the process has: the unit of progress.
    pub records: u64,
}

/// Of processes with less than this part of the heaviest one's memory nothing is said on its own.
const LEAST_PART: f64 = 0.1;

/// The process that had the most memory of malloc at once, beside what it inherited: the one that a user means. Of several
/// the one with most events, then the first. `None` when the trace has no process at all. A trace that does not say
/// what its processes had is read.
///
/// # Errors
/// When the file cannot be read, or `interrupted` becomes true.
pub fn heaviest(
    trace: &Trace,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Option<ProcessId>, SimulateError> {
    let processes = with_events(trace);
    if let [] | [_] = processes[..] {
        return Ok(busiest(trace));
    }
    let weights = weights(trace, &processes, progress, interrupted)?;
    Ok(weights.into_iter().max().map(|(_, _, process)| process.0))
}

/// The processes that had, beside what they inherited, at least a tenth of the memory of malloc that the [`heaviest`] had:
/// the heaviest first.
///
/// # Errors
/// When the file cannot be read, or `interrupted` becomes true.
pub fn heavy(
    trace: &Trace,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Vec<ProcessId>, SimulateError> {
    let mut weights = weights(trace, &with_events(trace), progress, interrupted)?;
    weights.sort_unstable_by(|one, other| other.cmp(one));
    let Some(&heaviest) = weights.first() else { return Ok(Vec::new()) };
    let least = (heaviest.0 as f64 * LEAST_PART).max(1.0);
    weights.retain(|weight| *weight == heaviest || weight.0 as f64 >= least);
    Ok(weights.into_iter().map(|(_, _, process)| process.0).collect())
}

fn with_events(trace: &Trace) -> Vec<&ProcessInfo> {
    trace.processes().iter().filter(|process| trace.events_of(process.id) > 0).collect()
}

/// By [`ProcessInfo::weight`], in the order given.
fn weights(
    trace: &Trace,
    processes: &[&ProcessInfo],
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Vec<(u64, u64, Reverse<ProcessId>)>, SimulateError> {
    let (mut weights, mut done) = (Vec::with_capacity(processes.len()), 0);
    for process in processes {
        let events = trace.events_of(process.id);
        let own_peak = match process.peak_bytes {
            Some(peak) => process.own(peak),
            None => {
                let mut told = |records, _| progress(done + records, trace.events());
                tally(trace, process.id, &mut told, interrupted)?.0.own_peak
            }
        };
        done += events;
        weights.push(process.weight(own_peak, events));
    }
    Ok(weights)
}

/// The process with most events, for recordings of programs that are known; the first of several. `None` when the
/// trace has no process at all.
pub fn busiest(trace: &Trace) -> Option<ProcessId> {
    let by_events = |process: &&ProcessInfo| (trace.events_of(process.id), Reverse(process.id));
    trace.processes().iter().max_by_key(by_events).map(|process| process.id)
}

/// Reads the process once. Memory grows with the peak of live objects.
///
/// # Errors
/// When the file cannot be read, the process does not exist or has no event that changes memory,
/// or `interrupted` becomes true. Damage is no error; the facts name it.
pub fn survey(
    trace: &Trace,
    process: ProcessId,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Survey, SimulateError> {
    let info = trace.process(process);
    let info = info
        .ok_or(SimulateError::NoProcess { process: process.0, known: trace.processes().len() })?;
    let (tally, found) = tally(trace, process, progress, interrupted)?;
    if tally.events == 0 {
        return Err(SimulateError::NoEvents { process: process.0 });
    }
    let damage = trace.damage().iter().chain(&found).map(ToString::to_string).collect();
    let seconds = trace.header().seconds(Tick(tally.last.0 - tally.first.0.min(tally.last.0)));
    let command = if info.command.is_empty() { &trace.header().command } else { &info.command };
    let facts = TraceFacts {
        command: command.clone(),
        process: process.0,
        events: tally.events,
        threads: info.threads,
        allocated: tally.allocated,
        seconds,
        malloc: Some(info.malloc.clone()).filter(|malloc| !malloc.is_empty()),
        processes: processes(trace),
        damage,
    };
    Ok(Survey { facts, peak_live: tally.peak_live, first: tally.first, records: tally.records })
}

/// One pass over the events of a process, and what could not be read.
fn tally(
    trace: &Trace,
    process: ProcessId,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<(Tally, Vec<Damage>), SimulateError> {
    let total = trace.events_of(process);
    let mut records = trace.records_of(process)?;
    let mut tally = Tally::new(total);
    while let Some(run) = records.next_run()? {
        for timed in run.events {
            tally.apply(timed.tick, &timed.event);
        }
        if tally.reports_progress() {
            if interrupted.load(Ordering::Relaxed) {
                return Err(SimulateError::Interrupted);
            }
            progress(tally.records, total);
        }
    }
    let damage = records.damage().to_vec();
    Ok((tally, damage))
}

fn processes(trace: &Trace) -> Vec<ProcessFacts> {
    let facts = |process: &ProcessInfo| ProcessFacts {
        process: process.id.0,
        command: process.command.clone(),
        threads: process.threads,
        events: trace.events_of(process.id),
        title: process.title.clone(),
        peak_bytes: process.peak_bytes,
        peak_resident: process.peak_resident,
    };
    trace.processes().iter().map(facts).collect()
}

/// How far ids may be ahead of the events replayed: the part that was lost had objects, too.
const SLACK: u64 = 1 << 22;

/// Whether `object` may be what it says after `events` events of a process that has `most`. Ids
/// are dense, so a greater one comes from damage and would only waste memory (a table's entry for
/// every id below it).
#[inline]
pub fn is_believed(object: ObjectId, events: u64, most: u64) -> bool {
    u64::from(object.0) < most.min(events + SLACK)
}

/// Live and allocated bytes, as a replay without failures will find them.
#[derive(Default)]
struct Tally {
    sizes: Vec<u64>,
    most_objects: u64,
    live: u64,
    peak_live: u64,
    /// Bytes of objects that a parent made, of those touched so far.
    inherited: u64,
    /// The most that was alive beside them.
    own_peak: u64,
    allocated: u64,
    events: u64,
    records: u64,
    reported: u64,
    first: Tick,
    last: Tick,
}

impl Tally {
    fn new(most_objects: u64) -> Self {
        Self { most_objects, ..Self::default() }
    }

    fn apply(&mut self, tick: Tick, event: &Event) {
        self.records += 1;
        if let Event::Inherit { request, .. } = event {
            self.inherited = self.inherited.saturating_add(request.size);
        }
        match *event {
            Event::Alloc { object, request } | Event::Inherit { object, request } => {
                self.allocated = self.allocated.saturating_add(request.size);
                self.set(object, request.size);
            }
            Event::Free { object, .. } => self.set(object, 0),
            Event::Realloc { object, request, .. } => {
                let before = self.sizes.get(object.0 as usize).copied().unwrap_or(0);
                self.allocated = self.allocated.saturating_add(request.size.saturating_sub(before));
                self.set(object, request.size);
            }
            _ => return,
        }
        if self.events == 0 {
            self.first = tick;
        }
        self.last = tick;
        self.events += 1;
    }

    fn set(&mut self, object: ObjectId, size: u64) {
        if !is_believed(object, self.events, self.most_objects) {
            return;
        }
        let index = object.0 as usize;
        if index >= self.sizes.len() {
            self.sizes.resize(index + 1, 0);
        }
        let before = std::mem::replace(&mut self.sizes[index], size);
        self.live = (self.live - before).saturating_add(size);
        self.peak_live = self.peak_live.max(self.live);
        self.own_peak = self.own_peak.max(self.live.saturating_sub(self.inherited));
    }

    /// Now and then.
    fn reports_progress(&mut self) -> bool {
        let due = self.records - self.reported >= 1 << 18;
        if due {
            self.reported = self.records;
        }
        due
    }
}
