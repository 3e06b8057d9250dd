//! The merge: one stream for each thread of each process, a heap over their next events.
//!
//! Invariant: a thread that is not over stands in the heap, or runs, or waits for an event of one that
//! is not over either (see [`Waits`]), which [`Merge::wake`]s it.

mod early;

use super::Stop;
use super::blanks::Blanks;
use super::kept::{self, Block};
use super::plan::{Look, Plan};
use super::space::Space;
use super::waits::{self, Waits};
use super::whose;
use crate::session::Stage;
use crate::signals;
use crate::spool::codec::Event as Seen;
use crate::spool::{Loader, Spool, Stream};
use crate::stacks::Trie;
use early::Oddity;
use freehold_record::packed::Kind;
use freehold_trace::namer::{Anomalies, Moving};
use freehold_trace::{
    Api, Begin, Event, MapEvent, Namer, Part, ProcessId, ProcessInfo, Record, Request, Resident,
    StackId, ThreadId, Tick, What, Writer,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Less free memory of malloc's is nobody's.
const LEAST_FREE: u64 = 1 << 20;
/// Most stacks of which a look tells the pages that they keep, and how much of their blocks is blank.
const MOST_KEPT: usize = 64;
/// Events between two words of progress.
const PROGRESS_EVENTS: u64 = 1 << 16;

/// Place in the order of time: tick, frees before the rest, then the thread (for determinism).
type Key = (u64, u8, u32);

/// Forks stand between frees and allocations of their tick.
const RANK_FREE: u8 = 0;
const RANK_FORK: u8 = 1;
const RANK_REST: u8 = 2;

/// A thread of the recording.
struct Thread {
    process: ProcessId,
    thread: ThreadId,
    stream: Stream,
    /// No event of this thread is given an earlier tick: the last one's, or that of another thread's
    /// event that one of this was moved behind.
    floor: u64,
    /// Events told.
    told: u64,
    /// How many must have been told for somebody who waits; [`waits::NOBODY`] else.
    awaited: u64,
    /// Addresses of which the second event of a pair is to come (see [`Oddity::Pair`]).
    pairs: Vec<u64>,
    /// The reallocation under way, and its first tick.
    moving: Option<(Moving, u64)>,
    /// The thread's end came; it is told after whatever still follows.
    ended: bool,
}

impl Thread {
    /// Where its next event stands in the order of time.
    #[inline]
    fn key(&self, index: usize) -> Option<Key> {
        let event = self.stream.peek()?;
        let rank = match event.kind {
            Kind::Free | Kind::ReallocBegin => RANK_FREE,
            _ => RANK_REST,
        };
        Some((event.tick.max(self.floor), rank, index as u32))
    }

    /// Whether the event is the second of a pair.
    #[inline]
    fn ends_pair(&mut self, seen: &Seen) -> bool {
        if self.pairs.is_empty() || makes_object(seen.kind).is_none() {
            return false;
        }
        let at = self.pairs.iter().position(|&address| address == seen.address);
        at.map(|at| self.pairs.swap_remove(at)).is_some()
    }
}

/// What became of a thread's next event.
enum Told {
    /// It is told, or there is none.
    Yes,
    /// It is told, and somebody stands in the heap who waited for it.
    Awaited,
    /// The thread waits.
    Waits,
}

/// A fork to come.
struct Fork {
    child: ProcessId,
    parent: ProcessId,
    thread: ThreadId,
}

/// Events not yet explained, by what became of them.
#[derive(Default)]
pub struct Unexplained {
    counts: Anomalies,
    damaged: u64,
}

impl Unexplained {
    /// For the user.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: u64, what: &str| {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        };
        note(self.damaged, "blocks of the recording are damaged and left out");
        note(self.counts.implied_frees, "frees were not seen and are implied");
        note(self.counts.unknown_frees, "frees are of objects made before the recording or unseen");
        notes
    }
}

/// What a merge leaves: what it could not explain, the stacks, and what processes had in memory.
pub type Merged = (Unexplained, Trie, BTreeMap<ProcessId, Vec<Resident>>);

