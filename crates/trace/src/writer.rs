//! Writes a trace: one block being filled for every thread, stored when full.
//!
//! Invariants: the file grows under `<path>.partial` and takes its name only when it is whole; what
//! is stored is never touched again, so a writer that dies leaves a readable file. Memory is bounded
//! by the threads that are alive: a thread's block is stored at its end, and a block that waits too
//! long is stored although it is not full.
//!
//! Neighbours: `codec` fills blocks, `press` compresses and writes them on a thread of its own, `index`
//! is written last. An error of the file is therefore reported some blocks after the one it befell, and
//! at the latest by `finish`.

use crate::block::Kind;
use crate::codec::Encoder;
use crate::error::WriteError;
use crate::event::{Event, ProcessId, Record, ThreadId, Tick};
use crate::header::{Header, ProcessInfo};
use crate::mappings::{self, MapEvent};
use crate::resident::Resident;
use crate::stacks::{self, StackId, Stacks};
use crate::{head, partial};
use press::Press;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

mod press;

/// Events of the whole trace after which a block is stored although it is not full.
const LAG_EVENTS: u64 = 4 << 20;
/// How often blocks are looked at for that.
const LAG_CHECK: u64 = 1 << 16;
/// Raw bytes of unfinished blocks beyond which the longest ones are stored.
const MAX_PENDING: usize = 64 << 20;
/// Raw bytes of a block of the table of processes from which on another one is begun: some thousand processes
/// of ordinary command lines, far from the most that a reader takes.
const TABLE_BYTES: usize = 1 << 20;

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Events.
    pub events: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Processes.
    pub processes: u32,
    /// Threads of all processes.
    pub threads: u32,
}

/// Writes a trace.
pub struct Writer {
    path: PathBuf,
    partial: PathBuf,
    press: Press,
    threads: Vec<Thread>,
    by_id: FxHashMap<(ProcessId, ThreadId), usize>,
    /// The thread of the last push: most events come in runs.
    recent: usize,
    processes: BTreeMap<ProcessId, ProcessInfo>,
    /// What each process mapped, on its way to a block.
    mappings: BTreeMap<ProcessId, mappings::Encoder>,
    events: u64,
}

/// A thread that has pushed.
struct Thread {
    process: ProcessId,
    thread: ThreadId,
    /// The block being filled; none before the first event and after the last.
    encoder: Option<Box<Encoder>>,
    /// Number of the next block.
    sequence: u32,
    /// The writer's count of events when the block began.
    began: u64,
    first: Tick,
    last: Tick,
}

/// What the press is to do.
enum Job {
    /// Write the head of the file.
    Head(Vec<u8>),
    /// Store the events of a thread as the block of this number.
    Block(ProcessId, ThreadId, u32, Box<Encoder>),
    /// Store a table of so many entries, of one process or (0) of none.
    Table(Kind, ProcessId, usize, Vec<u8>),
    /// Store the index of all blocks, and the end of the file.
    Index,
    /// Give everything to the operating system.
    Settle,
}

/// What the press has done.
enum Pressed {
    /// A block is stored: its encoder, emptied, and the length of the file.
    Block(Box<Encoder>, u64),
    /// Something else is done: the length of the file.
    Length(u64),
    /// The first error; nothing is stored from here on.
    Failed(io::Error),
    /// All before it is done, or has failed.
    Settled,
}

impl Writer {
    /// Creates `<path>.partial`, an older one of that name being replaced.
    pub fn create(path: impl AsRef<Path>, header: Header) -> Result<Writer, WriteError> {
        let path = path.as_ref().to_owned();
        let header = Header { ticks_per_second: header.ticks_per_second.max(1), ..header };
        let (partial, file) = partial::create(&path)?;
        let press = Press::start(file)
            .map_err(|source| WriteError::Create { path: partial.clone(), source })?;
        let mut writer = Writer {
            path,
            partial,
            press,
            threads: Vec::new(),
            by_id: FxHashMap::default(),
            recent: 0,
            processes: BTreeMap::new(),
            mappings: BTreeMap::new(),
            events: 0,
        };
        let head = head::encode(&header).and_then(|bytes| writer.press.send(Job::Head(bytes)));
        writer.named(head)?;
        Ok(writer)
    }

    /// Tells of a process, or tells better. May come any time before `finish`; the last word counts.
    /// It is stored at once, so that a recording that is cut short knows it too. `threads`, `first`
    /// and `last` are kept by the writer.
    pub fn process(&mut self, info: ProcessInfo) -> Result<(), WriteError> {
        let stored = store_processes(&mut self.press, std::iter::once(&info));
        self.processes.insert(info.id, info);
        self.named(stored)
    }

