//! Workloads of glibc's malloc trace utilities (`.wl`): what their `trace2wl` makes of a raw trace
//! and their `trace_run` performs. The layout is theirs (`trace2wl.c`, `trace_run.c`, `mtrace.h` of
//! glibc-malloc-trace-utils):
//!
//! ```text
//!   startup   8 POINTERS   9 SYNCS   10 THREADS   (11 OFFSET) per thread   1
//!   thread    operations   1                       at its offset in the file
//!
//!   0                   nothing                 5 OLD               free
//!   2 NEW SIZE          malloc                  6 N                 says that N is reached
//!   3 NEW SIZE          calloc                  7 N                 waits until N is reached
//!   4 NEW OLD SIZE      realloc                12 NEW ALIGN SIZE    memalign (also posix_memalign)
//!                                              13, 14 NEW SIZE      valloc, pvalloc
//! ```
//!
//! Numbers are seven bits a byte, *high bits first*, the last byte below 128. A pointer is the
//! number of an address, 0 being null.
//!
//! Invariant: every operation is read once, whatever the file says: a thread's bytes end where the
//! next thread's begin. Threads take turns, an operation each, and wait where the file says so; that
//! is one of the orders that `trace_run` might perform, and the same on every import.

use super::scribe::Scribe;
use super::{Stopped, Tale};
use crate::event::{Api, Request, ThreadId};
use crate::export::Control;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

const NOTHING: u8 = 0;
const DONE: u8 = 1;
const MALLOC: u8 = 2;
const CALLOC: u8 = 3;
const REALLOC: u8 = 4;
const FREE: u8 = 5;
const SYNC_WRITE: u8 = 6;
const SYNC_READ: u8 = 7;
const POINTERS: u8 = 8;
const SYNCS: u8 = 9;
const THREADS: u8 = 10;
const START_THREAD: u8 = 11;
const MEMALIGN: u8 = 12;
const VALLOC: u8 = 13;
const PVALLOC: u8 = 14;

/// log2 of what `valloc` aligns to on the machines these utilities ran on.
const PAGE_LOG2: u8 = 12;
/// Bytes of the file held for one thread.
const WINDOW: u64 = 4096;

/// Whether a file that begins like this is a workload: the first three operations of a startup.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    [POINTERS, SYNCS, THREADS].into_iter().all(|expected| {
        let Some((op, numbers)) = rest.split_first() else { return false };
        let len = numbers.iter().take(10).position(|byte| byte & 0x80 == 0);
        rest = len.map_or(&[], |len| &numbers[len + 1..]);
        *op == expected && len.is_some()
    })
}

/// Why no operation could be read.
enum Wrong {
    Read(io::Error),
    Problem(String),
}

/// Bytes of a file from one offset to another.
struct Bytes<'a> {
    file: &'a File,
    window: Vec<u8>,
    at: usize,
    /// Where the byte after the window lies.
    next: u64,
    end: u64,
}

impl Bytes<'_> {
    fn position(&self) -> u64 {
        self.next - (self.window.len() - self.at) as u64
    }

    fn byte(&mut self) -> Result<u8, Wrong> {
        if self.at == self.window.len() {
            let len = (self.end - self.next).min(WINDOW);
            self.window.resize(len as usize, 0);
            self.at = 0;
            self.file.read_exact_at(&mut self.window, self.next).map_err(Wrong::Read)?;
            self.next += len;
        }
        let byte =
            self.window.get(self.at).ok_or_else(|| Wrong::Problem("it ends early".into()))?;
        self.at += 1;
        Ok(*byte)
    }

    fn number(&mut self) -> Result<u64, Wrong> {
        let mut value = 0u64;
        loop {
            let byte = self.byte()?;
            if value >> (64 - 7) != 0 {
                return Err(Wrong::Problem("a number exceeds 64 bits".into()));
            }
            value = value << 7 | u64::from(byte & 0x7f);
            if byte < 0x80 {
                return Ok(value);
            }
        }
    }
}

/// A thread in the middle of its operations.
struct Thread<'a> {
    id: ThreadId,
    bytes: Bytes<'a>,
}

/// What an operation means for the turn of its thread.
enum Turn {
    Over,
    Reached(u64),
    Waits(u64),
    Ended,
}

