//! Which **heap** of many? A heap on every node of a mesh, one address range over all.
//!
//! ```text
//!   who asks                                              who is asked
//!   ┌ global ─────────┐                                   ┌ gate ──────────────────┐
//!   │ priority_table  │ ── Step::Ask(H7, Ask::Alloc) ───► │ the lock of one heap:  │
//!   │ lazy            │ ◄────────── Answer::Served ────── │ go, busy, or wait      │
//!   └─────────────────┘                                   └────────────────────────┘
//!     order      which remote heap next: index, distance, rotated, hinted
//!     hints, summary   what the asker knows of others       pages  memory borrowed from them
//!     space_map  address <-> heap and offset                batch  frees that travel together
//!     shape      rows, columns, hops
//! ```
//!
//! A search for a block is a plain step machine: it says whom to ask for what, is told the answer,
//! and says the next step. It holds no heap, no clock and no queue, so that the same code drives a
//! simulated mesh and a heap that processes share. Whoever drives it carries the messages and performs
//! what the [`Gate`] of the asked heap lets through on a [`Policy`](freehold_blocks::policy::Policy).
//!
//! Invariant: a search ends with [`Step::Full`] only after every heap that it may use has itself
//! answered [`Answer::Full`] to it. A busy heap or an old hint is never taken for a full one.
//!
//! Source: Koutras, Anagnostopoulos, Bartzas and Soudris, "Improving Dynamic Memory Allocation on
//! Many-Core Embedded Systems With Distributed Shared Memory", IEEE ESL 8 (3), 2016. What the letter
//! leaves open is chosen here and said where it is.

mod batch;
mod gate;
mod global;
mod heap_set;
mod hints;
mod lazy;
mod order;
mod pages;
mod priority_table;
mod shape;
mod space_map;
mod summary;

pub use batch::{Batch, MAX_BATCH};
pub use gate::{Gate, Pass};
pub use global::Global;
pub use heap_set::HeapSet;
pub use hints::{Hint, Hints};
pub use lazy::{Lazy, MAX_ROUNDS};
pub use order::{Order, UnknownOrder, Walk};
pub use pages::{MAX_PAGE, MAX_PAGES, Pages};
pub use priority_table::{PriorityTable, record_of};
pub use shape::{BadMesh, Mesh};
pub use space_map::{BadMap, Foreign, HSM_BASE, SpaceMap, V2P_BASE};
pub use summary::{LENGTHS, Summary, Tile, level};

use core::fmt;

/// The most heaps of a mesh: 64 x 64.
pub const MAX_HEAPS: usize = 4096;

/// A heap of the mesh, by the number of its node: row by row from 0. Printed `H17`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeapId(u16);

impl HeapId {
    /// The heap of that number; `None` from [`MAX_HEAPS`] on.
    pub const fn new(number: usize) -> Option<HeapId> {
        if number < MAX_HEAPS { Some(HeapId(number as u16)) } else { None }
    }

    /// Its number, below [`MAX_HEAPS`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for HeapId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "H{}", self.0)
    }
}

impl fmt::Display for HeapId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "H{}", self.0)
    }
}

/// What is asked of one heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Wait for the lock and keep it: a [`Take`](Ask::Take) follows.
    Lock,
    /// Take the lock if it is free, and keep it; never wait.
    TryLock,
    /// Look for a block while holding the lock, and give the lock back either way.
    Take,
    /// Wait for the lock, look for a block, unlock: one fused command.
    Alloc,
    /// The same where the lock is free; never wait.
    TryAlloc,
    /// Wait for the lock, free a block, unlock.
    Free,
}

/// What the heap answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The lock is the asker's.
    Locked,
    /// Somebody else holds the lock.
    Busy,
    /// A block was found; where is the driver's to know.
    Served,
    /// No block of that length is free there.
    Full,
    /// The block is free.
    Freed,
    /// To a free: the block lies in a page that was lent to this node, which knows of it.
    Lent(HeapId),
}

/// What a search wants next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Ask that heap, and come back with its answer.
    Ask(HeapId, Ask),
    /// All heaps that may have room were busy: come back, without an answer, after a while that
    /// grows with the number of the round (from 1).
    Rest(u32),
    /// Found, in that heap.
    Served(HeapId),
    /// Every heap has said that it has no room.
    Full,
}

#[cfg(test)]
mod tests;
