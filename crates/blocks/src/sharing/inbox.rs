//! The blocks that other threads have freed: a stack in one word, linked through the blocks themselves.
//!
//! Treiber's stack, always emptied as a whole, hence without the ABA problem. Any thread puts a block in, one takes all
//! out. (The malloc has a like stack of its own, of slabs that stay in use while they are linked; neither is a part of
//! the other, so that neither crate needs the other.)

use crate::sync::{AtomicPtr, Ordering};
use core::ptr::{self, NonNull};

/// What a block holds while it waits.
#[derive(Debug)]
struct Sent {
    next: AtomicPtr<Sent>,
}

const _: () = assert!(align_of::<Sent>() <= 16, "a payload is 16-aligned");

/// The least number of bytes that a block must have to be sent.
pub const LEAST: u64 = size_of::<Sent>() as u64;

/// See the module.
#[derive(Debug)]
pub struct Inbox {
    head: AtomicPtr<Sent>,
}

impl Inbox {
    /// Nothing in it.
    pub fn new() -> Inbox {
        Inbox { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Whether nothing was in it a moment ago.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Puts a payload in. Any thread.
    ///
    /// # Safety
    /// The payload is 16-aligned, has at least [`LEAST`] bytes, and is the caller's; from now on only whoever takes it out
    /// of here touches it.
    pub unsafe fn push(&self, payload: NonNull<u8>) {
        let sent = payload.cast::<Sent>();
        let mut head = self.head.load(Ordering::Relaxed);
        // SAFETY: the payload is aligned, long enough and ours, until the exchange below succeeds.
        let link = unsafe {
            sent.write(Sent { next: AtomicPtr::new(head) });
            &sent.as_ref().next
        };
        // Release pairs with the Acquire in `take`: the taker sees the link, and what the sender did before.
        while let Err(now) = self.head.compare_exchange_weak(
            head,
            sent.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            head = now;
            link.store(head, Ordering::Relaxed);
        }
    }

    /// Takes everything out, last in first, and hands each payload to `visit`.
    pub fn take(&self, mut visit: impl FnMut(NonNull<u8>)) {
        let mut head = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        while let Some(sent) = NonNull::new(head) {
            // SAFETY: written by the `push` that the swap has seen; nobody else touches it any more.
            head = unsafe { sent.as_ref() }.next.load(Ordering::Relaxed);
            // SAFETY: as above; what it holds is never looked at again.
            unsafe { sent.drop_in_place() };
            visit(sent.cast());
        }
    }
}
