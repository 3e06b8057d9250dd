//! What can go wrong, and what is said about it.
//!
//! Damage to the file is not an error: it is collected as [`Damage`], and what is sound is still read.

use crate::event::{ProcessId, ThreadId};
use serde::Serialize;
use std::fmt;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a trace cannot be opened at all.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The file cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A directory, a pipe, a device: blocks are read out of order, which needs a regular file.
    #[error("{} is {what}, not a trace file; `freehold record -o FILE -- PROGRAM` makes one", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What stands there, with its article.
        what: &'static str,
    },
    /// An empty file.
    #[error("{} is empty: the recording that should have written it ended before its first byte", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Some other kind of file.
    #[error(
        "{} is not a Freehold trace (it begins with {found}); `freehold import` reads files of heaptrack, mtrace and pprof",
        path.display()
    )]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// Its first bytes, printable.
        found: String,
    },
    /// A newer format.
    #[error(
        "{} is a trace of format {major}.{minor}; this freehold reads format {}.x: update freehold, or record again",
        path.display(),
        crate::FORMAT_MAJOR
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Major version of the file.
        major: u16,
        /// Minor version of the file.
        minor: u16,
    },
    /// The first bytes are a trace's, the facts that follow are not readable: without the clock's
    /// rate nothing could be told truly.
    #[error("the header of {} is damaged ({reason}); nothing can be read without it", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Why reading cannot go on. Damage does not end reading; only the operating system does.
#[derive(Debug, Error)]
#[error("cannot read {} at byte {offset}: {source}", path.display())]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// Where.
    pub offset: u64,
    /// The reason.
    pub source: io::Error,
}

/// Why a trace cannot be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The target cannot become a trace.
    #[error("cannot write a trace to {}: it is {what}; name a regular file", path.display())]
    NotAFile {
        /// The target.
        path: PathBuf,
        /// What stands there, with its article.
        what: &'static str,
    },
    /// The file cannot be made.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// The temporary file beside the target.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A write failed, usually because the disk is full.
    #[error(
        "cannot write {}: {source}; what was written before is kept in {} and can be read",
        path.display(),
        partial.display()
    )]
    Io {
        /// The target.
        path: PathBuf,
        /// The temporary file, which stays.
        partial: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// All was written, but the file could not be given its name.
    #[error("cannot rename {} to {}: {source}", partial.display(), path.display())]
    Rename {
        /// The target.
        path: PathBuf,
        /// The whole trace under its temporary name.
        partial: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The caller broke the contract of `push`.
    #[error(
        "events of {process:?} {thread:?} are not in the order of time: tick {tick} after {last}"
    )]
    Order {
        /// The process.
        process: ProcessId,
        /// The thread.
        thread: ThreadId,
        /// The tick pushed.
        tick: u64,
        /// The tick of the event before.
        last: u64,
    },
}

/// What is wrong with a place of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The file ends without its index: the recording was cut short, or the file was.
    Truncated,
    /// The index at the end cannot be read; it was rebuilt by scanning, and no event is lost by this.
    Index,
    /// Bytes that belong to no block.
    Garbage,
    /// A block header that contradicts itself or the index.
    BlockHeader,
    /// The stored bytes of a block do not have the checksum they were written with.
    Checksum,
    /// The stored bytes of a block cannot be decompressed, or not to the length promised.
    Compression,
    /// An event that cannot be decoded.
    Event,
    /// Blocks of a thread are missing between two others.
    Missing,
    /// A block of a thread begins before the one before it has ended.
    Order,
    /// The table of processes cannot be read; what the events tell stands in for it.
    Processes,
    /// A table of call stacks cannot be read.
    Stacks,
    /// Calls that map and unmap memory cannot be read.
    Mappings,
    /// Samples of what a process had in memory cannot be read.
    Resident,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the file ends without its index (cut short)",
            Self::Index => "the index is damaged; it was rebuilt by scanning",
            Self::Garbage => "bytes that belong to no block",
            Self::BlockHeader => "the block's header is damaged",
            Self::Checksum => "the block's checksum is wrong",
            Self::Compression => "the block cannot be decompressed",
            Self::Event => "an event cannot be decoded",
            Self::Missing => "blocks of this thread are missing",
            Self::Order => "the block begins before the one before it has ended",
            Self::Processes => "the table of processes is damaged",
            Self::Stacks => "call stacks cannot be read",
            Self::Mappings => "calls of mmap and its like cannot be read",
            Self::Resident => "samples of resident memory cannot be read",
        })
    }
}

/// A place of the trace that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Damage {
    /// Byte offset in the file.
    pub offset: u64,
    /// Number of the block in its thread, where known.
    pub block: Option<u32>,
    /// Process and thread, where known.
    pub thread: Option<(ProcessId, ThreadId)>,
    /// What is wrong.
    pub reason: Reason,
    /// Events that are lost by it, where known.
    pub events_lost: Option<u64>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: ", self.offset)?;
        if let Some((process, thread)) = self.thread {
            write!(f, "{process:?} {thread:?} ")?;
        }
        if let Some(block) = self.block {
            write!(f, "block {block}: ")?;
        }
        write!(f, "{}", self.reason)?;
        match self.events_lost {
            Some(0) => write!(f, "; no event is lost"),
            Some(1) => write!(f, "; 1 event is lost"),
            Some(lost) => write!(f, "; {lost} events are lost"),
            None => write!(f, "; how many events are lost is not known"),
        }
    }
}
