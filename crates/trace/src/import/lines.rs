//! The lines of a text file that may be compressed (gzip or zstd, known by their first bytes).
//!
//! Invariant: memory is one line, at most [`MAX_LINE`], whatever the file holds. A file that ends
//! within its compression gives the lines before that.

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest line: heaptrack writes paths and C++ symbols, which may have some ten thousand bytes.
const MAX_LINE: usize = 1 << 20;
/// Largest window a zstd frame may ask memory for: 128 MiB, the decompressor's own default.
const MAX_WINDOW_LOG2: u32 = 27;

pub(super) struct Lines {
    text: Box<dyn BufRead>,
    line: Vec<u8>,
    read: Arc<AtomicU64>,
    file_len: u64,
    cut_short: bool,
}

/// What the next line is.
pub(super) enum Line<'a> {
    Text(&'a str),
    NoText,
    TooLong,
    End,
}

impl Lines {
    pub(super) fn open(path: &Path) -> io::Result<Lines> {
        let mut file = File::open(path)?;
        let file_len = file.metadata()?.len();
        let mut magic = [0; 4];
        let have = read_up_to(&mut file, &mut magic)?;
        file.rewind()?;
        let read = Arc::new(AtomicU64::new(0));
        let counted = BufReader::new(Counted { file, read: read.clone() });
        let text: Box<dyn BufRead> = match &magic[..have] {
            [0x1f, 0x8b, ..] => Box::new(BufReader::new(MultiGzDecoder::new(counted))),
            [0x28, 0xb5, 0x2f, 0xfd] => {
                let mut zstd = zstd::stream::read::Decoder::with_buffer(counted)?;
                zstd.window_log_max(MAX_WINDOW_LOG2)?;
                Box::new(BufReader::new(zstd))
            }
            _ => Box::new(counted),
        };
        Ok(Lines { text, line: Vec::new(), read, file_len, cut_short: false })
    }

    /// The first bytes of the text, without taking them.
    pub(super) fn peek(&mut self) -> io::Result<&[u8]> {
        match self.text.fill_buf() {
            Err(error) if is_damage(&error) => Ok(&[]),
            other => other,
        }
    }

    /// The next line, without its end.
    pub(super) fn next(&mut self) -> io::Result<Line<'_>> {
        self.line.clear();
        let mut too_long = false;
        loop {
            let buffer = match self.text.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if is_damage(&error) => {
                    self.cut_short = true;
                    &[]
                }
                Err(error) => return Err(error),
            };
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let at_end = buffer.is_empty();
            if self.line.len() + part.len() > MAX_LINE {
                too_long = true;
            } else {
                self.line.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(end.is_some());
            self.text.consume(taken);
            if at_end && self.line.is_empty() && !too_long {
                return Ok(Line::End);
            }
            if end.is_some() || at_end {
                break;
            }
        }
        if too_long {
            return Ok(Line::TooLong);
        }
        Ok(match std::str::from_utf8(&self.line) {
            Ok(line) => Line::Text(line),
            Err(_) => Line::NoText,
        })
    }

    /// The rest, which is no text, if that has at most `limit` bytes.
    pub(super) fn rest(&mut self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        match self.text.by_ref().take(limit + 1).read_to_end(&mut bytes) {
            Err(error) if is_damage(&error) => self.cut_short = true,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        Ok((bytes.len() as u64 <= limit).then_some(bytes))
    }

    /// Bytes of the file read so far.
    pub(super) fn position(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(super) fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Whether the compressed data ended early or was damaged.
    pub(super) fn cut_short(&self) -> bool {
        self.cut_short
    }
}

/// Errors that decompressors report; others come from the disk.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | Other | UnexpectedEof)
        && error.raw_os_error().is_none()
}

fn read_up_to(file: &mut File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < bytes.len() {
        match file.read(&mut bytes[have..])? {
            0 => break,
            some => have += some,
        }
    }
    Ok(have)
}

/// Counts what is read: progress goes by the compressed file.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(bytes)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
