//! The values of the `FREEHOLD_*` variables. One table: name, default, effect.
//!
//! Set-user-ID programs ignore them. For an invalid value the default stays, and a warning of one line
//! names it and the valid ones. A variable that only looks like an option causes a warning, too (`unknown`).

use crate::environment::{each_of_ours, printable};
use crate::main_heap::HEAP;
use crate::page::PAGE;
use crate::{counts, exit, profile, purger, secure, unknown};
use core::ffi::CStr;
use freehold_os::HugePages;

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

impl OptionRow {
    /// Takes a value, as if the variable had had it at the start; `false` if it is not understood.
    pub fn set(&self, value: &[u8]) -> bool {
        (self.apply)(value)
    }
}

/// Every option there is.
pub static OPTIONS: [OptionRow; 9] = [
    OptionRow {
        name: c"FREEHOLD_LIMIT",
        default: "none",
        values: "none, auto, or bytes from 1M, as 500M or 2G",
        sentence: "Refuse requests (null, ENOMEM, bad_alloc) once the heap holds so much; auto follows the limits of the container, and gives memory back at once where little is left.",
        apply: limit,
    },
    OptionRow {
        name: c"FREEHOLD_NODES",
        default: "local>shared>search",
        values: "off, or one to three of local, shared and search, as local>shared>search",
        sentence: "Where memory comes from on machines with several: the thread's own node, nodes without processors, the least used other; off leaves it to the system.",
        apply: nodes,
    },
    OptionRow {
        name: c"FREEHOLD_PROFILE",
        default: "none",
        values: "none, or a file name; %p is the process",
        sentence: "Sample what is allocated, and write a heap profile for pprof at the end.",
        apply: profile_to,
    },
    OptionRow {
        name: c"FREEHOLD_PROFILE_RATE",
        default: "2M",
        values: "bytes from 1K to 1G, as 64K or 2M",
        sentence: "Take one sample in so many bytes, on average.",
        apply: profile_rate,
    },
    OptionRow {
        name: c"FREEHOLD_PURGE",
        default: "on",
        values: "on, off",
        sentence: "Give the pages of freed memory back to the system when a program rests.",
        apply: purge,
    },
    OptionRow {
        name: c"FREEHOLD_REPORT",
        default: "none",
        values: "none, or a file name, as stats-%p.json; also .xml, .om; else text",
        sentence: "Write statistics at the end of the program; after a -, without a word if that fails.",
        apply: report_to,
    },
    OptionRow {
        name: c"FREEHOLD_SECURE",
        default: "off",
        values: "on, off",
        sentence: "Check every free at once, wipe and quarantine freed blocks, fence large ones.",
        apply: secure_on,
    },
    OptionRow {
        name: c"FREEHOLD_STATS",
        default: "off",
        values: "on, off",
        sentence: "Count every call exactly; calls become slower.",
        apply: stats_on,
    },
    OptionRow {
        name: c"FREEHOLD_THP",
        default: "dense",
        values: "dense, system, always, never",
        sentence: "Ask for transparent huge pages where the heap is large and dense, or everywhere, or refuse them, or leave it to the system.",
        apply: huge_pages,
    },
];

/// A switch: its work if it is on; `false` if it is neither on nor off.
fn switch(value: &[u8], on: fn()) -> bool {
    match value {
        b"on" | b"1" => {
            on();
            true
        }
        b"off" | b"0" => true,
        _ => false,
    }
}

fn profile_to(value: &[u8]) -> bool {
    value == b"none" || {
        let kept = exit::PROFILE.set(value);
        if kept {
            profile::start();
        }
        kept
    }
}

fn profile_rate(value: &[u8]) -> bool {
    let Some(bytes) = size(value).filter(|bytes| (1 << 10..=1 << 30).contains(bytes)) else {
        return false;
    };
    profile::set_rate(bytes);
    true
}

fn report_to(value: &[u8]) -> bool {
    match value {
        b"none" => true,
        // As in a makefile: what fails is nobody's business.
        [b'-', name @ ..] => {
            exit::keep_silent();
            exit::REPORT.set(name)
        }
        name => exit::REPORT.set(name),
    }
}

fn secure_on(value: &[u8]) -> bool {
    switch(value, secure::start)
}

fn stats_on(value: &[u8]) -> bool {
    switch(value, counts::start)
}

fn huge_pages(value: &[u8]) -> bool {
    let wish = match value {
        b"dense" => HugePages::WhereDense,
        b"system" => HugePages::AsSystem,
        b"always" => HugePages::Always,
        b"never" => HugePages::Never,
        _ => return false,
    };
    HEAP.machine().set_huge_pages(wish);
    true
}

fn nodes(value: &[u8]) -> bool {
    let path = match core::str::from_utf8(value) {
        Ok("off") => None,
        Ok(text) => match text.parse() {
            Ok(path) => Some(path),
            Err(_) => return false,
        },
        Err(_) => return false,
    };
    HEAP.machine().set_path(path);
    true
}

fn limit(value: &[u8]) -> bool {
    match value {
        b"none" => return true,
        b"auto" => {
            HEAP.follow_machine();
            return true;
        }
        _ => {}
    }
    let Some(bytes) = size(value).filter(|&bytes| bytes >= 1 << 20) else { return false };
    HEAP.set_limit(bytes);
    PAGE.main.set_limit(bytes as u64);
    true
}

/// A number of bytes, with K, M, G or T for powers of 1024.
fn size(text: &[u8]) -> Option<usize> {
    let (digits, shift) = match text {
        [digits @ .., b'K' | b'k'] => (digits, 10),
        [digits @ .., b'M' | b'm'] => (digits, 20),
        [digits @ .., b'G' | b'g'] => (digits, 30),
        [digits @ .., b'T' | b't'] => (digits, 40),
        digits => (digits, 0),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0usize, |sum, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        sum.checked_mul(10)?.checked_add(digit as usize)
    })?;
    number.checked_mul(1 << shift)
}

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

/// Reads all of them: once, at the start, in one walk over the environment.
pub(crate) fn read() {
    // SAFETY: asks for a constant of the process: whether it has more rights than who started it.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return;
    }
    let mut values = [None; OPTIONS.len()];
    each_of_ours(|name, value| {
        match OPTIONS.iter().zip(&mut values).find(|(row, _)| row.name.to_bytes() == name) {
            // Of two, the first, as `getenv` has it.
            Some((_, place)) => *place = place.or(Some(value)),
            None => unknown::complain(name, OPTIONS.iter().map(|row| row.name)),
        }
    });
    // In the order of the table, not in that of the environment.
    for (row, value) in OPTIONS.iter().zip(values) {
        if let Some(value) = value.filter(|value| !row.set(value)) {
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
        printable(value),
        b" (takes ",
        row.values.as_bytes(),
        b"; default ",
        row.default.as_bytes(),
        b")\n",
    ] {
        machine.complain(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(size(b"123"), Some(123));
        assert_eq!(size(b"2G"), Some(2 << 30));
        assert_eq!(size(b"500m"), Some(500 << 20));
        for bad in
            [b"".as_slice(), b"G", b"-1", b"1.5G", b"2GB", b"99999999999999999999", b"17000000T"]
        {
            assert_eq!(size(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn every_option_is_named_after_the_project_and_explained() {
        for row in &OPTIONS {
            assert!(row.name.to_bytes().starts_with(b"FREEHOLD_"));
            assert!(row.sentence.ends_with('.') && row.values.contains(row.default));
        }
        assert!(OPTIONS.is_sorted_by_key(|row| row.name), "in alphabetical order");
    }
}
