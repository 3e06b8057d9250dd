//! Freehold's malloc, page frames and places: what ships, and what the simulators run.
//!
//! ```text
//! machine   memory, nodes and waiting, as an operating system gives them     sync, row, size_class
//! place     which node, which heap of a mesh
//! frames    which page frames of a machine, for kernels and hypervisors
//! malloc    a thread's blocks, slabs, units of 64 KiB                        stats, rounds of the purger
//! ```
//!
//! Only [`frames`] and [`place::mesh`] use `freehold-blocks`, for what a policy reports and what a check finds; the malloc
//! uses nothing of it.
#![no_std]

pub mod frames;
pub mod machine;
pub mod malloc;
pub mod place;
pub mod rounds;
pub mod row;
pub mod size_class;
#[cfg(not(loom))]
pub mod stats;
pub mod sync;
