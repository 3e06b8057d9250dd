//! The file, written from inside: `core::stats::profile` knows its shape; here the code in memory is found.

use super::clock;
use super::table::Tables;
use crate::off_heap::Table;
use core::ffi::CStr;
use freehold_core::malloc::census::Peek;
use freehold_core::stats::Out;
use freehold_core::stats::profile::{Facts, Mappings, Writer, build_id};

/// Files of code that can be told apart.
const MAPPINGS: usize = 1024;

/// Writes what the tables hold; `rate` is the bytes between samples.
pub fn write(tables: &Tables, rate: u64, out: &mut dyn Out) {
    let facts = Facts { rate, date_ns: clock::date_ns(), lost: tables.lost };
    let mut writer = Writer::begin(out, facts);
    let frames: usize = tables.sites().map(|site| site.frames().len()).sum();
    let places = (frames * 2).max(16).next_power_of_two();
    let (Some(mut ranges), Some(mut seen)) = (Table::new(MAPPINGS), Table::new(places)) else {
        return;
    };
    let mut known = Mappings::new(&mut ranges);
    let memory = Memory::open();
    each_line(c"/proc/self/maps", |line| {
        writer.mapping(line, &mut known, |start| build_id(&memory, start));
    });
    writer.samples(tables.sites(), &known, &mut seen);
}

/// The process's own memory, as a file: a module that another thread closes meanwhile is a read that fails, not a fault.
struct Memory(libc::c_int);

impl Memory {
    /// Opens it; where that is forbidden, nothing can be read.
    fn open() -> Memory {
        // SAFETY: the name is a C string.
        Memory(unsafe { libc::open(c"/proc/self/mem".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) })
    }
}

impl Peek for Memory {
    fn peek(&self, address: usize, into: &mut [u8]) -> bool {
        // SAFETY: the bytes are ours.
        let got = unsafe {
            libc::pread(self.0, into.as_mut_ptr().cast(), into.len(), address as libc::off_t)
        };
        got == into.len() as isize
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours, or none.
        unsafe { libc::close(self.0) };
    }
}

/// Calls `visit` with every line of a file, up to one that is longer than 8 KiB.
fn each_line(path: &CStr, mut visit: impl FnMut(&[u8])) {
    // SAFETY: the name is a C string.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return;
    }
    let mut buffer = [0u8; 8192];
    let mut len = 0;
    while let Some(free) = buffer.get_mut(len..).filter(|free| !free.is_empty()) {
        // SAFETY: reads into bytes of ours.
        let got = unsafe { libc::read(file, free.as_mut_ptr().cast(), free.len()) };
        let Some(got) = usize::try_from(got).ok().filter(|&got| got > 0) else { break };
        len += got;
        let read = buffer.get(..len).unwrap_or(&[]);
        let lines = read.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        for line in read.get(..lines).unwrap_or(&[]).split(|&byte| byte == b'\n') {
            visit(line);
        }
        // What follows the last line's end is the beginning of the next.
        for at in lines..len {
            let byte = buffer.get(at).copied().unwrap_or(0);
            if let Some(place) = buffer.get_mut(at - lines) {
                *place = byte;
            }
        }
        len -= lines;
    }
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(file) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_no_module() {
        let memory = Memory::open();
        assert!(build_id(&memory, 0).is_none());
        assert!(build_id(&memory, usize::MAX - 7).is_none());
        let no_module = [0u8; 4096];
        assert!(build_id(&memory, no_module.as_ptr().addr()).is_none());
    }
}
