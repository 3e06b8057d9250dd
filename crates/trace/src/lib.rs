//! The trace format of Freehold (`FORMAT.md` beside this crate is the contract).

pub mod event;

pub use event::{Api, Event, ObjectId, ProcessId, Record, Request, ThreadId, Tick};