/// Reads the workload at `path`, and tells the scribe.
pub(super) fn translate(
    path: &Path,
    scribe: &mut Scribe,
    control: &mut Control<'_>,
) -> Result<Tale, Stopped> {
    let file = File::open(path).map_err(Stopped::Read)?;
    let len = file.metadata().map_err(Stopped::Read)?.len();
    let mut tale = Tale::default();
    let mut ready = match threads(&file, len) {
        Ok(threads) => threads,
        Err((_, Wrong::Read(error))) => return Err(Stopped::Read(error)),
        Err((at, Wrong::Problem(problem))) => {
            tale.skip_at(at, problem);
            return Ok(tale);
        }
    };
    let mut reached: FxHashSet<u64> = FxHashSet::default();
    let mut waiting: FxHashMap<u64, Vec<Thread<'_>>> = FxHashMap::default();
    loop {
        let Some(mut thread) = ready.pop_front() else {
            let Some(sync) = waiting.keys().min().copied() else { break };
            let threads = waiting.remove(&sync).unwrap_or_default();
            let at = threads.first().map_or(0, |thread| thread.bytes.position());
            tale.skip_at(at, format!("waits for {sync}, which nothing reaches"));
            ready.extend(threads);
            continue;
        };
        let at = thread.bytes.position();
        match perform(&mut thread, scribe) {
            Err(Wrong::Read(error)) => return Err(Stopped::Read(error)),
            Err(Wrong::Problem(problem)) => {
                tale.skip_at(at, format!("{problem}; the rest of its thread is left out"));
                continue;
            }
            Ok(Turn::Ended) => continue,
            Ok(Turn::Over) => ready.push_back(thread),
            Ok(Turn::Reached(sync)) => {
                reached.insert(sync);
                ready.extend(waiting.remove(&sync).unwrap_or_default());
                ready.push_back(thread);
            }
            Ok(Turn::Waits(sync)) if reached.contains(&sync) => ready.push_back(thread),
            Ok(Turn::Waits(sync)) => waiting.entry(sync).or_default().push(thread),
        }
        tale.lines += 1;
        tale.understood += 1;
        scribe.check().map_err(Stopped::Write)?;
        if tale.lines.is_multiple_of(1 << 16) {
            // An operation takes three bytes or more; how far each thread is says less.
            (control.progress)((3 * tale.lines).min(len), len);
            if control.stop.load(Ordering::Relaxed) {
                return Err(Stopped::Interrupted);
            }
        }
    }
    Ok(tale)
}

/// The threads that the startup names, in its order.
fn threads(file: &File, len: u64) -> Result<VecDeque<Thread<'_>>, (u64, Wrong)> {
    let bytes = |from, end| Bytes { file, window: Vec::new(), at: 0, next: from, end };
    let mut startup = bytes(0, len);
    let mut offsets = Vec::new();
    loop {
        let at = startup.position();
        let more = startup_operation(&mut startup, len, &mut offsets);
        if !more.map_err(|wrong| (at, wrong))? {
            break;
        }
    }
    let sorted: BTreeSet<u64> = offsets.iter().copied().collect();
    let end_of = |offset: u64| sorted.range(offset + 1..).next().copied().unwrap_or(len);
    let mut seen = BTreeSet::new();
    offsets.retain(|offset| seen.insert(*offset));
    let thread = |(offset, number): (u64, u32)| Thread {
        id: ThreadId(number),
        bytes: bytes(offset, end_of(offset)),
    };
    Ok(offsets.into_iter().zip(0..).map(thread).collect())
}

/// Reads one operation of the startup; `false` at its end.
fn startup_operation(
    startup: &mut Bytes<'_>,
    len: u64,
    offsets: &mut Vec<u64>,
) -> Result<bool, Wrong> {
    match startup.byte()? {
        NOTHING => {}
        POINTERS | SYNCS | THREADS => {
            startup.number()?;
        }
        START_THREAD => {
            let offset = startup.number()?;
            if offset >= len {
                return Err(Wrong::Problem(format!("a thread at {offset}, beyond the end")));
            }
            offsets.push(offset);
        }
        DONE => return Ok(false),
        other => return Err(Wrong::Problem(format!("unknown operation {other} in the startup"))),
    }
    Ok(true)
}

/// Reads and performs the next operation of `thread`.
fn perform(thread: &mut Thread<'_>, scribe: &mut Scribe) -> Result<Turn, Wrong> {
    let Thread { id, bytes } = thread;
    let op = bytes.byte()?;
    scribe.set_thread(*id);
    match op {
        NOTHING => {}
        DONE => return Ok(Turn::Ended),
        SYNC_WRITE => return Ok(Turn::Reached(bytes.number()?)),
        SYNC_READ => return Ok(Turn::Waits(bytes.number()?)),
        FREE => match bytes.number()? {
            0 => {} // free(NULL)
            old => scribe.free(old),
        },
        REALLOC => {
            let (new, old, size) = (bytes.number()?, bytes.number()?, bytes.number()?);
            realloc(scribe, new, old, size);
        }
        MALLOC | CALLOC | MEMALIGN | VALLOC | PVALLOC => {
            let new = bytes.number()?;
            let (api, align_log2) = match op {
                MALLOC => (Api::Malloc, 0),
                CALLOC => (Api::Calloc, 0),
                MEMALIGN => (Api::Aligned, log2(bytes.number()?)?),
                _ => (Api::Aligned, PAGE_LOG2),
            };
            let request = Request { size: bytes.number()?, align_log2, api, usable: 0 };
            match new {
                0 => scribe.failed(request),
                new => scribe.alloc(new, request),
            }
        }
        other => return Err(Wrong::Problem(format!("unknown operation {other}"))),
    }
    Ok(Turn::Over)
}

fn realloc(scribe: &mut Scribe, new: u64, old: u64, size: u64) {
    let request = Request { size, ..Request::default() };
    match (new, old) {
        // glibc's realloc to nothing frees.
        (0, old) if size == 0 && old != 0 => scribe.free(old),
        (0, _) => scribe.failed(request),
        (new, 0) => scribe.alloc(new, request),
        (new, old) => scribe.realloc(old, new, size),
    }
}

fn log2(align: u64) -> Result<u8, Wrong> {
    // What memalign makes of alignments that are no power of two.
    let align = align.max(1).checked_next_power_of_two();
    let align = align.ok_or_else(|| Wrong::Problem("an alignment exceeds 64 bits".into()))?;
    Ok(align.trailing_zeros() as u8)
}
