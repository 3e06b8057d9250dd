//! Readers search together; one writer takes a block at a time.
//!
//! Quintana (2019) guards the fits with a reader-writer lock and does not say what its read lock
//! covers. Here it covers the search, which threads can do together. The thread takes the block found under the
//! write lock, unless a count of writes shows that another thread wrote in between; then it
//! searches again, under the write lock. So every request gets exactly the block that the fit would
//! choose at the moment of taking. (Checking only that the block is still free would be cheaper
//! and wrong: where a tag was, there may be payload by now.)
//!
//! The scheme counts vain first searches: under threads that allocate and free in turn
//! most are vain, and then this lock costs two searches instead of one.

use super::lock::ReadWrite;
use super::{Handle, Sharing};
use crate::align::Align;
use crate::probe::Probe;
use crate::sync::UnsafeCell;
use crate::{GRANULE, Search};
use core::ptr::NonNull;

/// A policy under a reader-writer lock.
#[derive(Debug)]
pub struct ReaderWriter<P, L> {
    lock: L,
    shared: UnsafeCell<Shared<P>>,
}

#[derive(Debug)]
struct Shared<P> {
    policy: P,
    /// How often the policy has changed.
    changes: u64,
    searches: Searches,
}

/// What became of the searches under the read lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Searches {
    /// What was found was taken.
    pub good: u64,
    /// Somebody had written in between: searched again, under the write lock.
    pub in_vain: u64,
}

// SAFETY: the policy is read under the read lock and written under the write lock (or through `&mut`).
unsafe impl<P: Send + Sync, L: Sync> Sync for ReaderWriter<P, L> {}

impl<P: Search + Send + Sync, L: ReadWrite> ReaderWriter<P, L> {
    /// Shares `policy` under `lock`, which guards nothing else.
    pub fn new(policy: P, lock: L) -> Self {
        let shared = Shared { policy, changes: 0, searches: Searches::default() };
        ReaderWriter { lock, shared: UnsafeCell::new(shared) }
    }

    /// The lock, for those who count what happens to it.
    pub fn lock(&self) -> &L {
        &self.lock
    }

    /// What became of the searches so far.
    pub fn searches(&self) -> Searches {
        self.reading(|shared| shared.searches)
    }

    #[inline]
    fn reading<R>(&self, work: impl FnOnce(&Shared<P>) -> R) -> R {
        self.lock.read(|| {
            self.shared.with(|shared| {
                // SAFETY: under the read lock nobody writes.
                work(unsafe { &*shared })
            })
        })
    }

    #[inline]
    fn writing<R>(&self, work: impl FnOnce(&mut Shared<P>) -> R) -> R {
        self.lock.write(|| {
            self.shared.with_mut(|shared| {
                // SAFETY: under the write lock nobody else reads or writes.
                work(unsafe { &mut *shared })
            })
        })
    }
}

impl<P: Search + Send + Sync, L: ReadWrite> Sharing for ReaderWriter<P, L> {
    type Policy = P;
    type Handle<'h>
        = &'h ReaderWriter<P, L>
    where
        Self: 'h;

    fn handle(&self, _: usize) -> Option<&Self> {
        Some(self)
    }

    fn inspect(&mut self, mut visit: impl FnMut(&P)) {
        self.reading(|shared| visit(&shared.policy));
    }
}

impl<P: Search + Send + Sync, L: ReadWrite> Handle for &ReaderWriter<P, L> {
    /// Larger alignments than 16 are looked for under the write lock.
    #[inline]
    fn alloc<W: Probe>(&mut self, size: u64, align: Align, probe: &mut W) -> Option<NonNull<u8>> {
        if align.bytes() > GRANULE {
            return self.writing(|shared| {
                shared.changes += 1;
                shared.policy.alloc(size, align, probe)
            });
        }
        let (found, seen) =
            self.reading(|shared| (shared.policy.search(size, probe), shared.changes));
        let found = found?;
        self.writing(|shared| {
            let unchanged = shared.changes == seen;
            shared.changes += 1;
            if unchanged {
                shared.searches.good += 1;
                // SAFETY: nothing was written since the search, or it would have been counted.
                return Some(unsafe { shared.policy.take_found(found, probe) });
            }
            shared.searches.in_vain += 1;
            shared.policy.alloc(size, align, probe)
        })
    }

    #[inline]
    unsafe fn free<W: Probe>(&mut self, payload: NonNull<u8>, probe: &mut W) {
        self.writing(|shared| {
            shared.changes += 1;
            // SAFETY: the caller's promise; the policy behind the lock is the one it came from.
            unsafe { shared.policy.free(payload, probe) }
        });
    }
}
