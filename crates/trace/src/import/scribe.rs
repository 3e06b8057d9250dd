//! Writes down the calls of one process: all that imported formats know.

use crate::error::WriteError;
use crate::event::{Event, ProcessId, Record, Request, ThreadId, Tick};
use crate::header::ProcessInfo;
use crate::namer::{Anomalies, Namer};
use crate::stacks::{StackId, Stacks};
use crate::writer::{Summary, Writer};

const PROCESS: ProcessId = ProcessId(0);

/// Names the objects and writes the events. The first error is kept for [`Scribe::check`].
pub(super) struct Scribe {
    writer: Writer,
    namer: Namer,
    /// Whose the next call is.
    thread: ThreadId,
    /// Who makes the next allocation, where the source knows.
    stack: StackId,
    /// The time of the next call, where the source has times.
    now: Option<Tick>,
    events: u64,
    error: Option<WriteError>,
}

impl Scribe {
    pub(super) fn new(writer: Writer) -> Self {
        let (namer, thread) = (Namer::new(), ThreadId(0));
        let stack = StackId::NONE;
        Self { writer, namer, thread, stack, now: None, events: 0, error: None }
    }

    /// The calls that follow happen at this time. Time does not go back.
    pub(super) fn set_time(&mut self, tick: Tick) {
        self.now = Some(self.now.map_or(tick, |now| now.max(tick)));
    }

    /// The source has a clock, which stands at 0 until it is set.
    pub(super) fn begin_clock(&mut self) {
        self.now.get_or_insert(Tick(0));
    }

    /// The calls that follow are this thread's; until it is set, the main thread's.
    pub(super) fn set_thread(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    /// The allocations that follow are made there.
    pub(super) fn set_stack(&mut self, stack: StackId) {
        self.stack = stack;
    }

    pub(super) fn alloc(&mut self, address: u64, request: Request) {
        let thread = self.thread;
        self.call(|namer, _, emit| {
            namer.alloc(PROCESS, thread, address, request, &mut |event| emit(event));
        });
    }

    pub(super) fn free(&mut self, address: u64) {
        let thread = self.thread;
        self.call(|namer, _, emit| namer.free(PROCESS, thread, address, &mut |event| emit(event)));
    }

    pub(super) fn realloc(&mut self, from: u64, to: u64, size: u64) {
        let request = Request { size, ..Request::default() };
        let thread = self.thread;
        self.call(|namer, now, emit| {
            let moving = namer.realloc_begin(PROCESS, from);
            let emit = &mut |event| emit(event);
            namer.realloc_end(PROCESS, thread, moving, to, request, now, emit);
        });
    }

    pub(super) fn failed(&mut self, request: Request) {
        self.call(|_, _, emit| emit(Event::Failed { request }));
    }

    fn call(&mut self, name: impl FnOnce(&mut Namer, Tick, &mut dyn FnMut(Event))) {
        // Without times, a tick is an event.
        let tick = self.now.unwrap_or(Tick(self.events));
        let Self { writer, namer, thread, stack, events, error, .. } = self;
        name(namer, tick, &mut |event| {
            let record = Record { tick, process: PROCESS, thread: *thread, event };
            let stack = match event {
                Event::Alloc { .. } => *stack,
                _ => StackId::NONE,
            };
            match writer.push_stacked(&record, stack) {
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

    pub(super) fn finish(
        mut self,
        command: Vec<String>,
        stacks: &Stacks,
    ) -> Result<Summary, WriteError> {
        if !stacks.is_empty() {
            self.writer.stacks(stacks)?;
        }
        self.writer.process(ProcessInfo { command, ..ProcessInfo::unseen(PROCESS) })?;
        self.writer.finish()
    }
}
