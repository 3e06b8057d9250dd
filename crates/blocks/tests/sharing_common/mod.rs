//! What the tests of the ways to share a heap have in common, on real threads and under loom: a lock, memory, calls.

use freehold_blocks::Region;
use freehold_blocks::align::Align;
use freehold_blocks::sharing::{Exclusive, Handle, Monitor};
use std::ptr::NonNull;

#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex};

/// A mutex and a condition variable.
pub struct Posix(Mutex<()>, Condvar);

impl Posix {
    pub fn new() -> Posix {
        Posix(Mutex::new(()), Condvar::new())
    }
}

// SAFETY: the guard lives until the closure has run.
unsafe impl Exclusive for Posix {
    fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let _held = self.0.lock().unwrap();
        work()
    }
}

// SAFETY: both closures run under the mutex.
unsafe impl Monitor for Posix {
    fn enter(&self, mut ready: impl FnMut() -> bool) {
        let mut held = self.0.lock().unwrap();
        while !ready() {
            held = self.1.wait(held).unwrap();
        }
    }

    fn leave(&self, change: impl FnOnce() -> bool) {
        let _held = self.0.lock().unwrap();
        if change() {
            self.1.notify_all();
        }
    }
}

/// Memory for a region, and the heap over it.
pub struct Over<H> {
    pub heap: H,
    _memory: Vec<u128>,
}

impl<H> Over<H> {
    pub fn new(bytes: usize, heap: impl FnOnce(Region) -> H) -> Over<H> {
        let mut memory = vec![0u128; bytes / 16];
        let base = NonNull::new(memory.as_mut_ptr().cast()).unwrap();
        // SAFETY: the vector lives as long as the heap, and nobody else touches it.
        let region = unsafe { Region::new(base, bytes as u64) }.unwrap();
        Over { heap: heap(region), _memory: memory }
    }
}

/// A block that another thread may free.
pub struct Sendable(pub NonNull<u8>);

// SAFETY: a payload may be freed by any thread.
unsafe impl Send for Sendable {}

pub fn alloc(handle: &mut impl Handle, size: u64) -> Option<NonNull<u8>> {
    handle.alloc(size, Align::ONE, &mut ())
}

pub fn free(handle: &mut impl Handle, payload: NonNull<u8>) {
    // SAFETY: the tests free once what they have allocated.
    unsafe { handle.free(payload, &mut ()) };
}
