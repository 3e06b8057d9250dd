//! A mesh of nodes, each with a core, a controller, memory and a heap of its own.
//!
//! ```text
//!   ┌core────────┐   row 0  N0 ── N1 ── N2      costs    every parameter: default, range, meaning
//!   │ controller │          │     │     │       network  messages along rows and columns, links
//!   │ heap       │   row 1  N3 ── N4 ── N5      sites    the heaps: policies of core's, one address range
//!   └────────────┘                              load, program   what the nodes do
//!                                               run      the simulation   agenda   what happens when
//!                                               account  cycles by cause, messages, node by node
//!                                               failure  a node that answers nobody any more
//! ```
//!
//! Invariant: the simulation decides nothing. Which heap is asked is chosen by
//! [`place::mesh`](freehold_core::place::mesh), which block by a
//! [`Policy`](freehold_blocks::policy::Policy); here they cost time. A run is a function of its setup
//! and load, to the byte.
//!
//! Source: Koutras, Anagnostopoulos, Bartzas and Soudris, "Improving Dynamic Memory Allocation on
//! Many-Core Embedded Systems With Distributed Shared Memory", IEEE ESL 8 (3), 2016; the platform: Chen,
//! Lu, Jantsch and Chen, DATE 2010.

mod account;
mod agenda;
mod call;
mod costs;
mod failure;
mod in_c;
mod load;
mod network;
mod program;
mod run;
mod serve;
mod sites;

pub use account::{Aftermath, Cycles, NodeCounts, Run};
pub use costs::{Costs, OutOfRange, PARAMETERS, Parameter};
pub use load::{Act, Load, Synthetic, SyntheticLoad};
pub use program::{Op, Program, ProgramLoad, Task};
pub use run::{Allocator, BadRun, Failure, Improve, Setup, run};
pub use sites::{BadHeaps, MIN_HEAP};

#[cfg(test)]
mod tests;
