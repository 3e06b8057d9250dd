//! A machine of nodes: every node has processors and memory of its own, one memory is shared by
//! all, and requests come from the processors one after the other.
//!
//! ```text
//!      N0 ──── N1          requests   who asks, for how much, for how long
//!      │ shared│           machine    capacities and how far everything is
//!      N3 ──── N2          costs      nanoseconds of a step, by where it touches memory
//!                          run        the simulation: place (core) > block (core) > time
//! ```
//!
//! Invariant: the simulation decides nothing. The place is chosen by
//! [`place`](freehold_core::place), the block by a [`Policy`](freehold_blocks::policy::Policy); this
//! module keeps the clock, frees what has lived long enough, and tells a [`Watch`] what happened.

mod costs;
mod machine;
mod requests;
mod run;

pub use costs::{BadCosts, Costs};
pub use machine::{BadMachine, MAX_CAPACITY, Machine, Memory};
pub use requests::{
    Background, BadGenerator, Draw, Generator, Lifetimes, NEVER, Request, SizeClass,
};
pub use run::{Backing, NoRoom, Seen, Setup, State, Watch, run};
