//! Says which library each function of the malloc family comes from, and its version where the
//! library can tell. A process of its own: looking symbols up may itself allocate.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use crate::output::Output;

/// The functions that a replay calls.
const FAMILY: [&CStr; 5] = [c"malloc", c"calloc", c"realloc", c"free", c"posix_memalign"];

/// Prints one line `from FUNCTION PATH` per function, `version …` where known, `libc …`.
pub fn print() {
    let mut output = Output::new();
    for name in FAMILY {
        let function = name.to_str().unwrap_or("?");
        let path = origin(name).and_then(|path| path.to_str().ok()).unwrap_or("?");
        output.line(format_args!("from {function} {path}"));
    }
    print_version(&mut output);
    // SAFETY: glibc returns a static C string.
    let libc_version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    output.line(format_args!("libc {}", libc_version.to_str().unwrap_or("?")));
    output.line(format_args!("done"));
}

fn print_version(output: &mut Output) {
    if let Some(version) = mimalloc_version() {
        let (major, minor, patch) = (version / 100, version / 10 % 10, version % 10);
        output.line(format_args!("version {major}.{minor}.{patch}"));
    } else if let Some(version) = jemalloc_version().or_else(tcmalloc_version) {
        output.line(format_args!("version {}", version.to_str().unwrap_or("?")));
    }
}

fn find(name: &CStr) -> *mut c_void {
    // SAFETY: a C string, looked up in the libraries already loaded.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

fn origin(name: &CStr) -> Option<&'static CStr> {
    let function = find(name);
    // SAFETY: all-zero is a valid Dl_info; dladdr fills it with strings that live as long as the
    // library, which is never unloaded.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        let found = !function.is_null() && libc::dladdr(function, &raw mut info) != 0;
        (found && !info.dli_fname.is_null()).then(|| CStr::from_ptr(info.dli_fname))
    }
}

/// `mi_version()`: 100 * major + 10 * minor + patch.
fn mimalloc_version() -> Option<c_int> {
    let function = find(c"mi_version");
    // SAFETY: the name is mimalloc's own, declared `int mi_version(void)` since its first release.
    (!function.is_null()).then(|| unsafe {
        core::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(function)()
    })
}

/// `mallctl("version", …)`.
fn jemalloc_version() -> Option<&'static CStr> {
    type Mallctl =
        extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;
    let function = find(c"mallctl");
    if function.is_null() {
        return None;
    }
    // SAFETY: jemalloc documents this signature.
    let mallctl = unsafe { core::mem::transmute::<*mut c_void, Mallctl>(function) };
    let mut version: *const c_char = ptr::null();
    let mut bytes = size_of::<*const c_char>();
    let to = (&raw mut version).cast();
    let error = mallctl(c"version".as_ptr(), to, &raw mut bytes, ptr::null_mut(), 0);
    // SAFETY: on success jemalloc stored a pointer to a static C string.
    (error == 0 && !version.is_null()).then(|| unsafe { CStr::from_ptr(version) })
}

/// `tc_version(major, minor, patch)` returns the whole text.
fn tcmalloc_version() -> Option<&'static CStr> {
    type Version = extern "C" fn(*mut c_int, *mut c_int, *mut *const c_char) -> *const c_char;
    let function = find(c"tc_version");
    if function.is_null() {
        return None;
    }
    // SAFETY: gperftools documents this signature, and that null arguments are allowed.
    let version = unsafe { core::mem::transmute::<*mut c_void, Version>(function) };
    let text = version(ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: a static C string.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}
