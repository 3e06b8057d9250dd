//! The variables of the environment, read without the C library's `getenv`, which would bring pages into every process.

use core::ffi::{CStr, c_char};
use core::ptr;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// What our variables begin with.
const OURS: &[u8] = b"FREEHOLD_";

/// Whether a variable is set, for callers before the options are read; `begins` is its name and `=`. (`getenv` would do, but for
/// the pages of the C library that it brings into every process.)
pub(crate) fn is_given(begins: &[u8]) -> bool {
    // SAFETY: `read` of the options.
    entries().any(|text| begins_with(text, begins))
        && unsafe { libc::getauxval(libc::AT_SECURE) } == 0
}

/// Calls `visit` with the name and the value of each variable that begins like ours.
pub(crate) fn each_of_ours(mut visit: impl FnMut(&'static [u8], &'static [u8])) {
    for text in entries().filter(|text| begins_with(*text, OURS)) {
        // SAFETY: each entry is a C string.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        let mut parts = text.splitn(2, |byte| *byte == b'=');
        visit(parts.next().unwrap_or(text), parts.next().unwrap_or(b""));
    }
}

/// All of the environment.
fn entries() -> impl Iterator<Item = *const c_char> {
    // SAFETY: the C library's own list, complete before any program's code runs. The program has no second
    // thread yet, or has not allocated before, so nobody is changing it.
    let mut entry = unsafe { environ };
    core::iter::from_fn(move || {
        // SAFETY: the list ends with null, and has been set up if it is not null itself.
        let text = if entry.is_null() { ptr::null() } else { unsafe { *entry } };
        if text.is_null() {
            return None;
        }
        // SAFETY: the entry was not the end.
        entry = unsafe { entry.add(1) };
        Some(text)
    })
}

/// Most variables are left at the first byte that differs.
fn begins_with(text: *const c_char, with: &[u8]) -> bool {
    // SAFETY: the text is a C string, and no byte behind its end is read: that one would have differed.
    with.iter().enumerate().all(|(at, byte)| unsafe { *text.add(at) } as u8 == *byte)
}

/// The part of a text that is shown: no more than fits a line, and nothing that would begin another.
pub(crate) fn printable(text: &[u8]) -> &[u8] {
    const MOST: usize = 64;
    let end = text.iter().take(MOST).position(u8::is_ascii_control);
    text.get(..end.unwrap_or(MOST)).unwrap_or(text)
}
