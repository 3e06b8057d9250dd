//! The recorder inside the recorded program, and everything it shares with its parent.
//!
//! ```text
//!   the program                                    freehold record
//!   malloc ─▶ hook ─▶ the next malloc
//!               │
//!               ▼            shared memory
//!            ring of the thread ═══════════▶ drain ─▶ spool ─▶ trace     (crates/collect)
//! ```
//!
//! - [`packed`]: an event in two words, as it lies in a ring;
//! - [`ring`]: one producer, one consumer, and the argument why nothing is lost or torn;
//! - [`ring_set`]: the layout of what the parent makes and the program maps;
//! - [`hello`]: the two messages by which a process gets its ring set;
//! - [`unwind`]: the call stack of the moment;
//! - `preload` (feature): the hooks themselves.
//!
//! One invariant: **the program never depends on the recorder.** Hooks allocate nothing, never
//! panic, keep `errno`, hold no file descriptor, and a parent that is gone ends the recording only.
//!
//! Without the feature this is an ordinary library, used by the parent; with it, and built as a
//! cdylib, it is `libfreehold_record.so`.
#![cfg_attr(not(any(test, loom)), no_std)]

pub mod hello;
pub mod packed;
pub mod ring;
pub mod ring_set;
mod sync;
#[cfg(not(loom))]
pub mod unwind;

#[cfg(all(feature = "preload", not(test), not(loom)))]
mod preload;
