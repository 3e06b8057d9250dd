//! Opens a trace: header, index, processes. Events are read by `records`.
//!
//! Invariant: whatever the file holds, opening takes time and memory in proportion to the file's length
//! (what the tables of processes unpack to is bounded by `processes`).

use crate::block::{BlockHeader, HEADER_LEN, Kind};
use crate::error::{Damage, OpenError, ReadError, Reason};
use crate::event::{ProcessId, ThreadId};
use crate::header::{Header, ProcessInfo};
use crate::index::{self, Entry};
use crate::mappings::{self, MapEvent};
use crate::records::Records;
use crate::resident::{self, Resident};
use crate::stacks::{self, Stacks};
use crate::{head, partial, processes};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open trace. Cheap to read several times; shareable between threads.
#[derive(Debug)]
pub struct Trace {
    source: Arc<Source>,
    header: Header,
    /// In order of their ids.
    processes: Vec<ProcessInfo>,
    /// In order of process and thread.
    threads: Vec<ThreadBlocks>,
    damage: Vec<Damage>,
    /// Where the call stacks stand.
    stacks: Vec<Entry>,
    /// Where memory outside of malloc stands.
    other: Vec<Entry>,
    events: u64,
    len: u64,
}

/// The file, for those who read blocks.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
}

/// The blocks of one thread, in order.
#[derive(Clone, Debug)]
pub(crate) struct ThreadBlocks {
    pub(crate) process: ProcessId,
    pub(crate) thread: ThreadId,
    pub(crate) blocks: Arc<[Entry]>,
}

impl Trace {
    /// Opens a trace. Damage short of the header is no error: see [`Trace::damage`].
    pub fn open(path: impl AsRef<Path>) -> Result<Trace, OpenError> {
        let path = path.as_ref();
        let io_error = |source| OpenError::Io { path: path.to_owned(), source };
        // Asked first: opening a pipe would wait for its other end.
        if let Some(what) = partial::what_stands_there(path) {
            return Err(OpenError::NotAFile { path: path.to_owned(), what });
        }
        let file = File::open(path).map_err(io_error)?;
        let len = file.metadata().map_err(io_error)?.len();
        let (header, begin) = head::read(&file, path, len)?;
        let mut damage = Vec::new();
        let entries = index::find(&file, begin, len, &mut damage).map_err(io_error)?;
        let source = Arc::new(Source { file, path: path.to_owned() });
        let threads = by_thread(&entries, &mut damage);
        let mut processes = processes::read(&source, &entries, len, &mut damage);
        add_unseen(&threads, &mut processes);
        let events =
            threads.iter().flat_map(|t| t.blocks.iter()).map(|b| u64::from(b.header.count)).sum();
        let processes = processes.into_values().collect();
        let of = |is_of: fn(Kind) -> bool| {
            entries.iter().filter(|entry| is_of(entry.header.kind)).copied().collect()
        };
        let (stacks, other) = (of(Kind::is_of_stacks), of(Kind::is_of_other_memory));
        Ok(Trace { source, header, processes, threads, damage, stacks, other, events, len })
    }

    /// Facts about the recording.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The processes, in order of their ids.
    pub fn processes(&self) -> &[ProcessInfo] {
        &self.processes
    }

    /// One process.
    pub fn process(&self, id: ProcessId) -> Option<&ProcessInfo> {
        let at = self.processes.binary_search_by_key(&id, |process| process.id).ok()?;
        self.processes.get(at)
    }

    /// The call stacks, and what of them could not be read. Reads and unpacks all of them.
    pub fn stacks(&self) -> Result<(Stacks, Vec<Damage>), ReadError> {
        let mut damage = Vec::new();
        let stacks = stacks::read(&self.source, &self.stacks, self.len, &mut damage)?;
        Ok((stacks, damage))
    }

    /// Whether there are call stacks.
    pub fn has_stacks(&self) -> bool {
        !self.stacks.is_empty()
    }

    /// Hands what `process` mapped and unmapped to `each`, in the order of time. What could not be read.
    pub fn mappings_of(
        &self,
        process: ProcessId,
        each: &mut dyn FnMut(&MapEvent),
    ) -> Result<Vec<Damage>, ReadError> {
        mappings::read(&self.source, &self.other, process, each)
    }

    /// What `process` had in memory, at moments in the order of time, and what could not be read.
    pub fn residents_of(
        &self,
        process: ProcessId,
    ) -> Result<(Vec<Resident>, Vec<Damage>), ReadError> {
        resident::read(&self.source, &self.other, process)
    }

    /// How many events the index promises; damaged blocks give fewer.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// How many events of one process the index promises.
    pub fn events_of(&self, process: ProcessId) -> u64 {
        self.threads_of(process).map(|(_, events)| events).sum()
    }

