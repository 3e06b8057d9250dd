//! Which **block** of a region? One layout, one mechanism, one file per answer.
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
//! Neighbours: [`policy`](crate::policy) is the contract and the registry; what a step is,
//! [`machine`](crate::machine) says.

mod best_fit;
mod buddy;
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
pub mod realtime;
mod region;
mod search;
mod stack;
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
