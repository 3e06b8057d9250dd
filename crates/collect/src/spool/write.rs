//! Writes a spool. The first error ends the writing: the file is cut back to its last whole block,
//! and everything after is counted instead of stored.

use super::codec::{Encoder, Form};
use super::facts::FactWriter;
use super::{BlockHead, Kind, PLAIN_BYTES};
use crate::lost::Lost;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Quick rather than small: the drain must keep up with the program on what is left of a processor.
const ZSTD_LEVEL: i32 = 1;

/// Whether the drain keeps up with those who fill the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// It does: packed blocks are compressed.
    Calm,
    /// It does not, and compressing would make the program wait: packed blocks are stored as they are.
    Behind,
}

/// A spool being written.
pub struct SpoolWriter {
    path: PathBuf,
    file: File,
    bytes: u64,
    zstd: zstd::bulk::Compressor<'static>,
    scratch: Vec<u8>,
    events: u64,
    lost: Lost,
    error: Option<io::Error>,
}

impl SpoolWriter {
    /// Creates the file, an older one of that name being replaced.
    pub fn create(path: &Path) -> io::Result<SpoolWriter> {
        Ok(SpoolWriter {
            path: path.to_owned(),
            file: File::create(path)?,
            bytes: 0,
            zstd: zstd::bulk::Compressor::new(ZSTD_LEVEL)?,
            scratch: Vec::new(),
            events: 0,
            lost: Lost::default(),
            error: None,
        })
    }

    /// Stores the events packed so far as a block; `pace` says whether there is time to compress.
    pub fn events(&mut self, process: u32, thread: u32, encoder: &mut Encoder, pace: Pace) {
        let (raw, count, first) = encoder.block();
        if count == 0 {
            return;
        }
        let raw_len = raw.len() as u32;
        let head = |kind| BlockHead { kind, process, thread, count, first, raw_len, stored_len: 0 };
        match (encoder.form(), pace) {
            (Form::Plain, _) => self.store(head(Kind::PlainEvents), raw),
            (Form::Packed, Pace::Behind) => self.store(head(Kind::RawEvents), raw),
            (Form::Packed, Pace::Calm) => self.compressed(head(Kind::Events), raw),
        }
        match self.error {
            None => self.events += u64::from(count),
            Some(_) => self.lost.unstored += u64::from(count),
        }
        encoder.clear(self.form());
    }

    /// The form in which new blocks are to be filled.
    pub fn form(&self) -> Form {
        if self.bytes < PLAIN_BYTES { Form::Plain } else { Form::Packed }
    }

    fn compressed(&mut self, head: BlockHead, raw: &[u8]) {
        if self.error.is_some() {
            return;
        }
        let mut stored = std::mem::take(&mut self.scratch);
        stored.clear();
        stored.reserve(zstd::zstd_safe::compress_bound(raw.len()));
        match self.zstd.compress_to_buffer(raw, &mut stored) {
            Ok(_) => self.store(head, &stored),
            Err(error) => self.error = Some(error),
        }
        self.scratch = stored;
    }

    /// Stores a fact.
    pub fn fact(&mut self, kind: Kind, process: u32, fact: &FactWriter) {
        let raw_len = fact.bytes().len() as u32;
        let head =
            BlockHead { kind, process, thread: 0, count: 0, first: 0, raw_len, stored_len: 0 };
        self.store(head, fact.bytes());
    }

    fn store(&mut self, head: BlockHead, payload: &[u8]) {
        if self.error.is_some() {
            return;
        }
        let head = BlockHead { stored_len: payload.len() as u32, ..head }.encode(payload);
        let written = self.file.write_all(&head).and_then(|()| self.file.write_all(payload));
        match written {
            Ok(()) => self.bytes += (head.len() + payload.len()) as u64,
            Err(error) => {
                self.error = Some(error);
                // If even this fails, the reader ignores the broken block.
                let _ = self.file.set_len(self.bytes);
            }
        }
    }

    /// Counts events that cannot be stored.
    pub fn lose(&mut self, events: Lost) {
        self.lost += events;
    }

    /// Events counted only.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Why nothing is stored any more, if so.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