/// The merge of a spool into a writer.
pub struct Merge<'a> {
    plan: &'a Plan,
    spool: &'a Spool,
    loader: Loader<'a>,
    writer: &'a mut Writer,
    namer: Namer,
    threads: Vec<Thread>,
    forks: Vec<Fork>,
    looks: Vec<(ProcessId, Look)>,
    /// What each process has outside of malloc.
    spaces: Vec<Option<Box<Space>>>,
    /// What was seen of each process's memory; its parts are not named yet.
    samples: BTreeMap<ProcessId, Vec<Resident>>,
    /// Processes as they are known by now.
    infos: BTreeMap<ProcessId, ProcessInfo>,
    /// Threads by their index; forks from `threads.len()` on, then looks.
    heap: BinaryHeap<Reverse<Key>>,
    waits: Waits,
    /// What of a process is still to come, forks of it included: at 0 its memory is forgotten.
    pending: Vec<u32>,
    unexplained: Unexplained,
    done: u64,
    total: u64,
}

impl<'a> Merge<'a> {
    /// Announces all processes and lines up all threads.
    pub fn new(spool: &'a Spool, plan: &'a Plan, writer: &'a mut Writer) -> Result<Self, Stop> {
        let mut merge = Merge {
            plan,
            spool,
            loader: Loader::new(spool, Trie::new(plan))?,
            writer,
            namer: Namer::new(),
            threads: Vec::new(),
            forks: Vec::new(),
            looks: Vec::new(),
            spaces: Vec::new(),
            samples: BTreeMap::new(),
            infos: BTreeMap::new(),
            heap: BinaryHeap::new(),
            waits: Waits::new(spool.threads.len()),
            pending: Vec::new(),
            unexplained: Unexplained::default(),
            done: 0,
            total: spool.events,
        };
        merge.line_up_threads(spool);
        merge.line_up_forks();
        merge.line_up_looks();
        merge.announce();
        Ok(merge)
    }

    /// In the order in which a reader of the trace has them, for both break ties by it.
    fn line_up_threads(&mut self, spool: &Spool) {
        let mut threads: Vec<_> = spool.threads.iter().collect();
        threads.sort_by_key(|(process, thread, _)| (*process, *thread));
        for (process, thread, places) in threads {
            let stream = Stream::new(places.clone(), *process);
            let index = self.threads.len() as u32;
            let begins = stream.begins().unwrap_or(0);
            self.heap.push(Reverse((begins, RANK_FREE, index)));
            let (process, thread) = (ProcessId(*process), ThreadId(*thread));
            self.threads.push(Thread {
                process,
                thread,
                stream,
                floor: self.plan.origin,
                told: 0,
                awaited: waits::NOBODY,
                pairs: Vec::new(),
                moving: None,
                ended: false,
            });
            *self.pending_of(process) += 1;
        }
    }

    fn line_up_forks(&mut self) {
        for process in self.plan.processes.values() {
            let (child, Some(parent)) = (process.info.id, process.info.parent) else { continue };
            if process.info.begins != Begin::Fork {
                continue;
            }
            let index = (self.threads.len() + self.forks.len()) as u32;
            let thread = process.forked_by.unwrap_or_default();
            self.forks.push(Fork { child, parent, thread });
            self.heap.push(Reverse((process.tick, RANK_FORK, index)));
            *self.pending_of(parent) += 1;
        }
    }

    fn line_up_looks(&mut self) {
        let first = self.threads.len() + self.forks.len();
        for process in self.plan.processes.values() {
            for &look in &process.looks {
                let index = (first + self.looks.len()) as u32;
                self.looks.push((process.info.id, look));
                self.heap.push(Reverse((look.tick, RANK_REST, index)));
                *self.pending_of(process.info.id) += 1;
            }
        }
    }

    /// The spool is there until the trace is whole, so nothing need be said twice.
    fn announce(&mut self) {
        for process in self.plan.processes.values() {
            self.infos.insert(process.info.id, process.info.clone());
            self.writer.process_at_end(process.info.clone());
        }
    }

    fn space(&mut self, process: ProcessId) -> &mut Space {
        let index = process.0 as usize;
        if index >= self.spaces.len() {
            self.spaces.resize_with(index + 1, || None);
        }
        self.spaces[index].get_or_insert_default()
    }

    fn pending_of(&mut self, process: ProcessId) -> &mut u32 {
        let index = process.0 as usize;
        if index >= self.pending.len() {
            self.pending.resize(index + 1, 0);
        }
        &mut self.pending[index]
    }