    /// The threads of one process, in order, with the number of their events.
    pub fn threads_of(&self, process: ProcessId) -> impl Iterator<Item = (ThreadId, u64)> {
        self.own(process).iter().map(|thread| {
            (thread.thread, thread.blocks.iter().map(|b| u64::from(b.header.count)).sum())
        })
    }

    /// Damage that was found when opening. Damaged blocks are found when they are read: see
    /// [`Records::damage`].
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Length of the file in bytes.
    pub fn file_len(&self) -> u64 {
        self.len
    }

    /// The file's name as given.
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// All events of all processes in the order of time, frees first on ties.
    pub fn records(&self) -> Result<Records, ReadError> {
        Records::new(self.source.clone(), self.threads.iter().cloned())
    }

    /// The events of one process in the order of time, frees first on ties; none where the trace
    /// does not have that process.
    pub fn records_of(&self, process: ProcessId) -> Result<Records, ReadError> {
        Records::new(self.source.clone(), self.own(process).iter().cloned())
    }

    /// The threads of one process, which stand together.
    fn own(&self, process: ProcessId) -> &[ThreadBlocks] {
        let from = self.threads.partition_point(|thread| thread.process < process);
        let own = self.threads.get(from..).unwrap_or_default();
        let many = own.partition_point(|thread| thread.process == process);
        own.get(..many).unwrap_or_default()
    }
}

impl Source {
    /// Reads the stored bytes of a block into `bytes`, checked against the entry and the checksum.
    /// `Ok(Err)` is damage.
    pub(crate) fn read_block(
        &self,
        entry: &Entry,
        bytes: &mut Vec<u8>,
    ) -> Result<Result<(), Reason>, ReadError> {
        bytes.clear();
        bytes.resize(HEADER_LEN + entry.header.stored_len as usize, 0);
        if let Err(source) = self.file.read_exact_at(bytes, entry.offset) {
            if source.kind() == std::io::ErrorKind::UnexpectedEof {
                return Ok(Err(Reason::Truncated));
            }
            return Err(ReadError { path: self.path.clone(), offset: entry.offset, source });
        }
        if BlockHeader::decode(bytes) != Some(entry.header) {
            return Ok(Err(Reason::BlockHeader));
        }
        if crc32fast::hash(&bytes[HEADER_LEN..]) != entry.header.crc {
            return Ok(Err(Reason::Checksum));
        }
        Ok(Ok(()))
    }
}

/// Groups blocks by thread and puts them in order; reports the gaps between them.
fn by_thread(entries: &[Entry], damage: &mut Vec<Damage>) -> Vec<ThreadBlocks> {
    let mut threads: BTreeMap<(ProcessId, ThreadId), Vec<Entry>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.header.kind == Kind::EVENTS) {
        threads.entry((entry.header.process, entry.header.thread)).or_default().push(*entry);
    }
    let grouped = threads.into_iter().map(|((process, thread), mut blocks)| {
        blocks.sort_by_key(|entry| entry.header.sequence);
        let mut expected = 0;
        for entry in &blocks {
            if entry.header.sequence > expected {
                damage.push(Damage {
                    block: Some(expected),
                    ..at_block(entry, Reason::Missing, None)
                });
            }
            expected = entry.header.sequence.saturating_add(1);
        }
        ThreadBlocks { process, thread, blocks: blocks.into() }
    });
    grouped.collect()
}

/// Adds processes that have events but no entry in the table.
fn add_unseen(threads: &[ThreadBlocks], processes: &mut BTreeMap<ProcessId, ProcessInfo>) {
    let mut seen: BTreeMap<ProcessId, ProcessInfo> = BTreeMap::new();
    for thread in threads {
        let (Some(first), Some(last)) = (thread.blocks.first(), thread.blocks.last()) else {
            continue;
        };
        let info = seen.entry(thread.process).or_insert_with(|| ProcessInfo {
            first: first.header.first,
            ..ProcessInfo::unseen(thread.process)
        });
        info.threads += 1;
        info.first = info.first.min(first.header.first);
        info.last = info.last.max(last.header.last);
    }
    for (id, seen) in seen {
        // What the events tell is never less true than the table, which a cut recording lacks.
        let info = processes.entry(id).or_insert_with(|| ProcessInfo::unseen(id));
        (info.threads, info.first, info.last) = (seen.threads, seen.first, seen.last);
    }
}

pub(crate) fn at_block(entry: &Entry, reason: Reason, events_lost: Option<u64>) -> Damage {
    let events = entry.header.kind == Kind::EVENTS;
    Damage {
        offset: entry.offset,
        block: events.then_some(entry.header.sequence),
        thread: events.then_some((entry.header.process, entry.header.thread)),
        reason,
        events_lost,
    }
}
