//! Simulated machines: models only.
//!
//! ```text
//!   numa       nodes with memory of their own, a memory that all share, requests over time
//!   banks      memory banks that can be switched off, programs on their page frames
//!   cache      sets of lines, data caches     tlb      pages that a processor can reach
//!   processors a program's pieces of work on P of them, with misses and locks
//!   mesh       nodes on a mesh, each with a core, a controller and a heap; messages between them
//!   region     ordinary memory in which a policy lays out its blocks
//!   random     draws: a generator, uniform and log-uniform, the same on every machine
//! ```
//!
//! Invariant: a simulation is a function of its configuration and its seed. All draws are integer
//! arithmetic, nothing is iterated in the order of a hash, no clock is read. And no policy lives
//! here: which block and which place are answered by the very functions of `core` that ship.

pub mod banks;
pub mod cache;
pub mod mesh;
pub mod numa;
pub mod processors;
pub mod random;
mod region;
pub mod tlb;

pub use region::SimMemory;
