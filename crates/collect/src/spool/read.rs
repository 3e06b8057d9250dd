//! Reads a spool: an index of its blocks first, then the events of each thread in turn.

use super::codec::{Decoder, Event, Form, PADDING};
use super::facts::FactReader;
use super::{BLOCK_BYTES, BlockHead, HEAD_BYTES, Kind, checksum};
use crate::stacks::{Told, Trie};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// No block is longer than this, before or after compression: what claims to be is damage.
const MAX_BLOCK: u32 = 4 * BLOCK_BYTES as u32;
/// No fact is longer: a command line has at most 2 MiB.
const MAX_FACT: u32 = 16 << 20;

/// A block of events.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    offset: u64,
    head: BlockHead,
    crc: u32,
}

/// A fact as it stands in the file.
pub struct Fact {
    /// Which.
    pub kind: Kind,
    /// Of which process.
    pub process: u32,
    bytes: Vec<u8>,
}

impl Fact {
    /// A reader at its beginning.
    pub fn reader(&self) -> FactReader<'_> {
        FactReader(&self.bytes)
    }
}

/// An indexed spool.
pub struct Spool {
    file: File,
    /// Facts in the order of the file.
    pub facts: Vec<Fact>,
    /// The blocks of each thread in its order, threads in the order of their first block.
    pub threads: Vec<(u32, u32, Vec<Place>)>,
    /// Events in all blocks.
    pub events: u64,
    /// Bytes at the end of the file that are no whole block.
    pub cut_off: u64,
}

impl Spool {
    /// Reads all heads. O(blocks).
    pub fn open(path: &Path) -> io::Result<Spool> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut spool =
            Spool { file, facts: Vec::new(), threads: Vec::new(), events: 0, cut_off: 0 };
        let mut by_thread = FxHashMap::default();
        let mut offset = 0;
        while let Some((head, crc)) = spool.head(offset, len)? {
            let place = Place { offset: offset + HEAD_BYTES as u64, head, crc };
            if head.kind.is_events() {
                let threads = &mut spool.threads;
                let index = *by_thread.entry((head.process, head.thread)).or_insert_with(|| {
                    threads.push((head.process, head.thread, Vec::new()));
                    threads.len() - 1
                });
                spool.threads[index].2.push(place);
                spool.events += u64::from(head.count);
            } else {
                let mut bytes = Vec::new();
                if spool.stored(&place, &mut bytes)? {
                    spool.facts.push(Fact { kind: head.kind, process: head.process, bytes });
                }
            }
            offset = place.offset + u64::from(head.stored_len);
        }
        spool.cut_off = len - offset;
        Ok(spool)
    }

    /// The head at `offset`, if a whole block can stand there.
    fn head(&self, offset: u64, len: u64) -> io::Result<Option<(BlockHead, u32)>> {
        if len - offset < HEAD_BYTES as u64 {
            return Ok(None);
        }
        let mut bytes = [0; HEAD_BYTES];
        self.file.read_exact_at(&mut bytes, offset)?;
        let limit = |kind: Kind| if kind.is_events() { MAX_BLOCK } else { MAX_FACT };
        Ok(BlockHead::decode(&bytes).filter(|(head, _)| {
            head.raw_len <= limit(head.kind)
                && head.stored_len <= limit(head.kind)
                && u64::from(head.stored_len) <= len - offset - HEAD_BYTES as u64
        }))
    }

    /// The payload of a block; false if its checksum is wrong.
    fn stored(&self, place: &Place, out: &mut Vec<u8>) -> io::Result<bool> {
        out.resize(place.head.stored_len as usize, 0);
        self.file.read_exact_at(out, place.offset)?;
        Ok(checksum(&place.head.encode(&[])[..36], out) == place.crc)
    }
}

/// Gets blocks from a spool: what all streams of a merge share.
pub struct Loader<'a> {
    spool: &'a Spool,
    zstd: zstd::bulk::Decompressor<'static>,
    stored: Vec<u8>,
    /// The call stacks of all streams.
    pub trie: Trie,
}

impl<'a> Loader<'a> {
    /// A loader of blocks of `spool`.
    pub fn new(spool: &'a Spool, trie: Trie) -> io::Result<Loader<'a>> {
        Ok(Loader { spool, zstd: zstd::bulk::Decompressor::new()?, stored: Vec::new(), trie })
    }

    /// The block, unpacked and padded, in `out`; false if it is damaged.
    fn load(&mut self, place: &Place, out: &mut Vec<u8>) -> io::Result<bool> {
        let raw_len = place.head.raw_len as usize;
        out.clear();
        if place.head.kind != Kind::Events {
            if !self.spool.stored(place, out)? {
                return Ok(false);
            }
        } else {
            out.reserve(raw_len + PADDING);
            if !self.spool.stored(place, &mut self.stored)?
                || self.zstd.decompress_to_buffer(&self.stored, out).is_err()
            {
                return Ok(false);
            }
        }
        let whole = out.len() == raw_len;
        out.resize(out.len() + PADDING, 0);
        Ok(whole)
    }
}

/// Events that a stream unpacks at once: few enough to stay in the first cache.
const BATCH: usize = 256;

/// A block of events, padded, and how far it was unpacked.
struct Block {
    bytes: Vec<u8>,
    decoder: Decoder,
}

impl Block {
    fn empty() -> Block {
        Block { bytes: Vec::new(), decoder: Decoder::new(Form::Packed, 0) }
    }