    /// Merges everything.
    pub fn run(mut self, progress: &mut dyn FnMut(Stage)) -> Result<Merged, Stop> {
        while let Some(Reverse((_, _, index))) = self.heap.pop() {
            match (index as usize).checked_sub(self.threads.len()) {
                Some(fork) if fork < self.forks.len() => self.fork(fork)?,
                Some(look) => self.look(look - self.forks.len())?,
                None => self.run_of(index as usize, progress)?,
            }
        }
        Ok((self.unexplained, self.loader.trie, self.samples))
    }

    /// The events of one thread up to the next event of another.
    fn run_of(&mut self, index: usize, progress: &mut dyn FnMut(Stage)) -> Result<(), Stop> {
        // Until now, a thread of which nothing was read stood at the tick of its first block.
        self.threads[index].stream.begin(&mut self.loader)?;
        let mut until = self.next_of_others();
        while let Some(key) = self.threads[index].key(index) {
            if key > until {
                self.heap.push(Reverse(key));
                return Ok(());
            }
            match self.tell(index)? {
                Told::Yes => {}
                Told::Awaited => until = self.next_of_others(),
                Told::Waits => return Ok(()),
            }
            self.done += 1;
            if self.done.is_multiple_of(PROGRESS_EVENTS) {
                if signals::interrupted() {
                    return Err(Stop::Interrupted);
                }
                progress(Stage::Writing { done: self.done, total: self.total });
            }
        }
        self.thread_is_over(index)
    }

    fn next_of_others(&self) -> Key {
        self.heap.peek().map_or((u64::MAX, u8::MAX, u32::MAX), |next| next.0)
    }

    /// Tells the trace what the thread did next.
    #[inline]
    fn tell(&mut self, index: usize) -> Result<Told, Stop> {
        let thread = &mut self.threads[index];
        let (process, id) = (thread.process, thread.thread);
        if let Some(fresh) = thread.stream.fresh() {
            self.namer.look_ahead(process, fresh.iter().map(|event| event.address));
        }
        let Some(&seen) = thread.stream.peek() else { return Ok(Told::Yes) };
        let now = thread.floor.max(seen.tick);
        let tick = Tick(now - self.plan.origin);
        let mut paired = thread.ends_pair(&seen);
        if !paired
            && self.threads.len() > 1
            && let Some(makes) = makes_object(seen.kind)
            && self.namer.is_live(process, seen.address) == makes
        {
            match self.explain(index, &seen, makes)? {
                Oddity::Early => return Ok(Told::Waits),
                Oddity::Pair => paired = true,
                Oddity::Gap => {}
            }
        }
        let thread = &mut self.threads[index];
        thread.floor = now;
        thread.told += 1;
        thread.stream.step(&mut self.loader)?;
        let (namer, writer) = (&mut self.namer, &mut *self.writer);
        let (mut failed, mut made) = (None, None);
        // What is implied (the free of what an allocation found in its place) is nobody's call.
        let ends = matches!(seen.kind, Kind::Free | Kind::ReallocBegin);
        let mut emit = |event| {
            let stack = if ends_object(&event) == ends { seen.stack } else { StackId::NONE };
            if let Event::Alloc { object, .. } | Event::Realloc { object, .. } = event {
                made = Some((object, stack));
            }
            let record = Record { tick, process, thread: id, event };
            if let Err(error) = writer.push_stacked(&record, stack) {
                failed.get_or_insert(error);
            }
        };
        match seen.kind {
            Kind::Free if paired => {}
            Kind::Free => namer.free(process, id, seen.address, &mut emit),
            // `realloc(p, 0)` of the GNU C library frees.
            Kind::ReallocBegin if thread.stream.peek().is_some_and(frees) => {
                namer.free(process, id, seen.address, &mut emit);
            }
            Kind::ReallocBegin => {
                let moving = namer.realloc_begin(process, seen.address);
                thread.moving = Some((moving, now));
            }
            Kind::ReallocEnd => {
                if let Some((moving, began)) = thread.moving.take() {
                    let began = Tick(began - self.plan.origin);
                    end_realloc(namer, process, id, moving, &seen, began, &mut emit);
                }
            }
            Kind::ThreadStart => emit(Event::ThreadStart),
            Kind::Map => {}
            Kind::ThreadEnd => thread.ended = true,
            Kind::Wide | Kind::Clock | Kind::Stack | Kind::Data => {}
            Kind::Access => access(namer, process, id, &seen, &mut emit),
            kind if paired => namer.flash(process, id, request(api(kind), &seen), &mut emit),
            kind => namer.alloc(process, id, seen.address, request(api(kind), &seen), &mut emit),
        }
        if let Some(error) = failed {
            return Err(Stop::Write(error));
        }
        if let Some((object, stack)) = made {
            self.space(process).made(object, stack);
        }
        self.tell_space(process, id, tick, &seen)?;
        if self.threads[index].told < self.threads[index].awaited {
            return Ok(Told::Yes);
        }
        self.wake(index);
        Ok(Told::Awaited)
    }

