//! Memory blocks of a running Linux, for people who plug memory: what is in each, what pins it, which could be taken
//! offline now, and what that costs in bytes that must move.
//!
//! ```text
//! tree       the kernel's files under /sys and /proc, or a copy of them
//! zones      /proc/zoneinfo: how much each zone keeps
//! pages      kpageflags and kpagecount, page by page: free, movable, or pinned by what
//! blocks     the memory blocks, with all of that               who reads: `freehold hotplug show`
//! plan       which of them: the emptiest first, whole bank sets, as long as there is room and a slack besides
//! apply      carries a plan out, set by set, with time-outs; undoes what is half done
//! ```
//!
//! Linux says `removable` of every block, since no answer can be kept; offlining is how to find out. What is counted here
//! comes from the page flags instead. It is a look: pages come and go, and a page that somebody holds for a while (direct
//! input and output) cannot be told from one that moves. The rules of the plan are those of `core::frames::pages`.
//!
//! Invariant: nothing is written but by `apply`, and by that only what it was handed.

pub mod apply;
pub mod blocks;
pub mod pages;
pub mod plan;
pub mod tree;
pub mod zones;

pub use blocks::{Block, Machine, Verdict};
pub use plan::{Plan, Wanted};
pub use tree::{Tree, TreeError};
