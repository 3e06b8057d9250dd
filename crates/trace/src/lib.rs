//! The trace format of Freehold (`FORMAT.md` beside this crate is the contract): what programs did
//! with memory, on disk.
//!
//! ```text
//!  addresses ─ Namer ─► events ─ Writer ─► codec ─► blocks ─► file
//!                                                              │
//!  replay, info, export ◄─ Records (merge) ◄─ codec ◄─ Trace ◄─┘
//! ```
//!
//! Invariant: what is read was written; whatever else a file holds is reported as [`Damage`],
//! never guessed. Memory grows with threads and live objects, never with the length of a trace.

/// The major version of the format that this crate reads and writes.
pub const FORMAT_MAJOR: u16 = 1;
/// The minor version: additions that older readers skip.
pub const FORMAT_MINOR: u16 = 2;

mod block;
mod codec;
pub mod error;
pub mod event;
pub mod export;
mod head;
mod header;
pub mod import;
mod index;
pub mod mappings;
pub mod namer;
mod partial;
mod pprof;
mod processes;
mod reader;
mod records;
pub mod resident;
pub mod stacks;
pub mod strip;
mod varint;
mod writer;

pub use codec::Timed;
pub use error::{Damage, OpenError, ReadError, Reason, WriteError};
pub use event::{Api, Event, ObjectId, ProcessId, Record, Request, ThreadId, Tick};
pub use head::is_trace;
pub use header::{Begin, Ending, Header, ProcessInfo};
pub use mappings::{MapChange, MapEvent, MapFlags, MapId};
pub use namer::Namer;
pub use reader::Trace;
pub use records::{Records, Run};
pub use resident::{Blank, Kept, Part, Resident, What};
pub use stacks::{Call, Frame, FrameId, Module, StackId, Stacks};
pub use writer::{Summary, Writer};
