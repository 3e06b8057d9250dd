//! The malloc: how threads share blocks.
//!
//! ```text
//! cache       one per thread: a stack of free blocks for every class        hot, no atomics
//! refill      fills such a stack when it is empty                           cold from here on
//! give        empties it when it is full
//! outbox      blocks of other threads' slabs, on their way home
//! depot       stacks set aside                               (lock-free, one word per class)
//! lists       the slabs of a cache, by class
//! slab        64 KiB cut into blocks of one class; free blocks are bits, out of band
//! vacancy     how many of them are free, and who knows      (lock-free, eight bytes)
//! inbox       slabs to which other threads gave blocks back (lock-free, one word)
//! node_heap   ties them together: entry points, threads that come and go
//! caches      where caches live; empty ones give their page back
//! metered     caches whose allocations are counted, though malloc counts nothing
//! large       requests above 32 KiB: runs of units
//! huge        which banks get huge pages
//! purge       returns pages that hold no block, also inside slabs in use
//! fork        makes the heap of a forked child whole
//! forgotten   slabs that hold no block, while their owner does not know it yet
//! sparse      slabs with purged pages, whose free blocks lost their marks
//! vacate      moves memory off closed nodes
//! census      what a heap holds, counted from outside while it works
//! walk        every block that a program has; whether an address is one
//! tag         one word per unit for the free path: owner and class, or another kind
//! ```
//!
//! A block is in exactly one of four places: with the program; in a stack, the spare stack or the depot
//! of the cache that owns its slab; in the outbox of another cache; a set bit of its slab. Links lie
//! in the block itself only in the second and third, so all other state of free memory can
//! be read, checked and returned without touching the block.
//!
//! A stack holds its own cache's blocks only (except blocks left over from slabs that others adopted): a block freed by
//! another thread returns as a bit to its owner, so the allocator never makes two threads write to one cache line.
//!
//! `freehold_blocks::sharing` holds the alternatives, which work with any policy of blocks: one
//! lock, a reader-writer lock, stripes, a heap per thread. The laboratory measures them beside this one.

pub mod depot;
pub mod inbox;
pub mod units;
pub mod vacancy;

// Under loom only the lock-free parts exist: loom's atomics cannot be statics or mapped memory.
#[cfg(not(loom))]
pub mod cache;
#[cfg(not(loom))]
mod caches;
#[cfg(not(loom))]
pub mod census;
#[cfg(not(loom))]
pub mod decisions;
#[cfg(not(loom))]
mod forgotten;
#[cfg(not(loom))]
mod fork;
#[cfg(not(loom))]
mod give;
#[cfg(not(loom))]
mod huge;
#[cfg(not(loom))]
mod large;
#[cfg(not(loom))]
mod lists;
#[cfg(not(loom))]
mod metered;
#[cfg(not(loom))]
pub mod node_heap;
#[cfg(not(loom))]
mod outbox;
#[cfg(not(loom))]
mod purge;
#[cfg(not(loom))]
mod refill;
#[cfg(not(loom))]
mod slab;
#[cfg(not(loom))]
mod sparse;
#[cfg(not(loom))]
mod tag;
#[cfg(not(loom))]
mod vacate;
#[cfg(not(loom))]
mod walk;

#[cfg(not(loom))]
pub use cache::{Cache, Freed};
#[cfg(not(loom))]
pub use node_heap::{Misuse, NodeHeap};
#[cfg(not(loom))]
pub use outbox::{Collected, Sealed};
#[cfg(not(loom))]
pub use purge::Purged;
#[cfg(not(loom))]
pub use vacate::Vacated;
#[cfg(not(loom))]
pub use walk::{Block, Kind};
