//! Writes down calls of one process and one thread: all that imported formats know.

use crate::error::WriteError;
use crate::event::{Event, ProcessId, Record, Request, ThreadId, Tick};
use crate::header::ProcessInfo;
use crate::namer::{Anomalies, Namer};
use crate::writer::{Summary, Writer};

const PROCESS: ProcessId = ProcessId(0);
const THREAD: ThreadId = ThreadId(0);

/// Names the objects and writes the events. The first error is kept for [`Scribe::check`].
pub(super) struct Scribe {
    writer: Writer,
    namer: Namer,
    /// The time of the next call, where the source has times.
    now: Option<Tick>,
    events: u64,
    error: Option<WriteError>,
}

impl Scribe {
    pub(super) fn new(writer: Writer) -> Self {
        Self { writer, namer: Namer::new(), now: None, events: 0, error: None }
    }

    /// The calls that follow happen at this time. Time does not go back.
    pub(super) fn set_time(&mut self, tick: Tick) {
        self.now = Some(self.now.map_or(tick, |now| now.max(tick)));
    }

    /// The source has a clock, which stands at 0 until it is set.
    pub(super) fn begin_clock(&mut self) {
        self.now.get_or_insert(Tick(0));
    }

    pub(super) fn alloc(&mut self, address: u64, size: u64) {
        let request = Request { size, ..Request::default() };
        self.call(|namer, _, emit| {
            namer.alloc(PROCESS, THREAD, address, request, &mut |event| emit(event));
        });
    }

    pub(super) fn free(&mut self, address: u64) {
        self.call(|namer, _, emit| namer.free(PROCESS, THREAD, address, &mut |event| emit(event)));
    }

    pub(super) fn realloc(&mut self, from: u64, to: u64, size: u64) {
        let request = Request { size, ..Request::default() };
        self.call(|namer, now, emit| {
            let moving = namer.realloc_begin(PROCESS, from);
            let emit = &mut |event| emit(event);
            namer.realloc_end(PROCESS, THREAD, moving, to, request, now, emit);
        });
    }

    pub(super) fn failed(&mut self, size: u64) {
        let request = Request { size, ..Request::default() };
        self.call(|_, _, emit| emit(Event::Failed { request }));
    }

    fn call(&mut self, name: impl FnOnce(&mut Namer, Tick, &mut dyn FnMut(Event))) {
        // Without times, a tick is an event.
        let tick = self.now.unwrap_or(Tick(self.events));
        let Self { writer, namer, events, error, .. } = self;
        name(namer, tick, &mut |event| {
            let record = Record { tick, process: PROCESS, thread: THREAD, event };
            match writer.push(&record) {
                Ok(()) => *events += 1,
                Err(refused) => *error = error.take().or(Some(refused)),
            }
        });
    }

    pub(super) fn check(&mut self) -> Result<(), WriteError> {
        self.error.take().map_or(Ok(()), Err)
    }

    pub(super) fn anomalies(&self) -> Anomalies {
        self.namer.anomalies(PROCESS)
    }

    pub(super) fn abandon(self) {
        self.writer.abandon();
    }

    pub(super) fn finish(mut self, command: Vec<String>) -> Result<Summary, WriteError> {
        self.writer.process(ProcessInfo { command, ..ProcessInfo::unseen(PROCESS) })?;
        self.writer.finish()
    }
}
