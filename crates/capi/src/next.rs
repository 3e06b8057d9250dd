//! The function behind ours of the same name: the C library's, or whoever's comes next.

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use libc::c_void;

/// The function of this name that comes after ours in the order of loading; null where there is none.
pub fn next(name: &CStr) -> *mut c_void {
    // SAFETY: a C string.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// The function of this name of a library that is loaded, but perhaps in no such order, because it came with another one that was
/// opened later; null where there is none.
pub fn of_library(library: &CStr, name: &CStr) -> *mut c_void {
    // SAFETY: C strings. RTLD_NOLOAD loads nothing; the handle stays open, so that what is found stays.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() { handle } else { libc::dlsym(handle, name.as_ptr()) }
    }
}

/// A function that comes after ours of this name in the order of loading. It is looked for once: the loader has a lock for that,
/// which nobody may hold any more in a copy of the process that no handler of fork was told of.
#[repr(C)]
pub struct Next {
    /// Null before it was looked for, and where there is none. First, for functions that jump there.
    at: AtomicPtr<c_void>,
    name: &'static CStr,
}

impl Next {
    /// The next function of this name.
    pub const fn new(name: &'static CStr) -> Next {
        Next { at: AtomicPtr::new(ptr::null_mut()), name }
    }

    /// Its address; null where there is none.
    #[inline]
    pub fn get(&self) -> *mut c_void {
        self.get_or(ptr::null_mut)
    }

    /// Its address; that of `other` where there is none.
    #[inline]
    pub fn get_or(&self, other: impl FnOnce() -> *mut c_void) -> *mut c_void {
        let known = self.at.load(Ordering::Relaxed);
        if known.is_null() { self.find_or(other) } else { known }
    }

    /// Looks for it, takes `other` where there is none, and remembers that.
    #[cold]
    pub fn find_or(&self, other: impl FnOnce() -> *mut c_void) -> *mut c_void {
        let found = next(self.name);
        let found = if found.is_null() { other() } else { found };
        self.at.store(found, Ordering::Relaxed);
        found
    }
}
