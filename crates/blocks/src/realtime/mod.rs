//! The real-time heap: every call takes a bounded number of instructions, whatever the heap holds.
//!
//! ```text
//!   bounded    what both modes promise; the inbox's handle
//!   fast       DmRT over boundary tags             strict   powers of two, lowest aligned place
//!     hot      its malloc and free                   tree   which slots are free: 64-way nodes
//!     rings    its lists, heads in the region        slots  the slots of one node
//!   used       which places begin a block          sent     the inbox: places freed by other threads
//!   misuse     what is wrong with a call
//! ```
//!
//! # Bounds
//!
//! | | fast | strict |
//! |---|---|---|
//! | instructions of a malloc, of a free | 100, 100 | 200, 200 |
//! | an aligned malloc, a resize in place | 340, 140 | 220, 440 |
//! | a malloc that first takes in what another thread freed (64 MiB) | 500 | 600 |
//! | a free by the inbox, from another thread (64 MiB) | 120 | 120 |
//! | bytes of a used block, beside what is asked for | 8, up to 23 of rounding | up to the request again |
//! | bytes of structures | 1/63 of the region, 8 a class (3 KiB for 1 MiB), 1 KiB | 1.45 for each smallest block |
//! | memory that is enough for M live bytes | no useful bound | 2 M (1 + log2(n) / 2), proved in `strict` |
//! | blocks looked at that may be too short | 1; 2 from 2 MiB on | none |
//!
//! `cargo xtask worst` measures instructions (`bench/NOTES.md`, "Real time"), its tests gate the first four rows: they count
//! them, one by one, over adversaries; search the disassembly for loops, and follow the longest path through it, which
//! no call can exceed. No function of the first two rows has a loop, but for taking in what other threads freed: over
//! the levels of the inbox.
//!
//! Invariant: a pointer is believed only when `used` (or strict mode's orders) and `sent` say that a used block
//! begins there that nobody has freed. So no misuse damages a heap: it is an error. What cannot be told
//! apart is a block that was freed and is in use again.
//!
//! Neighbours: `tags` has the layout of the fast mode, [`crate::policy`] registers it as `dmrt-fast`, so that it
//! is replayed, compared and tested like any policy; `freehold::realtime` makes handles of both.

mod bounded;
mod fast;
mod hot;
mod misuse;
pub mod rings;
pub mod sent;
mod slots;
mod strict;
mod tree;
mod used;

use super::region::GRANULE;

pub use bounded::{BoundedHeap, Inbox};
pub use fast::FastHeap;
pub use misuse::{Misuse, Unfit};
pub use strict::StrictHeap;
