//! From events in time order to a flat file of operations, one stream per thread.
//!
//! The order of [`Preparation::push`] is the total order on which everything rests: turns, spawns
//! and samples are numbered along it, so every wait of the replay points backwards in it (why that
//! cannot deadlock: `freehold_replayer::op`). The trace's `remote` marks are not needed: the order
//! on each slot is kept whoever touched it.
//!
//! What a trace with damaged blocks lacks is repaired where that is possible: an event about an
//! object that was never made is left out, an object made twice is freed in between.
//!
//! Memory: one entry per live object and per slot, a block per thread.

use std::env;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use freehold_replayer::op::{MAX_SIZE, next_turn};
use freehold_replayer::{Header, Kind, Op};
use freehold_trace::{Api, Event, ObjectId, Record, Request, ThreadId, Tick};
use rustc_hash::FxHashMap;

use super::error::RealError;
use super::slots::{Last, Pockets, Slot, Slots};
use super::stream::{Store, Stream};
use crate::measure::Timeline;

/// The main thread's number among the streams.
const MAIN: usize = 0;

/// One object in so many has its content checked.
const SAMPLED_ONE_IN: u64 = 8;

/// How far an object's number may run ahead of the number of events: more than damaged blocks can
/// have swallowed, less than a table that would not fit in memory.
const SLACK: u64 = 1 << 24;

/// Events in the shortest phase: half a millisecond of replay, so that keeping in step costs little.
const PHASE_EVENTS: u64 = 8192;

/// Most phases of a process.
const MOST_PHASES: usize = 100;

/// What is known of a prepared process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Allocations, frees and reallocations that a replay makes.
    pub events: u64,
    /// Objects that the process brought from its parent and touched; made before the clock starts.
    pub inherited: u64,
    /// Peak of live requested bytes, in the order of the trace; inherited objects are live from the
    /// start.
    pub peak_live: u64,
    /// Threads, the main one included.
    pub threads: u32,
    /// Waits of one thread for another that the replay must keep.
    pub handoffs: u64,
    /// Events left out: unknown frees, and what concerns objects whose making was lost.
    pub left_out: u64,
    /// Allocations that had failed in the recorded program; left out too.
    pub failed: u64,
}

/// A flat file and what is known of it. The file has no name; it goes when this goes.
#[derive(Debug)]
pub struct Prepared {
    pub(super) file: File,
    facts: Facts,
}

impl Prepared {
    /// What is known of it.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }
}

/// A live object.
#[derive(Clone, Copy)]
struct Object {
    slot: Slot,
    size: u64,
    sampled: bool,
}

struct Thread {
    stream: Stream,
    pockets: Pockets,
    ended: bool,
}

/// Takes events and makes the flat file of them.
pub struct Preparation {
    store: Store,
    folder: PathBuf,
    ticks_per_second: u64,
    threads: Vec<Thread>,
    /// The trace's threads, and their places in `threads`.
    known: FxHashMap<ThreadId, usize>,
    /// Threads in the order of their ends.
    ended: Vec<u64>,
    inherited: Option<Stream>,
    objects: Vec<Option<Object>>,
    slots: Slots,
    /// The thread of the event before this one.
    previous: usize,
    first: Option<Tick>,
    elapsed_ns: u64,
    timeline: Timeline<()>,
    /// Ends of phases, counted in `phase_events`.
    phases: Timeline<()>,
    phase_events: u64,
    born: u64,
    /// Live bytes less those inherited, of which the sum is known at the end only.
    live: i128,
    peak: i128,
    inherited_bytes: u64,
    facts: Facts,
}

impl Preparation {
    /// Starts a flat file in `scratch`, or in the system's folder for temporary files.
    ///
    /// # Errors
    /// No file can be made there.
    pub fn new(scratch: Option<&Path>, ticks_per_second: u64) -> Result<Preparation, RealError> {
        let folder = scratch.map_or_else(env::temp_dir, Path::to_owned);
        let made = tempfile::tempfile_in(&folder);
        let file = made.map_err(|source| RealError::Scratch { folder: folder.clone(), source })?;
        let mut preparation = Preparation {
            store: Store::new(file),
            folder,
            ticks_per_second: ticks_per_second.max(1),
            threads: Vec::new(),
            known: FxHashMap::default(),
            ended: Vec::new(),
            inherited: None,
            objects: Vec::new(),
            slots: Slots::default(),
            previous: MAIN,
            first: None,
            elapsed_ns: 0,
            timeline: Timeline::default(),
            phases: Timeline::with_most(MOST_PHASES),
            phase_events: PHASE_EVENTS,
            born: 0,
            live: 0,
            peak: 0,
            inherited_bytes: 0,
            facts: Facts::default(),
        };
        preparation.add_thread(ThreadId(0));
        Ok(preparation)
    }

