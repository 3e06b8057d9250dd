//! A machine's programs as a stream of calls: processes that come and go, page cache, kernel pages, builds, storms.
//!
//! The stream keeps the footprint near a target that moves from phase to phase within bounds: "light" and "medium"
//! of the thesis are bounds of the footprint and nothing more (section 5.3). Nothing looks at where pages lie.

mod control;
mod parts;

pub use control::Workload;
pub use parts::{Boot, Builds, Caches, Footprint, Processes, Slabs, Storms};

use freehold_core::frames::Request;

/// An occasion on which the thesis tried to call migration, and rejected it (section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// A process ended.
    Exit,
    /// Page cache was dropped.
    CacheDrop,
    /// A process gave back a part of its memory.
    Unmap,
}

/// Where the calls go. Objects are dense numbers, used again after their end.
pub trait Sink {
    /// `blocks` more blocks for an object, each as `wanted`, for a processor of `node`.
    fn grow(&mut self, object: u32, wanted: Request, node: u8, blocks: u32);
    /// `blocks` fewer, beginning with the `from`th (round and round).
    fn shrink(&mut self, object: u32, from: u32, blocks: u32);
    /// All of its blocks are given back.
    fn end(&mut self, object: u32);
    /// Something happened that might call for migration.
    fn occasion(&mut self, trigger: Trigger);
    /// A second is over. `false` ends the stream.
    fn second(&mut self) -> bool;
}
