//! The region cut in stripes, each with a policy and a lock.
//!
//! A thread allocates from its own stripe first (thread n from stripe n modulo their number), and from
//! the next ones when that has no block; a block goes back to the stripe it lies in. With one
//! stripe per thread this is the "arena per thread" of Cavin and Alonso's first design (and of glibc):
//! a thread waits only for frees by other threads.

use super::lock::Exclusive;
use super::one_lock::OneLock;
use super::{Handle, Sharing};
use crate::Region;
use crate::align::Align;
use crate::policy::Policy;
use crate::probe::Probe;
use core::marker::PhantomData;
use core::ops::DerefMut;
use core::ptr::NonNull;

/// The stripes, kept in an `S` (a vector, where there is one). Invariant: as many as were made, at
/// least one.
#[derive(Debug)]
pub struct Striped<S, P, L> {
    stripes: S,
    /// The address of the first byte.
    base: usize,
    /// The length of each in bytes.
    each: usize,
    holds: PhantomData<fn() -> (P, L)>,
}

impl<S, P, L> Striped<S, P, L>
where
    S: DerefMut<Target = [OneLock<P, L>]> + FromIterator<OneLock<P, L>>,
    P: Policy + Send,
    L: Exclusive,
{
    /// Cuts `region` into `count` stripes (0 is 1), each under a lock of its own; `None` when they are
    /// too short for a single block.
    pub fn new(region: Region, count: u32, mut lock: impl FnMut() -> L) -> Option<Self> {
        let parts = region.cut(count);
        let (base, each) = (parts.base().addr().get(), parts.each() as usize);
        let stripe = |part| Some(OneLock::new(P::new(part)?, lock()));
        let stripes: S = parts.map_while(stripe).collect();
        (stripes.len() == count.max(1) as usize).then_some(Striped {
            stripes,
            base,
            each,
            holds: PhantomData,
        })
    }

    /// The stripes, for those who count what happens to their locks.
    pub fn stripes(&self) -> &[OneLock<P, L>] {
        &self.stripes
    }
}

/// A thread's way in: where it looks first.
#[derive(Debug)]
pub struct Home<'h, S, P, L> {
    heap: &'h Striped<S, P, L>,
    first: usize,
}

impl<S, P, L> Sharing for Striped<S, P, L>
where
    S: DerefMut<Target = [OneLock<P, L>]> + Sync,
    P: Policy + Send,
    L: Exclusive,
{
    type Policy = P;
    type Handle<'h>
        = Home<'h, S, P, L>
    where
        Self: 'h;

    fn handle(&self, thread: usize) -> Option<Home<'_, S, P, L>> {
        Some(Home { heap: self, first: thread % self.stripes.len() })
    }

    fn inspect(&mut self, mut visit: impl FnMut(&P)) {
        self.stripes.iter_mut().for_each(|stripe| stripe.inspect(&mut visit));
    }
}

impl<S, P, L> Handle for Home<'_, S, P, L>
where
    S: DerefMut<Target = [OneLock<P, L>]>,
    P: Policy + Send,
    L: Exclusive,
{
    #[inline]
    fn alloc<W: Probe>(&mut self, size: u64, align: Align, probe: &mut W) -> Option<NonNull<u8>> {
        let (before, from_first) = self.heap.stripes.split_at(self.first);
        let mut inwards = from_first.iter().chain(before);
        inwards.find_map(|mut stripe| stripe.alloc(size, align, probe))
    }

    #[inline]
    unsafe fn free<W: Probe>(&mut self, payload: NonNull<u8>, probe: &mut W) {
        let offset = payload.addr().get() - self.heap.base;
        let mut stripe = &self.heap.stripes[offset / self.heap.each];
        // SAFETY: the caller's promise; the payload lies in this stripe, so it came from its policy.
        unsafe { stripe.free(payload, probe) };
    }
}
