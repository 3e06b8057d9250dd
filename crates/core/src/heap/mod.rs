//! The malloc: how threads share blocks.
//!
//! ```text
//! cache       one a thread: a stack of free blocks for every class          hot, no atomics
//! refill      what happens when such a stack runs empty or full             cold from here on
//! slab        64 KiB cut into blocks of one class; free blocks are bits, out of band
//! vacancy     how many of them are free, and who knows      (lock-free, eight bytes)
//! inbox       slabs that others have given blocks to        (lock-free, one word)
//! node_heap   ties them together: entry points, threads that come and go
//! large       requests above 32 KiB: runs of units
//! purge       returns pages that hold no block, also inside slabs in use
//! tag         what the free path learns from one word: owner and class, or what else lies there
//! ```
//!
//! A block is in exactly one of four places: with the program; in the stack, or the spare stack, of
//! the cache that owns its slab; in the outbox of another cache; a set bit of its slab. Links lie
//! in the block itself only in the second and third, so that everything else about free memory can
//! be read, checked and returned without touching it.
//!
//! Stacks hold own blocks only: a block freed by a stranger travels by bit to its owner, so that
//! two threads never come to write into one cache line by the allocator's doing.

pub mod cache;
pub mod inbox;
mod large;
pub mod node_heap;
mod purge;
mod refill;
mod slab;
mod tag;
pub mod vacancy;

pub use cache::{Cache, Freed};
pub use node_heap::{Misuse, NodeHeap};
pub use purge::Purged;
