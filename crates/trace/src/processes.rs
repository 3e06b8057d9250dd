//! Reads the table of processes: all blocks of it, of which the last word on each process counts.
//!
//! Invariant: time and memory are bounded by the file's length, whatever the blocks unpack to. A file of a
//! few megabytes can hold thousands of blocks that each unpack to 64 MiB, so (1) blocks are read from the last
//! to the first, (2) one that was read already in the same bytes is not read again, and (3) what is unpacked
//! and what is kept have a bound; blocks beyond it are told as damage, and they are the ones that later
//! blocks most likely replace.

use crate::block::{HEADER_LEN, Kind};
use crate::error::{Damage, Reason};
use crate::event::ProcessId;
use crate::header::ProcessInfo;
use crate::index::Entry;
use crate::reader::{Source, at_block};
use rustc_hash::FxHashSet;
use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::collections::hash_map::{DefaultHasher, Entry as Place};
use std::fmt;
use std::hash::Hasher;

/// Most raw bytes of one block.
pub(crate) const MAX_RAW: usize = 64 << 20;
/// Raw bytes of all blocks together: so many, and so many more for each byte of the file. Command lines, which
/// are most of a table, compress to a tenth, long ones that are alike to less.
const RAW_FLOOR: u64 = MAX_RAW as u64;
const RAW_PER_BYTE: u64 = 32;
/// Processes kept: so many, and one more for so many bytes of the file. One with events takes a block and its
/// entry in the index.
const MOST_FLOOR: u64 = 1 << 16;
const LEAST_BYTES: u64 = 4;

/// The processes of all blocks among `entries`. Blocks that cannot be read are added to `damage`.
pub(crate) fn read(
    source: &Source,
    entries: &[Entry],
    file_len: u64,
    damage: &mut Vec<Damage>,
) -> BTreeMap<ProcessId, ProcessInfo> {
    let mut table = Table::new(file_len);
    let blocks = entries.iter().filter(|entry| entry.header.kind == Kind::PROCESSES);
    for entry in blocks.rev() {
        if table.read(source, entry).is_none() {
            damage.push(at_block(entry, Reason::Processes, Some(0)));
        }
    }
    table.known.into_iter().map(|(id, told)| (id, told.info)).collect()
}

struct Table {
    known: rustc_hash::FxHashMap<ProcessId, Told>,
    /// Number of the block being read.
    block: u32,
    /// Processes that may be kept.
    most: u64,
    file_len: u64,
    raw_left: u64,
    /// Hashes of the blocks read.
    seen: FxHashSet<u64>,
    stored: Vec<u8>,
    raw: Vec<u8>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

/// What is known of a process, and which block told it.
struct Told {
    info: ProcessInfo,
    block: u32,
}

impl Table {
    fn new(file_len: u64) -> Table {
        Table {
            known: rustc_hash::FxHashMap::default(),
            block: 0,
            most: MOST_FLOOR + file_len / LEAST_BYTES,
            file_len,
            raw_left: RAW_FLOOR.saturating_add(file_len.saturating_mul(RAW_PER_BYTE)),
            seen: FxHashSet::default(),
            stored: Vec::new(),
            raw: Vec::new(),
            zstd: zstd::bulk::Decompressor::new().ok(),
        }
    }

    /// Reads one block; `None` where it is damaged, or more than the bounds allow.
    fn read(&mut self, source: &Source, entry: &Entry) -> Option<()> {
        let raw_len = entry.header.raw_len as usize;
        let end = entry.offset.checked_add(u64::from(entry.header.stored_len))?;
        if end > self.file_len || raw_len > MAX_RAW {
            return None;
        }
        source.read_block(entry, &mut self.stored).ok()?.ok()?;
        let stored = self.stored.get(HEADER_LEN..)?;
        if !self.seen.insert(hash(stored)) {
            return Some(());
        }
        self.raw_left = self.raw_left.checked_sub(raw_len as u64)?;
        self.raw.clear();
        self.raw.reserve(raw_len);
        self.zstd.as_mut()?.decompress_to_buffer(stored, &mut self.raw).ok()?;
        self.block += 1;
        let raw = std::mem::take(&mut self.raw);
        let mut json = serde_json::Deserializer::from_slice(&raw);
        let read = (&mut *self).deserialize(&mut json).and_then(|()| json.end());
        self.raw = raw;
        read.ok()
    }

    /// Takes what a block says of a process. False where there is no room for another.
    fn take(&mut self, info: ProcessInfo) -> bool {
        let told = Told { block: self.block, info };
        let many = self.known.len() as u64;
        match self.known.entry(told.info.id) {
            // Of two in one block the later counts, of two blocks the one that is read first.
            Place::Occupied(mut known) => {
                if known.get().block == told.block {
                    known.insert(told);
                }
                true
            }
            Place::Vacant(place) => {
                let fits = many < self.most;
                if fits {
                    place.insert(told);
                }
                fits
            }
        }
    }
}

/// One after the other, so that a block of millions costs no more than what is kept of them.
impl<'de> DeserializeSeed<'de> for &mut Table {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for &mut Table {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of processes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        while let Some(info) = all.next_element()? {
            if !self.take(info) {
                return Err(A::Error::custom("more processes than the file has room for"));
            }
        }
        Ok(())
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
