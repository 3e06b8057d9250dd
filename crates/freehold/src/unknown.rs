//! Variables that look like options but are none, most likely misspelt: one warning names them, at the start.

use crate::environment::printable;
use crate::main_heap::HEAP;
use core::ffi::CStr;

/// Variables of the project that are not the malloc's: the recorder's, and the tests' own.
const OTHERS: [&[u8]; 2] = [b"FREEHOLD_RECORD", b"FREEHOLD_SEED"];

/// Whether `name`, which begins like ours and is no option, is nobody's.
fn is_unknown(name: &[u8]) -> bool {
    !OTHERS.iter().any(|other| name.starts_with(other))
}

/// Complains of a variable that is no option; `options` are all that there are.
pub(crate) fn complain(name: &[u8], options: impl Iterator<Item = &'static CStr>) {
    if !is_unknown(name) {
        return;
    }
    let machine = HEAP.machine();
    for part in [b"freehold: ignoring ".as_slice(), printable(name), b": no such option (there are"]
    {
        machine.complain(part);
    }
    for option in options {
        machine.complain(b" ");
        machine.complain(option.to_bytes());
    }
    machine.complain(b")\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_another_part_of_the_projects_is_known() {
        assert!(is_unknown(b"FREEHOLD_LIMITS") && is_unknown(b"FREEHOLD_"));
        assert!(!is_unknown(b"FREEHOLD_RECORD_FD") && !is_unknown(b"FREEHOLD_SEED"));
    }
}
