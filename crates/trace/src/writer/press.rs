//! The thread that compresses blocks and writes the file, so that whoever pushes events need not wait
//! for either.
//!
//! ```text
//!   Writer ── jobs, in order, a few at a time ──▶ press ──▶ file
//!     ▲                                             │
//!     └───────────── emptied encoders ──────────────┘
//! ```
//!
//! Invariants: the file is what the jobs say, in their order, whatever the timing; after the first
//! error nothing more is written, and every later [`Press::send`] or [`Press::settle`] reports it.

use super::{Job, Pressed};
use crate::block::{BlockHeader, HEADER_LEN, Kind};
use crate::codec::Encoder;
use crate::event::{ProcessId, ThreadId, Tick};
use crate::index::{self, Entry};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Level 3 is zstd's own default; FORMAT.md has the measurement.
const ZSTD_LEVEL: i32 = 3;
/// Jobs that may wait: blocks of 64 KiB.
const WAITING: usize = 16;
/// Bytes collected before a write.
const BUFFER_BYTES: usize = 256 << 10;

/// The writer's end of the press.
pub(super) struct Press {
    /// None once the press was told to stop.
    jobs: Option<SyncSender<Job>>,
    pressed: Receiver<Pressed>,
    thread: Option<JoinHandle<()>>,
    /// Encoders without a thread.
    spare: Vec<Box<Encoder>>,
    failed: Option<io::Error>,
    bytes: u64,
}

impl Press {
    /// Starts the press on a new file.
    pub(super) fn start(file: File) -> io::Result<Press> {
        let zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL)?;
        let (jobs, work) = sync_channel(WAITING);
        let (done, pressed) = channel();
        let sink = Sink {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            offset: 0,
            entries: Vec::new(),
            zstd,
            scratch: Vec::new(),
            stored: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("trace writer".into())
            .spawn(move || sink.serve(&work, &done))?;
        let (jobs, thread) = (Some(jobs), Some(thread));
        Ok(Press { jobs, pressed, thread, spare: Vec::new(), failed: None, bytes: 0 })
    }

    /// Hands a job over; waits while many are under way.
    pub(super) fn send(&mut self, job: Job) -> io::Result<()> {
        while let Ok(pressed) = self.pressed.try_recv() {
            self.hear(pressed);
        }
        self.report()?;
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(job));
        // The press goes before its jobs only if it panics.
        sent.and_then(Result::ok).ok_or_else(|| io::Error::other("the trace writer is gone"))
    }

    /// Waits until everything sent so far is in the file.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.send(Job::Settle)?;
        loop {
            match self.pressed.recv() {
                Ok(Pressed::Settled) => return self.report(),
                Ok(pressed) => self.hear(pressed),
                Err(_) => return Err(io::Error::other("the trace writer is gone")),
            }
        }
    }

    /// An empty encoder.
    pub(super) fn encoder(&mut self) -> Box<Encoder> {
        self.spare.pop().unwrap_or_else(|| Encoder::new().into())
    }

    /// Bytes of the file, as far as the press has told.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn hear(&mut self, pressed: Pressed) {
        match pressed {
            Pressed::Block(encoder, bytes) => {
                self.spare.push(encoder);
                self.bytes = bytes;
            }
            Pressed::Length(bytes) => self.bytes = bytes,
            Pressed::Failed(error) => self.failed = self.failed.take().or(Some(error)),
            Pressed::Settled => {}
        }
    }

    /// The first error, every time.
    fn report(&self) -> io::Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(match error.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::new(error.kind(), error.to_string()),
            }),
        }
    }
}

impl Drop for Press {
    /// What was sent is written, so that a writer that is dropped leaves a readable file.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the press has been printed by itself.
            let _ = thread.join();
        }
    }
}

/// The file, and what is needed to store a block.
struct Sink {
    file: BufWriter<File>,
    offset: u64,
    entries: Vec<Entry>,
    zstd: zstd::bulk::Compressor<'static>,
    scratch: Vec<u8>,
    stored: Vec<u8>,
}

impl Sink {
    /// Works until the writer is gone. Nobody listens any more when an answer cannot be sent.
    fn serve(mut self, work: &Receiver<Job>, done: &Sender<Pressed>) {
        let mut failed = false;
        while let Ok(job) = work.recv() {
            let settles = matches!(job, Job::Settle);
            if !failed {
                let pressed = self.perform(job).unwrap_or_else(Pressed::Failed);
                failed = matches!(pressed, Pressed::Failed(_));
                let _ = done.send(pressed);
            }
            if settles {
                let _ = done.send(Pressed::Settled);
            }
        }
        // As when a buffered file is dropped: whoever needs to know has it settled first.
        let _ = self.file.flush();
    }

    fn perform(&mut self, job: Job) -> io::Result<Pressed> {
        match job {
            Job::Head(bytes) => self.write(&bytes)?,
            Job::Block(process, thread, sequence, mut encoder) => {
                self.store_events(process, thread, sequence, &encoder)?;
                encoder.clear();
                return Ok(Pressed::Block(encoder, self.offset));
            }
            Job::Table(kind, process, count, raw) => {
                self.store_table(kind, process, count, &raw)?;
            }
            Job::Index => self.store_index()?,
            Job::Settle => self.file.flush()?,
        }
        Ok(Pressed::Length(self.offset))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn store_events(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        sequence: u32,
        encoder: &Encoder,
    ) -> io::Result<()> {
        let mut stored = std::mem::take(&mut self.stored);
        stored.clear();
        encoder.store(&mut self.zstd, &mut self.scratch, &mut stored)?;
        let header = BlockHeader {
            kind: Kind::EVENTS,
            process,
            thread,
            first: encoder.first(),
            last: encoder.last(),
            count: encoder.count(),
            raw_len: encoder.raw_len() as u32,
            stored_len: stored.len() as u32,
            crc: crc32fast::hash(&stored),
            sequence,
        };
        let done = self.store(header, &stored);
        self.stored = stored;
        done
    }

    fn store_index(&mut self) -> io::Result<()> {
        let offset = self.offset;
        let raw = index::encode(&self.entries);
        self.store_table(Kind::INDEX, ProcessId(0), self.entries.len(), &raw)?;
        self.write(&offset.to_le_bytes())?;
        self.write(&index::END_MAGIC)
    }

    fn store_table(
        &mut self,
        kind: Kind,
        process: ProcessId,
        count: usize,
        raw: &[u8],
    ) -> io::Result<()> {
        let stored = self.zstd.compress(raw)?;
        let header = BlockHeader {
            kind,
            process,
            thread: ThreadId(0),
            first: Tick(0),
            last: Tick(0),
            count: fits(count)?,
            raw_len: fits(raw.len())?,
            stored_len: fits(stored.len())?,
            crc: crc32fast::hash(&stored),
            sequence: 0,
        };
        self.store(header, &stored)
    }

    fn store(&mut self, header: BlockHeader, stored: &[u8]) -> io::Result<()> {
        debug_assert_eq!(header.stored_len as usize, stored.len());
        let offset = self.offset;
        self.write(&header.encode())?;
        self.write(stored)?;
        self.entries.push(Entry { offset, header });
        debug_assert_eq!(self.offset, offset + (HEADER_LEN + stored.len()) as u64);
        Ok(())
    }
}

fn fits(len: usize) -> io::Result<u32> {
    u32::try_from(len).map_err(|_| io::Error::other("a table of the trace exceeds 4 GiB"))
}
