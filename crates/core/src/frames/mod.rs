//! Page frames of a machine: which frames a request gets, and which banks stay empty.
//!
//! ```text
//!   request    kinds, classes                      order     how long a block is
//!   zone       a range of frames in banks          bank_set  which banks go on and off together
//!   memory     what the caller hands in            zones     which zone of a machine serves
//!   allocator  alloc, free, isolate, off, on       check     whether it all agrees
//!      policy     where free blocks are kept, which one is taken; the registry
//!         buddy           Linux: one zone, lists by kind
//!         bank_array      a free area for each bank, first fit         bank_area  one bank's
//!         bank_list       lists of banks
//!         adaptive_paper  pools with common lists, as published
//!         adaptive        pools with lists for each bank               pools      their mechanism
//!         fullest         the same, fullest bank first                 pooled     what both share
//!      table      page blocks, bank sets, counts
//!         store           where blocks begin and the free ones are kept
//!            listed         a tag a frame, a list an order                lists      links
//!            grouped        bits of 64 frames and of 64 groups, groups    group      a line of cache
//!                           in lists                                      bits       blocks of a word
//!   migrate    the task that empties banks, and who moves pages
//!      lasting  which room will last
//! ```
//!
//! After Panwar, "An allocation framework for optimizing memory power consumption and controlling fragmentation"
//! (Indian Institute of Science, 2015). A kernel or hypervisor uses this as it is: no allocation, no clock, no
//! global; metadata are slices that it hands in, 1 byte a frame (9 under the published policies). `examples/kernel_frames.rs` shows how.
//!
//! Invariant: of every frame exactly one of these holds: it is a hole, inside or at the start of one used block, or
//! of one free block that can be found in exactly one area. A set that is off is wholly free. Nothing is ever handed out of
//! a set that is isolated.

#![deny(unsafe_code)]

mod adaptive;
mod adaptive_paper;
mod allocator;
mod bank_area;
mod bank_array;
mod bank_list;
mod bank_set;
mod bits;
mod buddy;
mod check;
mod fullest;
mod group;
mod grouped;
mod lasting;
mod listed;
mod lists;
mod memory;
pub mod migrate;
mod order;
mod policy;
mod pooled;
mod pools;
mod request;
mod set_bits;
mod store;
mod table;
mod zone;
mod zones;

pub use adaptive::Adaptive;
pub use adaptive_paper::AdaptivePaper;
pub use allocator::{AllocError, Frames, FreeError, SetError, SetInfo, SetState, Stats};
pub use bank_array::BankArray;
pub use bank_list::BankList;
pub use bank_set::Interleave;
pub use buddy::Buddy;
pub use fullest::Fullest;
pub use group::Group;
pub use grouped::Grouped;
pub use listed::Listed;
pub use memory::{Area, Link, Memory, SetRecord};
pub use order::{ORDERS, Order};
pub use policy::{POLICIES, Picked, Policy, Visitor, dispatch};
pub use pools::MOST_STEPS;
pub use request::{Class, Frame, Kind, Lifetime, Request, SetId};
pub use store::{Begins, Store};
pub use table::Table;
pub use zone::{MAX_SETS, Needs, SetupError, Zone};
pub use zones::{Admits, Role, Zones};