    /// Follows an event in the addresses of its process.
    #[inline]
    fn tell_space(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        tick: Tick,
        seen: &Seen,
    ) -> Result<(), Stop> {
        if makes_object(seen.kind) == Some(true) {
            self.space(process).touch(seen.address);
        }
        match seen.kind {
            Kind::ThreadStart => self.space(process).thread_begins(thread.0, seen.address),
            Kind::ThreadEnd => self.space(process).thread_ends(thread.0),
            Kind::Map => return self.tell_mapping(process, thread, tick, seen),
            _ => {}
        }
        Ok(())
    }

    /// Memory outside of malloc came or went.
    fn tell_mapping(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        tick: Tick,
        seen: &Seen,
    ) -> Result<(), Stop> {
        let (stack, flags) = (seen.stack, seen.slack.unwrap_or(0));
        let mut changes = Vec::new();
        let mut emit = |map, change| changes.push((map, change));
        self.space(process).told(seen.address, seen.size, flags, stack, &mut emit);
        for (map, change) in changes {
            self.writer.mapping(&MapEvent { tick, process, thread, stack, map, change })?;
        }
        Ok(())
    }

    /// What a process had in memory now.
    fn look(&mut self, index: usize) -> Result<(), Stop> {
        let (process, look) = self.looks[index];
        if let Some((rows, pages)) = look.seen(self.spool) {
            self.space(process);
            let (namer, space) = (&self.namer, self.spaces[process.0 as usize].as_deref());
            let mut blanks = Blanks::new(&pages);
            let live = |each: &mut dyn FnMut(u64, u64)| {
                namer.each_live(process, &mut |address, request, object| {
                    each(address, request.size);
                    // calloc was asked for zeroes.
                    if request.api != Api::Calloc && blanks.is_seen(address, request.size) {
                        let stack = kept::maker(space, object);
                        blanks.add(Block { address, size: request.size as u32, stack });
                    }
                });
            };
            let parts = space.map_or_else(Vec::new, |space| whose::parts(&rows, space, live));
            let kept = match space.filter(|_| is_much_free(&parts)) {
                Some(space) => kept::kept(kept::blocks(namer, space, process)),
                None => Vec::new(),
            };
            let kept = kept.into_iter().take(MOST_KEPT).collect();
            let tick = Tick(look.tick.saturating_sub(self.plan.origin));
            let blank = blanks.list().into_iter().take(MOST_KEPT).collect();
            let sample = Resident { tick, at_end: look.at_end, parts, kept, blank };
            if let Some(info) = self.infos.get_mut(&process) {
                info.peak_resident = info.peak_resident.max(Some(sample.bytes()));
            }
            self.samples.entry(process).or_default().push(sample);
        }
        self.settle(process);
        Ok(())
    }

    /// A thread has no more events.
    fn thread_is_over(&mut self, index: usize) -> Result<(), Stop> {
        let thread = &mut self.threads[index];
        debug_assert_eq!(thread.awaited, waits::NOBODY, "what is awaited was read, so it was told");
        self.unexplained.damaged += thread.stream.damaged;
        let (process, id) = (thread.process, thread.thread);
        if thread.ended {
            let tick = Tick(thread.floor - self.plan.origin);
            self.writer.push(&Record { tick, process, thread: id, event: Event::ThreadEnd })?;
            self.namer.thread_end(process, id);
        }
        self.settle(process);
        Ok(())
    }

