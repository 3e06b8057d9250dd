//! The recorder's parent: launches the program, drains its rings, writes the trace.
//!
//! ```text
//!   launch ── the program, with the library preloaded
//!                │ hello                        │ events
//!                ▼                              ▼
//!   door ── gives ring sets, sees ends ──▶ drain ── spool ──▶ finish ── trace
//!   (thread)                               (thread)  (file)   (after)
//!     │ began, ends                            ▲
//!     └──────────────▶ watch (thread) ─────────┘ what processes have in memory
//! ```
//!
//! - [`record`] does all of it; [`finish_spool`] does the last step for a recording whose parent died;
//! - [`error`] says what can go wrong; [`launch`] and [`signals`] start any program and stay beside it.
//!
//! Invariant: the program runs as it would alone. Its descriptors, signals and exit status are its
//! own; whatever fails here ends the recording, never the program, and is said at the end.
//!
//! Neighbours: `freehold-record` is the other side of the shared memory; `freehold-trace` names
//! objects and writes the file.

mod blank;
mod clock;
mod door;
mod drain;
pub mod error;
mod finish;
pub mod launch;
mod live;
mod lost;
mod mapping;
mod session;
pub mod signals;
mod smaps;
mod socket;
mod spool;
mod stacks;
mod watch;
mod zeroes;

pub use error::RecordError;
pub use finish::finish_spool;
pub use finish::kept::{Block, kept};
pub use session::{Options, Outcome, Stage, WhichStacks, record};
