//! Gives the events of many threads in one order of time.
//!
//! Invariants: of two events, the one with the earlier tick comes first; on one tick, frees come
//! before the rest; within a thread, the order of the thread holds. Memory is one block, as long as it is
//! before compression, for every thread that has begun and not ended, whatever the length of the trace and
//! however many threads it has.
//!
//! The unit is the run: events of one thread until another thread's next event is due. A thread
//! whose first block is not yet due costs an entry of the heap and nothing more.

use crate::block::HEADER_LEN;
use crate::codec::{Decoder, Timed};
use crate::error::{Damage, ReadError, Reason};
use crate::event::{Event, ProcessId, Record, ThreadId, Tick};
use crate::reader::{Source, ThreadBlocks, at_block};
use crate::stacks::StackId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;
use std::sync::Arc;

/// Most events decoded at once: a batch stays in the first-level cache until it is used.
const BATCH: usize = 256;
/// Fewest: a batch costs a call.
const LEAST_BATCH: usize = 8;
/// Events that all threads together may have decoded ahead, about: where thousands take turns, runs are short
/// anyway, and 256 decoded events of each would take more room than their blocks.
const AHEAD: usize = 1 << 16;

/// The events of a trace in the order of time.
pub struct Records {
    reader: BlockReader,
    cursors: Vec<Cursor>,
    /// The due time of each thread's next event.
    due: BinaryHeap<Reverse<Due>>,
    /// Of the run being given one by one.
    next_in_run: usize,
    run: Option<(usize, usize)>,
    given: u64,
}

/// Consecutive events of one thread: nothing of another thread lies between them.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The process.
    pub process: ProcessId,
    /// The thread.
    pub thread: ThreadId,
    /// Never empty.
    pub events: &'a [Timed],
    /// The call stack of each event, or nothing where the trace has none for them.
    pub stacks: &'a [StackId],
}

/// When an event is due: its tick, frees first, then processes and threads in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    tick: Tick,
    rank: u8,
    cursor: u32,
}

struct BlockReader {
    source: Arc<Source>,
    zstd: zstd::bulk::Decompressor<'static>,
    bytes: Vec<u8>,
    damage: Vec<Damage>,
    /// Threads that have begun and not ended.
    open: usize,
}

/// One thread being read.
struct Cursor {
    process: ProcessId,
    thread: ThreadId,
    blocks: Arc<[Entry]>,
    next_block: usize,
    open: Option<Box<Open>>,
    last: Tick,
}

use crate::index::Entry;

/// What only a thread that is due needs.
#[derive(Default)]
struct Open {
    decoder: Decoder,
    batch: Vec<Timed>,
    /// The stacks of the batch: as many, or none.
    stacks: Vec<StackId>,
    /// The first event of the batch not yet given.
    at: usize,
}

impl Records {
    pub(crate) fn new(
        source: Arc<Source>,
        threads: impl Iterator<Item = ThreadBlocks>,
    ) -> Result<Records, ReadError> {
        let zstd = zstd::bulk::Decompressor::new().map_err(|error| source.error(0, error))?;
        let cursors: Vec<Cursor> = threads.map(Cursor::new).collect();
        let mut records = Records {
            reader: BlockReader { source, zstd, bytes: Vec::new(), damage: Vec::new(), open: 0 },
            cursors,
            due: BinaryHeap::new(),
            next_in_run: 0,
            run: None,
            given: 0,
        };
        records.due = (0..records.cursors.len())
            .filter_map(|i| Some(Reverse(records.cursors[i].begins()?.for_cursor(i))))
            .collect();
        Ok(records)
    }

