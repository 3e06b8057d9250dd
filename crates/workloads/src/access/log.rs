//! The accesses as a file of real addresses: what a TLB would see under the malloc of this process.
//!
//! ```text
//! entry: address (8 B) | words or bytes (4 B) | kind (4 B), little-endian, in the order of one thread
//! ```
//!
//! Invariant: writing it allocates nothing, so that it does not move what it tells of. An error to write
//! is kept and told by [`close`].

use super::{ASIDE, BARRIER, PARTS, TASK};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes of an entry.
const ENTRY: usize = 16;
const BUFFER: usize = 4096 * ENTRY;

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// So many words from the address on are touched.
    Touch,
    /// A task begins; the address is its home. (Or something begins that is not told.)
    Task,
    /// A phase begins.
    Phase,
    /// Nothing more is told.
    End,
    /// An object of so many bytes is alive at the end.
    Object,
}

const KINDS: [Kind; 5] = [Kind::Touch, Kind::Task, Kind::Phase, Kind::End, Kind::Object];

/// An entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Where.
    pub address: u64,
    /// Words touched, or bytes of the object.
    pub length: u32,
    /// What.
    pub kind: Kind,
}

struct Log {
    file: File,
    buffer: [u8; BUFFER],
    used: usize,
    failed: Option<io::Error>,
}

static LOG: OnceLock<Mutex<Log>> = OnceLock::new();

fn open_log() -> Option<MutexGuard<'static, Log>> {
    LOG.get().map(|log| log.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Begins a log; the first call counts.
///
/// # Errors
/// The file cannot be made.
pub fn open(path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    LOG.get_or_init(|| Mutex::new(Log::new(file)));
    Ok(())
}

/// Whether there is one.
pub fn is_open() -> bool {
    LOG.get().is_some()
}

/// Notes an access or a mark, as [`super::touch`] has it.
pub(super) fn access(object: usize, offset: usize, words: usize, write: bool) {
    note(entry(object, offset, words, write));
}

fn entry(object: usize, offset: usize, words: usize, write: bool) -> Entry {
    let kind = match (offset, write) {
        (TASK | ASIDE | PARTS, _) => Kind::Task,
        (BARRIER, true) => Kind::Phase,
        (BARRIER, false) => Kind::End,
        _ => Kind::Touch,
    };
    let address = if kind == Kind::Touch { object + offset } else { object };
    Entry { address: address as u64, length: words as u32, kind }
}

/// Notes an object that is alive.
pub fn object(address: usize, bytes: usize) {
    note(Entry { address: address as u64, length: bytes as u32, kind: Kind::Object });
}

fn note(entry: Entry) {
    if let Some(mut log) = open_log() {
        log.note(entry);
    }
}

impl Log {
    fn new(file: File) -> Log {
        Log { file, buffer: [0; BUFFER], used: 0, failed: None }
    }

    fn note(&mut self, entry: Entry) {
        if self.used == BUFFER {
            self.flush();
        }
        let all =
            u128::from(entry.address) | u128::from(entry.length) << 64 | (entry.kind as u128) << 96;
        self.buffer[self.used..self.used + ENTRY].copy_from_slice(&all.to_le_bytes());
        self.used += ENTRY;
    }

    fn flush(&mut self) {
        let written = self.file.write_all(&self.buffer[..self.used]);
        self.used = 0;
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    fn close(&mut self) -> io::Result<()> {
        self.flush();
        self.failed.take().map_or(Ok(()), Err)
    }
}

/// Writes what is left.
///
/// # Errors
/// The first thing that went wrong with the file.
pub fn close() -> io::Result<()> {
    open_log().map_or(Ok(()), |mut log| log.close())
}

/// Reads the next entry of a log; `None` at its end.
///
/// # Errors
/// The file cannot be read, ends within an entry, or holds what no log holds.
pub fn read(from: &mut impl Read) -> io::Result<Option<Entry>> {
    let mut bytes = [0; ENTRY];
    let mut had = 0;
    while had < ENTRY {
        match from.read(&mut bytes[had..])? {
            0 if had == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => had += more,
        }
    }
    let all = u128::from_le_bytes(bytes);
    let kind = KINDS.get((all >> 96) as usize).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Some(Entry { address: all as u64, length: (all >> 64) as u32, kind: *kind }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Seek;

    #[test]
    fn what_is_noted_is_read_again() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        let mut log = Log::new(file.try_clone().expect("another handle"));
        log.note(entry(4096, 24, 3, false));
        log.note(entry(4096, TASK, 1, true));
        log.note(entry(8192, BARRIER, 1, true));
        log.note(entry(8192, BARRIER, 1, false));
        let object = |address| Entry { address, length: 72, kind: Kind::Object };
        (0..5000).for_each(|address| log.note(object(address)));
        log.close().expect("room for it");
        file.rewind().expect("a file");
        let mut next = || read(&mut file).expect("whole entries");
        let is = |address, length, kind| Some(Entry { address, length, kind });
        assert_eq!(next(), is(4120, 3, Kind::Touch));
        assert_eq!(next(), is(4096, 1, Kind::Task));
        assert_eq!(next(), is(8192, 1, Kind::Phase));
        assert_eq!(next(), is(8192, 1, Kind::End));
        (0..5000).for_each(|index| assert_eq!(next(), Some(object(index))));
        assert_eq!(next(), None);
        assert!(read(&mut &[1u8; 7][..]).is_err() && read(&mut &[0xff; 16][..]).is_err());
    }
}
