//! Which **block** of a region? One layout, one mechanism, one file per answer: everything that works on one region of
//! memory, be it a computer's, a microcontroller's or a simulated one's. Needs no other crate, no system and no heap.
//!
//! ```text
//!   first_fit  next_fit  best_fit  worst_fit  good_fit      the choice: a FreeIndex each
//!   exact_fit  dmrt (small: exact, normal: good, large: worst)
//!   order: zones or list    forest                         ... by address, by size class (classes)
//!   tree (O(log n))    list (as in the books)    stack      structures inside the free blocks
//!                      heap (index)                 buddy   the mechanism: split, merge, resize
//!             search                  unmerged                ... choosing first, taking later; never merging
//!                      tags (walk)                          the layout: all header arithmetic
//!                      region                               the memory
//! ```
//!
//! Invariant: whatever the policy, a region is a row of blocks as `tags` draws them, so that one
//! walk, one check and one picture serve all. The four fits of the textbooks exist twice, as the
//! plain list algorithm and as a tree that chooses the very same block; tests hold one against
//! the other.
//!
//! Around them: [`policy`] is the contract and the registry, [`probe`] says what a step is, [`realtime`] serves each call
//! within a bound, [`sharing`] lets threads share a region under any policy. `freehold-core` counts its page frames by
//! the same [`probe`]; its malloc uses nothing from here, and nothing here uses the malloc.
#![no_std]

pub mod align;
mod best_fit;
mod buddy;
pub mod check;
mod classes;
mod dmrt;
mod exact_fit;
mod first_fit;
mod forest;
mod good_fit;
mod heap;
mod index;
mod list;
mod next_fit;
mod order;
pub mod policy;
pub mod probe;
pub mod realtime;
mod region;
pub mod registry;
mod search;
pub mod sharing;
mod stack;
pub mod sync;
mod tags;
mod tree;
mod unmerged;
mod walk;
mod worst_fit;
mod zones;

pub use best_fit::{BestFit, BestFitList};
pub use buddy::Buddy;
pub use dmrt::{Dmrt, DmrtLists, DmrtLooks, DmrtPaper, DmrtParams, LargeFit};
pub use exact_fit::{ExactFit, ExactLists};
pub use first_fit::{FirstFit, FirstFitList};
pub use good_fit::{GoodFit, GoodFitParams, SizeLists};
pub use heap::BlockHeap;
pub use index::{Census, FreeIndex, LongestTwo};
pub use next_fit::{NextFit, NextFitList};
pub use region::{GRANULE, MAX_REGION, Parts, Region};
pub use search::{Found, Search, StillIndex};
pub use tags::{Block, Granules, MIN_BLOCK, TAG, Tag, Tags, View};
pub use unmerged::Unmerged;
pub use walk::{Counts, Tally};
pub use worst_fit::{WorstFit, WorstFitList};
