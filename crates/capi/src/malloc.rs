//! malloc and its relatives, by the letter: sizes, alignments, overflow, `errno`.
//!
//! `free` preserves `errno` because nothing below it touches it; allocation sets it to `ENOMEM`
//! when it fails, and `EINVAL` where a standard says so. `realloc(p, 0)` frees, as glibc's does.

use core::ptr;
use freehold::process;
use libc::{c_int, c_void, size_t};

pub(crate) fn set_errno(error: c_int) {
    // SAFETY: every thread has an errno.
    unsafe { *libc::__errno_location() = error };
}

#[cold]
#[inline(never)]
pub(crate) fn no_memory() -> *mut c_void {
    set_errno(libc::ENOMEM);
    ptr::null_mut()
}

#[inline(always)]
pub(crate) fn or_errno(block: *mut u8) -> *mut c_void {
    if block.is_null() { no_memory() } else { block.cast() }
}

#[cold]
#[inline(never)]
extern "C" fn malloc_slow(size: size_t) -> *mut c_void {
    or_errno(process::allocate_slow(size))
}

/// `malloc` (C11 7.22.3.4).
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn malloc(size: size_t) -> *mut c_void {
    let block = process::try_allocate(size);
    if block.is_null() { malloc_slow(size) } else { block.cast() }
}

/// `free` (C11 7.22.3.3).
///
/// # Safety
/// The block is null or the caller's.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: the caller's.
    unsafe { process::free(block.cast()) }
}

/// `cfree`, which old programs call.
///
/// # Safety
/// As [`free`].
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn cfree(block: *mut c_void) {
    // SAFETY: the caller's.
    unsafe { free(block) }
}

/// `free_sized` (C23 7.24.3.4); a size that the block cannot have been asked for with stops the program.
///
/// # Safety
/// As [`free`].
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn free_sized(block: *mut c_void, size: size_t) {
    // SAFETY: the caller's.
    unsafe { process::free_sized(block.cast(), size, 16) }
}

/// `free_aligned_sized` (C23 7.24.3.5); as [`free_sized`].
///
/// # Safety
/// As [`free`].
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, align: size_t, size: size_t) {
    // SAFETY: the caller's.
    unsafe { process::free_sized(block.cast(), size, align) }
}

/// `calloc` (C11 7.22.3.2); overflow of the product is `ENOMEM`.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn calloc(count: size_t, size: size_t) -> *mut c_void {
    or_errno(process::allocate_zeroed(count, size))
}

/// `realloc` (C11 7.22.3.5); size 0 frees and answers null, as in glibc.
///
/// # Safety
/// The block is null or the caller's.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: size_t) -> *mut c_void {
    if process::stays(block.cast(), size) {
        return block;
    }
    // SAFETY: the caller's.
    unsafe { realloc_slow(block, size) }
}

/// # Safety
/// As [`realloc`].
#[inline(never)]
unsafe extern "C" fn realloc_slow(block: *mut c_void, size: size_t) -> *mut c_void {
    if size == 0 && !block.is_null() {
        // SAFETY: the caller's.
        unsafe { free(block) };
        return ptr::null_mut();
    }
    // SAFETY: the caller's.
    or_errno(unsafe { process::reallocate(block.cast(), size) })
}

/// `reallocarray` (POSIX 2024); overflow of the product is `ENOMEM`.
///
/// # Safety
/// As [`realloc`].
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: size_t,
    size: size_t,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's.
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => no_memory(),
    }
}

pub(crate) fn invalid() -> *mut c_void {
    set_errno(libc::EINVAL);
    ptr::null_mut()
}

/// `aligned_alloc` (C17 7.22.3.1); an alignment that is no power of two is `EINVAL`.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn aligned_alloc(align: size_t, size: size_t) -> *mut c_void {
    if !align.is_power_of_two() {
        return invalid();
    }
    or_errno(process::allocate_aligned(size, align))
}

/// `memalign`; as glibc does, rounds the alignment up to a power of two.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn memalign(align: size_t, size: size_t) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => or_errno(process::allocate_aligned(size, align)),
        None => invalid(),
    }
}

/// `posix_memalign`: answers the error; without memory it sets `errno`, too, as glibc does.
///
/// # Safety
/// `out` can be written.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn posix_memalign(
    out: *mut *mut c_void,
    align: size_t,
    size: size_t,
) -> c_int {
    if !align.is_power_of_two() || align < size_of::<*mut c_void>() {
        return libc::EINVAL;
    }
    let block = process::allocate_aligned(size, align);
    if block.is_null() {
        // POSIX leaves it open; glibc sets it, and programs look.
        no_memory();
        return libc::ENOMEM;
    }
    // SAFETY: the caller's.
    unsafe { *out = block.cast() };
    0
}

fn page_size() -> usize {
    process::page_size()
}

/// `valloc`: page-aligned.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn valloc(size: size_t) -> *mut c_void {
    or_errno(process::allocate_aligned(size, page_size()))
}

/// `pvalloc`: page-aligned, whole pages.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn pvalloc(size: size_t) -> *mut c_void {
    match size.max(1).checked_next_multiple_of(page_size()) {
        Some(size) => or_errno(process::allocate_aligned(size, page_size())),
        None => no_memory(),
    }
}

/// `malloc_usable_size`.
///
/// # Safety
/// The block is null or the caller's.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> size_t {
    process::usable_size(block.cast())
}

/// Other names under which glibc, and programs built against it, reach the same functions.
#[cfg(feature = "preload")]
mod aliases {
    use super::{c_int, c_void, size_t};

    macro_rules! alias {
        ($($name:ident = $of:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
            #[doc = concat!("As [`", stringify!($of), "`](super::", stringify!($of), ").")]
            ///
            /// # Safety
            /// As that.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? {
                #[allow(unused_unsafe)]
                // SAFETY: the caller's.
                unsafe { super::$of($($arg),*) }
            }
        )*};
    }

    alias! {
        __libc_malloc = malloc(size: size_t) -> *mut c_void;
        __libc_free = free(block: *mut c_void);
        __libc_cfree = free(block: *mut c_void);
        __libc_calloc = calloc(count: size_t, size: size_t) -> *mut c_void;
        __libc_realloc = realloc(block: *mut c_void, size: size_t) -> *mut c_void;
        __libc_memalign = memalign(align: size_t, size: size_t) -> *mut c_void;
        __libc_valloc = valloc(size: size_t) -> *mut c_void;
        __libc_pvalloc = pvalloc(size: size_t) -> *mut c_void;
        __posix_memalign = posix_memalign(out: *mut *mut c_void, align: size_t, size: size_t) -> c_int;
    }
}
