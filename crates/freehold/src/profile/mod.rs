//! The sampled heap profile (`FREEHOLD_PROFILE=FILE`): who allocated what lives, and what ever did.
//!
//! ```text
//! sampler  when a sample is due, and what becomes of the sampled block
//! meter    the same without counting every call: by class, when a stack is empty
//! stack    who called
//! table    sites and live samples, in memory of its own
//! probe    tells tracers outside of the process of sampled blocks
//! pprof    the file, whose shape `core::stats::profile` knows: so does `freehold top --serve`, which reads the tables from outside
//! math     the two functions that chance needs
//! clock    the time, for ages
//! ```
//!
//! **Unbiased.** Bytes asked for pass by a thread one after the other; sample points lie among them as
//! a Poisson process of one per `sampler::rate` bytes (the gap to the next is drawn anew from the exponential
//! distribution, which forgets what has passed). An allocation of `s` bytes is sampled when a point falls
//! into it: with probability `p = 1 - exp(-s / rate)`, whatever came before, whichever thread or site.
//! It then counts as `1 / p` allocations of `s` bytes each (Horvitz and Thompson, 1952), so every sum over
//! samples has the expectation of the sum over all allocations. Counting bytes as stacks are *refilled*
//! instead would be free of charge but not unbiased: a block that is freed and taken again from the stack is
//! never refilled, so a site that only reuses what others freed would not exist.
//!
//! Hence all allocations are counted, by class and whole stacks at a time (`meter`), or, where other things are watched as
//! well, one by one (`watch`). A sampled block comes from a cache that no thread has, so freeing it cannot be anyone's
//! fast path, and nothing is asked of other frees.

mod clock;
mod math;
mod meter;
mod pprof;
mod probe;
mod sampler;
mod stack;
mod table;

pub(crate) use meter::Meter;
pub(crate) use sampler::{
    after_fork_in_child, allocate, enter_thread, forget, is_due, set_rate, start,
};
pub use sampler::{is_on, write};
