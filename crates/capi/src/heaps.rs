//! Heaps for C: `freehold_heap_*`, as `include/freehold.h` declares them.
//!
//! A heap's handle is the pointer that `freehold::Heap` consists of. What fails for want of memory (or
//! beyond the heap's limit) is null with `ENOMEM`; a bad alignment is null with `EINVAL`.

use crate::inspect::fill;
use crate::malloc::{invalid, no_memory};
use crate::nodes::finish;
use core::ffi::CStr;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
use freehold::vacate::Pace;
use freehold::{Heap, HeapOptions};
use libc::{c_char, c_int, c_void, size_t};

/// A heap, as C holds it: opaque.
pub type Handle = *mut c_void;

/// The heap of a handle, which stays the caller's.
///
/// # Safety
/// The handle is of `freehold_heap_create`, and the heap lives.
unsafe fn heap(handle: Handle) -> ManuallyDrop<Heap> {
    // SAFETY: the caller's.
    ManuallyDrop::new(unsafe { Heap::from_raw(NonNull::new_unchecked(handle)) })
}

fn answer(block: Option<NonNull<u8>>) -> *mut c_void {
    block.map_or_else(no_memory, |block| block.as_ptr().cast())
}

/// `freehold_heap_create`: a new heap of at most `limit` bytes, 0 for no limit; `name` may be null.
///
/// # Safety
/// `name` is null or a C string.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_heap_create(limit: size_t, name: *const c_char) -> Handle {
    let name = match name.is_null() {
        true => "",
        // SAFETY: the caller's.
        false => unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("not UTF-8"),
    };
    let limit = (limit != 0).then_some(limit);
    match Heap::new(HeapOptions { limit, name }) {
        Some(heap) => heap.into_raw().as_ptr(),
        None => no_memory(),
    }
}

/// `freehold_heap_destroy`: ends the heap and all its blocks; null is ignored.
///
/// # Safety
/// The heap is null or the caller's; nobody uses it or its blocks any more.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_heap_destroy(handle: Handle) {
    if let Some(handle) = NonNull::new(handle) {
        // SAFETY: the caller's.
        drop(unsafe { Heap::from_raw(handle) });
    }
}

/// `freehold_heap_malloc`.
///
/// # Safety
/// The heap lives.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_heap_malloc(handle: Handle, size: size_t) -> *mut c_void {
    // SAFETY: the caller's.
    answer(unsafe { heap(handle) }.allocate(size, 16))
}

/// `freehold_heap_calloc`; overflow of the product is `ENOMEM`.
///
/// # Safety
/// The heap lives.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_heap_calloc(
    handle: Handle,
    count: size_t,
    size: size_t,
) -> *mut c_void {
    // SAFETY: the caller's.
    let heap = unsafe { heap(handle) };
    answer(count.checked_mul(size).and_then(|bytes| heap.allocate_zeroed(bytes)))
}

/// `freehold_heap_aligned_alloc`.
///
/// # Safety
/// The heap lives.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_heap_aligned_alloc(
    handle: Handle,
    align: size_t,
    size: size_t,
) -> *mut c_void {
    if !align.is_power_of_two() {
        return invalid();
    }
    // SAFETY: the caller's.
    answer(unsafe { heap(handle) }.allocate(size, align))
}

/// `freehold_heap_realloc`; null allocates, size 0 frees and answers null.
///
/// # Safety
/// The heap lives; the block is null or of it, and the caller's.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_heap_realloc(
    handle: Handle,
    block: *mut c_void,
    size: size_t,
) -> *mut c_void {
    // SAFETY: the caller's.
    let heap = unsafe { heap(handle) };
    match NonNull::new(block.cast()) {
        None => answer(heap.allocate(size, 16)),
        Some(block) if size == 0 => {
            // SAFETY: the caller's.
            unsafe { heap.free(block) };
            ptr::null_mut()
        }
        // SAFETY: the caller's.
        Some(block) => answer(unsafe { heap.reallocate(block, size) }),
    }
}

/// `freehold_heap_free`.
///
/// # Safety
/// The heap lives; the block is null or of it, and nobody uses it any more.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_heap_free(handle: Handle, block: *mut c_void) {
    if let Some(block) = NonNull::new(block.cast()) {
        // SAFETY: the caller's.
        unsafe { heap(handle).free(block) }
    }
}

/// `freehold_heap_usable_size`; 0 for null.
///
/// # Safety
/// The heap lives; the block is null or of it.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_heap_usable_size(handle: Handle, block: *mut c_void) -> size_t {
    // SAFETY: the caller's.
    NonNull::new(block.cast()).map_or(0, |block| unsafe { heap(handle) }.usable_size(block))
}

/// What `freehold_heap_walk` calls.
pub type Visit = unsafe extern "C" fn(block: *mut c_void, size: size_t, argument: *mut c_void);

/// `freehold_heap_walk`: calls `visit` with every block in use.
///
/// # Safety
/// The heap lives; `visit` can be called so, does not use the heap, and does not unwind.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_heap_walk(handle: Handle, visit: Visit, argument: *mut c_void) {
    // SAFETY: the caller's.
    unsafe { heap(handle) }.walk(|block| {
        // SAFETY: the caller's.
        unsafe { visit(ptr::with_exposed_provenance_mut(block.address), block.size, argument) }
    });
}

/// `struct freehold_heap_stats`: bytes, but for `blocks`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapStats {
    /// Blocks in use, as large as they are.
    pub in_use: u64,
    /// How many.
    pub blocks: u64,
    /// Free blocks in caches.
    pub cached: u64,
    /// Free blocks of slabs.
    pub free: u64,
    /// Slabs, large blocks and caches.
    pub held: u64,
    /// Free units that may be resident.
    pub dirty: u64,
    /// Address space in use.
    pub committed: u64,
    /// The most it may hold; 0 is no limit.
    pub limit: u64,
}

/// `freehold_heap_get_stats`: fills the first `size` bytes of `out`, so that later versions may know more.
///
/// # Safety
/// The heap lives; `size` bytes at `out` can be written.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_heap_get_stats(
    handle: Handle,
    out: *mut HeapStats,
    size: size_t,
) {
    // SAFETY: the caller's.
    let report = unsafe { heap(handle) }.stats();
    let census = &report.census;
    let stats = HeapStats {
        in_use: census.in_use(),
        blocks: census.blocks(),
        cached: census.cached(),
        free: census.free(),
        held: census.held,
        dirty: census.dirty,
        committed: census.committed,
        limit: report.limit,
    };
    // SAFETY: the caller's.
    unsafe { fill(out, size, &stats) };
}

/// `freehold_heap_bind`: all memory of a heap from one node, -1 for none; what is elsewhere moves there.
///
/// # Safety
/// The heap lives.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_heap_bind(handle: Handle, node: c_int) -> c_int {
    let node = match node {
        -1 => None,
        // What is below is no node.
        node => Some(usize::try_from(node).unwrap_or(usize::MAX)),
    };
    // SAFETY: the caller's.
    finish(unsafe { heap(handle) }.bind(node, Pace::default()), ptr::null_mut())
}
