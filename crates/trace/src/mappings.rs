//! Memory that a process got outside of malloc: `mmap`, `munmap`, `mremap`, `brk`, as calls of the program.
//!
//! ```text
//!   block (kind 6, of one process): tick │ thread │ mapping, map or unmap │ bytes │ flags │ stack   each a varint
//! ```
//!
//! A mapping is named by a number, never by its address; `munmap` of a part of it names the number and the bytes of
//! that part. What one call maps is one mapping, whatever the kernel makes of it. Only calls that went through the C
//! library's symbols are here: what the process really has, its own map tells ([`crate::resident`]).
//!
//! Invariants: a block is read alone, and no block is longer than [`MAX_RAW`], so a reader needs the memory of one
//! block; events of one process stand in the order of time.

use crate::block::{HEADER_LEN, Kind};
use crate::error::{Damage, ReadError, Reason};
use crate::event::{ProcessId, ThreadId, Tick};
use crate::index::Entry;
use crate::reader::{Source, at_block};
use crate::stacks::StackId;
use crate::varint;
use serde::{Deserialize, Serialize};

/// Most raw bytes of a block.
pub(crate) const MAX_RAW: usize = 64 << 10;
/// Raw bytes from which on another block is begun.
const BLOCK_BYTES: usize = MAX_RAW - LONGEST;
/// Longest event: six varints.
const LONGEST: usize = 6 * 10;

/// A mapping of a process, numbered from 0 in the order in which they were made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct MapId(pub u32);

/// What is known of a mapping from the call that made it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct MapFlags(pub u16);

impl MapFlags {
    /// It shows a file (or a device); else it begins as zeroes.
    pub const FILE: MapFlags = MapFlags(1);
    /// Other processes see what is written.
    pub const SHARED: MapFlags = MapFlags(2);
    /// Its bytes may be executed.
    pub const CODE: MapFlags = MapFlags(4);
    /// It was asked for as a stack.
    pub const STACK: MapFlags = MapFlags(8);
    /// Huge pages were asked for (`MAP_HUGETLB`).
    pub const HUGE: MapFlags = MapFlags(16);
    /// Addresses only: nothing may be read or written there at first.
    pub const RESERVED: MapFlags = MapFlags(32);
    /// By `brk` or `sbrk`.
    pub const BREAK: MapFlags = MapFlags(64);
    /// The recorder's own, within the program.
    pub const RECORDER: MapFlags = MapFlags(128);

    /// Whether all of these are set.
    pub fn has(self, flags: MapFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These, too.
    #[must_use]
    pub fn with(self, flags: MapFlags) -> MapFlags {
        MapFlags(self.0 | flags.0)
    }
}

/// What became of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapChange {
    /// It was made.
    Map {
        /// Its length.
        bytes: u64,
        /// What it is.
        flags: MapFlags,
    },
    /// It lost so many bytes, to `munmap`, to `mremap` or to a mapping that was put in their place.
    Unmap {
        /// How many.
        bytes: u64,
    },
}

/// A mapping changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapEvent {
    /// When.
    pub tick: Tick,
    /// Whose.
    pub process: ProcessId,
    /// Who called.
    pub thread: ThreadId,
    /// From where; none where stacks were not recorded.
    pub stack: StackId,
    /// Which.
    pub map: MapId,
    /// What became of it.
    pub change: MapChange,
}

/// Collects the events of one process.
#[derive(Default)]
pub(crate) struct Encoder {
    raw: Vec<u8>,
    count: usize,
    last: Last,
}

/// What an event is told relative to.
#[derive(Default)]
struct Last {
    tick: u64,
    map: u32,
    stack: u32,
}

impl Encoder {
    /// Adds an event, whose tick is at least the last one's.
    pub(crate) fn push(&mut self, event: &MapEvent) {
        let out = &mut self.raw;
        let tick = event.tick.0.max(self.last.tick);
        varint::put(out, tick - self.last.tick);
        varint::put(out, event.thread.0.into());
        let (unmaps, bytes) = match event.change {
            MapChange::Map { bytes, .. } => (0, bytes),
            MapChange::Unmap { bytes } => (1, bytes),
        };
        let step = i64::from(event.map.0) - i64::from(self.last.map);
        varint::put(out, varint::fold(step) << 1 | unmaps);
        varint::put(out, bytes);
        if let MapChange::Map { flags, .. } = event.change {
            varint::put(out, flags.0.into());
        }
        varint::put(out, varint::fold(i64::from(event.stack.0) - i64::from(self.last.stack)));
        self.last = Last { tick, map: event.map.0, stack: event.stack.0 };
        self.count += 1;
    }

    /// Whether the block is to be stored.
    pub(crate) fn is_full(&self) -> bool {
        self.raw.len() >= BLOCK_BYTES
    }

    /// The block, if there is something in it; another begins.
    pub(crate) fn take(&mut self) -> Option<(usize, Vec<u8>)> {
        let Encoder { raw, count, .. } = std::mem::take(self);
        (count > 0).then_some((count, raw))
    }
}

/// Hands the events of `process` to `each`, in the order of time. What could not be read.
pub(crate) fn read(
    source: &Source,
    entries: &[Entry],
    process: ProcessId,
    each: &mut dyn FnMut(&MapEvent),
) -> Result<Vec<Damage>, ReadError> {
    let (mut damage, mut bytes) = (Vec::new(), Vec::new());
    let is_its =
        |entry: &&Entry| entry.header.kind == Kind::MAPPINGS && entry.header.process == process;
    for entry in entries.iter().filter(is_its) {
        let events = match source.read_block(entry, &mut bytes)? {
            Ok(()) => decode(entry, &bytes[HEADER_LEN..]).ok_or(Reason::Mappings),
            Err(reason) => Err(reason),
        };
        match events {
            Ok(events) => events.iter().for_each(&mut *each),
            Err(reason) => damage.push(at_block(entry, reason, Some(0))),
        }
    }
    Ok(damage)
}

/// All events of a block, or none.
fn decode(entry: &Entry, stored: &[u8]) -> Option<Vec<MapEvent>> {
    let raw_len = entry.header.raw_len as usize;
    if raw_len > MAX_RAW {
        return None;
    }
    let raw = zstd::bulk::decompress(stored, raw_len).ok()?;
    let (mut events, mut at, mut last) = (Vec::new(), 0, Last::default());
    while at < raw.len() {
        events.push(event(&raw, &mut at, &mut last, entry.header.process)?);
    }
    (events.len() == entry.header.count as usize).then_some(events)
}

fn event(raw: &[u8], at: &mut usize, last: &mut Last, process: ProcessId) -> Option<MapEvent> {
    let mut number = || varint::take(raw, at);
    last.tick = last.tick.checked_add(number()?)?;
    let thread = u32::try_from(number()?).ok()?;
    let which = number()?;
    last.map = step(last.map, which >> 1)?;
    let bytes = number()?;
    let change = match which & 1 {
        0 => MapChange::Map { bytes, flags: MapFlags(number()? as u16) },
        _ => MapChange::Unmap { bytes },
    };
    last.stack = step(last.stack, number()?)?;
    let (tick, thread) = (Tick(last.tick), ThreadId(thread));
    Some(MapEvent {
        tick,
        process,
        thread,
        stack: StackId(last.stack),
        map: MapId(last.map),
        change,
    })
}

/// A number that lies a folded distance from `from`.
fn step(from: u32, folded: u64) -> Option<u32> {
    u32::try_from(i64::from(from).checked_add(varint::unfold(folded))?).ok()
}