    /// As [`process`](Self::process), but stored by `finish` only: for a writer whose input outlives
    /// it. A process of few events is told in half the room.
    pub fn process_at_end(&mut self, info: ProcessInfo) {
        self.processes.insert(info.id, info);
    }

    /// Adds an event. Those of one thread must come in the order of time; threads may interleave in
    /// any way. Amortised O(1).
    #[inline]
    pub fn push(&mut self, record: &Record) -> Result<(), WriteError> {
        self.push_stacked(record, StackId::NONE)
    }

    /// As [`push`](Self::push), with the call stack of an allocation, a reallocation, a failure or a free.
    #[inline]
    pub fn push_stacked(&mut self, record: &Record, stack: StackId) -> Result<(), WriteError> {
        let index = self.thread_index(record.process, record.thread);
        let thread = &mut self.threads[index];
        if record.tick < thread.last {
            return Err(WriteError::Order {
                process: record.process,
                thread: record.thread,
                tick: record.tick.0,
                last: thread.last.0,
            });
        }
        thread.last = record.tick;
        if thread.encoder.as_mut().is_some_and(|encoder| !encoder.fits(&record.event, stack)) {
            let stored = thread.store(&mut self.press);
            self.named(stored)?;
        }
        let thread = &mut self.threads[index];
        let encoder = match &mut thread.encoder {
            Some(encoder) => encoder,
            None => {
                thread.began = self.events;
                thread.encoder.insert(self.press.encoder())
            }
        };
        encoder.push_stacked(record.tick, &record.event, stack);
        self.events += 1;
        if encoder.is_full() || matches!(record.event, Event::ThreadEnd) {
            let stored = thread.store(&mut self.press);
            self.named(stored)?;
        }
        if self.events.is_multiple_of(LAG_CHECK) {
            self.store_laggards()?;
        }
        Ok(())
    }

    /// Stores the call stacks that events name. Once, at any time before `finish`.
    pub fn stacks(&mut self, stacks: &Stacks) -> Result<(), WriteError> {
        let press = &mut self.press;
        let put = |kind, count, raw| press.send(Job::Table(kind, ProcessId(0), count, raw));
        let stored = stacks::store(stacks, put);
        self.named(stored)
    }

    /// Adds a call that mapped or unmapped memory. Those of one process must come in the order of time.
    pub fn mapping(&mut self, event: &MapEvent) -> Result<(), WriteError> {
        let encoder = self.mappings.entry(event.process).or_default();
        encoder.push(event);
        if !encoder.is_full() {
            return Ok(());
        }
        let stored = store_mappings(&mut self.press, event.process, encoder);
        self.named(stored)
    }

    /// Stores what a process had in memory at some moments. Once a process.
    pub fn residents(
        &mut self,
        process: ProcessId,
        samples: &[Resident],
    ) -> Result<(), WriteError> {
        let json = serde_json::to_vec(samples).map_err(io::Error::from);
        let count = samples.len();
        let stored =
            json.and_then(|json| self.press.send(Job::Table(Kind::RESIDENT, process, count, json)));
        self.named(stored)
    }

    /// Stores what is pending, the tables and the index, and gives the file its name.
    pub fn finish(mut self) -> Result<Summary, WriteError> {
        let finished = self.store_rest();
        self.named(finished)?;
        partial::publish(&self.partial, &self.path)?;
        Ok(Summary {
            events: self.events,
            bytes: self.press.bytes(),
            processes: self.processes.len() as u32,
            threads: self.threads.len() as u32,
        })
    }

