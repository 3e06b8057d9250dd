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
//! process  one heap for the process: entry points, hot and cold     (also what libfreehold.so is)
//! word     the thread's cache, one word of thread-local storage
//! thread   threads that come and go, forks
//! purger   the hidden thread that gives memory back
//! options  what the `FREEHOLD_*` variables say
//! report   what is said before a program error stops the program
//! ```
#![no_std]

mod global;
mod options;
pub mod process;
mod purger;
mod report;
mod thread;
mod word;

pub use global::Freehold;
pub use options::{OPTIONS, OptionRow};
