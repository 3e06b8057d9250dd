//! Real programs whose allocations are interesting.
//!
//! A workload is a whole program, not a loop around `malloc`: it computes something that can be
//! checked, and its allocations are those its data structures ask for. Nothing here pools, and
//! nothing here names an allocator: the process's own `malloc` serves every object through
//! Rust's `System` allocator, so that a preloaded recorder or another malloc sees them all.
//!
//! - [`radiosity`]: parallel hierarchical radiosity, the program `freehold compare` runs by default.
//! - [`kernels`]: FAST corners, blur, integral image, matrix product, quadtrees, master and slaves.
//! - [`access`]: tells a recorder which words of which objects a workload touches.

#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod access;
pub mod kernels;
pub mod radiosity;
