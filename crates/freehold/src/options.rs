//! What the `FREEHOLD_*` variables say. One table: name, default, what it does.
//!
//! Ignored in set-user-ID programs (`secure_getenv`). A value that is not understood is a warning
//! that names it; the default stays.

use crate::process::HEAP;
use crate::purger;
use core::ffi::CStr;

/// One option.
pub struct OptionRow {
    /// The environment variable.
    pub name: &'static CStr,
    /// What is taken when it is not set.
    pub default: &'static str,
    /// What it accepts.
    pub values: &'static str,
    /// What it does: one sentence.
    pub sentence: &'static str,
    /// Takes a value; `false` if it is not understood.
    apply: fn(&[u8]) -> bool,
}

/// Every option there is.
pub static OPTIONS: [OptionRow; 1] = [OptionRow {
    name: c"FREEHOLD_PURGE",
    default: "on",
    values: "on, off",
    sentence: "Give the pages of freed memory back to the system when a program rests.",
    apply: purge,
}];

fn purge(value: &[u8]) -> bool {
    match value {
        b"on" | b"1" => true,
        b"off" | b"0" => {
            purger::switch_off();
            true
        }
        _ => false,
    }
}

unsafe extern "C" {
    fn secure_getenv(name: *const libc::c_char) -> *mut libc::c_char;
}

/// Reads all of them: once, at the start.
pub(crate) fn read() {
    for row in &OPTIONS {
        // SAFETY: the name is a C string; the program has no second thread yet, or has not
        // allocated before, so nobody is changing the environment.
        let value = unsafe { secure_getenv(row.name.as_ptr()) };
        if value.is_null() {
            continue;
        }
        // SAFETY: `secure_getenv` answers with a C string.
        let value = unsafe { CStr::from_ptr(value) }.to_bytes();
        if !(row.apply)(value) {
            warn(row, value);
        }
    }
}

fn warn(row: &OptionRow, value: &[u8]) {
    let machine = HEAP.machine();
    for part in [
        b"freehold: ignoring ".as_slice(),
        row.name.to_bytes(),
        b"=",
        value.get(..64).unwrap_or(value),
        b" (takes ",
        row.values.as_bytes(),
        b"; default ",
        row.default.as_bytes(),
        b")\n",
    ] {
        machine.complain(part);
    }
}
