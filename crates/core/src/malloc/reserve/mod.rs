//! What a thread has set aside: stacks in depots, a spare stack a class, and other threads' blocks on their way home.
//!
//! ```text
//! depot     full stacks, a list a class      (lock-free, one word: the purger may take it)
//! parcels   blocks of other caches' slabs
//! ```
//!
//! Verbs: [`Reserve::put`] a stack into the depot and [`Reserve::take`] one, [`Reserve::take_spare`] and
//! [`Reserve::swap_spare`], [`Reserve::empty`] a depot into bits; [`Parcels::collect`](parcels::Parcels::collect) a block.
//!
//! A program that swings around the edge of one stack does not pay for it: a full stack comes back from the depot
//! unchanged (Bonwick and Adams, "Magazines and Vmem" (2001), 3.1, keep a second stack instead; but no other thread can take
//! that from an idle thread).
//!
//! **Debts.** Blocks of a class that nobody asks for any more would keep many slabs in use. So for each new slab of one
//! class the reserve owes as many bytes of other classes, each class in turn, and [`Reserve::next_owed`] says which.

pub mod depot;
#[cfg(not(loom))]
pub mod parcels;
#[cfg(not(loom))]
mod stacks;

#[cfg(not(loom))]
pub use stacks::Reserve;
