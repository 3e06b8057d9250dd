//! What a thread of an experiment calls: the handle of a shared heap, a bare policy, malloc.
//!
//! Every experiment makes its calls through a table ([`Way`]): what surrounds them is then the same code for all heaps, and exists once.

use freehold_blocks::align::Align;
use freehold_blocks::policy::Policy;
use freehold_blocks::sharing::Handle;
use std::ptr::NonNull;

/// An allocator as one thread sees it.
pub trait Calls {
    /// At least `size` bytes of memory; `None` when there are none.
    fn alloc(&mut self, size: u32) -> Option<NonNull<u8>>;

    /// Takes them back.
    ///
    /// # Safety
    /// `payload` came from this allocator, by any thread, and has not been freed since.
    unsafe fn free(&mut self, payload: NonNull<u8>);
}

/// A thread's way to its heap.
pub type Way<'h> = Box<dyn Calls + 'h>;

/// By the handle of a shared heap.
pub struct ByHandle<H>(pub H);

impl<H: Handle> Calls for ByHandle<H> {
    #[inline]
    fn alloc(&mut self, size: u32) -> Option<NonNull<u8>> {
        self.0.alloc(size.into(), Align::ONE, &mut ())
    }

    #[inline]
    unsafe fn free(&mut self, payload: NonNull<u8>) {
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.0.free(payload, &mut ()) };
    }
}

/// The policy itself, unlocked: for the program without threads.
pub struct Unlocked<'p, P>(pub &'p mut P);

impl<P: Policy> Calls for Unlocked<'_, P> {
    #[inline]
    fn alloc(&mut self, size: u32) -> Option<NonNull<u8>> {
        self.0.alloc(size.into(), Align::ONE, &mut ())
    }

    #[inline]
    unsafe fn free(&mut self, payload: NonNull<u8>) {
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.0.free(payload, &mut ()) };
    }
}

/// This process's malloc, whichever it is.
pub struct Malloc;

impl Calls for Malloc {
    #[inline]
    fn alloc(&mut self, size: u32) -> Option<NonNull<u8>> {
        // SAFETY: malloc may be asked for any size.
        NonNull::new(unsafe { libc::malloc(size as usize) }.cast())
    }

    #[inline]
    unsafe fn free(&mut self, payload: NonNull<u8>) {
        // SAFETY: the caller's promise: it came from malloc.
        unsafe { libc::free(payload.as_ptr().cast()) };
    }
}
