//! What both modes promise, and the inbox of either.

use super::misuse::Misuse;
use super::{FastHeap, StrictHeap, fast, strict};
use crate::align::Align;
use crate::check::Broken;
use crate::policy::Inspect;
use crate::walk::Tally;
use core::ptr::NonNull;

/// A heap whose every call takes a bounded number of instructions, whatever it holds: no loop over
/// blocks, no call of the system, no wait.
///
/// One thread at a time calls its methods; any thread may free by its [`Inbox`]. What is no used
/// block of this heap is refused, and the heap is as it was.
pub trait BoundedHeap {
    /// At least `size` bytes at a multiple of 16, or of the smallest block; `None` when the heap finds no
    /// room. 0 bytes are a block of their own. Takes in one block from the inbox first, if there is one.
    fn malloc(&mut self, size: u64) -> Option<NonNull<u8>>;

    /// As [`malloc`](Self::malloc), at a multiple of `align`.
    fn malloc_aligned(&mut self, size: u64, align: Align) -> Option<NonNull<u8>>;

    /// Takes the block back. Safe in itself, as the heap believes no pointer; who still uses the block
    /// must not be surprised by its next owner. Null is refused like any other pointer.
    fn free(&mut self, payload: *mut u8) -> Result<(), Misuse>;

    /// Makes the block hold `size` bytes where it lies; `false`, and nothing done, where that is not possible.
    fn resize_in_place(&mut self, payload: NonNull<u8>, size: u64) -> Result<bool, Misuse>;

    /// How many bytes the block holds.
    fn usable(&self, payload: NonNull<u8>) -> Result<u64, Misuse>;

    /// Takes in one block from the inbox; `false` when there was none. For idle time, and when
    /// `malloc` found no room.
    fn take_in(&mut self) -> bool;

    /// Walks every structure and compares each with the others. Not bounded.
    fn check(&self) -> Result<(), Broken>;

    /// What other threads free by.
    ///
    /// # Safety
    /// It is not used any more when the heap's region ends.
    unsafe fn inbox(&self) -> Inbox;
}

/// Frees blocks of a heap from any thread; copies go where they are needed.
#[derive(Clone, Copy, Debug)]
pub struct Inbox(Judge);

#[derive(Clone, Copy, Debug)]
enum Judge {
    Fast(fast::Judge),
    Strict(strict::Judge),
}

impl Inbox {
    /// Gives the block back to its heap, which takes it in later. Wait-free: at most six atomic
    /// operations. What is no used block of the heap, or sent already, is refused.
    pub fn free(&self, payload: NonNull<u8>) -> Result<(), Misuse> {
        match &self.0 {
            Judge::Fast(judge) => judge.send(payload),
            Judge::Strict(judge) => judge.send(payload),
        }
    }
}

macro_rules! forward {
    () => {
        #[inline(always)]
        fn malloc(&mut self, size: u64) -> Option<NonNull<u8>> {
            self.malloc(size)
        }

        fn malloc_aligned(&mut self, size: u64, align: Align) -> Option<NonNull<u8>> {
            self.malloc_aligned(size, align)
        }

        #[inline(always)]
        fn free(&mut self, payload: *mut u8) -> Result<(), Misuse> {
            self.free(payload)
        }

        fn resize_in_place(&mut self, payload: NonNull<u8>, size: u64) -> Result<bool, Misuse> {
            self.resize_in_place(payload, size)
        }

        fn usable(&self, payload: NonNull<u8>) -> Result<u64, Misuse> {
            self.usable(payload)
        }

        fn take_in(&mut self) -> bool {
            self.take_in()
        }
    };
}

impl<T: Tally> BoundedHeap for FastHeap<T> {
    forward!();

    fn check(&self) -> Result<(), Broken> {
        Inspect::check(self)
    }

    unsafe fn inbox(&self) -> Inbox {
        Inbox(Judge::Fast(self.judge))
    }
}

impl BoundedHeap for StrictHeap {
    forward!();

    fn check(&self) -> Result<(), Broken> {
        self.check()
    }

    unsafe fn inbox(&self) -> Inbox {
        Inbox(Judge::Strict(self.judge))
    }
}
