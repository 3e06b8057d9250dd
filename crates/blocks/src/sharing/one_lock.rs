//! One lock around everything: what a program gets with a mutex around a textbook heap.

use super::lock::Exclusive;
use super::{Handle, Sharing};
use crate::align::Align;
use crate::policy::Policy;
use crate::probe::Probe;
use crate::sync::UnsafeCell;
use core::ptr::NonNull;

/// A policy under a lock. On cache lines of its own, so that stripes do not share one.
#[derive(Debug)]
#[repr(align(128))]
pub struct OneLock<P, L> {
    lock: L,
    policy: UnsafeCell<P>,
}

// SAFETY: the policy is touched under the lock only (or through `&mut`), one thread at a time.
unsafe impl<P: Send, L: Sync> Sync for OneLock<P, L> {}

impl<P: Policy + Send, L: Exclusive> OneLock<P, L> {
    /// Shares `policy` under `lock`, which guards nothing else.
    pub fn new(policy: P, lock: L) -> Self {
        OneLock { lock, policy: UnsafeCell::new(policy) }
    }

    #[inline]
    fn locked<R>(&self, work: impl FnOnce(&mut P) -> R) -> R {
        self.lock.with(|| {
            self.policy.with_mut(|policy| {
                // SAFETY: under the lock nobody else touches the policy.
                work(unsafe { &mut *policy })
            })
        })
    }

    /// The lock, for those who count what happens to it.
    pub fn lock(&self) -> &L {
        &self.lock
    }
}

impl<P: Policy + Send, L: Exclusive> Sharing for OneLock<P, L> {
    type Policy = P;
    type Handle<'h>
        = &'h OneLock<P, L>
    where
        Self: 'h;

    fn handle(&self, _: usize) -> Option<&Self> {
        Some(self)
    }

    fn inspect(&mut self, mut visit: impl FnMut(&P)) {
        self.locked(|policy| visit(policy));
    }
}

impl<P: Policy + Send, L: Exclusive> Handle for &OneLock<P, L> {
    #[inline]
    fn alloc<W: Probe>(&mut self, size: u64, align: Align, probe: &mut W) -> Option<NonNull<u8>> {
        self.locked(|policy| policy.alloc(size, align, probe))
    }

    #[inline]
    unsafe fn free<W: Probe>(&mut self, payload: NonNull<u8>, probe: &mut W) {
        // SAFETY: the caller's promise; the policy behind the lock is the one it came from.
        self.locked(|policy| unsafe { policy.free(payload, probe) });
    }
}
