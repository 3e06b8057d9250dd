//! The malloc: how threads get blocks, and what becomes of freed ones. Four owners, each with a few verbs:
//!
//! ```text
//! magazines   what is hot: a thread's stacks of free blocks          take, give
//! reserve     what is set aside, or freed by others: depots, runs,   put, push, take, collect, empty
//!             arrivals, parcels, spare stacks
//! slabs       64 KiB of blocks of one class: bits, tags, inboxes     take, give, cut, adopt, receive, retire
//! units       runs of 64 KiB: banks, regions, homes, purging         take, give, extend, hide, close
//!
//! cache       the first three of one thread, in one page             shared     what the owners of one heap share
//! registry    all caches, with and without a thread                  decisions  every threshold, in one table
//! heap        entry points; threads that come and go                 block, tag, misuse
//! refill      what fills an empty stack, where a full one goes       large      blocks above 64 KiB: runs of units
//! resize      the same blocks taken, resized and moved               found      a block as seen from outside
//! packing     blocks that move to fuller slabs, for programs that can move them
//! metered     caches whose allocations are counted, though malloc counts nothing
//! purge       returns pages that hold no block, also inside slabs in use
//! vacate      moves memory off closed nodes                          fork       makes the heap of a forked child whole
//! walk        every block that a program has; is an address one      census     what a heap holds, counted from outside
//! limits      what a heap may hold                                   aside      runs that a thread sets aside
//! room        how much is left, and what the heap then keeps for itself
//! ```
//!
//! A block is in exactly one of four places: with the program; in a stack, the spare stack, the depot or the arrivals
//! of the cache that owns its slab; in a parcel of another cache; a set bit of its slab. Links lie
//! in the block itself only in the second and third, so all other state of free memory can
//! be read, checked and returned without touching the block.
//!
//! A stack holds its own cache's blocks only (except blocks left over from slabs that others adopted): a block freed by
//! another thread returns to its owner, as a bit or, if it is long, itself; so the allocator never makes two threads write
//! to one cache line of blocks.
//!
//! `freehold_blocks::sharing` holds the alternatives, which work with any policy of blocks: one
//! lock, a reader-writer lock, stripes, a heap per thread. The laboratory measures them beside this one.

#[cfg_attr(loom, allow(dead_code, reason = "loom runs what is lock-free"))]
mod block;
pub mod decisions;
#[cfg_attr(loom, allow(dead_code, reason = "loom runs what is lock-free"))]
mod misuse;
mod reserve;
mod slabs;
pub mod units;

pub use misuse::Misuse;
pub use reserve::depot;
pub use slabs::{inbox, vacancy};
#[cfg(loom)]
pub use {block::Block, block::Chain, reserve::arrivals, slabs::slab};

// Under loom only the lock-free parts exist: loom's atomics cannot be statics or mapped memory.
#[cfg(not(loom))]
mod aside;
#[cfg(not(loom))]
pub mod cache;
#[cfg(not(loom))]
pub mod census;
#[cfg(not(loom))]
mod fork;
#[cfg(not(loom))]
mod found;
#[cfg(not(loom))]
pub mod heap;
#[cfg(not(loom))]
mod large;
#[cfg(not(loom))]
mod limits;
#[cfg(not(loom))]
mod magazines;
#[cfg(not(loom))]
mod metered;
#[cfg(not(loom))]
mod packing;
#[cfg(not(loom))]
mod purge;
#[cfg(not(loom))]
mod refill;
#[cfg(not(loom))]
mod registry;
#[cfg(not(loom))]
mod resize;
#[cfg(not(loom))]
mod room;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod tag;
#[cfg(not(loom))]
mod vacate;
#[cfg(not(loom))]
mod walk;

#[cfg(not(loom))]
pub use cache::{Cache, Freed};
#[cfg(not(loom))]
pub use found::{Block, Kind};
#[cfg(not(loom))]
pub use heap::NodeHeap;
#[cfg(not(loom))]
pub use packing::Utilization;
#[cfg(not(loom))]
pub use purge::Purged;
#[cfg(not(loom))]
pub use vacate::Vacated;
