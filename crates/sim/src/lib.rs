//! Simulated machines: models only.
//!
//! ```text
//!   numa       nodes with memory of their own, a memory that all share, requests over time
//!   region     ordinary memory in which a policy lays out its blocks
//!   random     draws: a generator, uniform and log-uniform, the same on every machine
//! ```
//!
//! Invariant: a simulation is a function of its configuration and its seed. All draws are integer
//! arithmetic, nothing is iterated in the order of a hash, no clock is read. And no policy lives
//! here: which block and which place are answered by the very functions of `core` that ship.

pub mod numa;
pub mod random;
mod region;

pub use region::SimMemory;
