//! The function behind ours of the same name: the C library's, or whoever's comes next.

use core::ffi::CStr;
use libc::c_void;

/// The function of this name that comes after ours in the order of loading; null where there is none.
pub fn next(name: &CStr) -> *mut c_void {
    // SAFETY: a C string.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}
