//! Copies of the process that no handler of fork was told of, or not yet: they are made whole before they have a second thread.
//!
//! A copy has the heap as it was, with other threads' changes half done and their locks held. Our handler of fork makes it whole.
//! But `_Fork` calls no handler, and handlers that were registered before ours run before it. Such a copy is made whole when it
//! first waits for a lock (`freehold_os::copied`), which must not be after it has started a thread: nobody could tell then which
//! locks and caches are a dead thread's. So these two names are ours.
//!
//! Invariant: a copy that starts threads by the C library's name for that is whole.

#![allow(non_snake_case, reason = "the C library's name")]
#![cfg_attr(not(feature = "preload"), allow(dead_code))]

use crate::malloc::set_errno;
use crate::next::{Next, of_library};
use freehold::process::mend_copy;
use libc::{c_int, c_void, pid_t, pthread_attr_t, pthread_t};

type Fork = unsafe extern "C" fn() -> pid_t;
type Start = extern "C" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;

/// `_Fork`; the child is whole.
///
/// # Safety
/// As its manual page says.
#[cfg_attr(all(feature = "preload", not(feature = "archive")), unsafe(no_mangle))]
pub unsafe extern "C" fn _Fork() -> pid_t {
    static NEXT: Next = Next::new(c"_Fork");
    let next = NEXT.get();
    if next.is_null() {
        set_errno(libc::ENOSYS);
        return -1;
    }
    // SAFETY: the C library's function.
    let child = unsafe { core::mem::transmute::<*mut c_void, Fork>(next)() };
    if child == 0 {
        mend_copy();
    }
    child
}

/// `pthread_create`, in a process that is whole.
///
/// # Safety
/// As POSIX says.
#[cfg_attr(all(feature = "preload", not(feature = "archive")), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    static NEXT: Next = Next::new(c"pthread_create");
    mend_copy();
    // Before glibc 2.34 threads had a library of their own.
    let next = NEXT.get_or(|| of_library(c"libpthread.so.0", c"pthread_create"));
    if next.is_null() {
        return libc::EAGAIN;
    }
    // SAFETY: the C library's function, with what its caller passed.
    unsafe {
        core::mem::transmute::<*mut c_void, Create>(next)(thread, attributes, start, argument)
    }
}
