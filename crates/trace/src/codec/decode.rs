//! Gives back the events of one block, a batch at a time.

use super::columns::{EXTENSIONS, IDS, Loaded, NUMBERS, OPS, REQUESTS, SLOTS, TIMES};
use super::ids::Ids;
use super::requests::{Recent, api};
use super::stacks::Unstacked;
use super::*;
use crate::block::BlockHeader;
use crate::event::{Event, ObjectId, ProcessId, Request, Tick};
use crate::stacks::StackId;
use crate::varint;
use std::ops::Range;

/// An event with its time: a [`Record`](crate::Record) without its thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timed {
    /// When.
    pub tick: Tick,
    /// What.
    pub event: Event,
}

/// The block of one thread that is being read.
#[derive(Default)]
pub(crate) struct Decoder {
    columns: Loaded,
    recent: Recent,
    ids: Ids,
    unstacked: Unstacked,
    tick: u64,
    /// No event of the block is later.
    last: u64,
    left: u32,
}

impl Decoder {
    /// Begins a block; `None` where its columns cannot be loaded.
    pub(crate) fn load(
        &mut self,
        header: &BlockHeader,
        stored: &[u8],
        zstd: &mut zstd::bulk::Decompressor<'_>,
    ) -> Option<()> {
        self.left = 0;
        self.columns.load(stored, header.raw_len as usize, zstd)?;
        self.recent.clear();
        self.ids.clear();
        self.unstacked.begin(&self.columns);
        self.tick = header.first.0;
        self.last = header.last.0;
        self.left = header.count;
        Some(())
    }

    /// Events of the block not yet given, those of unknown kinds included.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// Abandons the rest of a damaged block: how many events that were.
    pub(crate) fn give_up(&mut self) -> u32 {
        std::mem::take(&mut self.left)
    }

    /// Appends up to `most` events to `out`. `None` where one cannot be decoded: those before it
    /// are given, [`left`](Self::left) are lost.
    pub(crate) fn batch(&mut self, most: usize, out: &mut Vec<Timed>) -> Option<()> {
        let mut wanted = most.min(self.left as usize);
        out.reserve(wanted);
        loop {
            let given = self.common(wanted, out);
            wanted -= given;
            self.left -= given as u32;
            if wanted == 0 {
                return Some(());
            }
            self.event(out)?;
            wanted -= 1;
            self.left -= 1;
        }
    }

    /// Appends the stacks of `events`, which [`batch`](Self::batch) gave last: one for each, or nothing at all where the
    /// block has none. `None` where they cannot be decoded.
    pub(crate) fn stacks(&mut self, events: &[Timed], out: &mut Vec<StackId>) -> Option<()> {
        let events = events.iter().map(|timed| &timed.event);
        self.unstacked.take(&mut self.columns, events, out)
    }

    /// Appends up to `most` events as long as they are the two that most are: an allocation by a
    /// recent request, or a free by the own thread. How many. Stops before what is anything else,
    /// or damaged. The cursors stay in registers here, which they cannot across other calls.
    fn common(&mut self, most: usize, out: &mut Vec<Timed>) -> usize {
        let (bytes, ops) = self.columns.rest(OPS);
        let (Range { start: mut times, end: times_end }, mut given) =
            (self.columns.rest(TIMES).1, 0);
        let Range { start: mut names, end: names_end } = self.columns.rest(IDS).1;
        let ops = ops.start..ops.end.min(ops.start + most);
        for op in &bytes[ops.clone()] {
            if *op >= OP_RECENT && *op != OP_FREE {
                break;
            }
            let Some((delta, times_next)) = varint::take_short(bytes, times, times_end) else {
                break;
            };
            let Some((code, names_next)) = varint::take_short(bytes, names, names_end) else {
                break;
            };
            // A sum that wraps is less than `delta`; both then are left to `event`.
            let tick = self.tick.wrapping_add(delta);
            if tick > self.last || tick < delta {
                break;
            }
            let event = if *op == OP_FREE {
                let Some(object) = self.ids.live_id(code).map(ObjectId) else { break };
                self.ids.freed(object.0);
                Event::Free { object, remote: false }
            } else {
                let Some(request) = self.recent.named(*op) else { break };
                let Some(object) = self.ids.alloc_id(code).map(ObjectId) else { break };
                Event::Alloc { object, request: *request }
            };
            out.push(Timed { tick: Tick(tick), event });
            (self.tick, times, names) = (tick, times_next, names_next);
            given += 1;
        }
        self.columns.go_on(OPS, ops.start + given);
        self.columns.go_on(TIMES, times);
        self.columns.go_on(IDS, names);
        given
    }