    /// The next event; `None` at the end.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator could not say that reading failed"
    )]
    pub fn next(&mut self) -> Result<Option<Record>, ReadError> {
        if let Some((cursor, end)) = self.run
            && self.next_in_run < end
        {
            return Ok(Some(self.take_one(cursor)));
        }
        let Some((cursor, start, end)) = self.advance()? else { return Ok(None) };
        self.run = Some((cursor, end));
        self.next_in_run = start;
        Ok(Some(self.take_one(cursor)))
    }

    #[inline]
    fn take_one(&mut self, cursor: usize) -> Record {
        let cursor = &self.cursors[cursor];
        // A run stands in its thread's open batch until the next call to `advance`.
        let batch = cursor.open.as_ref().map_or(&[][..], |open| &open.batch);
        let Timed { tick, event } = batch[self.next_in_run];
        self.next_in_run += 1;
        Record { tick, process: cursor.process, thread: cursor.thread, event }
    }

    /// The next run of events of one thread; `None` at the end. The fast form: a few nanoseconds
    /// an event less than [`next`](Self::next). The two may be mixed.
    pub fn next_run(&mut self) -> Result<Option<Run<'_>>, ReadError> {
        let (cursor, start, end) = match self.run.take() {
            Some((cursor, end)) if self.next_in_run < end => (cursor, self.next_in_run, end),
            _ => match self.advance()? {
                Some(run) => run,
                None => return Ok(None),
            },
        };
        let cursor = &self.cursors[cursor];
        let (batch, stacks) =
            cursor.open.as_ref().map_or((&[][..], &[][..]), |open| (&open.batch, &open.stacks));
        let (process, thread) = (cursor.process, cursor.thread);
        let stacks = stacks.get(start..end).unwrap_or_default();
        Ok(Some(Run { process, thread, events: &batch[start..end], stacks }))
    }

    /// Calls `f` for every event that is left.
    pub fn for_each(&mut self, mut f: impl FnMut(&Record)) -> Result<(), ReadError> {
        while let Some(Run { process, thread, events, .. }) = self.next_run()? {
            for &Timed { tick, event } in events {
                f(&Record { tick, process, thread, event });
            }
        }
        Ok(())
    }

    /// Events given in runs so far: for progress.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// Damage found so far in the blocks read; that found when opening is in `Trace::damage`.
    pub fn damage(&self) -> &[Damage] {
        &self.reader.damage
    }

    /// Finds the next run: cursor, and the range of its batch.
    fn advance(&mut self) -> Result<Option<(usize, usize, usize)>, ReadError> {
        loop {
            let Some(mut top) = self.due.peek_mut() else { return Ok(None) };
            let index = top.0.cursor as usize;
            let cursor = &mut self.cursors[index];
            let Some(due) = cursor.fill(&mut self.reader)? else {
                cursor.open = None;
                self.reader.open -= 1;
                PeekMut::pop(top);
                continue;
            };
            // A thread's place in the heap is a promise; its next event may be due later.
            let due = due.for_cursor(index);
            if due != top.0 {
                top.0 = due;
                continue;
            }
            drop(top);
            return Ok(Some(self.take_run(index)));
        }
    }

    /// The run of the cursor on top of the heap, whose batch is not empty.
    fn take_run(&mut self, index: usize) -> (usize, usize, usize) {
        let rival = self.rival();
        let open = self.cursors[index].open.get_or_insert_default();
        let start = open.at;
        let rest = &open.batch[start..];
        let len = match rival {
            Some(rival) => rest
                .iter()
                .position(|timed| Due::of(timed).for_cursor(index) > rival)
                .unwrap_or(rest.len()),
            None => rest.len(),
        };
        open.at = start + len;
        let next = match open.batch.get(open.at) {
            Some(timed) => Due::of(timed),
            None => Due { tick: rest[len - 1].tick, rank: 0, cursor: 0 },
        };
        if let Some(mut top) = self.due.peek_mut() {
            top.0 = next.for_cursor(index);
        }
        self.given += len as u64;
        (index, start, start + len)
    }

    /// The due time of the second in the heap: it is one of the root's two children.
    fn rival(&self) -> Option<Due> {
        let heap = self.due.as_slice();
        match heap {
            [_, Reverse(left), Reverse(right), ..] => Some(*left.min(right)),
            [_, Reverse(left)] => Some(*left),
            _ => None,
        }
    }
}

