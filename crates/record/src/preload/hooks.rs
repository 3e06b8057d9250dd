//! The malloc family, as the program calls it.
//!
//! Each hook forwards to the next definition of its own name, so that the program gets exactly the
//! allocator that it would have had, and puts an event: after the call where an object comes to
//! life, before it where one dies, both for `realloc`.
//!
//! `malloc_usable_size` is not ours: the next one answers.
#![allow(clippy::missing_safety_doc)] // The contracts are those of the C functions of these names.

use super::stacks::Caller;
use super::thread::{emit, now};
use super::{next, slow};
use crate::packed::{Kind, Packed, SIZE_LIMIT, SLACK_LIMIT};
use core::ffi::c_void;
use core::ptr::null_mut;

/// An object has come to life at `object` (null: it did not). `align` is 0 where the call names none.
///
/// # Safety
/// `object` is what the next allocator returned to this call, or null.
#[inline(always)]
pub unsafe fn alloc(kind: Kind, object: *mut c_void, size: usize, align: usize, caller: Caller) {
    // SAFETY: the object is alive and was made by the allocator that is asked (null gives 0).
    let usable = unsafe { next::usable_size()(object) };
    let slack = usable.wrapping_sub(size) as u64;
    let tick = now();
    // SAFETY: no reference to the thread's words is alive in a hook.
    unsafe {
        if (size as u64) < SIZE_LIMIT && slack < SLACK_LIMIT && align == 0 {
            emit(Packed::new(kind, object as u64, slack, size as u64, tick), tick, caller);
        } else {
            let from = (tick, caller);
            slow::emit_wide(kind, object as u64, size as u64, usable as u64, align as u64, from);
        }
    }
}

/// An object is about to die.
///
/// # Safety
/// Called by a hook.
#[inline(always)]
pub unsafe fn free_event(kind: Kind, object: *mut c_void, caller: Caller) {
    let tick = now();
    // SAFETY: no reference to the thread's words is alive in a hook.
    unsafe { emit(Packed::new(kind, object as u64, 0, 0, tick), tick, caller.of_free()) };
}

/// For programs that look it up: `words` words of 8 bytes, from `offset` on, of the object that
/// `object` points to were touched. Offsets from 8 MiB on are not recorded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_record_access(
    object: *const c_void,
    offset: usize,
    words: usize,
    write: bool,
) {
    let tick = now();
    if (offset as u64) < SIZE_LIMIT / 2 {
        let event = Packed::access(object as u64, offset as u64, words as u64, write, tick);
        // SAFETY: no reference to the thread's words is alive in a hook.
        unsafe { emit(event, tick, Caller::NONE) };
    }
}

