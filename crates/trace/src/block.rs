//! The frame around everything that follows the file header: a 64-byte header, then stored bytes.
//!
//! Invariant: the header carries its own checksum, so that a scan can hop from block to block (and
//! find the next one after garbage) without reading what lies between.

use crate::event::{ProcessId, ThreadId, Tick};

/// First bytes of a block.
pub const MAGIC: [u8; 4] = *b"FhBk";
/// Length of a block's header.
pub const HEADER_LEN: usize = 64;
/// Most bytes of a block of events before compression.
pub const MAX_RAW: usize = 64 << 10;
/// Most stored bytes a reader accepts of a block of events: raw plus what incompressible data adds.
pub const MAX_STORED: usize = MAX_RAW + (4 << 10);

/// What a block holds. A reader skips kinds it does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind(pub u16);

impl Kind {
    /// Events of one thread.
    pub const EVENTS: Kind = Kind(1);
    /// Facts about processes (JSON, zstd); later ones replace earlier ones.
    pub const PROCESSES: Kind = Kind(2);
    /// Nodes of call stacks.
    pub const STACKS: Kind = Kind(3);
    /// Frames of call stacks (JSON, zstd).
    pub const FRAMES: Kind = Kind(4);
    /// Modules that frames lie in (JSON, zstd).
    pub const MODULES: Kind = Kind(5);
    /// Memory outside of malloc: calls of one process that map and unmap.
    pub const MAPPINGS: Kind = Kind(6);
    /// Samples of what one process had in memory (JSON, zstd).
    pub const RESIDENT: Kind = Kind(7);
    /// The index of all blocks; the last block of a whole file.
    pub const INDEX: Kind = Kind(0xffff);

    /// Whether the block is one of the tables of call stacks.
    pub fn is_of_stacks(self) -> bool {
        matches!(self, Kind::STACKS | Kind::FRAMES | Kind::MODULES)
    }

    /// Whether the block tells of memory outside of malloc.
    pub fn is_of_other_memory(self) -> bool {
        matches!(self, Kind::MAPPINGS | Kind::RESIDENT)
    }
}

/// The header of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockHeader {
    /// What it holds.
    pub kind: Kind,
    /// Whose it is; 0 in blocks that belong to no process.
    pub process: ProcessId,
    /// Which thread's.
    pub thread: ThreadId,
    /// Tick of its first event.
    pub first: Tick,
    /// Tick of its last event.
    pub last: Tick,
    /// How many events (or entries).
    pub count: u32,
    /// Length before compression.
    pub raw_len: u32,
    /// Length of what follows the header.
    pub stored_len: u32,
    /// CRC-32 (IEEE) of what follows the header.
    pub crc: u32,
    /// Number of the block in its thread, from 0.
    pub sequence: u32,
}

impl BlockHeader {
    /// As stored.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&self.kind.0.to_le_bytes());
        out[8..12].copy_from_slice(&self.process.0.to_le_bytes());
        out[12..16].copy_from_slice(&self.thread.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.first.0.to_le_bytes());
        out[24..32].copy_from_slice(&self.last.0.to_le_bytes());
        out[32..36].copy_from_slice(&self.count.to_le_bytes());
        out[36..40].copy_from_slice(&self.raw_len.to_le_bytes());
        out[40..44].copy_from_slice(&self.stored_len.to_le_bytes());
        out[44..48].copy_from_slice(&self.crc.to_le_bytes());
        out[48..52].copy_from_slice(&self.sequence.to_le_bytes());
        let crc = crc32fast::hash(&out[..60]);
        out[60..64].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a header; `None` where magic or checksum is wrong, or a block of events contradicts
    /// the limits of the format.
    pub fn decode(bytes: &[u8]) -> Option<BlockHeader> {
        let bytes: &[u8; HEADER_LEN] = bytes.get(..HEADER_LEN)?.try_into().ok()?;
        if bytes[0..4] != MAGIC || u32_at(bytes, 60) != crc32fast::hash(&bytes[..60]) {
            return None;
        }
        let header = BlockHeader {
            kind: Kind(u16::from_le_bytes([bytes[4], bytes[5]])),
            process: ProcessId(u32_at(bytes, 8)),
            thread: ThreadId(u32_at(bytes, 12)),
            first: Tick(u64_at(bytes, 16)),
            last: Tick(u64_at(bytes, 24)),
            count: u32_at(bytes, 32),
            raw_len: u32_at(bytes, 36),
            stored_len: u32_at(bytes, 40),
            crc: u32_at(bytes, 44),
            sequence: u32_at(bytes, 48),
        };
        header.is_plausible().then_some(header)
    }

    /// Every event takes at least its op byte, so the count is bounded by the length.
    fn is_plausible(&self) -> bool {
        self.kind != Kind::EVENTS
            || (self.raw_len as usize <= MAX_RAW
                && self.stored_len as usize <= MAX_STORED
                && self.count > 0
                && self.count <= self.raw_len
                && self.first <= self.last)
    }
}

/// The little-endian number at `at`; the caller has checked the length.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

/// The little-endian number at `at`; the caller has checked the length.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}
