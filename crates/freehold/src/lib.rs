//! Freehold's malloc for Rust programs.
//!
//! ```
//! #[global_allocator]
//! static A: freehold::Freehold = freehold::Freehold;
//!
//! let numbers: Vec<u32> = (0..1000).collect();
//! assert_eq!(numbers.iter().sum::<u32>(), 499_500);
//! ```
//!
//! ```text
//! global   `Freehold`, the global allocator
//! heap     `Heap`, a further heap: its own limit and figures, destroyed at once
//! collections  it, as the allocator of Rust collections                 (feature `allocator-api2`)
//! realtime `RealTimeHeap`: a heap on memory of the caller's, every call bounded
//! stats    what the heaps hold, read while they work
//! process  entry points, hot and cold, of the process's heap        (also what libfreehold.so is)
//! main_heap  that heap                                              ask  what a call asks of it
//! word     the thread's cache, one word of thread-local storage
//! thread   threads that come and go, forks
//! purger   the hidden thread that gives memory back
//! heaps    the list of further heaps                                private  one of them, where it lies
//! vacate   leaving a node while the program runs
//! held     which blocks the program holds, out of band; wiped  blocks made zero, and looked through: for hardened frees
//! watch    calls that are counted, sampled or hardened: counts, profile, secure; mode says which
//! exit     what is written at the end                               file  a whole file, or none
//! page     where other processes find what this one holds
//! off_heap memory that the library maps for itself, outside of every heap
//! options  the values of the `FREEHOLD_*` variables                 environment  where they are read
//! unknown  variables that look like options but are none
//! report   the message before a program error stops the program
//! ```
#![no_std]

mod ask;
#[cfg(feature = "allocator-api2")]
mod collections;
mod counts;
mod environment;
mod exit;
mod file;
mod global;
pub mod heap;
mod heaps;
mod held;
mod main_heap;
mod mode;
mod off_heap;
mod options;
mod page;
mod private;
pub mod process;
pub mod profile;
pub mod purger;
pub mod realtime;
mod report;
mod secure;
pub mod stats;
mod thread;
mod unknown;
pub mod vacate;
mod watch;
mod wiped;
mod word;

pub use global::Freehold;
pub use heap::{Heap, HeapOptions};
pub use options::{OPTIONS, OptionRow};
pub use realtime::RealTimeHeap;
