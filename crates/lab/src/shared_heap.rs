//! One of the sharing schemes of `freehold-blocks` as the malloc of this very process.
//!
//! ```text
//!   Switch (the process's global allocator)
//!     off   the system's malloc, whichever that is                  always, but for `workload --heap`
//!     on    a scheme over one region:  a payload in the region is the scheme's, any other the system's
//! ```
//!
//! So a real program runs on real threads on heaps that are otherwise only simulated or in tests. The
//! scheme is switched on once, by the first thread, before there are others; it stays on until the process
//! ends, and what was allocated before stays the system's.
//!
//! Invariant: a payload goes back to whom it came from, which its address tells.

mod chosen;
mod parked;

pub use chosen::{SCHEMES, Scheme};
pub use parked::Parked;

use chosen::Heaps;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

static ON: AtomicPtr<Heaps> = AtomicPtr::new(ptr::null_mut());
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of this thread; none yet. Has no destructor, so that it can be asked for until the end.
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// This thread among those that have allocated, counted from 0.
fn number() -> usize {
    NUMBER.with(|own| {
        if own.get() == usize::MAX {
            own.set(THREADS.fetch_add(1, Ordering::Relaxed));
        }
        own.get()
    })
}

/// What the heaps of a scheme hold, and what was seen of its locks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct HeapsUse {
    /// From the start of each heap to the highest end that a used block ever had, summed.
    pub heap_bytes: u64,
    /// Bytes of used blocks now, tags included.
    pub used_bytes: u64,
    /// 1 - longest free block / all free bytes, within the heaps; `None` where nothing is free.
    pub external: Option<f64>,
    /// Times a lock was taken, if locks are watched.
    pub locks_taken: u64,
    /// Times it had to be waited for.
    pub locks_contended: u64,
    /// Nanoseconds waited, all threads together.
    pub lock_wait_ns: u64,
}

/// Why a scheme cannot serve this process.
#[derive(Debug, thiserror::Error)]
pub enum HeapError {
    /// No such scheme.
    #[error("there is no sharing scheme named {name}; there are {}", names())]
    Unknown {
        /// The name.
        name: String,
    },
    /// One is on already.
    #[error("this process has a scheme already")]
    Twice,
    /// No region.
    #[error("{bytes} bytes of address space cannot be had: {source}")]
    Memory {
        /// How many.
        bytes: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// The heap is damaged: a defect, not a result.
    #[error("the heap is damaged: {0}")]
    Broken(String),
}

fn names() -> String {
    SCHEMES.map(|scheme| scheme.name).join(", ")
}

/// The global allocator of a program that can switch to a scheme.
#[derive(Clone, Copy, Debug, Default)]
pub struct Switch;

/// A scheme that serves this process.
#[derive(Debug)]
pub struct Serving(NonNull<Heaps>);

/// Lets the scheme called `name` serve this process from now on, with heaps for so many threads.
///
/// # Errors
/// No such scheme, no address space, or the process has one already.
pub fn switch_on(name: &str, threads: u32, watch_locks: bool) -> Result<Serving, HeapError> {
    let heaps = Box::into_raw(Box::new(Heaps::new(name, threads, watch_locks)?));
    let none = ptr::null_mut();
    // Release pairs with the Acquire of every call.
    match ON.compare_exchange(none, heaps, Ordering::Release, Ordering::Relaxed) {
        Ok(_) => NonNull::new(heaps).map(Serving).ok_or(HeapError::Twice),
        Err(_) => {
            // SAFETY: made just above, and nobody else was told.
            drop(unsafe { Box::from_raw(heaps) });
            Err(HeapError::Twice)
        }
    }
}

impl Serving {
    /// What the heaps hold.
    ///
    /// # Errors
    /// A heap's structures contradict each other.
    ///
    /// # Safety
    /// While this runs no other thread allocates or frees, and what others did happened before.
    pub unsafe fn look(&mut self) -> Result<HeapsUse, HeapError> {
        // SAFETY: never freed once it is on; this thread is the only one at it, by the caller's promise.
        unsafe { self.0.as_mut() }.look()
    }
}

fn serving() -> Option<&'static Heaps> {
    // Acquire pairs with the Release of `switch_on`.
    // SAFETY: null, or a box that is never freed.
    unsafe { ON.load(Ordering::Acquire).as_ref() }
}

// SAFETY: what a scheme hands out is a live block of the asked length and alignment, and goes back to it;
// everything else is the system's.
unsafe impl GlobalAlloc for Switch {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match serving() {
            // SAFETY: the caller's promise.
            None => unsafe { System.alloc(layout) },
            Some(heaps) => heaps.alloc(layout),
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if serving().is_none() {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the caller's promise; a payload is as long as was asked for.
        unsafe {
            let payload = self.alloc(layout);
            if !payload.is_null() {
                payload.write_bytes(0, layout.size());
            }
            payload
        }
    }

    #[inline]
    unsafe fn dealloc(&self, payload: *mut u8, layout: Layout) {
        match (serving(), NonNull::new(payload)) {
            // SAFETY: an address in the region came from the scheme; the caller gives it up.
            (Some(heaps), Some(own)) if heaps.holds(own) => unsafe { heaps.free(own) },
            // SAFETY: any other came from the system.
            _ => unsafe { System.dealloc(payload, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, payload: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if serving().is_none() {
            // SAFETY: the caller's promise; nothing came from anywhere else.
            return unsafe { System.realloc(payload, layout, new_size) };
        }
        // SAFETY: the caller's promises; the new layout is valid because the size is, rounded up.
        unsafe {
            let fresh = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !fresh.is_null() {
                ptr::copy_nonoverlapping(payload, fresh, layout.size().min(new_size));
                self.dealloc(payload, layout);
            }
            fresh
        }
    }
}

#[cfg(test)]
mod tests;
