//! A lock-free stack of slabs to which other threads gave blocks back; it notifies the slabs' owner.
//!
//! One word per slab and one push for any number of blocks: between two reads of the owner a slab is
//! pushed at most once (`vacancy` ensures it), so a consumer's frees cost the producer nothing
//! until it runs out. Treiber's stack, always emptied as a whole, hence without the ABA problem.

use crate::sync::{AtomicPtr, Ordering};
use core::ptr;

/// Something that can be in one [`Inbox`] at a time.
///
/// # Safety
/// `link` returns the same word every time, used by nothing else while the item is in an inbox.
pub unsafe trait Linked: Sized {
    /// Where the inbox keeps the next item.
    fn link(&self) -> &AtomicPtr<Self>;
}

/// See the module. All-zero is empty.
#[derive(Debug)]
#[repr(transparent)]
pub struct Inbox<T: Linked> {
    head: AtomicPtr<T>,
}

impl<T: Linked> Inbox<T> {
    /// Nothing in it.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Inbox<T> {
        Inbox { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Whether nothing was in it a moment ago.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Puts `item` in. Any thread.
    ///
    /// # Safety
    /// `item` is in no inbox, and lives until it has been taken out of this one.
    pub unsafe fn push(&self, item: *mut T) {
        // SAFETY: the item lives and is ours until the exchange succeeds.
        let link = unsafe { (*item).link() };
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            link.store(head, Ordering::Relaxed);
            // Release pairs with the Acquire in `take`: the taker sees the link and all before it.
            match self.head.compare_exchange_weak(head, item, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes everything out, last in first, and hands each item to `visit`, which may push it
    /// again anywhere.
    pub fn take(&self, mut visit: impl FnMut(*mut T)) {
        let mut item = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        while !item.is_null() {
            // SAFETY: items live until taken out, which is now; the link was written before the
            // push that the swap has seen.
            let next = unsafe { (*item).link() }.load(Ordering::Relaxed);
            visit(item);
            item = next;
        }
    }
}
