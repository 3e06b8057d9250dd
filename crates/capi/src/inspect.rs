//! glibc's inspection calls. Figures are of whole units (64 KiB): what the heap holds of the
//! machine, not what programs asked for.

use freehold::process;
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
    let mut fields = [0; 10];
    for (at, value) in [(0, arena), (7, uordblks), (8, fordblks), (9, keepcost)] {
        fields[at] = value as c_int;
    }
    Mallinfo { fields }
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

/// `malloc_stats`: a few lines on the standard error.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn malloc_stats() {
    let usage = process::usage();
    let lines: [(&[u8], usize); 3] = [
        (b"freehold: used bytes      ", usage.used),
        (b"freehold: dirty bytes     ", usage.dirty),
        (b"freehold: committed bytes ", usage.committed),
    ];
    for (name, value) in lines {
        let mut digits = [0; 21];
        process::complain(name);
        process::complain(decimal(value, &mut digits));
    }
}

/// The digits of `value` and a line's end.
fn decimal(mut value: usize, digits: &mut [u8; 21]) -> &[u8] {
    let mut first = digits.len() - 1;
    digits[first] = b'\n';
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 || first == 0 {
            return &digits[first..];
        }
    }
}

/// `malloc_info`: the same figures as XML, of glibc's shape. -1 and `EINVAL` for unknown options.
///
/// # Safety
/// `stream` is an open stream.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 {
        // SAFETY: every thread has an errno.
        unsafe { *libc::__errno_location() = libc::EINVAL };
        return -1;
    }
    let usage = process::usage();
    let format: *const c_char = c"<malloc version=\"1\">\n<system type=\"current\" size=\"%zu\"/>\n<total type=\"used\" size=\"%zu\"/>\n<total type=\"dirty\" size=\"%zu\"/>\n</malloc>\n".as_ptr();
    // SAFETY: the stream is the caller's; the format takes three sizes.
    unsafe { libc::fprintf(stream, format, usage.committed, usage.used, usage.dirty) };
    0
}
