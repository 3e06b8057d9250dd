//! [`Heap`]: memory of one purpose, with its own limit and figures, that can be destroyed at once.
//!
//! ```text
//! Heap ── Private ─┬─ NodeHeap        blocks, slabs, units: the malloc's own code
//!                  └─ slots           caches, each under a lock; threads spread over them
//! ```

use crate::main_heap::HEAP;
use crate::private::Private;
use crate::vacate::{NodeError, Pace, Vacated};
use crate::{heaps, purger, report, vacate};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};
use freehold_core::malloc::units::Cursor;
pub use freehold_core::malloc::{Block, Kind};
use freehold_core::malloc::{Cache, Misuse};
use freehold_core::place::NodeSet;
use freehold_core::stats::page::Entry;
use freehold_core::stats::{HeapReport, Name};

/// Address space that a heap without limit reserves at a time, in bytes: 128 GiB.
const RESERVE: usize = 1 << 37;
/// The least that is reserved for a heap with a limit, in bytes.
const RESERVE_MIN: usize = 1 << 26;

/// What a heap shall be; [`HeapOptions::default`] is nameless and without limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapOptions<'a> {
    /// The most it may hold of the machine, in bytes (whole units of 64 KiB, its own bookkeeping
    /// included); beyond, requests are refused. `None` is no limit.
    pub limit: Option<usize>,
    /// What statistics call it; at most 31 letters, digits, `-`, `_`, `.`, `:` and blanks.
    pub name: &'a str,
}

/// A heap of its own. See the module; `freehold_heap` in C.
///
/// Blocks may be allocated, resized and freed by any thread, through the heap that they are of.
/// Dropping the heap ends all of them at once, whatever their number, in a few system calls.
///
/// ```
/// use freehold::{Heap, HeapOptions};
///
/// let heap = Heap::new(HeapOptions { limit: Some(16 << 20), name: "requests" }).expect("memory");
/// let block = heap.allocate(1000, 16).expect("1000 bytes of 16 MiB");
/// assert!(heap.allocate(32 << 20, 16).is_none(), "beyond the limit");
/// let mut blocks = 0;
/// heap.walk(|block| blocks += (block.size >= 1000) as usize);
/// assert_eq!((blocks, heap.stats().census.blocks()), (1, 1));
/// // SAFETY: the block is ours, and not used afterwards.
/// unsafe { heap.free(block) };
/// ```
pub struct Heap {
    private: NonNull<Private>,
}

