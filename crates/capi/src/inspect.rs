//! What the heaps hold, by glibc's calls and our own. `mallinfo` counts whole units (64 KiB): what the main
//! heap holds of the machine, not what programs asked for; the others count blocks.

use crate::malloc::set_errno;
use freehold::process;
use freehold::stats::{Format, Stats};
use libc::{c_char, c_int, size_t};

/// `struct mallinfo2` of glibc.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Mallinfo2 {
    /// Bytes held of the system.
    pub arena: size_t,
    /// Always 0.
    pub ordblks: size_t,
    /// Always 0.
    pub smblks: size_t,
    /// Always 0.
    pub hblks: size_t,
    /// Always 0.
    pub hblkhd: size_t,
    /// Always 0.
    pub usmblks: size_t,
    /// Always 0.
    pub fsmblks: size_t,
    /// Bytes in slabs and large blocks.
    pub uordblks: size_t,
    /// Bytes free, but held.
    pub fordblks: size_t,
    /// Bytes free that may be resident: what `malloc_trim` could release.
    pub keepcost: size_t,
}

/// `struct mallinfo`: the same in `int`s.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Mallinfo {
    fields: [c_int; 10],
}

/// `mallinfo2`.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn mallinfo2() -> Mallinfo2 {
    let usage = process::usage();
    Mallinfo2 {
        arena: usage.used + usage.dirty,
        uordblks: usage.used,
        fordblks: usage.dirty,
        keepcost: usage.dirty,
        ..Mallinfo2::default()
    }
}

/// `mallinfo`; figures beyond an `int` wrap, as glibc's do.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn mallinfo() -> Mallinfo {
    let Mallinfo2 { arena, uordblks, fordblks, keepcost, .. } = mallinfo2();
    let [arena, used, free, keep] = [arena, uordblks, fordblks, keepcost].map(|v| v as c_int);
    Mallinfo { fields: [arena, 0, 0, 0, 0, 0, 0, used, free, keep] }
}

/// `malloc_trim`: gives back every page that holds no block; 1 if there was any.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn malloc_trim(_: size_t) -> c_int {
    (process::trim() != 0) as c_int
}

/// `mallopt`: accepted and ignored, as other allocators' parameters mean nothing here; 1.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn mallopt(_: c_int, _: c_int) -> c_int {
    1
}

/// Writes the process's statistics to a descriptor; `false` when that failed.
fn write(descriptor: c_int, format: Format) -> bool {
    let Some(stats) = Stats::take() else { return false };
    process::write_to(descriptor, |out| stats.write(format, out))
}

/// `malloc_stats`: every heap with its size classes, as text on the standard error.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn malloc_stats() {
    write(2, Format::Text);
}

/// `freehold_stats_write`: the statistics in one of the header's formats to a descriptor; 0, or -1 with
/// `errno`.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn freehold_stats_write(descriptor: c_int, format: c_int) -> c_int {
    let format = match format {
        0 => Format::Text,
        1 => Format::Json,
        2 => Format::OpenMetrics,
        3 => Format::Xml,
        _ => {
            set_errno(libc::EINVAL);
            return -1;
        }
    };
    if write(descriptor, format) { 0 } else { -1 }
}

/// `freehold_profile_write`: the heap profile so far, as a new file; 0, or -1 with `errno`: `ENODATA`
/// when the program does not run with `FREEHOLD_PROFILE`.
///
/// # Safety
/// `path` is a C string.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_profile_write(path: *const c_char) -> c_int {
    if !freehold::profile::is_on() {
        set_errno(libc::ENODATA);
        return -1;
    }
    // SAFETY: the caller's.
    let path = unsafe { core::ffi::CStr::from_ptr(path) }.to_bytes_with_nul();
    if freehold::profile::write(path) { 0 } else { -1 }
}

/// `malloc_info`: the statistics as XML, of glibc's shape. -1 and `EINVAL` for unknown options.
///
/// # Safety
/// `stream` is an open stream.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    let Some(stats) = Stats::take() else {
        set_errno(libc::ENOMEM);
        return -1;
    };
    let mut wrote = true;
    stats.write(Format::Xml, &mut |bytes: &[u8]| {
        // SAFETY: the stream is the caller's; the bytes are read only.
        let put = unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream) };
        wrote &= put == bytes.len();
    });
    if wrote { 0 } else { -1 }
}
