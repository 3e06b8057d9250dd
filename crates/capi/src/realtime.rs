//! Heaps in bounded time for C: `freehold_fast_*` and `freehold_strict_*`, as `include/freehold.h`
//! declares them.
//!
//! A handle points to a [`Control`], inside the heap's own memory. The two modes are two types in C as
//! well: a call that had to ask which would take longer than it need.

use crate::malloc::{invalid, no_memory};
use core::ptr::{self, NonNull};
use freehold::realtime::{
    Align, BoundedHeap, Control, FastHeap, Misuse, Pages, Region, ReserveError, StrictHeap, Unfit,
    reserve,
};
use libc::{c_int, c_void, size_t};

/// `FREEHOLD_NO_ROOM`; the others are those of [`Misuse`].
const NO_ROOM: c_int = 4;

fn code(misuse: Misuse) -> c_int {
    misuse as u8 as c_int
}

/// Null or a pointer, as one that the heap judges: no block is where null is.
fn judged(block: *mut c_void) -> NonNull<u8> {
    NonNull::new(block.cast()).unwrap_or(NonNull::dangling())
}

/// # Safety
/// As for [`Control::place`].
unsafe fn create<H: BoundedHeap>(
    memory: *mut c_void,
    size: size_t,
    make: impl FnOnce(Region) -> Result<H, Unfit>,
) -> *mut Control<H> {
    let Some(memory) = NonNull::new(memory.cast()) else { return invalid().cast() };
    // SAFETY: the caller's.
    match unsafe { Control::place(memory, size, make) } {
        Ok(control) => control.as_ptr(),
        Err(_) => invalid().cast(),
    }
}

/// `freehold_fast_create`.
///
/// # Safety
/// The `size` bytes at `memory` are the caller's, and nobody else's until the heap is not used any more.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_fast_create(
    memory: *mut c_void,
    size: size_t,
) -> *mut Control<FastHeap> {
    // SAFETY: the caller's.
    unsafe { create(memory, size, FastHeap::over) }
}

/// `freehold_strict_create`.
///
/// # Safety
/// As for [`freehold_fast_create`].
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_strict_create(
    memory: *mut c_void,
    size: size_t,
    smallest: size_t,
) -> *mut Control<StrictHeap> {
    // SAFETY: the caller's.
    unsafe { create(memory, size, |region| StrictHeap::over(region, smallest as u64)) }
}

/// `freehold_strict_enough`: bytes for the heap and its handle; 0 when it can have no such length.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn freehold_strict_enough(
    live: size_t,
    longest: size_t,
    smallest: size_t,
) -> size_t {
    let enough = StrictHeap::enough(live as u64, longest as u64, smallest as u64);
    let handle = size_of::<Control<StrictHeap>>().next_multiple_of(64) + 64;
    enough.map_or(0, |bytes| bytes as usize + handle)
}

/// `freehold_reserve`: pages that are faulted in, and locked if `lock`.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn freehold_reserve(size: size_t, lock: c_int) -> *mut c_void {
    match reserve(size, if lock != 0 { Pages::Locked } else { Pages::Touched }) {
        Ok(memory) => memory.as_mut_ptr().cast(),
        Err(ReserveError::NotLocked { .. }) => {
            // SAFETY: every thread has an errno.
            unsafe { *libc::__errno_location() = libc::EPERM };
            ptr::null_mut()
        }
        Err(_) => no_memory(),
    }
}