// SAFETY: every access is under a slot's lock, or the heap's own, or to what never changes.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Heap {
    /// A new heap; `None` when memory for its bookkeeping (some 16 KiB) is short.
    pub fn new(options: HeapOptions<'_>) -> Option<Heap> {
        let block = crate::process::allocate_aligned(size_of::<Private>(), align_of::<Private>());
        let private = NonNull::new(block.cast::<Private>())?;
        let largest = options.limit.map_or(RESERVE, |limit| {
            limit.saturating_mul(2).clamp(RESERVE_MIN, RESERVE).next_power_of_two()
        });
        // SAFETY: the block is ours, as long and as aligned as it must be. Zero is an empty heap (`NodeHeap`; its machine has no
        // bytes), free locks, and no caches.
        unsafe {
            private.write_bytes(0, 1);
            let entry = &raw mut (*private.as_ptr()).entry;
            entry.write(Entry::new(Name::new(options.name.as_bytes())));
        }
        let heap = Heap { private };
        let it = heap.private();
        it.heap.set_key(HEAP.machine().random());
        it.heap.reserve_at_most(largest);
        if let Some(limit) = options.limit {
            it.heap.set_limit(limit);
            it.entry.set_limit(limit as u64);
        }
        it.entry.fill(it.heap.roots());
        heaps::add(it);
        Some(heap)
    }

    /// The heap as a pointer, for other languages; [`Heap::from_raw`] takes it back.
    pub fn into_raw(self) -> NonNull<core::ffi::c_void> {
        core::mem::ManuallyDrop::new(self).private.cast()
    }

    /// The heap of a pointer.
    ///
    /// # Safety
    /// The pointer is of [`Heap::into_raw`], and no other `Heap` made of it will be dropped.
    pub unsafe fn from_raw(pointer: NonNull<core::ffi::c_void>) -> Heap {
        Heap { private: pointer.cast() }
    }

    fn private(&self) -> &Private {
        // SAFETY: it lives as long as the heap.
        unsafe { self.private.as_ref() }
    }

    /// Runs `work` with a cache that is the caller's meanwhile; `None` when there is no memory for one.
    fn with_cache<R>(&self, work: impl FnOnce(&Cache) -> R) -> Option<R> {
        let it = self.private();
        let done = it.with_cache(work);
        if let Some((misuse, block)) = it.heap.late_misuse() {
            report::stop(misuse, block);
        }
        if it.heap.wants_purge() {
            purger::call();
        }
        done
    }

    /// Allocates `size` bytes at a multiple of `align` (a power of two; at least 16 is always given).
    /// `None` when memory is short, or the limit reached.
    pub fn allocate(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let it = self.private();
        self.with_cache(|cache| NonNull::new(it.heap.allocate_aligned(cache, size, align)))?
    }

    /// As [`Heap::allocate`] for any size, all bytes zero.
    pub fn allocate_zeroed(&self, size: usize) -> Option<NonNull<u8>> {
        let it = self.private();
        self.with_cache(|cache| NonNull::new(it.heap.allocate_zeroed(cache, size)))?
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The block is of this heap, and nobody uses it any more. (What is not a block of this heap, or
    /// free already, stops the program with a message, as far as it is noticed.)
    pub unsafe fn free(&self, block: NonNull<u8>) {
        let it = self.private();
        // SAFETY: the caller's.
        let freed = self.with_cache(|cache| unsafe { it.heap.free(cache, block.as_ptr()) });
        // Without memory for a cache the block stays as it is.
        judge(freed.unwrap_or(Ok(())), block);
    }

    /// Resizes a block, moving it if need be. `None` when memory is short: then it is as it was.
    ///
    /// # Safety
    /// The block is of this heap, and the caller's; afterwards only the answer is.
    pub unsafe fn reallocate(&self, block: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
        let it = self.private();
        // SAFETY: the caller's.
        let done =
            self.with_cache(|cache| unsafe { it.heap.reallocate(cache, block.as_ptr(), size) })?;
        match done {
            Ok(new) => NonNull::new(new),
            Err(misuse) => report::stop(misuse, block.as_ptr()),
        }
    }

    /// How many bytes a block of this heap has for its user.
    pub fn usable_size(&self, block: NonNull<u8>) -> usize {
        match self.private().heap.usable_size(block.as_ptr()) {
            Ok(size) => size,
            Err(misuse) => report::stop(misuse, block.as_ptr()),
        }
    }

    /// Whether `address` is the start of a block of this heap that is in use.
    pub fn owns(&self, address: *const u8) -> bool {
        self.private().heap.examine(address.cast_mut()).is_ok()
    }

    /// What the heap holds now. O(memory in use / 64 KiB). Free blocks whose pages are given back in the background at
    /// that very moment count as in use.
    pub fn stats(&self) -> HeapReport {
        let it = self.private();
        let mut report = HeapReport::default();
        it.entry.read_into(&mut report);
        report.census = it.heap.census();
        report
    }

    /// Calls `visit` with every block in use, in no particular order. Other threads' calls wait;
    /// `visit` must not use this heap. O(memory in use).
    pub fn walk(&self, visit: impl FnMut(Block)) {
        let it = self.private();
        it.alone(|heap| heap.walk(visit));
    }

    /// Binds the heap to a node, or with `None` to none: from now on all its memory comes from there, and what it has
    /// elsewhere moves there while it is used. When the node is full, requests are refused.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn bind(&self, node: Option<usize>, pace: Pace) -> Result<Vacated, NodeError> {
        let it = self.private();
        let node = node.map(vacate::usable).transpose()?;
        it.heap.set_home(node);
        let others = node.map(|node| NodeSet::default().with(node).complement());
        heaps::with_list(|_| {
            it.heap.close_nodes(others.unwrap_or(heaps::closed()), others.is_some());
        });
        it.empty_slots();
        if node.is_none() {
            return Ok(Vacated { finished: true, ..Vacated::default() });
        }
        it.heap.purge(true);
        let mut cursor = Cursor::default();
        Ok(vacate::rounds(pace, || {
            let step = it.heap.vacate(&mut cursor);
            if step.is_none() {
                cursor = Cursor::default();
            }
            step
        }))
    }

    /// Gives every page that holds no block back at once; returns the bytes.
    pub fn trim(&self) -> usize {
        self.private().heap.purge(true).bytes
    }

    /// Walks the heap's structures; the first broken invariant is the error. Meaningful while no
    /// other thread uses the heap.
    pub fn check(&self) -> Result<(), &'static str> {
        self.private().heap.check()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        let it = self.private();
        heaps::remove(it);
        // SAFETY: nobody may use the heap, or a block of it, any more.
        unsafe { it.heap.release() };
        // SAFETY: the main heap's block, from `new`; nothing refers to it. It has nothing to drop.
        unsafe { crate::process::free(self.private.as_ptr().cast()) };
    }
}

// SAFETY: blocks are as large and aligned as asked, disjoint, and stay until freed or the heap ends,
// which whoever borrows it prevents. Nothing unwinds.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.allocate(layout.size(), layout.align()).map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        if let Some(block) = NonNull::new(block) {
            // SAFETY: the caller gives the block up.
            unsafe { self.free(block) }
        }
    }
}

fn judge(result: Result<(), Misuse>, block: NonNull<u8>) {
    if let Err(misuse) = result {
        report::stop(misuse, block.as_ptr());
    }
}