    /// The next event of the process, in the order of time.
    ///
    /// # Errors
    /// The flat file cannot be written, or object numbers are not dense.
    pub fn push(&mut self, record: &Record) -> Result<(), RealError> {
        let first = *self.first.get_or_insert(record.tick);
        self.elapsed_ns = self.nanoseconds(record.tick.0.saturating_sub(first.0));
        self.take(record).map_err(|trouble| match trouble {
            Stop::Io(source) => RealError::Scratch { folder: self.folder.clone(), source },
            Stop::NotDense(object) => {
                RealError::NotDense { object: object.0, events: self.facts.events }
            }
        })
    }

    /// Places in the replayer's table of the objects that live now, their numbers and sizes.
    pub(crate) fn alive(&self) -> impl Iterator<Item = (u32, ObjectId, u64)> {
        let objects = self.objects.iter().enumerate();
        objects.filter_map(|(id, object)| {
            object.map(|object| (object.slot.0, ObjectId(id as u32), object.size))
        })
    }

    /// Ends all streams and writes the head.
    ///
    /// # Errors
    /// The flat file cannot be written.
    pub fn finish(mut self) -> Result<Prepared, RealError> {
        match self.write_rest() {
            Ok(()) => Ok(Prepared { file: self.store.file, facts: self.facts }),
            Err(source) => Err(RealError::Scratch { folder: self.folder, source }),
        }
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        (u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second)) as u64
    }

    fn take(&mut self, record: &Record) -> Result<(), Stop> {
        let thread = self.thread(record.thread)?;
        match record.event {
            Event::Alloc { object, request } => self.alloc(thread, object, request)?,
            Event::Free { object, .. } => self.free(thread, object)?,
            Event::Realloc { object, request, .. } => self.realloc(thread, object, request)?,
            Event::Inherit { object, request } => self.inherit(thread, object, request)?,
            Event::UnknownFree => self.facts.left_out += 1,
            Event::Failed { .. } => self.facts.failed += 1,
            Event::ThreadEnd => self.thread_end(thread)?,
            Event::ThreadStart | Event::Fork { .. } | Event::Access { .. } => {}
        }
        self.previous = thread;
        Ok(())
    }

    fn alloc(&mut self, thread: usize, id: ObjectId, request: Request) -> Result<(), Stop> {
        if self.object(id)?.is_some() {
            self.free(thread, id)?;
        }
        let slot = self.slots.take(thread as u32, &mut self.threads[thread].pockets);
        let object = self.born(id, slot, request);
        self.count(i128::from(object.size));
        self.operate(thread, slot, &[allocation(request).sampled(object.sampled)])
    }

    fn free(&mut self, thread: usize, id: ObjectId) -> Result<(), Stop> {
        let Some(object) = self.object(id)?.take() else {
            self.facts.left_out += 1;
            return Ok(());
        };
        self.count(-i128::from(object.size));
        let op = Op::plain(Kind::Free, object.size).sampled(object.sampled);
        self.operate(thread, object.slot, &[op])?;
        let home = self.slots.home(object.slot) as usize;
        self.threads[home].pockets.put(object.slot, home == thread);
        Ok(())
    }

    fn realloc(&mut self, thread: usize, id: ObjectId, request: Request) -> Result<(), Stop> {
        let Some(old) = *self.object(id)? else {
            return self.alloc(thread, id, request);
        };
        let new = Object { size: request.size.min(MAX_SIZE), ..old };
        *self.object(id)? = Some(new);
        self.count(i128::from(new.size) - i128::from(old.size));
        let op = Op::plain(Kind::Realloc, new.size).sampled(old.sampled);
        self.operate(thread, old.slot, &[op, Op::plain(Kind::Realloc, old.size)])
    }

    /// An inherited object has been there from the start: it is made before everything else, in a
    /// slot that nothing else has used.
    fn inherit(&mut self, thread: usize, id: ObjectId, request: Request) -> Result<(), Stop> {
        self.object(id)?;
        let slot = self.slots.take_fresh(thread as u32, &mut self.threads[thread].pockets);
        let object = self.born(id, slot, request);
        self.inherited_bytes += object.size;
        self.facts.inherited += 1;
        let last = self.slots.last(slot);
        let op = allocation(request).sampled(object.sampled).on(slot.0, last.turn);
        *last = Last { by: None, turn: next_turn(last.turn) };
        let store = &mut self.store;
        self.inherited.get_or_insert_with(|| Stream::new(store)).push(store, &[op])?;
        Ok(())
    }

    /// The place of an object, alive or not.
    fn object(&mut self, id: ObjectId) -> Result<&mut Option<Object>, Stop> {
        let index = id.0 as usize;
        if index >= self.objects.len() {
            if index as u64 > self.facts.events + self.facts.inherited + SLACK {
                return Err(Stop::NotDense(id));
            }
            self.objects.resize(index + 1, None);
        }
        Ok(&mut self.objects[index])
    }

    /// Notes a new object. `object(id)` has made room for it.
    fn born(&mut self, id: ObjectId, slot: Slot, request: Request) -> Object {
        // Multiplicative hashing spreads the samples over any pattern of sizes in the program.
        self.born = self.born.wrapping_add(1);
        let hash = self.born.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let sampled = hash.is_multiple_of(SAMPLED_ONE_IN);
        let object = Object { slot, size: request.size.min(MAX_SIZE), sampled };
        self.objects[id.0 as usize] = Some(object);
        object
    }

    fn count(&mut self, change: i128) {
        self.live += change;
        self.peak = self.peak.max(self.live);
        self.facts.events += 1;
    }

    /// Appends an operation on a slot, in its turn, and a sample where one is due.
    fn operate(&mut self, thread: usize, slot: Slot, ops: &[Op]) -> Result<(), Stop> {
        let last = *self.slots.last(slot);
        if let Some((by, at)) = last.by
            && by as usize != thread
        {
            self.hand_off(by as usize, at)?;
        }
        let mut placed = [Op::plain(Kind::End, 0); 2];
        placed[..ops.len()].copy_from_slice(ops);
        placed[0] = placed[0].on(slot.0, last.turn);
        let at = self.append(thread, &placed[..ops.len()])?;
        *self.slots.last(slot) = Last { by: Some((thread as u32, at)), turn: next_turn(last.turn) };
        if self.timeline.is_due(self.facts.events) {
            self.timeline.push(self.facts.events, ());
            self.append(thread, &[Op::sample(self.elapsed_ns, self.facts.events)])?;
        }
        if self.facts.events.is_multiple_of(self.phase_events) {
            self.end_phase()?;
        }
        Ok(())
    }

    /// Tells every running thread that a phase ends here; a thread alone is in step with itself.
    fn end_phase(&mut self) -> Result<(), Stop> {
        let number = self.facts.events / self.phase_events;
        if !self.phases.is_due(number) {
            return Ok(());
        }
        self.phases.push(number, ());
        let running = self.threads.iter().filter(|thread| !thread.ended).count();
        if running > 1 {
            let op = Op::phase(running as u64, self.facts.events);
            for thread in self.threads.iter_mut().filter(|thread| !thread.ended) {
                thread.stream.push(&mut self.store, &[op])?;
            }
        }
        Ok(())
    }

    /// Tells the operation at `at` of thread `by` that another thread waits for it.
    fn hand_off(&mut self, by: usize, at: u64) -> Result<(), Stop> {
        self.facts.handoffs += 1;
        Ok(self.threads[by].stream.mark_handoff(&self.store, at)?)
    }

    fn append(&mut self, thread: usize, ops: &[Op]) -> io::Result<u64> {
        self.threads[thread].stream.push(&mut self.store, ops)
    }

    /// The place of a thread, started if this is the first heard of it. What a thread does after its
    /// end (a destructor that ran late) is done by the main thread.
    fn thread(&mut self, id: ThreadId) -> io::Result<usize> {
        match self.known.get(&id) {
            Some(&thread) if self.threads[thread].ended => Ok(MAIN),
            Some(&thread) => Ok(thread),
            None => self.spawn(id),
        }
    }

    fn add_thread(&mut self, id: ThreadId) -> usize {
        let stream = Stream::new(&mut self.store);
        self.threads.push(Thread { stream, pockets: Pockets::default(), ended: false });
        self.known.insert(id, self.threads.len() - 1);
        self.threads.len() - 1
    }

    /// The trace does not say who started a thread. The one that did the event before it is alive
    /// and as near in time as can be known; the main thread stands in for one that has ended.
    fn spawn(&mut self, id: ThreadId) -> io::Result<usize> {
        let parent = if self.threads[self.previous].ended { MAIN } else { self.previous };
        let spawned_before = self.threads.len() as u32 - 1;
        let thread = self.add_thread(id);
        let op = Op::plain(Kind::Spawn, self.ended.len() as u64);
        self.append(parent, &[op.on(thread as u32, spawned_before)])?;
        Ok(thread)
    }

    /// The main thread outlives all others here, whatever it did in the trace: the process is its.
    fn thread_end(&mut self, thread: usize) -> io::Result<()> {
        if thread != MAIN {
            self.append(thread, &[Op::plain(Kind::End, 0)])?;
            self.threads[thread].ended = true;
            self.ended.push(thread as u64);
        }
        Ok(())
    }

    fn write_rest(&mut self) -> io::Result<()> {
        for (number, thread) in self.threads.iter_mut().enumerate() {
            if !thread.ended {
                let kind = if number == MAIN { Kind::End } else { Kind::Park };
                thread.stream.push(&mut self.store, &[Op::plain(kind, 0)])?;
            }
            thread.stream.flush(&self.store)?;
        }
        if let Some(inherited) = &mut self.inherited {
            inherited.push(&mut self.store, &[Op::plain(Kind::End, 0)])?;
            inherited.flush(&self.store)?;
        }
        self.facts.threads = self.threads.len() as u32;
        self.facts.peak_live = (self.peak + i128::from(self.inherited_bytes)).max(0) as u64;
        self.write_head()
    }

    fn write_head(&mut self) -> io::Result<()> {
        let starts: Vec<u64> = self.threads.iter().map(|thread| thread.stream.start).collect();
        let events = self.facts.events;
        // The first position kept is the distance between all of them.
        let kept = std::mem::take(&mut self.timeline).finish(events, ());
        let phases = std::mem::take(&mut self.phases).finish(1, ());
        let phase = phases.first().map_or(1, |&(number, ())| number) * self.phase_events;
        let header = Header {
            threads: starts.len() as u64,
            threads_at: self.store.append_words(&starts)?,
            ended: self.ended.len() as u64,
            ended_at: self.store.append_words(&self.ended)?,
            slots: self.slots.len() as u64,
            inherited_at: self.inherited.as_ref().map_or(0, |stream| stream.start),
            events,
            stride: kept.first().map_or(1, |&(position, ())| position.max(1)),
            phase,
            elapsed_ns: self.elapsed_ns,
            bytes: self.store.bytes(),
        };
        self.store.file.set_len(header.bytes)?;
        self.store.file.write_all_at(&header.to_bytes(), 0)
    }
}

/// Why an event could not be taken.
enum Stop {
    Io(io::Error),
    NotDense(ObjectId),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Io(error)
    }
}

/// The call that makes an object. C++ `operator new` is replayed as malloc, with its alignment.
fn allocation(request: Request) -> Op {
    let kind = match request.api {
        Api::Calloc => Kind::Calloc,
        Api::Aligned => Kind::Aligned,
        Api::New | Api::NewArray if request.align_log2 > 4 => Kind::Aligned,
        Api::Malloc | Api::New | Api::NewArray => Kind::Malloc,
    };
    let op = Op::plain(kind, request.size);
    if kind == Kind::Aligned { op.aligned(request.align_log2) } else { op }
}

#[cfg(test)]
mod tests;
