//! Writes a trace: one block being filled for every thread, stored when full.
//!
//! Invariants: the file grows under `<path>.partial` and takes its name only when it is whole; what
//! is stored is never touched again, so a writer that dies leaves a readable file. Memory is bounded
//! by the threads that are alive: a thread's block is stored at its end, and a block that waits too
//! long is stored although it is not full.
//!
//! Neighbours: `codec` fills blocks, `index` is written last.

use crate::block::{BlockHeader, HEADER_LEN, Kind};
use crate::codec::Encoder;
use crate::error::WriteError;
use crate::event::{Event, ProcessId, Record, ThreadId, Tick};
use crate::header::{Header, ProcessInfo};
use crate::index::{self, Entry};
use crate::{head, partial};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Level 3 is zstd's own default; FORMAT.md has the measurement.
const ZSTD_LEVEL: i32 = 3;
/// Events of the whole trace after which a block is stored although it is not full.
const LAG_EVENTS: u64 = 4 << 20;
/// How often blocks are looked at for that.
const LAG_CHECK: u64 = 1 << 16;
/// Raw bytes of unfinished blocks beyond which the longest ones are stored.
const MAX_PENDING: usize = 64 << 20;
/// Processes of one block of the table.
const PROCESSES_A_BLOCK: usize = 1024;

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
    sink: Sink,
    threads: Vec<Thread>,
    by_id: FxHashMap<(ProcessId, ThreadId), usize>,
    /// The thread of the last push: most events come in runs.
    recent: usize,
    processes: BTreeMap<ProcessId, ProcessInfo>,
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

/// The file, and what is needed to store a block.
struct Sink {
    file: BufWriter<File>,
    offset: u64,
    entries: Vec<Entry>,
    zstd: zstd::bulk::Compressor<'static>,
    scratch: Vec<u8>,
    stored: Vec<u8>,
    /// Encoders without a thread.
    spare: Vec<Box<Encoder>>,
}

