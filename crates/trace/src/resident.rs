//! What a process had in memory at a moment, by what it was for: samples of its own map (`/proc/PID/smaps`), named.
//!
//! ```text
//!   /proc/PID/smaps ─▶ recorder's parent ─▶ finisher: whose is each mapping? ─▶ Resident, a few dozen a process
//!                      (while it runs)      (by malloc's blocks, mmap's stacks, files)
//! ```
//!
//! Unlike events, samples see all memory, however the process came by it. Invariant: a process has at most
//! [`MOST_SAMPLES`], a sample at most [`MOST_PARTS`] parts, so what is kept does not grow with the time it ran.

use crate::block::{HEADER_LEN, Kind};
use crate::error::{Damage, ReadError, Reason};
use crate::event::{ProcessId, Tick};
use crate::index::Entry;
use crate::reader::{Source, at_block};
use crate::stacks::StackId;
use serde::{Deserialize, Serialize};

/// Most samples of a process that are kept, the one of its peak and the last among them.
pub const MOST_SAMPLES: usize = 64;
/// Most parts of a sample; what is less is summed under the name of its kind.
pub const MOST_PARTS: usize = 64;
/// Most raw bytes of a block: all samples of a process, each part with a long name.
const MAX_RAW: usize = 4 << 20;

/// What memory is for.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Blocks of malloc lie there, or did: the break, glibc's arenas, another malloc's regions.
    Malloc,
    /// The heap of a language's runtime, by its name: V8, Java, Python …
    Runtime,
    /// The program or a library mapped it itself.
    Mapped,
    /// Programs, libraries and data that are files, with the zeroed data of programs and libraries.
    File,
    /// Stacks of threads.
    Stack,
    /// Shared memory that is no file of a disk.
    Shared,
    /// Pages of `MAP_HUGETLB`.
    Huge,
    /// The recorder's own, which the program would not have without it.
    Recorder,
    /// Nothing is known of it; and what a later version calls by a word that this one does not know.
    #[default]
    #[serde(other)]
    Other,
}

/// Memory of one kind and name.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// What for.
    pub what: What,
    /// Whose: a file, a runtime, the module that mapped it; empty where that is all that is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where it was mapped from, if the program did it itself.
    #[serde(skip_serializing_if = "is_none")]
    pub stack: StackId,
    /// Bytes of addresses.
    pub mapped: u64,
    /// Bytes in memory.
    pub resident: u64,
    /// The same, pages that several processes share counted in parts.
    pub proportional: u64,
    /// Bytes in swap.
    #[serde(skip_serializing_if = "is_zero")]
    pub swapped: u64,
    /// Of the resident bytes, those in huge pages that the kernel made by itself.
    #[serde(skip_serializing_if = "is_zero")]
    pub huge: u64,
    /// Of those, bytes that hold nothing but zeroes, as far as a few of them were looked at.
    #[serde(skip_serializing_if = "is_zero")]
    pub zero: u64,
    /// Bytes asked for of the blocks of malloc that lived there.
    #[serde(skip_serializing_if = "is_zero")]
    pub live: u64,
}

/// What a process had in memory at a moment.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Resident {
    /// When.
    pub tick: Tick,
    /// The process was about to end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_end: bool,
    /// The most resident first.
    pub parts: Vec<Part>,
    /// Who keeps pages of malloc's for few bytes, the most first; looked for where much of malloc's memory is free.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
    /// How much of the blocks in some pages that were read is blank, that of which most was read first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blank: Vec<Blank>,
}

/// Blocks of a call stack in pages that were read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Blank {
    /// Who made them.
    pub stack: StackId,
    /// Bytes of the blocks there.
    pub seen: u64,
    /// Of those, bytes in lines of 64 bytes that hold nothing but zeroes.
    pub zero: u64,
}

/// Blocks of a call stack on pages of which blocks have at most a quarter.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// Who made them.
    pub stack: StackId,
    /// Bytes of the blocks there.
    pub live: u64,
    /// Bytes of the pages: their part, where several stacks have blocks on one.
    pub pages: u64,
}

impl Resident {
    /// Bytes in memory, but for the recorder's own.
    pub fn bytes(&self) -> u64 {
        let own = self.parts.iter().filter(|part| part.what != What::Recorder);
        own.map(|part| part.resident).fold(0, u64::saturating_add)
    }
}

fn is_none(stack: &StackId) -> bool {
    *stack == StackId::NONE
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// The samples of `process`, in the order of time; those beyond [`MOST_SAMPLES`] are left out. What could not be read.
pub(crate) fn read(
    source: &Source,
    entries: &[Entry],
    process: ProcessId,
) -> Result<(Vec<Resident>, Vec<Damage>), ReadError> {
    let (mut samples, mut damage, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let is_its =
        |entry: &&Entry| entry.header.kind == Kind::RESIDENT && entry.header.process == process;
    for entry in entries.iter().filter(is_its) {
        if samples.len() >= MOST_SAMPLES {
            break;
        }
        let found = match source.read_block(entry, &mut bytes)? {
            Ok(()) => decode(entry, &bytes[HEADER_LEN..]).ok_or(Reason::Resident),
            Err(reason) => Err(reason),
        };
        match found {
            Ok(found) => samples.extend(found),
            Err(reason) => damage.push(at_block(entry, reason, Some(0))),
        }
    }
    samples.truncate(MOST_SAMPLES);
    samples.sort_by_key(|sample: &Resident| sample.tick);
    Ok((samples, damage))
}

fn decode(entry: &Entry, stored: &[u8]) -> Option<Vec<Resident>> {
    let raw_len = entry.header.raw_len as usize;
    if raw_len > MAX_RAW {
        return None;
    }
    let raw = zstd::bulk::decompress(stored, raw_len).ok()?;
    serde_json::from_slice(&raw).ok()
}