    fn fork(&mut self, index: usize) -> Result<(), Stop> {
        let Fork { child, parent, thread } = self.forks[index];
        let inherited = self.namer.fork(parent, child);
        let space = self.space(parent).forked();
        *self.space(child) = space;
        if let Some(known) = self.plan.processes.get(&child.0) {
            if let Some(info) = self.infos.get_mut(&child) {
                info.inherited_objects = inherited.objects;
                info.inherited_bytes = inherited.bytes;
                self.writer.process_at_end(info.clone());
            }
            // The thread's own events may have been moved behind the fork's stamp.
            let by = self.threads.iter_mut().find(|t| t.process == parent && t.thread == thread);
            if let Some(by) = by
                && !by.ended
            {
                by.floor = by.floor.max(known.tick);
                let tick = Tick(by.floor - self.plan.origin);
                let event = Event::Fork { child };
                self.writer.push(&Record { tick, process: parent, thread, event })?;
            }
        }
        self.settle(parent);
        Ok(())
    }

    /// One thing less to come from a process.
    fn settle(&mut self, process: ProcessId) {
        let pending = self.pending_of(process);
        *pending = pending.saturating_sub(1);
        if *pending == 0 {
            let anomalies = self.namer.anomalies(process);
            let counts = &mut self.unexplained.counts;
            counts.implied_frees += anomalies.implied_frees;
            counts.unknown_frees += anomalies.unknown_frees;
            if let Some(info) = self.infos.get_mut(&process) {
                info.peak_bytes = Some(self.namer.peak(process));
                self.writer.process_at_end(info.clone());
            }
            self.namer.end(process);
            if let Some(space) = self.spaces.get_mut(process.0 as usize) {
                *space = None;
            }
        }
    }
}

/// Whether so much of malloc's memory is free that it is worth knowing who keeps it.
fn is_much_free(parts: &[Part]) -> bool {
    let of_malloc = parts.iter().filter(|part| part.what == What::Malloc);
    let free: u64 = of_malloc.map(|part| part.resident.saturating_sub(part.live)).sum();
    let all: u64 = parts.iter().map(|part| part.resident).sum();
    free >= LEAST_FREE && free >= all / 10
}

/// Whether the event is a free.
#[inline]
fn ends_object(event: &Event) -> bool {
    matches!(event, Event::Free { .. } | Event::UnknownFree)
}

/// Whether an event of this kind makes an object at its address (else: lets one die there).
#[inline]
fn makes_object(kind: Kind) -> Option<bool> {
    match kind {
        Kind::Free | Kind::ReallocBegin => Some(false),
        kind => (kind.is_alloc() || kind == Kind::ReallocEnd).then_some(true),
    }
}

fn end_realloc(
    namer: &mut Namer,
    process: ProcessId,
    thread: ThreadId,
    moving: Moving,
    seen: &Seen,
    began: Tick,
    emit: &mut impl FnMut(Event),
) {
    let request = request(Api::Malloc, seen);
    match seen.address {
        0 => namer.realloc_failed(process, moving, request, emit),
        address => namer.realloc_end(process, thread, moving, address, request, began, emit),
    }
}

/// One event for every word touched. What is no object (its making was not seen) is left out.
fn access(
    namer: &mut Namer,
    process: ProcessId,
    thread: ThreadId,
    seen: &Seen,
    emit: &mut impl FnMut(Event),
) {
    let Some(object) = namer.object_at(process, thread, seen.address, emit) else { return };
    let (first, write) = (seen.size >> 1, seen.size & 1 == 1);
    for word in 0..seen.slack.unwrap_or(1) {
        emit(Event::Access { object, offset: first + 8 * word, write });
    }
}

/// Whether this is the end of a reallocation that left no object.
fn frees(end: &Seen) -> bool {
    end.kind == Kind::ReallocEnd && end.address == 0 && end.size == 0
}

fn api(kind: Kind) -> Api {
    match kind {
        Kind::Calloc => Api::Calloc,
        Kind::Aligned => Api::Aligned,
        Kind::New => Api::New,
        Kind::NewArray => Api::NewArray,
        _ => Api::Malloc,
    }
}

fn request(api: Api, seen: &Seen) -> Request {
    let usable = match seen.slack {
        Some(slack) if seen.address != 0 => seen.size.saturating_add(slack),
        _ => 0,
    };
    Request { size: seen.size, align_log2: seen.align_log2, api, usable }
}