    /// Stores what is pending without finishing: a reader of the unfinished file sees all events
    /// pushed so far. For a recorder that is about to be killed.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        let mut flushed = Ok(());
        for thread in &mut self.threads {
            flushed = flushed.and_then(|()| thread.store(&mut self.press));
        }
        let flushed = flushed.and_then(|()| self.press.settle());
        self.named(flushed)
    }

    /// Removes what was written: for a trace nobody wants any more, as after Ctrl-C.
    pub fn abandon(self) {
        let partial = self.partial.clone();
        drop(self);
        // The file may be gone already, which is what is wanted.
        let _ = std::fs::remove_file(partial);
    }

    /// Events pushed so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Bytes stored so far; blocks on their way to the file are not counted.
    pub fn bytes(&self) -> u64 {
        self.press.bytes()
    }

    /// The temporary name.
    pub fn partial_path(&self) -> &Path {
        &self.partial
    }

    fn named<T>(&self, result: io::Result<T>) -> Result<T, WriteError> {
        result.map_err(|source| WriteError::Io {
            path: self.path.clone(),
            partial: self.partial.clone(),
            source,
        })
    }

    #[inline]
    fn thread_index(&mut self, process: ProcessId, thread: ThreadId) -> usize {
        match self.threads.get(self.recent) {
            Some(recent) if recent.process == process && recent.thread == thread => self.recent,
            _ => self.thread_index_slow(process, thread),
        }
    }

    fn thread_index_slow(&mut self, process: ProcessId, thread: ThreadId) -> usize {
        let threads = &mut self.threads;
        self.recent = *self.by_id.entry((process, thread)).or_insert_with(|| {
            threads.push(Thread {
                process,
                thread,
                encoder: None,
                sequence: 0,
                began: 0,
                first: Tick(u64::MAX),
                last: Tick(0),
            });
            threads.len() - 1
        });
        self.recent
    }

    /// Keeps the promise on memory, and keeps quiet threads from losing much to a crash.
    fn store_laggards(&mut self) -> Result<(), WriteError> {
        let pending = |thread: &Thread| thread.encoder.as_ref().map_or(0, |e| e.raw_len());
        let total: usize = self.threads.iter().map(pending).sum();
        let mean = total / self.threads.len().max(1);
        let mut stored = Ok(());
        for thread in &mut self.threads {
            let lags = self.events - thread.began > LAG_EVENTS;
            if lags || (total > MAX_PENDING && pending(thread) >= mean) {
                stored = stored.and_then(|()| thread.store(&mut self.press));
            }
        }
        self.named(stored)
    }

    fn store_rest(&mut self) -> io::Result<()> {
        for thread in &mut self.threads {
            thread.store(&mut self.press)?;
        }
        for (&process, encoder) in &mut self.mappings {
            store_mappings(&mut self.press, process, encoder)?;
        }
        self.complete_processes();
        store_processes(&mut self.press, self.processes.values())?;
        self.press.send(Job::Index)?;
        self.press.settle()
    }

    fn complete_processes(&mut self) {
        for info in self.processes.values_mut() {
            (info.threads, info.first, info.last) = (0, Tick(u64::MAX), Tick(0));
        }
        for thread in &self.threads {
            let info = self
                .processes
                .entry(thread.process)
                .or_insert_with(|| ProcessInfo::unseen(thread.process));
            info.threads += 1;
            info.first = info.first.min(thread.first);
            info.last = info.last.max(thread.last);
        }
        for info in self.processes.values_mut() {
            info.first = info.first.min(info.last);
        }
    }
}

impl Thread {
    /// Sends the block to the press, if there is one.
    fn store(&mut self, press: &mut Press) -> io::Result<()> {
        let Some(encoder) = self.encoder.take() else { return Ok(()) };
        self.first = self.first.min(encoder.first());
        let sequence = self.sequence;
        self.sequence += 1;
        press.send(Job::Block(self.process, self.thread, sequence, encoder))
    }
}

/// Sends the block of what a process mapped to the press, if there is one.
fn store_mappings(
    press: &mut Press,
    process: ProcessId,
    encoder: &mut mappings::Encoder,
) -> io::Result<()> {
    let Some((count, raw)) = encoder.take() else { return Ok(()) };
    press.send(Job::Table(Kind::MAPPINGS, process, count, raw))
}

/// Stores what is known of processes, in as many blocks as it takes.
fn store_processes<'a>(
    press: &mut Press,
    processes: impl Iterator<Item = &'a ProcessInfo>,
) -> io::Result<()> {
    let mut table = JsonTable::default();
    for info in processes {
        table.add(info)?;
        if table.json.len() >= TABLE_BYTES {
            table.store(press)?;
        }
    }
    table.store(press)
}

/// A JSON array being built.
#[derive(Default)]
struct JsonTable {
    json: Vec<u8>,
    count: usize,
}

impl JsonTable {
    fn add(&mut self, info: &ProcessInfo) -> io::Result<()> {
        self.json.push(if self.count == 0 { b'[' } else { b',' });
        self.count += 1;
        Ok(serde_json::to_writer(&mut self.json, info)?)
    }

    /// Stores the array, if there is something in it, and begins another.
    fn store(&mut self, press: &mut Press) -> io::Result<()> {
        let JsonTable { mut json, count } = std::mem::take(self);
        if count == 0 {
            return Ok(());
        }
        json.push(b']');
        press.send(Job::Table(Kind::PROCESSES, ProcessId(0), count, json))
    }
}
