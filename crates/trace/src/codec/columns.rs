//! The columns of a block, stored one after the other, each compressed where that helps.
//!
//! Invariant of loading: no column is longer than its entry promises, and together they are no
//! longer than the block's raw length, which is at most 64 KiB.

use crate::block::MAX_RAW;
use crate::varint;
use std::io;
use std::ops::Range;

/// How many columns this version knows.
pub(crate) const COLUMNS: usize = 10;

pub(crate) const OPS: usize = 0;
pub(crate) const TIMES: usize = 1;
pub(crate) const IDS: usize = 2;
pub(crate) const SLOTS: usize = 3;
pub(crate) const REQUESTS: usize = 4;
pub(crate) const NUMBERS: usize = 5;
pub(crate) const EXTENSIONS: usize = 6;
pub(crate) const ALLOC_STACKS: usize = 7;
pub(crate) const FREE_STACKS: usize = 8;
pub(crate) const STACK_NUMBERS: usize = 9;

/// Stored as it is.
const METHOD_RAW: u8 = 0;
/// One zstd frame.
const METHOD_ZSTD: u8 = 1;
/// One byte, repeated.
const METHOD_SAME: u8 = 2;

/// The columns of a block that is being built.
#[derive(Default)]
pub(crate) struct Building {
    pub(crate) columns: [Vec<u8>; COLUMNS],
}

impl Building {
    pub(crate) fn raw_len(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }

    pub(crate) fn clear(&mut self) {
        self.columns.iter_mut().for_each(Vec::clear);
    }

    /// Appends the stored form of all columns to `out`.
    pub(crate) fn store(
        &self,
        zstd: &mut zstd::bulk::Compressor<'_>,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        for (id, column) in self.columns.iter().enumerate().filter(|(_, column)| !column.is_empty())
        {
            let (method, stored) = compress(column, zstd, scratch)?;
            out.extend([id as u8, method]);
            varint::put(out, column.len() as u64);
            varint::put(out, stored.len() as u64);
            out.extend_from_slice(stored);
        }
        Ok(())
    }
}

/// The shortest of the methods for one column.
fn compress<'a>(
    column: &'a [u8],
    zstd: &mut zstd::bulk::Compressor<'_>,
    scratch: &'a mut Vec<u8>,
) -> io::Result<(u8, &'a [u8])> {
    if column.iter().all(|byte| *byte == column[0]) {
        return Ok((METHOD_SAME, &column[..1]));
    }
    scratch.clear();
    scratch.reserve(zstd::zstd_safe::compress_bound(column.len()));
    zstd.compress_to_buffer(column, scratch)?;
    Ok(if scratch.len() < column.len() { (METHOD_ZSTD, scratch) } else { (METHOD_RAW, column) })
}

/// The columns of a block that is being read, and a word of anything behind the last.
pub(crate) struct Loaded {
    bytes: Vec<u8>,
    at: [usize; COLUMNS],
    end: [usize; COLUMNS],
}

impl Default for Loaded {
    fn default() -> Self {
        Self { bytes: Vec::new(), at: [0; COLUMNS], end: [0; COLUMNS] }
    }
}

impl Loaded {
    /// Loads the columns of a stored block; `None` where they contradict `raw_len` or themselves.
    pub(crate) fn load(
        &mut self,
        stored: &[u8],
        raw_len: usize,
        zstd: &mut zstd::bulk::Decompressor<'_>,
    ) -> Option<()> {
        self.at = [0; COLUMNS];
        self.end = [0; COLUMNS];
        let raw_len = raw_len.min(MAX_RAW);
        // No more than it takes: thousands of threads may each have a block open.
        self.bytes.reserve_exact((raw_len + varint::WORD).saturating_sub(self.bytes.len()));
        self.bytes.resize(raw_len + varint::WORD, 0);
        let (mut at, mut filled) = (0, 0usize);
        while at < stored.len() {
            let id = usize::from(*stored.get(at)?);
            let method = *stored.get(at + 1)?;
            at += 2;
            let len = usize::try_from(varint::take(stored, &mut at)?).ok()?;
            let stored_len = usize::try_from(varint::take(stored, &mut at)?).ok()?;
            let body = stored.get(at..at.checked_add(stored_len)?)?;
            at += stored_len;
            let room = self.bytes[..raw_len].get_mut(filled..filled.checked_add(len)?)?;
            if id < COLUMNS {
                expand(method, body, room, zstd)?;
                self.at[id] = filled;
                self.end[id] = filled + len;
            }
            filled += len;
        }
        (filled == raw_len).then_some(())
    }

    /// Whether the block has that column.
    #[inline]
    pub(crate) fn has(&self, column: usize) -> bool {
        self.end[column] > 0
    }

    #[inline]
    pub(crate) fn byte(&mut self, column: usize) -> Option<u8> {
        let at = self.at[column];
        if at >= self.end[column] {
            return None;
        }
        self.at[column] = at + 1;
        self.bytes.get(at).copied()
    }

    #[inline]
    pub(crate) fn number(&mut self, column: usize) -> Option<u64> {
        let end = self.end[column];
        varint::take(self.bytes.get(..end)?, &mut self.at[column])
    }

    /// All columns, and where what is left of `column` lies in them.
    #[inline]
    pub(crate) fn rest(&self, column: usize) -> (&[u8], Range<usize>) {
        (&self.bytes, self.at[column]..self.end[column])
    }

    /// Goes on at `at` in `column`, which is in what [`rest`](Self::rest) gave.
    #[inline]
    pub(crate) fn go_on(&mut self, column: usize, at: usize) {
        self.at[column] = at;
    }

    /// Steps over `len` bytes.
    pub(crate) fn skip(&mut self, column: usize, len: u64) -> Option<()> {
        let at = self.at[column].checked_add(usize::try_from(len).ok()?)?;
        self.at[column] = (at <= self.end[column]).then_some(at)?;
        Some(())
    }
}

fn expand(
    method: u8,
    body: &[u8],
    room: &mut [u8],
    zstd: &mut zstd::bulk::Decompressor<'_>,
) -> Option<()> {
    match (method, body) {
        (METHOD_RAW, _) if body.len() == room.len() => room.copy_from_slice(body),
        (METHOD_SAME, [byte]) => room.fill(*byte),
        (METHOD_ZSTD, _) => {
            let written = zstd.decompress_to_buffer(body, room).ok()?;
            return (written == room.len()).then_some(());
        }
        _ => return None,
    }
    Some(())
}
