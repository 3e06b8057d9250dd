//! Files written when the program ends: statistics (`FREEHOLD_REPORT`) and the profile
//! (`FREEHOLD_PROFILE`).
//!
//! A function in `.fini_array`: it costs nothing before, and runs when `main` returns or `exit` is
//! called; not when the program is killed, aborts or calls `_exit`. In file names `%p` is the process's number,
//! so that forked children, which write only then, do not overwrite each other's files.

use crate::file::{PathOption, write_file};
use crate::main_heap::HEAP;
use crate::stats::{Format, Stats};
use core::sync::atomic::{AtomicBool, Ordering};

/// Where statistics go at the end.
pub(crate) static REPORT: PathOption = PathOption::new();
/// Whether nobody cares if they cannot be written.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Says nothing when statistics cannot be written.
pub(crate) fn keep_silent() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Where the profile goes at the end.
pub(crate) static PROFILE: PathOption = PathOption::new();

/// The format that a file's name asks for.
fn format_of(path: &[u8]) -> Format {
    let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
    let name = path.get(..end).unwrap_or(path);
    match name {
        name if name.ends_with(b".json") => Format::Json,
        name if name.ends_with(b".xml") => Format::Xml,
        name if name.ends_with(b".om") || name.ends_with(b".prom") => Format::OpenMetrics,
        _ => Format::Text,
    }
}

extern "C" fn at_exit() {
    // Names are long: a program without them shall not touch the stack that it takes.
    if REPORT.text().is_some() || PROFILE.text().is_some() {
        write_files();
    }
}

#[cold]
#[inline(never)]
fn write_files() {
    if let Some(path) = REPORT.for_this_process() {
        let stats = Stats::take();
        let format = format_of(&path);
        let wrote = stats.is_some_and(|stats| write_file(&path, |file| stats.write(format, file)));
        complain_unless(wrote || SILENT.load(Ordering::Relaxed), b"FREEHOLD_REPORT", &path);
    }
    if let Some(path) = PROFILE.for_this_process() {
        complain_unless(crate::profile::write(&path), b"FREEHOLD_PROFILE", &path);
    }
}

fn complain_unless(wrote: bool, option: &[u8], path: &[u8]) {
    if !wrote {
        let name = path.split(|&byte| byte == 0).next().unwrap_or(path);
        for part in
            [b"freehold: the file of ".as_slice(), option, b" cannot be written: ", name, b"\n"]
        {
            HEAP.machine().complain(part);
        }
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
