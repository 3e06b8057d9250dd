//! What a thread has set aside: full stacks in depots, freed runs, a metered cache's spare stacks, and other threads' blocks in
//! parcels.
//!
//! ```text
//! depot     full stacks, a list a class      (lock-free, one word: the purger may take it)
//! runs      freed runs, eight at most         (lock-free, a word each)
//! parcels   blocks of other caches' slabs
//! ```
//!
//! Verbs: `Reserve::put` a stack into the depot and `Reserve::take` one, `Reserve::take_spare` and
//! `Reserve::swap_spare`, `Reserve::empty` a depot into bits; `Runs::put` and `Runs::take` a run; `Parcels::collect` a block.
//!
//! A program whose number of blocks goes up and down around the edge of a stack does not pay for that: a full stack comes
//! back from the depot unchanged (Bonwick and Adams, "Magazines and Vmem" (2001), 3.1, keep a second stack instead; but no
//! other thread can take that from an idle thread).
//!
//! **Debts.** Blocks of a class that the program no longer allocates would keep many slabs in use. So for each new slab of
//! one class the reserve gives as many bytes of other classes back, each class in turn; `Reserve::next_owed` says which.

pub mod arrivals;
pub mod depot;
#[cfg(not(loom))]
pub mod parcels;
#[cfg(not(loom))]
mod runs;
#[cfg(not(loom))]
mod stacks;

#[cfg(not(loom))]
pub use runs::Runs;
#[cfg(not(loom))]
pub use stacks::Reserve;
