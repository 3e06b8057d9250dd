//! Variables that look like options but are none: most likely misspelt, so they are named once, at the start.

use crate::options::OPTIONS;
use crate::process::HEAP;
use core::ffi::{CStr, c_char};

/// What our variables begin with.
const OURS: &[u8] = b"FREEHOLD_";
/// Variables of the project that are not the malloc's: the recorder's, and the tests' own.
const OTHERS: [&[u8]; 2] = [b"FREEHOLD_RECORD", b"FREEHOLD_SEED"];

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Whether `name` begins like ours and is nobody's.
fn is_unknown(name: &[u8]) -> bool {
    name.starts_with(OURS)
        && !OTHERS.iter().any(|other| name.starts_with(other))
        && !OPTIONS.iter().any(|row| row.name.to_bytes() == name)
}

/// Complains of each, unless the program has more rights than who started it.
pub(crate) fn complain() {
    // SAFETY: asks for a constant of the process.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return;
    }
    // SAFETY: the C library's own list, complete before any program's code runs; see `options::read` for who else
    // might change it.
    let mut entry = unsafe { environ };
    // SAFETY: the list ends with null, and has been set up if it is not null itself.
    while !entry.is_null() && unsafe { !(*entry).is_null() } {
        // SAFETY: each entry before the end is a C string.
        let text = unsafe { CStr::from_ptr(*entry) }.to_bytes();
        let name = text.split(|byte| *byte == b'=').next().unwrap_or(text);
        if is_unknown(name) {
            say(name);
        }
        // SAFETY: the entry was not the end.
        entry = unsafe { entry.add(1) };
    }
}

fn say(name: &[u8]) {
    let machine = HEAP.machine();
    let name = name.get(..64).unwrap_or(name);
    for part in [b"freehold: ignoring ".as_slice(), name, b": no such option (there are"] {
        machine.complain(part);
    }
    for row in &OPTIONS {
        machine.complain(b" ");
        machine.complain(row.name.to_bytes());
    }
    machine.complain(b")\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_ours_and_is_not_is_unknown() {
        assert!(is_unknown(b"FREEHOLD_LIMITS") && is_unknown(b"FREEHOLD_"));
        for known in [b"FREEHOLD_LIMIT".as_slice(), b"FREEHOLD", b"PATH", b"FREEHOLD_RECORD_FD"] {
            assert!(!is_unknown(known));
        }
    }
}
