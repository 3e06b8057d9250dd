//! What is recorded, as it lies on disk until the trace is made: blocks of events by thread, and
//! facts about processes, in the order in which they came.
//!
//! ```text
//!   block: magic, kind, process, thread, events, raw bytes, stored bytes, crc of all this and the
//!          payload; payload (events: as in the ring, packed, or packed and zstd)
//! ```
//!
//! The first [`PLAIN_BYTES`] hold events as they lie in the ring, 16 bytes each: storing and reading
//! them takes a third of the time that packing takes, and most recordings end before. From then on
//! room counts: events are packed, and compressed where the drain has the time.
//!
//! Invariant: the file is a sequence of whole blocks; what a killed parent leaves behind its last
//! whole block is ignored. It is private to this crate and this version.
//!
//! Neighbours: [`codec`] packs the events of a block, [`facts`] everything else.

pub mod codec;
pub mod facts;
mod read;
mod write;

pub use read::{Loader, Spool, Stream};
pub use write::{Pace, SpoolWriter};

/// Raw bytes after which a block of events is stored.
pub const BLOCK_BYTES: usize = 64 << 10;

/// Bytes of a spool from which on events are packed: 16 million events.
pub const PLAIN_BYTES: u64 = 256 << 20;

/// What a block holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// Facts about the recording: the first block.
    Start = 1,
    /// A process began.
    Process = 2,
    /// Events of a thread, compressed.
    Events = 3,
    /// A process ended.
    End = 4,
    /// How fast ticks run, as far as known: the last one counts.
    Clock = 5,
    /// The recording ended properly: the last block.
    Finish = 6,
    /// Events of a thread, not compressed: the drain was behind its producers.
    RawEvents = 7,
    /// Events of a thread, as they lie in the ring.
    PlainEvents = 8,
    /// What a process had in memory.
    Look = 9,
}

impl Kind {
    /// Whether the block holds events.
    pub fn is_events(self) -> bool {
        matches!(self, Kind::Events | Kind::RawEvents | Kind::PlainEvents)
    }
}

/// Before every block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockHead {
    /// What it holds.
    pub kind: Kind,
    /// Whose it is.
    pub process: u32,
    /// Whose it is, for events.
    pub thread: u32,
    /// Events in it.
    pub count: u32,
    /// Tick of the first event.
    pub first: u64,
    /// Bytes of the events before compression.
    pub raw_len: u32,
    /// Bytes that follow.
    pub stored_len: u32,
}

/// Bytes of a stored [`BlockHead`], its magic and checksum included.
pub const HEAD_BYTES: usize = 44;
const MAGIC: u32 = u32::from_le_bytes(*b"FhSp");

impl BlockHead {
    /// The stored form, with the checksum over it and the payload.
    pub fn encode(&self, payload: &[u8]) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        let words = [MAGIC, self.kind as u32, self.process, self.thread, self.count];
        for (to, word) in out.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        out[20..28].copy_from_slice(&self.first.to_le_bytes());
        out[28..32].copy_from_slice(&self.raw_len.to_le_bytes());
        out[32..36].copy_from_slice(&self.stored_len.to_le_bytes());
        let crc = checksum(&out[..36], payload);
        out[36..40].copy_from_slice(&crc.to_le_bytes());
        let own = crc32fast::hash(&out[..40]);
        out[40..].copy_from_slice(&own.to_le_bytes());
        out
    }

    /// The head and the checksum of its payload, if it is whole.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Option<(BlockHead, u32)> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if word(0) != MAGIC || crc32fast::hash(&bytes[..40]) != word(40) {
            return None;
        }
        let kind = match word(4) {
            1 => Kind::Start,
            2 => Kind::Process,
            3 => Kind::Events,
            4 => Kind::End,
            5 => Kind::Clock,
            9 => Kind::Look,
            6 => Kind::Finish,
            7 => Kind::RawEvents,
            8 => Kind::PlainEvents,
            _ => return None,
        };
        let first = u64::from(word(20)) | u64::from(word(24)) << 32;
        let head = BlockHead {
            kind,
            process: word(8),
            thread: word(12),
            count: word(16),
            first,
            raw_len: word(28),
            stored_len: word(32),
        };
        Some((head, word(36)))
    }
}

/// The checksum of a head's first 36 bytes and the payload.
pub fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(head);
    crc.update(payload);
    crc.finalize()
}

#[cfg(test)]
mod tests;
