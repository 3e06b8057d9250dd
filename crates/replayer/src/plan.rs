//! The flat file, mapped: what every thread is to do.

use freehold_replayer::{Header, Kind, Op, flat};

use crate::sys::{Pages, fatal, map_shared};

/// The mapped file. Read-only, shared by all threads, resident before the clock starts.
pub struct Plan {
    /// The numbers of its head.
    pub header: Header,
    words: &'static [u64],
    ops: &'static [Op],
}

impl Plan {
    /// Maps standard input.
    pub fn map_stdin() -> Plan {
        let bytes = stdin_bytes();
        if bytes < flat::HEADER_BYTES {
            fatal(format_args!("standard input is not a prepared trace"));
        }
        let start = map_shared(bytes, 0, Pages::Now);
        // SAFETY: the mapping is `bytes` long and never unmapped; the file is an unlinked one that
        // the preparer finished before it started this process, so nobody writes to it.
        let head = unsafe { core::slice::from_raw_parts(start, flat::HEADER_BYTES) };
        let header = match Header::from_bytes(head) {
            Some(header) if header.bytes as usize <= bytes => header,
            _ => fatal(format_args!("the prepared trace is of another build or cut off")),
        };
        // SAFETY: as above; a page is aligned for both, and every bit pattern is a valid u64 or Op.
        let (words, ops) = unsafe {
            (
                core::slice::from_raw_parts(start.cast::<u64>(), bytes / 8),
                core::slice::from_raw_parts(start.cast::<Op>(), bytes / Op::BYTES),
            )
        };
        Plan { header, words, ops }
    }

    /// The operation at `at`.
    #[inline(always)]
    pub fn op(&self, at: usize) -> Op {
        self.ops[at]
    }

    /// Where the stream of `thread` begins.
    pub fn start_of(&self, thread: usize) -> usize {
        self.words[self.header.threads_at as usize / 8 + thread] as usize
    }

    /// The `nth` thread to end.
    pub fn ended(&self, nth: usize) -> usize {
        self.words[self.header.ended_at as usize / 8 + nth] as usize
    }

    /// What is said of an operation that no preparer wrote.
    #[cold]
    pub fn unsound(&self, at: usize, kind: Option<Kind>) -> ! {
        fatal(format_args!("the prepared trace is damaged at operation {at} ({kind:?})"))
    }
}

fn stdin_bytes() -> usize {
    // SAFETY: all-zero is a valid stat; fstat fills it.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `stat` is live and writable.
    if unsafe { libc::fstat(0, &raw mut stat) } != 0 {
        return 0;
    }
    stat.st_size as usize
}