macro_rules! calls {
    ($heap:ty: $malloc:ident, $aligned:ident, $free:ident, $send:ident, $take_in:ident,
     $resize:ident, $usable:ident, $check:ident) => {
        /// As `include/freehold.h` says.
        ///
        /// # Safety
        /// The heap lives, and the caller is its owner.
        #[cfg_attr(feature = "preload", unsafe(no_mangle))]
        pub unsafe extern "C" fn $malloc(heap: *mut Control<$heap>, size: size_t) -> *mut c_void {
            // SAFETY: the caller's; the inbox is another field.
            let heap = unsafe { &mut (*heap).heap };
            heap.malloc(size as u64).map_or(ptr::null_mut(), |payload| payload.as_ptr().cast())
        }

        /// As `include/freehold.h` says.
        ///
        /// # Safety
        /// The heap lives, and the caller is its owner.
        #[cfg_attr(feature = "preload", unsafe(no_mangle))]
        pub unsafe extern "C" fn $aligned(
            heap: *mut Control<$heap>,
            alignment: size_t,
            size: size_t,
        ) -> *mut c_void {
            let Some(align) = Align::from_bytes(alignment as u64) else { return ptr::null_mut() };
            // SAFETY: the caller's; the inbox is another field.
            let heap = unsafe { &mut (*heap).heap };
            let found = heap.malloc_aligned(size as u64, align);
            found.map_or(ptr::null_mut(), |payload| payload.as_ptr().cast())
        }

        /// As `include/freehold.h` says.
        ///
        /// # Safety
        /// The heap lives, and the caller is its owner; nobody uses the block any more.
        #[cfg_attr(feature = "preload", unsafe(no_mangle))]
        pub unsafe extern "C" fn $free(heap: *mut Control<$heap>, block: *mut c_void) -> c_int {
            // SAFETY: the caller's; the inbox is another field.
            let heap = unsafe { &mut (*heap).heap };
            match heap.free(block.cast()) {
                Ok(()) => 0,
                Err(misuse) => code(misuse),
            }
        }

        /// As `include/freehold.h` says.
        ///
        /// # Safety
        /// The heap lives; nobody uses the block any more.
        #[cfg_attr(feature = "preload", unsafe(no_mangle))]
        pub unsafe extern "C" fn $send(heap: *mut Control<$heap>, block: *mut c_void) -> c_int {
            // SAFETY: the heap lives; this field is never written again.
            let inbox = unsafe { &(*heap).inbox };
            inbox.free(judged(block)).map_or_else(code, |()| 0)
        }

        /// As `include/freehold.h` says.
        ///
        /// # Safety
        /// The heap lives, and the caller is its owner.
        #[cfg_attr(feature = "preload", unsafe(no_mangle))]
        pub unsafe extern "C" fn $take_in(heap: *mut Control<$heap>) -> c_int {
            // SAFETY: the caller's; the inbox is another field.
            unsafe { (*heap).heap.take_in() as c_int }
        }

        /// As `include/freehold.h` says.
        ///
        /// # Safety
        /// The heap lives, and the caller is its owner; nobody uses what the block loses.
        #[cfg_attr(feature = "preload", unsafe(no_mangle))]
        pub unsafe extern "C" fn $resize(
            heap: *mut Control<$heap>,
            block: *mut c_void,
            size: size_t,
        ) -> c_int {
            // SAFETY: the caller's; the inbox is another field.
            let heap = unsafe { &mut (*heap).heap };
            match heap.resize_in_place(judged(block), size as u64) {
                Ok(true) => 0,
                Ok(false) => NO_ROOM,
                Err(misuse) => code(misuse),
            }
        }

        /// As `include/freehold.h` says.
        ///
        /// # Safety
        /// The heap lives, and the caller is its owner.
        #[cfg_attr(feature = "preload", unsafe(no_mangle))]
        pub unsafe extern "C" fn $usable(heap: *mut Control<$heap>, block: *mut c_void) -> size_t {
            // SAFETY: the caller's; the inbox is another field.
            unsafe { (*heap).heap.usable(judged(block)).map_or(0, |bytes| bytes as size_t) }
        }

        /// As `include/freehold.h` says.
        ///
        /// # Safety
        /// The heap lives, and the caller is its owner.
        #[cfg_attr(feature = "preload", unsafe(no_mangle))]
        pub unsafe extern "C" fn $check(heap: *mut Control<$heap>) -> c_int {
            // SAFETY: the caller's; the inbox is another field.
            let heap = unsafe { &(*heap).heap };
            BoundedHeap::check(heap).is_err() as c_int
        }
    };
}

calls!(FastHeap: freehold_fast_malloc, freehold_fast_aligned_alloc, freehold_fast_free,
       freehold_fast_send, freehold_fast_take_in, freehold_fast_resize, freehold_fast_usable_size,
       freehold_fast_check);
calls!(StrictHeap: freehold_strict_malloc, freehold_strict_aligned_alloc, freehold_strict_free,
       freehold_strict_send, freehold_strict_take_in, freehold_strict_resize,
       freehold_strict_usable_size, freehold_strict_check);
