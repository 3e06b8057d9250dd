//! The slabs of a cache: lists by class, the inbox by which other threads give blocks back, and who ends a slab.
//!
//! ```text
//! slab      64 KiB cut into blocks of one class; free blocks are bits, out of band
//! vacancy   how many of them are free, and who knows      (lock-free, eight bytes)
//! inbox     slabs to which other threads gave blocks back (lock-free, one word)
//! lists     the slabs of a cache                            (the owner's)
//! give      blocks go back to bits                          (any thread's)
//! pages     of a slab, a bit each
//! sparse    slabs with purged pages, whose free blocks lost their marks
//! ```
//!
//! Verbs: `Slabs::take` blocks, `give_list` and `give_word` them back, `Slabs::adopt` and `Slabs::cut` a slab,
//! `Slabs::receive` what others gave back, `Slabs::retire_free` slabs that hold no block.
//!
//! Invariant: a slab with set bits is in its owner's list of its class, or on its way there through
//! the owner's inbox (`vacancy` proves it). Only the owner links, unlinks and retires; the holder
//! of its lock owns a cache whose slabs threads share, the holder of the registry's lock any other without a thread; and the purger retires slabs that their owner lists no longer
//! (`Slabs::retire_forgotten`).

#[cfg(not(loom))]
mod give;
pub mod inbox;
#[cfg(not(loom))]
mod lists;
pub mod pages;
pub mod slab;
#[cfg(not(loom))]
pub mod sparse;
pub mod vacancy;

#[cfg(not(loom))]
pub use give::{CLOSE, SAMPLE, give_list, give_lists, give_word, lie_close};
#[cfg(not(loom))]
pub use lists::{NOTHING_MORE, Slabs};
