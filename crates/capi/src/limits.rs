//! Calls by which a program limits its address space: what the heaps have reserved and do not use counts against that, and
//! goes back first. Else there would be no address left for anything else: stacks, files, libraries.
//!
//! Who sets the limit from outside, or by an instruction of his own, is not noticed.

#![cfg_attr(not(feature = "preload"), allow(dead_code))]

use crate::call::make;
use freehold::process;
use libc::{c_int, c_long, c_uint, pid_t, rlimit};

/// `setrlimit`.
///
/// # Safety
/// As its manual page says.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: the caller's.
    unsafe { prlimit(0, resource, limit, core::ptr::null_mut()) }
}

/// `setrlimit64`: the same on a machine of 64 bits.
///
/// # Safety
/// As its manual page says.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn setrlimit64(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: the caller's.
    unsafe { prlimit(0, resource, limit, core::ptr::null_mut()) }
}

/// `prlimit`. Of another process nothing goes back.
///
/// # Safety
/// As its manual page says.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn prlimit(
    process: pid_t,
    resource: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: the caller's: null, or limits to read.
    let limits = unsafe { new.as_ref() }.is_some_and(|new| new.rlim_cur != libc::RLIM_INFINITY);
    // SAFETY: it has no arguments.
    let is_ours = || process == 0 || process == unsafe { libc::getpid() };
    if limits && resource == libc::RLIMIT_AS && is_ours() {
        process::shrink_reservations();
    }
    let words = [process as c_long, resource.into(), new as c_long, old as c_long, 0, 0];
    // SAFETY: the caller's.
    unsafe { make(libc::SYS_prlimit64, words) as c_int }
}

/// `prlimit64`: the same on a machine of 64 bits.
///
/// # Safety
/// As its manual page says.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn prlimit64(
    process: pid_t,
    resource: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { prlimit(process, resource, new, old) }
}
