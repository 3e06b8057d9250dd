//! Full stacks that a cache sets aside, one list per class: blocks that a thread frees now and wants back soon.
//!
//! ```text
//! depot -> magazine -> magazine -> 0        a magazine is a stack of blocks, linked as in `block`;
//!          | link mark | next len total |   its first block carries this header, 32 bytes; smaller blocks have one of
//!                                           32 in front, their head, which counts as one of them
//! ```
//!
//! Magazines follow Bonwick and Adams, "Magazines and Vmem" (2001), 3.1, with one difference: no thread
//! has to bring a magazine back. The purger takes a whole depot whenever its owner used little of
//! it, and turns its blocks into bits; so a thread that frees a million blocks pays for none of them,
//! and an idle thread keeps next to nothing.
//!
//! Invariant: only the owner ever makes the word non-zero (the holder of the registry's lock owns a cache without a
//! thread), and only while it holds the previous list: it takes the list out, changes it, puts it back. Every other thread
//! only takes the list as a whole. Hence each magazine has one holder at any time, and there is no ABA problem.

use crate::sync::{AtomicPtr, Ordering};
use core::ptr;

/// The header of a magazine, in its first block.
#[derive(Debug)]
#[repr(C)]
pub struct Magazine {
    /// Link and mark of the block: not ours.
    _block: [usize; 2],
    /// The next magazine's address, encoded like a link.
    next: usize,
    /// Blocks in this magazine.
    pub len: u32,
    /// Blocks in this magazine and all behind it.
    pub total: u32,
}

/// Bytes that the first block of a magazine must have.
pub const HEADER: usize = size_of::<Magazine>();

const _: () = assert!(HEADER == 32, "only blocks of the smallest class need a head of another");

/// See the module. All-zero is empty.
#[derive(Debug)]
#[repr(transparent)]
pub struct Depot {
    head: AtomicPtr<Magazine>,
}

impl Depot {
    /// No magazines.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Depot {
        Depot { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Whether there was nothing a moment ago.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// The owner sets a magazine of `len` blocks aside; how many blocks are in the depot then.
    ///
    /// # Safety
    /// Only the owner calls this. `magazine` is the first of `len` free blocks of at least [`HEADER`]
    /// bytes, linked, which the caller gives up.
    pub unsafe fn put(&self, magazine: *mut Magazine, len: u32, key: usize) -> u32 {
        // What is behind, if anything, this thread has put there itself. Acquire pairs with the Release in `take`: what the
        // owner counts from now on it counts after the taker said that there was nothing.
        let behind = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: the exchange made `behind` ours, and `magazine` is.
        let total = unsafe {
            let total = if behind.is_null() { 0 } else { (*behind).total };
            (*magazine).next = behind.expose_provenance() ^ magazine.addr() ^ key;
            (*magazine).len = len;
            (*magazine).total = total.saturating_add(len);
            (*magazine).total
        };
        self.put_back(magazine);
        total
    }

    /// The owner takes the magazine that it set aside last, null for none, and how many blocks are
    /// left behind it.
    ///
    /// # Safety
    /// Only the owner calls this, with the key of [`Depot::put`].
    pub unsafe fn pop(&self, key: usize) -> (*mut Magazine, u32) {
        // Acquire: as in `put`.
        let magazine = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        if magazine.is_null() {
            return (magazine, 0);
        }
        // SAFETY: the exchange made it, and all behind it, ours.
        let (behind, left) =
            unsafe { (Magazine::take_next(magazine, key), (*magazine).total - (*magazine).len) };
        if !behind.is_null() {
            self.put_back(behind);
        }
        (magazine, left)
    }

    /// Ends the owner's hold of the list. By an exchange, though a store would do (nobody else makes the
    /// word non-zero): loom does not know that a store cannot slip before another's exchange.
    fn put_back(&self, list: *mut Magazine) {
        // Release pairs with the Acquire in `take`: the taker sees the blocks as they were left.
        let before = self.head.swap(list, Ordering::Release);
        debug_assert!(before.is_null(), "somebody else put a magazine in");
    }

    /// Takes everything; null for nothing. Any thread.
    pub fn take(&self) -> *mut Magazine {
        self.head.swap(ptr::null_mut(), Ordering::AcqRel)
    }
}

impl Magazine {
    /// Takes the magazine behind this one off, null for none. What stays of the header does not reveal the key to a program
    /// that reads the block before it has written there.
    ///
    /// # Safety
    /// The caller holds `magazine`, and asks once; the key is that of [`Depot::put`].
    pub unsafe fn take_next(magazine: *mut Magazine, key: usize) -> *mut Magazine {
        // SAFETY: the caller's.
        let next = unsafe { core::mem::take(&mut (*magazine).next) };
        ptr::with_exposed_provenance_mut(next ^ magazine.addr() ^ key)
    }
}
