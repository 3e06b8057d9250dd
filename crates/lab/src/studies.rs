//! Studies: experiments as data, run as a whole, reported as one page.
//!
//! ```text
//!   banks           page frames and memory banks, published and ours
//!   dmrt            the twelve tables of "DmRT for NUMA", published and ours
//!   fragmentation   policies on recorded programs named beforehand
//!   malloc          Freehold's malloc on recorded programs, each of its decisions switched
//!   mesh            distributed heaps on a mesh of nodes, published and ours
//!   radiosity       the radiosity program under every allocator and policy
//!   class           what a figure near a published one is worth: fitted, predicted, undecidable, computed
//!   claims          sentences of a paper, each with its class
//!   columns         flat rows as Parquet
//!   loop_gain       what a loop that allocates nothing can gain on threads, and what is refused
//!   ranks           medians with intervals, and what is greater beyond noise
//!   tlb             page sizes and TLB misses of the radiosity program, published and ours
//!   settings        a study's file: every key, its default, what changes it
//!   statistics      means with intervals, paired differences, correlation
//! ```
//!
//! Invariant: a study's results are a function of its settings (and the traces they name). The
//! policies are those of the registry; nothing here chooses a block or a node.

pub mod banks;
mod claims;
pub mod class;
mod columns;
pub mod dmrt;
pub mod fragmentation;
mod loop_gain;
pub mod malloc;
pub mod mesh;
pub mod radiosity;
pub mod ranks;
pub mod settings;
pub mod statistics;
pub mod threads;
pub mod tlb;
