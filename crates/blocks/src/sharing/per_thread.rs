//! A part of the region per thread, with an inbox for blocks that other threads free.
//!
//! ```text
//!   region  |  heap 0        |  heap 1        |  heap 2        |
//!              owner: thread     owner: none      owner: thread      one word: owned
//!              policy            policy           policy             touched by its owner alone
//!              inbox             inbox            inbox              pushed to by anybody
//! ```
//!
//! An owner allocates and frees without a lock or an atomic operation. A block of another heap goes into that
//! heap's [`inbox`](super::inbox): one push, linked through the block itself. The owner empties the whole
//! inbox before it allocates. (A thread that only frees never empties its inbox; that memory waits for the
//! next owner that allocates.) When a thread ends, its heap keeps its blocks for the next thread that takes
//! it over.

use super::inbox::{Inbox, LEAST};
use super::{Handle, Sharing};
use crate::Region;
use crate::align::Align;
use crate::policy::Policy;
use crate::probe::Probe;
use crate::sync::{AtomicU32, Ordering, UnsafeCell};
use core::marker::PhantomData;
use core::ops::DerefMut;
use core::ptr::NonNull;

/// One thread's heap, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct OwnHeap<P> {
    /// 1 while a thread has it.
    owned: AtomicU32,
    policy: UnsafeCell<P>,
    inbox: Inbox,
}

// SAFETY: the policy is touched by the heap's owner alone (or through `&mut`); ownership is handed on
// by Release and Acquire of `owned`. The rest are atomics.
unsafe impl<P: Send> Sync for OwnHeap<P> {}

impl<P: Policy> OwnHeap<P> {
    fn new(policy: P) -> OwnHeap<P> {
        OwnHeap { owned: AtomicU32::new(0), policy: UnsafeCell::new(policy), inbox: Inbox::new() }
    }

    /// # Safety
    /// The caller owns the heap.
    #[inline]
    unsafe fn with_policy<R>(&self, work: impl FnOnce(&mut P) -> R) -> R {
        self.policy.with_mut(|policy| {
            // SAFETY: only the owner touches the policy, and that is the caller.
            work(unsafe { &mut *policy })
        })
    }

    /// Frees what others have sent.
    ///
    /// # Safety
    /// The caller owns the heap.
    #[inline]
    unsafe fn take_in(&self, probe: &mut impl Probe) {
        if self.inbox.is_empty() {
            return;
        }
        self.inbox.take(|payload| {
            // SAFETY: the caller owns the heap; whoever sent the payload gave it up, and it is of this
            // heap.
            unsafe { self.with_policy(|policy| policy.free(payload, probe)) };
        });
    }

    /// Gives a block of this heap to its owner. Any thread.
    ///
    /// # Safety
    /// The payload is of this heap, and nobody uses it any more.
    #[cold]
    unsafe fn send(&self, payload: NonNull<u8>) {
        // SAFETY: `alloc` asks for at least so many bytes, payloads are aligned, and this one is the
        // caller's to give.
        unsafe { self.inbox.push(payload) };
    }
}

/// The heaps, kept in an `S` (a vector, where there is one). Invariant: as many as were made, at least
/// one.
#[derive(Debug)]
pub struct PerThread<S, P> {
    heaps: S,
    /// The address of the first byte.
    base: usize,
    /// The length of each in bytes.
    each: usize,
    holds: PhantomData<fn() -> P>,
}

impl<S, P> PerThread<S, P>
where
    S: DerefMut<Target = [OwnHeap<P>]> + FromIterator<OwnHeap<P>>,
    P: Policy + Send,
{
    /// Cuts `region` into heaps for up to `threads` threads at a time (0 is 1); `None` when they are
    /// too short for a single block.
    pub fn new(region: Region, threads: u32) -> Option<Self> {
        let parts = region.cut(threads);
        let (base, each) = (parts.base().addr().get(), parts.each() as usize);
        let heaps: S = parts.map_while(|part| Some(OwnHeap::new(P::new(part)?))).collect();
        (heaps.len() == threads.max(1) as usize).then_some(PerThread {
            heaps,
            base,
            each,
            holds: PhantomData,
        })
    }
}

/// A heap's owner: the one thread that touches its policy, until it is dropped.
#[derive(Debug)]
pub struct Owner<'h, S, P>
where
    S: DerefMut<Target = [OwnHeap<P>]>,
{
    all: &'h PerThread<S, P>,
    own: &'h OwnHeap<P>,
    /// Where the own part of the region begins.
    base: usize,
}

impl<S, P> Drop for Owner<'_, S, P>
where
    S: DerefMut<Target = [OwnHeap<P>]>,
{
    fn drop(&mut self) {
        // Release pairs with the Acquire of the next owner.
        self.own.owned.store(0, Ordering::Release);
    }
}

impl<S, P> Sharing for PerThread<S, P>
where
    S: DerefMut<Target = [OwnHeap<P>]> + Sync,
    P: Policy + Send,
{
    type Policy = P;
    type Handle<'h>
        = Owner<'h, S, P>
    where
        Self: 'h;

    /// The first heap from number `thread` on that nobody owns.
    fn handle(&self, thread: usize) -> Option<Owner<'_, S, P>> {
        let count = self.heaps.len();
        (0..count).map(|step| (thread + step) % count).find_map(|number| {
            let own = &self.heaps[number];
            let taken = own.owned.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
            let base = self.base + number * self.each;
            // Made only if it was taken: to drop an owner is to give its heap back.
            taken.is_ok().then(|| Owner { all: self, own, base })
        })
    }

    fn inspect(&mut self, mut visit: impl FnMut(&P)) {
        for heap in self.heaps.iter() {
            // SAFETY: `&mut self`: there are no owners.
            unsafe {
                heap.take_in(&mut ());
                heap.with_policy(|policy| visit(policy));
            }
        }
    }
}

impl<S, P> Handle for Owner<'_, S, P>
where
    S: DerefMut<Target = [OwnHeap<P>]>,
    P: Policy,
{
    #[inline]
    fn alloc<W: Probe>(&mut self, size: u64, align: Align, probe: &mut W) -> Option<NonNull<u8>> {
        // A block must be able to hold what an inbox writes into it.
        let size = size.max(LEAST);
        // SAFETY: `self` is the owner.
        unsafe {
            self.own.take_in(probe);
            self.own.with_policy(|policy| policy.alloc(size, align, probe))
        }
    }

    #[inline]
    unsafe fn free<W: Probe>(&mut self, payload: NonNull<u8>, probe: &mut W) {
        let address = payload.addr().get();
        if address.wrapping_sub(self.base) < self.all.each {
            // SAFETY: `self` is the owner, and the payload lies in its part, so it came from its
            // policy.
            return unsafe { self.own.with_policy(|policy| policy.free(payload, probe)) };
        }
        let number = (address - self.all.base) / self.all.each;
        // SAFETY: the caller's promise; the payload lies in this heap's part.
        unsafe { self.all.heaps[number].send(payload) };
    }
}
