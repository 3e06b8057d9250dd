//! The malloc: how threads share blocks.
//!
//! ```text
//! cache       one a thread: a stack of free blocks for every class          hot, no atomics
//! refill      what happens when such a stack runs empty                     cold from here on
//! give        what happens when it runs full
//! outbox      blocks of other threads' slabs, on their way home
//! depot       stacks set aside                               (lock-free, one word a class)
//! lists       the slabs of a cache, and news of them
//! slab        64 KiB cut into blocks of one class; free blocks are bits, out of band
//! vacancy     how many of them are free, and who knows      (lock-free, eight bytes)
//! inbox       slabs that others have given blocks to        (lock-free, one word)
//! node_heap   ties them together: entry points, threads that come and go
//! caches      where caches live; those that hold nothing give their page back
//! metered     caches whose allocations are counted, though malloc counts nothing
//! large       requests above 32 KiB: runs of units
//! huge        which banks get huge pages
//! edges       whether large blocks are touched at their ends only, and then lie by those
//! purge       returns pages that hold no block, also inside slabs in use
//! fork        the heap of a forked child, made whole
//! forgotten   slabs that hold no block, and of which their owner does not know yet
//! sparse      slabs of which pages were purged: marks that are gone, and come back
//! census      what a heap holds, counted from outside while it works
//! walk        every block that a program has; whether an address is one
//! tag         what the free path learns from one word: owner and class, or what else lies there
//! ```
//!
//! A block is in exactly one of four places: with the program; in a stack, the spare stack or the depot
//! of the cache that owns its slab; in the outbox of another cache; a set bit of its slab. Links lie
//! in the block itself only in the second and third, so that everything else about free memory can
//! be read, checked and returned without touching it.
//!
//! Stacks hold own blocks only (but for those left over from slabs that others adopted): a block freed by a stranger travels by bit to its owner, so that
//! two threads never come to write into one cache line by the allocator's doing.
//!
//! [`sharing`] holds the other answers, for whom any policy of [`blocks`](crate::blocks) will do: one
//! lock, a reader-writer lock, stripes, a heap a thread. The laboratory measures them beside this one.

pub mod depot;
pub mod inbox;
pub mod sharing;
pub mod vacancy;

// Under loom only the lock-free parts exist: loom's atomics cannot be statics or mapped memory.
#[cfg(not(loom))]
pub mod cache;
#[cfg(not(loom))]
mod caches;
#[cfg(not(loom))]
pub mod census;
#[cfg(not(loom))]
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
