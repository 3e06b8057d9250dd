//! The few system calls of the replayer that are not measurements: mappings, and ways to end.

use core::fmt;
use core::ptr;

use crate::output::Output;

/// Types for which all-zero bytes are a valid value, so that a fresh mapping is a table of them.
///
/// # Safety
/// All-zero bytes must be a valid `Self`, and `Self` must need no drop.
pub unsafe trait Zeroed {}

// SAFETY: zero is a valid AtomicU64.
unsafe impl Zeroed for core::sync::atomic::AtomicU64 {}

/// Whether pages of a table are made before the clock starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// All at once: the loop takes no page faults on the table.
    Now,
    /// When touched: for tables of which most is never used.
    Lazily,
}

/// A table of `count` zeroed entries in shared memory, which never counts as `RssAnon`.
pub fn table<T: Zeroed + Sync>(count: usize, pages: Pages) -> &'static [T] {
    if count == 0 {
        return &[];
    }
    let Some(bytes) = count.checked_mul(size_of::<T>()) else {
        fatal(format_args!("a table of {count} entries does not fit in memory"))
    };
    let start = map_shared(bytes, -1, pages);
    // SAFETY: the mapping is `bytes` long, page-aligned (no T here needs more), zeroed, never
    // unmapped, and zeroes are a valid T.
    unsafe { core::slice::from_raw_parts(start.cast::<T>(), count) }
}

/// Maps `bytes` of shared memory: of the file `fd`, read-only, or anonymous and writable for -1.
pub fn map_shared(bytes: usize, fd: i32, pages: Pages) -> *mut u8 {
    let protection = if fd < 0 { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    let anonymous = if fd < 0 { libc::MAP_ANONYMOUS } else { 0 };
    let populate = if pages == Pages::Now { libc::MAP_POPULATE } else { 0 };
    let flags = libc::MAP_SHARED | anonymous | populate | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, fd, 0) };
    if start == libc::MAP_FAILED {
        fatal(format_args!("cannot map {bytes} bytes for the replayer's own tables"));
    }
    start.cast()
}

/// Makes the kernel end this process when the one that started it ends.
pub fn die_with_parent() {
    // SAFETY: prctl with these arguments changes one attribute of the process, no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Ends the process at once; exit handlers of the tested library do not run.
pub fn exit(code: i32) -> ! {
    // SAFETY: _exit never returns and touches no memory.
    unsafe { libc::_exit(code) }
}

/// The replayer itself cannot go on.
#[cold]
pub fn fatal(reason: fmt::Arguments) -> ! {
    Output::new().line(format_args!("fatal {reason}"));
    exit(4)
}

/// The tested malloc did something a malloc must not do.
#[cold]
pub fn misbehaved(what: fmt::Arguments) -> ! {
    Output::new().line(format_args!("misbehaved {what}"));
    exit(3)
}