hooks! {
    1 fn malloc(size: usize) -> *mut c_void, |caller| {
        // SAFETY: the caller's contract is malloc's.
        unsafe {
            let object = next::malloc()(size);
            alloc(Kind::Malloc, object, size, 0, caller);
            object
        }
    }

    2 fn calloc(count: usize, size: usize) -> *mut c_void, |caller| {
        // SAFETY: the caller's contract is calloc's.
        unsafe {
            let object = next::calloc()(count, size);
            alloc(Kind::Calloc, object, count.saturating_mul(size), 0, caller);
            object
        }
    }

    1 fn free(object: *mut c_void), |caller| {
        if object.is_null() || next::is_reserved(object) {
            return;
        }
        // SAFETY: the caller's contract is free's.
        unsafe {
            free_event(Kind::Free, object, caller);
            next::free()(object);
        }
    }

    1 fn cfree(object: *mut c_void), |caller| {
        if object.is_null() || next::is_reserved(object) {
            return;
        }
        // SAFETY: the caller's contract is free's.
        unsafe {
            free_event(Kind::Free, object, caller);
            next::cfree()(object);
        }
    }

    2 fn free_sized(object: *mut c_void, size: usize), |caller| {
        if object.is_null() {
            return;
        }
        // SAFETY: the caller's contract is free_sized's (C23).
        unsafe {
            free_event(Kind::Free, object, caller);
            next::free_sized()(object, size);
        }
    }

    3 fn free_aligned_sized(object: *mut c_void, align: usize, size: usize), |caller| {
        if object.is_null() {
            return;
        }
        // SAFETY: the caller's contract is free_aligned_sized's (C23).
        unsafe {
            free_event(Kind::Free, object, caller);
            next::free_aligned_sized()(object, align, size);
        }
    }

    2 fn realloc(object: *mut c_void, size: usize) -> *mut c_void, |caller| {
        // SAFETY: the caller's contract is realloc's.
        unsafe { resize(object, size, caller) }
    }

    // Our own, because the C library's calls `realloc`, which would count twice.
    3 fn reallocarray(object: *mut c_void, count: usize, size: usize) -> *mut c_void, |caller| {
        // SAFETY: the caller's contract is realloc's; errno's location is valid.
        unsafe {
            match count.checked_mul(size) {
                Some(bytes) => resize(object, bytes, caller),
                None => {
                    slow::emit_wide(Kind::Malloc, 0, u64::MAX, 0, 0, (now(), caller));
                    *libc::__errno_location() = libc::ENOMEM;
                    null_mut()
                }
            }
        }
    }

    2 fn aligned_alloc(align: usize, size: usize) -> *mut c_void, |caller| {
        // SAFETY: the caller's contract is aligned_alloc's.
        unsafe {
            let object = next::aligned_alloc()(align, size);
            alloc(Kind::Aligned, object, size, align, caller);
            object
        }
    }

    2 fn memalign(align: usize, size: usize) -> *mut c_void, |caller| {
        // SAFETY: the caller's contract is memalign's.
        unsafe {
            let object = next::memalign()(align, size);
            alloc(Kind::Aligned, object, size, align, caller);
            object
        }
    }

    3 fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> i32, |caller| {
        // SAFETY: the caller's contract is posix_memalign's; `out` is written where it returns 0.
        unsafe {
            let error = next::posix_memalign()(out, align, size);
            let object = if error == 0 { *out } else { null_mut() };
            alloc(Kind::Aligned, object, size, align, caller);
            error
        }
    }

    1 fn valloc(size: usize) -> *mut c_void, |caller| {
        // SAFETY: the caller's contract is valloc's.
        unsafe {
            let object = next::valloc()(size);
            alloc(Kind::Aligned, object, size, page(), caller);
            object
        }
    }

    1 fn pvalloc(size: usize) -> *mut c_void, |caller| {
        // SAFETY: the caller's contract is pvalloc's.
        unsafe {
            let object = next::pvalloc()(size);
            alloc(Kind::Aligned, object, size, page(), caller);
            object
        }
    }
}

/// `realloc` of both names.
#[inline(always)]
unsafe fn resize(object: *mut c_void, size: usize, caller: Caller) -> *mut c_void {
    // SAFETY: the caller's contract is realloc's.
    unsafe {
        if object.is_null() {
            let made = next::realloc()(object, size);
            alloc(Kind::Malloc, made, size, 0, caller);
            return made;
        }
        if next::is_reserved(object) {
            return realloc_reserved(object, size, caller);
        }
        free_event(Kind::ReallocBegin, object, caller);
        let moved = next::realloc()(object, size);
        alloc(Kind::ReallocEnd, moved, size, 0, caller);
        moved
    }
}

#[cold]
unsafe fn realloc_reserved(object: *mut c_void, size: usize, caller: Caller) -> *mut c_void {
    // SAFETY: a new object of `size` bytes, and one of the reserve.
    unsafe {
        let moved = next::malloc()(size);
        alloc(Kind::Malloc, moved, size, 0, caller);
        next::copy_reserved(object, moved, size);
        moved
    }
}

/// The page size: what `valloc` and `pvalloc` align to.
fn page() -> usize {
    // SAFETY: sysconf has no precondition.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}