    /// Appends the next event, unless it is one of a later version; `None` is damage. (Appended
    /// where it is known: handing it up first costs a third of the time.)
    #[inline]
    fn event(&mut self, out: &mut Vec<Timed>) -> Option<()> {
        let op = self.columns.byte(OPS)?;
        self.tick = self.tick.checked_add(self.columns.number(TIMES)?)?;
        if self.tick > self.last {
            return None;
        }
        let tick = Tick(self.tick);
        if op < OP_RECENT {
            let object = self.new_object()?;
            let request = *self.recent.named(op)?;
            out.push(Timed { tick, event: Event::Alloc { object, request } });
        } else if op == OP_FREE {
            let object = self.live_object()?;
            self.ids.freed(object.0);
            out.push(Timed { tick, event: Event::Free { object, remote: false } });
        } else if op == OP_ALLOC {
            let request = self.define()?;
            let object = self.new_object()?;
            out.push(Timed { tick, event: Event::Alloc { object, request } });
        } else {
            out.extend(self.rare(op)?.map(|event| Timed { tick, event }));
        }
        Some(())
    }

    /// An event that is neither an allocation nor a free of the own thread; the inner `None` is
    /// one of a later version.
    fn rare(&mut self, op: u8) -> Option<Option<Event>> {
        Some(Some(match op {
            OP_FREE_REMOTE => Event::Free { object: self.live_object()?, remote: true },
            OP_REALLOC | OP_REALLOC_REMOTE => Event::Realloc {
                object: self.live_object()?,
                request: self.request()?,
                remote: op == OP_REALLOC_REMOTE,
                began: Tick(self.tick.checked_sub(self.columns.number(NUMBERS)?)?),
            },
            OP_INHERIT => Event::Inherit { object: self.new_object()?, request: self.request()? },
            OP_UNKNOWN_FREE => Event::UnknownFree,
            OP_FAILED => Event::Failed { request: self.request()? },
            OP_THREAD_START => Event::ThreadStart,
            OP_THREAD_END => Event::ThreadEnd,
            OP_FORK => {
                Event::Fork { child: ProcessId(u32::try_from(self.columns.number(NUMBERS)?).ok()?) }
            }
            OP_READ | OP_WRITE => Event::Access {
                object: self.live_object()?,
                offset: self.columns.number(NUMBERS)?,
                write: op == OP_WRITE,
            },
            _ => {
                let len = self.columns.number(EXTENSIONS)?;
                self.columns.skip(EXTENSIONS, len)?;
                return Some(None);
            }
        }))
    }

    #[inline]
    fn new_object(&mut self) -> Option<ObjectId> {
        let code = self.columns.number(IDS)?;
        Some(ObjectId(self.ids.alloc_id(code)?))
    }

    #[inline]
    fn live_object(&mut self) -> Option<ObjectId> {
        let code = self.columns.number(IDS)?;
        Some(ObjectId(self.ids.live_id(code)?))
    }

    fn request(&mut self) -> Option<Request> {
        match self.columns.byte(SLOTS)? {
            SLOT_NEW => self.define(),
            slot => self.recent.named(slot).copied(),
        }
    }

    fn define(&mut self) -> Option<Request> {
        let slot = self.columns.byte(REQUESTS)?;
        let request = Request {
            api: api(self.columns.byte(REQUESTS)?)?,
            align_log2: self.columns.byte(REQUESTS)?,
            size: self.columns.number(REQUESTS)?,
            usable: self.columns.number(REQUESTS)?,
        };
        self.recent.set(slot, request)?;
        Some(request)
    }
}
