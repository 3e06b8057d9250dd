//! The oracle that everything with a registry line is tested under.
//!
//! ```text
//!   programs    random lists of calls, as data that shrinks
//!      run      a program on a policy, every promise checked after every call
//! malloc_programs   the same for the malloc
//! shadow_malloc     its oracle, for one thread with several caches or for many threads
//!    shadow     the oracle: what must be where, and what must be in it
//!    memory     a region of ordinary memory
//!    failing_machine   for the malloc: ordinary memory whose nth call fails
//! frame_programs    the same for page-frame allocators
//! shadow_frames     their oracle
//!    library           libfreehold.so as it ships
//! instructions          of an example, by valgrind
//!    nodes             memories for it, several
//!    skip              what a test says that lacks a tool
//!    figures           what a test measured, for whoever keeps results
//!    trials            the harness that counts such tests as ignored
//! ```
//!
//! A failure is a [`Failure`]: the promise that was broken and the shortest program found that
//! breaks it, printed as Rust, to be pasted into a test of its own.

pub mod failing_machine;
pub mod figures;
pub mod frame_programs;
pub mod instructions;
mod library;
pub mod malloc_programs;
pub mod memory;
pub mod nodes;
pub mod programs;
pub mod run;
pub mod shadow;
pub mod shadow_frames;
pub mod shadow_malloc;
pub mod skip;
pub mod trials;

pub use library::preload_library;
pub use malloc_programs::{Call, run_calls};
pub use memory::SimRegion;
pub use programs::{Op, Program};
pub use run::{Failure, hunt, hunt_frames, run_program};
pub use shadow::{Fault, ShadowHeap};
pub use shadow_frames::{FrameMemory, ShadowFrames, run_frames};
pub use shadow_malloc::{ShadowMalloc, World};
pub use skip::skip;
pub use trials::run_trials;
