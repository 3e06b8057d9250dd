//! Builds the columns of one block.

use super::columns::{Building, IDS, NUMBERS, OPS, REQUESTS, SLOTS, TIMES};
use super::ids::Ids;
use super::requests::Slots;
use super::stacks::Stacked;
use super::*;
use crate::block::MAX_RAW;
use crate::event::{Event, ObjectId, Request, Tick};
use crate::stacks::StackId;
use crate::varint;
use std::io;

/// The block of one thread that is being filled.
#[derive(Default)]
pub(crate) struct Encoder {
    building: Building,
    requests: Slots,
    ids: Ids,
    stacked: Stacked,
    first: Tick,
    last: Tick,
    count: u32,
    /// So many events fit, however long they are; counted anew when used up.
    room: usize,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        let mut encoder = Self::default();
        encoder.clear();
        encoder
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn first(&self) -> Tick {
        self.first
    }

    pub(crate) fn last(&self) -> Tick {
        self.last
    }

    /// Whether another event might not fit.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    fn count_room(&mut self) {
        self.room = MAX_RAW.saturating_sub(self.building.raw_len()) / MAX_EVENT;
    }

    pub(crate) fn raw_len(&self) -> usize {
        self.building.raw_len()
    }

    pub(crate) fn clear(&mut self) {
        self.building.clear();
        self.requests.clear();
        self.ids.clear();
        self.stacked.clear();
        self.count = 0;
        self.count_room();
    }

    /// Appends the stored form to `out`.
    pub(crate) fn store(
        &self,
        zstd: &mut zstd::bulk::Compressor<'_>,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        self.building.store(zstd, scratch, out)
    }

    /// Whether the block can hold the event with that stack; else it must be stored first.
    #[inline]
    pub(crate) fn fits(&mut self, event: &Event, stack: StackId) -> bool {
        self.stacked.fits(event, stack)
    }

    /// Adds an event with its stack, which must fit.
    #[inline]
    pub(crate) fn push_stacked(&mut self, tick: Tick, event: &Event, stack: StackId) {
        self.stacked.push(&mut self.building, event, stack);
        self.push(tick, event);
    }

    /// Adds an event; ticks must not decrease and the block must not be full.
    pub(crate) fn push(&mut self, tick: Tick, event: &Event) {
        if self.count == 0 {
            self.first = tick;
            self.last = tick;
        }
        self.number(TIMES, tick.0.saturating_sub(self.last.0));
        self.last = tick;
        self.count += 1;
        self.columns(tick, event);
        self.room = self.room.saturating_sub(1);
        if self.room == 0 {
            self.count_room();
        }
    }

    #[inline]
    fn columns(&mut self, tick: Tick, event: &Event) {
        match *event {
            Event::Alloc { object, ref request } => self.alloc(object, request),
            Event::Free { object, remote } => self.free(object, remote),
            Event::Realloc { object, ref request, remote, began } => {
                self.op(if remote { OP_REALLOC_REMOTE } else { OP_REALLOC });
                self.live(object);
                self.request(request);
                self.number(NUMBERS, tick.0.saturating_sub(began.0));
            }
            Event::Inherit { object, ref request } => {
                self.op(OP_INHERIT);
                let code = self.ids.alloc_code(object.0);
                self.number(IDS, code);
                self.request(request);
            }
            Event::UnknownFree => self.op(OP_UNKNOWN_FREE),
            Event::Failed { ref request } => {
                self.op(OP_FAILED);
                self.request(request);
            }
            Event::ThreadStart => self.op(OP_THREAD_START),
            Event::ThreadEnd => self.op(OP_THREAD_END),
            Event::Fork { child } => {
                self.op(OP_FORK);
                self.number(NUMBERS, child.0.into());
            }
            Event::Access { object, offset, write } => {
                self.op(if write { OP_WRITE } else { OP_READ });
                self.live(object);
                self.number(NUMBERS, offset);
            }
        }
    }

    /// Adds an event of a kind this version does not know, as a later version would.
    #[cfg(test)]
    pub(crate) fn push_unknown(&mut self, tick: Tick, op: u8, body: &[u8]) {
        self.push(tick, &Event::UnknownFree);
        *self.building.columns[OPS].last_mut().unwrap() = op;
        self.number(columns::EXTENSIONS, body.len() as u64);
        self.building.columns[columns::EXTENSIONS].extend_from_slice(body);
    }

    fn alloc(&mut self, object: ObjectId, request: &Request) {
        match self.requests.find(request) {
            Some(slot) => self.op(slot),
            None => {
                self.op(OP_ALLOC);
                self.define(request);
            }
        }
        let code = self.ids.alloc_code(object.0);
        self.number(IDS, code);
    }

    fn free(&mut self, object: ObjectId, remote: bool) {
        self.op(if remote { OP_FREE_REMOTE } else { OP_FREE });
        self.live(object);
        if !remote {
            self.ids.freed(object.0);
        }
    }

    fn live(&mut self, object: ObjectId) {
        let code = self.ids.live_code(object.0);
        self.number(IDS, code);
    }

    fn request(&mut self, request: &Request) {
        match self.requests.find(request) {
            Some(slot) => self.building.columns[SLOTS].push(slot),
            None => {
                self.building.columns[SLOTS].push(SLOT_NEW);
                self.define(request);
            }
        }
    }

    fn define(&mut self, request: &Request) {
        let slot = self.requests.insert(request);
        let column = &mut self.building.columns[REQUESTS];
        column.extend([slot, request.api as u8, request.align_log2]);
        varint::put(column, request.size);
        varint::put(column, request.usable);
    }

    fn op(&mut self, op: u8) {
        self.building.columns[OPS].push(op);
    }

    fn number(&mut self, column: usize, value: u64) {
        varint::put(&mut self.building.columns[column], value);
    }
}