    fn rest(&self) -> impl Iterator<Item = Event> + '_ {
        let mut decoder = self.decoder.clone();
        std::iter::from_fn(move || decoder.next(&self.bytes, &mut ()))
    }
}

/// The events of one thread, one after the other.
pub struct Stream {
    places: std::vec::IntoIter<Place>,
    block: Block,
    /// Blocks after it that were read already.
    next: VecDeque<Block>,
    /// Events unpacked; those before `at` are taken.
    batch: Vec<Event>,
    at: usize,
    is_fresh: bool,
    /// What the thread told of its stacks.
    told: Told,
    /// Blocks that could not be read.
    pub damaged: u64,
}

impl Stream {
    /// A stream over the blocks of a thread of that process; reads nothing until [`Stream::begin`].
    pub fn new(places: Vec<Place>, process: u32) -> Stream {
        Stream {
            places: places.into_iter(),
            block: Block::empty(),
            next: VecDeque::new(),
            batch: Vec::new(),
            at: 0,
            is_fresh: false,
            told: Told::of(process),
            damaged: 0,
        }
    }

    /// The tick at which the first unread block begins.
    pub fn begins(&self) -> Option<u64> {
        self.places.as_slice().first().map(|place| place.head.first)
    }

    /// Reads so far that `peek` shows the first event, if there is one. More of it does nothing.
    pub fn begin(&mut self, loader: &mut Loader<'_>) -> io::Result<()> {
        if self.at == self.batch.len() { self.refill(loader) } else { Ok(()) }
    }

    /// Looks at the next event without taking it.
    #[inline]
    pub fn peek(&self) -> Option<&Event> {
        self.batch.get(self.at)
    }

    /// Steps over the event that `peek` shows, and reads on.
    #[inline]
    pub fn step(&mut self, loader: &mut Loader<'_>) -> io::Result<()> {
        self.at += 1;
        if self.at >= self.batch.len() { self.refill(loader) } else { Ok(()) }
    }

    /// Events that were unpacked since somebody last asked, none of them taken yet.
    #[inline]
    pub fn fresh(&mut self) -> Option<&[Event]> {
        std::mem::take(&mut self.is_fresh).then_some(&self.batch)
    }

    /// Reads all blocks that begin before the tick `until`, for [`Stream::ahead`] to show.
    pub fn read_ahead(&mut self, loader: &mut Loader<'_>, until: u64) -> io::Result<()> {
        while self.begins().is_some_and(|begins| begins < until) {
            let block = self.read(loader, Vec::new())?;
            self.next.extend(block);
        }
        Ok(())
    }

    /// What was read and not taken, the event that `peek` shows first.
    pub fn ahead(&self) -> impl Iterator<Item = Event> + '_ {
        let unpacked = self.batch.get(self.at..).unwrap_or_default();
        let next = self.next.iter().flat_map(Block::rest);
        unpacked.iter().copied().chain(self.block.rest()).chain(next)
    }

    /// Unpacks the next events, of the next sound block where this one is over.
    #[inline(never)]
    fn refill(&mut self, loader: &mut Loader<'_>) -> io::Result<()> {
        self.batch.clear();
        (self.at, self.is_fresh) = (0, true);
        loop {
            self.unpack(&mut loader.trie);
            if !self.batch.is_empty() || !self.load(loader)? {
                return Ok(());
            }
        }
    }

    fn unpack(&mut self, trie: &mut Trie) {
        // A copy, so that its words stay in registers.
        let mut decoder = self.block.decoder.clone();
        while self.batch.len() < BATCH
            && let Some(mut event) =
                decoder.next(&self.block.bytes, &mut (&mut *trie, &mut self.told))
        {
            event.stack = self.told.stack_of(trie, event.kind);
            self.batch.push(event);
        }
        self.block.decoder = decoder;
    }

    /// Goes on to the next block that is sound; false after the last.
    fn load(&mut self, loader: &mut Loader<'_>) -> io::Result<bool> {
        let next = match self.next.pop_front() {
            Some(block) => Some(block),
            None => {
                let room = std::mem::take(&mut self.block.bytes);
                self.read(loader, room)?
            }
        };
        let more = next.is_some();
        if !more {
            // A thread that is over gives its memory back.
            self.batch = Vec::new();
        }
        self.block = next.unwrap_or_else(Block::empty);
        Ok(more)
    }

    /// The next block of the file that is sound, in `room`.
    fn read(&mut self, loader: &mut Loader<'_>, mut room: Vec<u8>) -> io::Result<Option<Block>> {
        for place in self.places.by_ref() {
            if loader.load(&place, &mut room)? {
                let form = match place.head.kind {
                    Kind::PlainEvents => Form::Plain,
                    _ => Form::Packed,
                };
                let decoder = Decoder::new(form, place.head.first);
                return Ok(Some(Block { bytes: room, decoder }));
            }
            self.damaged += 1;
            self.told.forget();
        }
        Ok(None)
    }
}
