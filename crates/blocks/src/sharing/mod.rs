//! How **threads share** the blocks of one region: four answers over any policy of this crate.
//!
//! ```text
//!   one_lock       one at a time                                     any Exclusive lock
//!   reader_writer  readers search together, one writer takes         any ReadWrite lock
//!     writer_first   the lock of Quintana (2019): writers preferred
//!   striped        the region cut in stripes, a lock each            any Exclusive lock
//!   per_thread     a part of the region a thread, and an inbox       no lock
//!   inbox          blocks that other threads have freed               one word
//!   lock           the locks, passed in from outside: nothing here can sleep
//! ```
//!
//! Invariant: whatever the scheme, a block is handed out to one caller at a time, a freed one comes back
//! once, and every policy is touched by one thread at a time, or by readers only (loom:
//! `tests/sharing_loom.rs`). With one thread all of them choose the very blocks that the bare policy
//! chooses ([`striped`] and [`per_thread`]: in the first part of the region).
//!
//! The names are those of the simulated schemes in `sim/processors`: `OneLock` there is [`OneLock`] here,
//! `Heaps(n)` is [`Striped`] with n stripes, `PerProcessor` the same with one a thread, `Inbox` is
//! [`PerThread`]. There a table gives their cost; here they run.

mod inbox;
mod lock;
mod one_lock;
mod per_thread;
mod reader_writer;
mod striped;
mod writer_first;

pub use lock::{Exclusive, Monitor, ReadWrite};
pub use one_lock::OneLock;
pub use per_thread::{OwnHeap, Owner, PerThread};
pub use reader_writer::{ReaderWriter, Searches};
pub use striped::{Home, Striped};
pub use writer_first::{Starvation, Waiting, WriterFirst};

use crate::align::Align;
use crate::policy::Policy;
use crate::probe::Probe;
use core::ptr::NonNull;

/// A heap that threads share.
pub trait Sharing: Sync {
    /// What serves the calls.
    type Policy: Policy;
    /// What a thread calls by.
    type Handle<'h>: Handle
    where
        Self: 'h;

    /// A way in for the `thread`-th of the threads, counted from 0; `None` when there are more threads
    /// than the scheme has heaps for.
    fn handle(&self, thread: usize) -> Option<Self::Handle<'_>>;

    /// Shows every policy, when nobody shares; what was freed and not taken in yet is taken in first.
    fn inspect(&mut self, visit: impl FnMut(&Self::Policy));
}

/// A thread's way into a shared heap. The calls are those of [`Policy`].
pub trait Handle {
    /// A payload of at least `size` bytes at a multiple of `align` and of 16, or `None`.
    fn alloc<P: Probe>(&mut self, size: u64, align: Align, probe: &mut P) -> Option<NonNull<u8>>;

    /// Takes the payload back.
    ///
    /// # Safety
    /// `payload` came from an `alloc` of this heap, by whichever handle, and has not been freed since;
    /// nobody uses it any more, and what was done to it happened before this call.
    unsafe fn free<P: Probe>(&mut self, payload: NonNull<u8>, probe: &mut P);
}