impl Due {
    #[inline]
    fn of(timed: &Timed) -> Due {
        let frees =
            matches!(timed.event, Event::Free { .. } | Event::UnknownFree | Event::Inherit { .. });
        Due { tick: timed.tick, rank: u8::from(!frees), cursor: 0 }
    }

    #[inline]
    fn for_cursor(self, cursor: usize) -> Due {
        Due { cursor: cursor as u32, ..self }
    }
}

impl Cursor {
    fn new(ThreadBlocks { process, thread, blocks }: ThreadBlocks) -> Cursor {
        Cursor { process, thread, blocks, next_block: 0, open: None, last: Tick(0) }
    }

    /// The earliest the thread can be due, before any block is read.
    fn begins(&self) -> Option<Due> {
        let first = self.blocks.first()?.header.first;
        Some(Due { tick: first, rank: 0, cursor: 0 })
    }

    /// Makes sure that the batch holds an event, and says when it is due; `None` at the end.
    fn fill(&mut self, reader: &mut BlockReader) -> Result<Option<Due>, ReadError> {
        let open = self.open.get_or_insert_with(|| {
            reader.open += 1;
            Box::default()
        });
        while open.at >= open.batch.len() {
            open.empty();
            if open.decoder.left() > 0 {
                let most = open.room(reader.batch());
                let lost = open.decoder.batch(most, &mut open.batch).is_none();
                if open.decoder.stacks(&open.batch, &mut open.stacks).is_none() {
                    // The events are sound; whose they are is not known from here on.
                    open.stacks.resize(open.batch.len(), StackId::NONE);
                    reader.damage.push(at_block(
                        &self.blocks[self.next_block - 1],
                        Reason::Stacks,
                        Some(0),
                    ));
                }
                if lost {
                    reader.lose(&self.blocks[self.next_block - 1], open.decoder.give_up());
                }
            } else if let Some(entry) = self.blocks.get(self.next_block) {
                self.next_block += 1;
                if entry.header.first < self.last {
                    reader.damage.push(at_block(
                        entry,
                        Reason::Order,
                        Some(entry.header.count.into()),
                    ));
                    continue;
                }
                // Even of a block that turns out unreadable: others may have been given up to here.
                self.last = entry.header.first;
                if reader.load(entry, &mut open.decoder)? {
                    self.last = entry.header.last;
                }
            } else {
                return Ok(None);
            }
        }
        Ok(Some(Due::of(&open.batch[open.at])))
    }
}

impl Open {
    fn empty(&mut self) {
        self.batch.clear();
        self.stacks.clear();
        self.at = 0;
    }

    /// Makes room for a batch of `wanted` events, or all that are left; gives room back where others need it.
    fn room(&mut self, wanted: usize) -> usize {
        let wanted = wanted.min(self.decoder.left() as usize);
        if self.batch.capacity() > 2 * wanted.max(LEAST_BATCH) {
            self.batch = Vec::new();
            self.stacks = Vec::new();
        }
        self.batch.reserve_exact(wanted);
        wanted
    }
}

impl BlockReader {
    /// Events that a thread may have decoded ahead now.
    fn batch(&self) -> usize {
        (AHEAD / self.open.max(1)).clamp(LEAST_BATCH, BATCH)
    }

    /// Loads a block; `false` where it is damaged, which is noted.
    fn load(&mut self, entry: &Entry, decoder: &mut Decoder) -> Result<bool, ReadError> {
        let sound = match self.source.read_block(entry, &mut self.bytes)? {
            Ok(()) => decoder
                .load(&entry.header, &self.bytes[HEADER_LEN..], &mut self.zstd)
                .ok_or(Reason::Compression),
            Err(reason) => Err(reason),
        };
        if let Err(reason) = sound {
            self.damage.push(at_block(entry, reason, Some(entry.header.count.into())));
        }
        Ok(sound.is_ok())
    }

    fn lose(&mut self, entry: &Entry, events: u32) {
        self.damage.push(at_block(entry, Reason::Event, Some(events.into())));
    }
}

impl Source {
    fn error(&self, offset: u64, source: io::Error) -> ReadError {
        ReadError { path: self.path.clone(), offset, source }
    }
}
