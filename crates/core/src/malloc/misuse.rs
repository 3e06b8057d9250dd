//! Program errors that are noticed.

use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A program error that was noticed. The caller of the malloc reports it and stops the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misuse {
    /// The block is free already.
    DoubleFree,
    /// The address is not the start of a block of this heap.
    NotABlock,
    /// A free block leads to this address, where no block starts: the middle of a block was freed, or a free block written to.
    Astray,
}

/// An error that was found where no caller could get it as a result: long after it happened, by the purger or by an
/// allocation. Of several, one. All-zero is none.
#[derive(Debug)]
pub(super) struct Late {
    at: AtomicUsize,
    kind: AtomicU32,
}

impl Late {
    pub(super) const fn new() -> Late {
        Late { at: AtomicUsize::new(0), kind: AtomicU32::new(0) }
    }

    /// Keeps it until somebody asks.
    pub(super) fn note(&self, misuse: Misuse, address: usize) {
        let kind = match misuse {
            Misuse::DoubleFree => 1,
            Misuse::NotABlock => 2,
            Misuse::Astray => 3,
        };
        self.at.store(address, Ordering::Relaxed);
        // Release pairs with the Acquire in `get`: who sees the kind sees an address.
        self.kind.store(kind, Ordering::Release);
    }

    #[inline]
    pub(super) fn get(&self) -> Option<(Misuse, *mut u8)> {
        let misuse = match self.kind.load(Ordering::Acquire) {
            0 => return None,
            1 => Misuse::DoubleFree,
            2 => Misuse::NotABlock,
            _ => Misuse::Astray,
        };
        Some((misuse, ptr::without_provenance_mut(self.at.load(Ordering::Relaxed))))
    }
}