impl Writer {
    /// Creates `<path>.partial`, an older one of that name being replaced.
    pub fn create(path: impl AsRef<Path>, header: Header) -> Result<Writer, WriteError> {
        let path = path.as_ref().to_owned();
        let header = Header { ticks_per_second: header.ticks_per_second.max(1), ..header };
        let (partial, file) = partial::create(&path)?;
        let zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL)
            .map_err(|source| WriteError::Create { path: partial.clone(), source })?;
        let mut writer = Writer {
            path,
            partial,
            sink: Sink {
                file: BufWriter::with_capacity(256 << 10, file),
                offset: 0,
                entries: Vec::new(),
                zstd,
                scratch: Vec::new(),
                stored: Vec::new(),
                spare: Vec::new(),
            },
            threads: Vec::new(),
            by_id: FxHashMap::default(),
            recent: 0,
            processes: BTreeMap::new(),
            events: 0,
        };
        let head = head::encode(&header).and_then(|bytes| writer.sink.write(&bytes));
        writer.named(head)?;
        Ok(writer)
    }

    /// Tells of a process, or tells better. May come any time before `finish`; the last word counts.
    /// It is stored at once, so that a recording that is cut short knows it too. `threads`, `first`
    /// and `last` are kept by the writer.
    pub fn process(&mut self, info: ProcessInfo) -> Result<(), WriteError> {
        let stored = self.sink.store_processes(std::slice::from_ref(&info));
        self.processes.insert(info.id, info);
        self.named(stored)
    }

    /// Adds an event. Those of one thread must come in the order of time; threads may interleave in
    /// any way. Amortised O(1).
    #[inline]
    pub fn push(&mut self, record: &Record) -> Result<(), WriteError> {
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
        let encoder = match &mut thread.encoder {
            Some(encoder) => encoder,
            None => {
                thread.began = self.events;
                thread
                    .encoder
                    .insert(self.sink.spare.pop().unwrap_or_else(|| Encoder::new().into()))
            }
        };
        encoder.push(record.tick, &record.event);
        self.events += 1;
        if encoder.is_full() || record.event == Event::ThreadEnd {
            let stored = self.sink.store_events(thread);
            self.named(stored)?;
        }
        if self.events.is_multiple_of(LAG_CHECK) {
            self.store_laggards()?;
        }
        Ok(())
    }

    /// Stores what is pending, the tables and the index, and gives the file its name.
    pub fn finish(mut self) -> Result<Summary, WriteError> {
        let finished = self.store_rest();
        self.named(finished)?;
        partial::publish(&self.partial, &self.path)?;
        Ok(Summary {
            events: self.events,
            bytes: self.sink.offset,
            processes: self.processes.len() as u32,
            threads: self.threads.len() as u32,
        })
    }

    /// Stores what is pending without finishing: a reader of the unfinished file sees all events
    /// pushed so far. For a recorder that is about to be killed.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        let mut flushed = Ok(());
        for thread in &mut self.threads {
            flushed = flushed.and_then(|()| self.sink.store_events(thread));
        }
        let flushed = flushed.and_then(|()| self.sink.file.flush());
        self.named(flushed)
    }

    /// Removes what was written: for a trace nobody wants any more, as after Ctrl-C.
    pub fn abandon(self) {
        // The file may be gone already, which is what is wanted.
        let _ = std::fs::remove_file(&self.partial);
    }

    /// Events pushed so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Bytes stored so far.
    pub fn bytes(&self) -> u64 {
        self.sink.offset
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
                stored = stored.and_then(|()| self.sink.store_events(thread));
            }
        }
        self.named(stored)
    }

    fn store_rest(&mut self) -> io::Result<()> {
        for thread in &mut self.threads {
            self.sink.store_events(thread)?;
        }
        self.complete_processes();
        let processes: Vec<ProcessInfo> = self.processes.values().cloned().collect();
        for some in processes.chunks(PROCESSES_A_BLOCK) {
            self.sink.store_processes(some)?;
        }
        self.sink.store_index()?;
        self.sink.file.flush()
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

impl Drop for Writer {
    fn drop(&mut self) {
        // Blocks already stored stay readable under the temporary name; `BufWriter` flushes itself.
        self.threads.clear();
    }
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Stores the block of a thread, if there is one, and takes its encoder back.
    fn store_events(&mut self, thread: &mut Thread) -> io::Result<()> {
        let Some(mut encoder) = thread.encoder.take() else { return Ok(()) };
        let mut stored = std::mem::take(&mut self.stored);
        stored.clear();
        encoder.store(&mut self.zstd, &mut self.scratch, &mut stored)?;
        let header = BlockHeader {
            kind: Kind::EVENTS,
            process: thread.process,
            thread: thread.thread,
            first: encoder.first(),
            last: encoder.last(),
            count: encoder.count(),
            raw_len: encoder.raw_len() as u32,
            stored_len: stored.len() as u32,
            crc: crc32fast::hash(&stored),
            sequence: thread.sequence,
        };
        thread.sequence += 1;
        thread.first = thread.first.min(encoder.first());
        encoder.clear();
        self.spare.push(encoder);
        let done = self.store(header, &stored);
        self.stored = stored;
        done
    }

    fn store_processes(&mut self, processes: &[ProcessInfo]) -> io::Result<()> {
        let raw = serde_json::to_vec(processes)?;
        self.store_table(Kind::PROCESSES, processes.len(), &raw)
    }

    fn store_index(&mut self) -> io::Result<()> {
        let offset = self.offset;
        let raw = index::encode(&self.entries);
        self.store_table(Kind::INDEX, self.entries.len(), &raw)?;
        self.write(&offset.to_le_bytes())?;
        self.write(&index::END_MAGIC)
    }

    fn store_table(&mut self, kind: Kind, count: usize, raw: &[u8]) -> io::Result<()> {
        let stored = self.zstd.compress(raw)?;
        let header = BlockHeader {
            kind,
            process: ProcessId(0),
            thread: ThreadId(0),
            first: Tick(0),
            last: Tick(0),
            count: fits(count)?,
            raw_len: fits(raw.len())?,
            stored_len: fits(stored.len())?,
            crc: crc32fast::hash(&stored),
            sequence: 0,
        };
        self.store(header, &stored)
    }

    fn store(&mut self, header: BlockHeader, stored: &[u8]) -> io::Result<()> {
        debug_assert_eq!(header.stored_len as usize, stored.len());
        let offset = self.offset;
        self.write(&header.encode())?;
        self.write(stored)?;
        self.entries.push(Entry { offset, header });
        debug_assert_eq!(self.offset, offset + (HEADER_LEN + stored.len()) as u64);
        Ok(())
    }
}

fn fits(len: usize) -> io::Result<u32> {
    u32::try_from(len).map_err(|_| io::Error::other("a table of the trace exceeds 4 GiB"))
}
