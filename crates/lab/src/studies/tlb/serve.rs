//! Who places recorded objects: a policy in a region of its own, or the malloc of this very process.

use freehold_blocks::align::Align;
use freehold_blocks::policy::Policy;
use std::ptr::{self, NonNull};

/// Answers the recorded calls, one after another. What it hands out is never written to.
pub(super) trait Serve {
    /// A new object.
    fn alloc(&mut self, size: u64, align: Align) -> Option<NonNull<u8>>;

    /// An object dies.
    ///
    /// # Safety
    /// The payload is this server's and alive; it is not named again.
    unsafe fn free(&mut self, payload: NonNull<u8>);

    /// Where an object lies once it is as long as that; `None`: not there, and it lies as it did.
    ///
    /// # Safety
    /// The payload is this server's and alive; if there is an answer, it is not named again.
    unsafe fn resize(&mut self, payload: NonNull<u8>, size: u64) -> Option<NonNull<u8>>;
}

/// A policy.
pub(super) struct ByPolicy<P>(pub(super) P);

impl<P: Policy> Serve for ByPolicy<P> {
    fn alloc(&mut self, size: u64, align: Align) -> Option<NonNull<u8>> {
        self.0.alloc(size, align, &mut ())
    }

    unsafe fn free(&mut self, payload: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free(payload, &mut ()) };
    }

    unsafe fn resize(&mut self, payload: NonNull<u8>, size: u64) -> Option<NonNull<u8>> {
        // SAFETY: the caller's promise.
        unsafe { self.0.resize_in_place(payload, size, &mut ()) }.then_some(payload)
    }
}

/// The process's malloc, asked as the standard library of Rust asks it: by `malloc` where its own alignment
/// will do.
pub(super) struct ByMalloc;

/// What malloc aligns to unasked.
const OWN_ALIGN: u64 = 16;

impl Serve for ByMalloc {
    fn alloc(&mut self, size: u64, align: Align) -> Option<NonNull<u8>> {
        let (bytes, align) = (usize::try_from(size).ok()?, align.bytes());
        if align <= OWN_ALIGN {
            // SAFETY: malloc takes any size.
            return NonNull::new(unsafe { libc::malloc(bytes) }.cast());
        }
        let mut payload = ptr::null_mut();
        // SAFETY: the place for the answer is live; the alignment is a power of two beyond a word's.
        unsafe { libc::posix_memalign(&raw mut payload, align as usize, bytes) };
        NonNull::new(payload.cast())
    }

    unsafe fn free(&mut self, payload: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { libc::free(payload.as_ptr().cast()) };
    }

    unsafe fn resize(&mut self, payload: NonNull<u8>, size: u64) -> Option<NonNull<u8>> {
        // Never 0, which would free the object in glibc.
        let bytes = usize::try_from(size.max(1)).ok()?;
        // SAFETY: the caller's promise.
        NonNull::new(unsafe { libc::realloc(payload.as_ptr().cast(), bytes) }.cast())
    }
}
