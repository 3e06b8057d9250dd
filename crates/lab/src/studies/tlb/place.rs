//! A recorded program on a policy or a malloc: which addresses its words have, and what its pieces of work are.

use super::packing::Packing;
use super::serve::{ByMalloc, ByPolicy, Serve};
use super::steps::{Steps, Told};
use crate::models::dispatch;
use crate::simulate::memory::Memory;
use freehold_blocks::align::Align;
use freehold_blocks::policy::{Policy, Visitor};
use freehold_sim::processors::{Op, Work};
use freehold_trace::{Event, ObjectId, OpenError, ProcessId, ReadError, Request, Trace};
use freehold_workloads::access::{ASIDE, BARRIER, PARTS, TASK};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

/// Length of the region: address space only, until it is touched.
const REGION: u64 = 16 << 30;
/// Events between two looks at the interruption flag.
const PATIENCE: u64 = 1 << 16;

/// Why a trace could not be placed.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// No accesses.
    #[error(
        "the trace holds no memory accesses; record one with \
         `freehold record -o t.fht -- freehold workload radiosity --threads 1 --accesses 10`"
    )]
    NoAccesses,
    /// No such policy.
    #[error("there is no policy named {0}; `freehold policies` lists them")]
    Unknown(String),
    /// The policy's region.
    #[error("{policy}: {bytes} bytes of address space cannot be had")]
    Memory {
        /// The policy.
        policy: String,
        /// Bytes.
        bytes: u64,
    },
    /// All loads and stores could not be counted.
    #[error("{what}")]
    Counted {
        /// What happened.
        what: String,
    },
    /// A real malloc by which nothing was placed.
    #[error("{allocator}: {what}")]
    Real {
        /// The malloc.
        allocator: String,
        /// What happened.
        what: String,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// What the recorded accesses are a sample of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Sample {
    /// Words touched, as recorded.
    pub words: u64,
    /// Words whose object was not there: freed just then, or refused.
    pub unplaced: u64,
    /// Recorded stretches: iterations of the application, with all the work on some of its surfaces.
    pub stretches: u64,
    /// Words of all other iterations, in small pieces of work.
    pub part_words: u64,
    /// Those iterations.
    pub part_stretches: u64,
    /// Phases in them.
    pub phases: u64,
    /// Pieces of work in them.
    pub tasks: u64,
    /// Allocations and frees in them.
    pub calls: u64,
    /// Objects alive at the end of the last stretch.
    pub objects: u64,
    /// Bytes of those, as asked for.
    pub live_bytes: u64,
}

/// A placed program.
#[derive(Clone, Debug)]
pub struct Placed {
    /// What the processors do.
    pub work: Work,
    /// A small share of the rest of the run, piece by piece, without its calls; may be empty.
    pub parts: Work,
    /// What it is a sample of.
    pub sample: Sample,
    /// How densely pages are filled at the end of the last recorded stretch.
    pub packing: Vec<Packing>,
}

/// Places the process's objects by the policy called `name`.
///
/// # Errors
/// As [`PlaceError`] says.
pub fn place(
    trace: &Trace,
    process: ProcessId,
    name: &str,
    interrupted: &AtomicBool,
) -> Result<Placed, PlaceError> {
    let placing = Placing { trace, process, name, interrupted };
    dispatch(name, placing).unwrap_or_else(|| Err(PlaceError::Unknown(name.to_owned())))
}

/// Places the process's objects by the malloc of this process, in a thread of its own, as most of the
/// application's are made by a thread that is not the first.
///
/// # Errors
/// As [`PlaceError`] says.
pub fn place_here(trace: &Trace, process: ProcessId) -> Result<Placed, PlaceError> {
    let never = AtomicBool::new(false);
    let place = || feed(trace, process, Placer::new(ByMalloc, 0), &never);
    let placed = std::thread::scope(|scope| scope.spawn(place).join());
    placed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Tells the placer every event.
fn feed<S: Serve>(
    trace: &Trace,
    process: ProcessId,
    mut placer: Placer<S>,
    interrupted: &AtomicBool,
) -> Result<Placed, PlaceError> {
    let mut records = trace.records_of(process)?;
    let mut seen = 0;
    while let Some(run) = records.next_run()? {
        run.events.iter().for_each(|timed| placer.apply(&timed.event));
        seen += run.events.len() as u64;
        if seen >= PATIENCE {
            seen = 0;
            if interrupted.load(Ordering::Relaxed) {
                return Err(PlaceError::Interrupted);
            }
        }
    }
    placer.finish().ok_or(PlaceError::NoAccesses)
}

struct Placing<'a> {
    trace: &'a Trace,
    process: ProcessId,
    name: &'a str,
    interrupted: &'a AtomicBool,
}

impl Visitor for Placing<'_> {
    type Out = Result<Placed, PlaceError>;

    fn visit<P: Policy>(self) -> Self::Out {
        let error = || PlaceError::Memory { policy: self.name.to_owned(), bytes: REGION };
        let mut memory = Memory::reserve(REGION).map_err(|_| error())?;
        // SAFETY: the only region of this memory; the policy is gone before the memory is.
        let region = unsafe { memory.region() }.ok_or_else(error)?;
        let base = region.base().addr().get() as u64;
        let policy = ByPolicy(P::new(region).ok_or_else(error)?);
        feed(self.trace, self.process, Placer::new(policy, base), self.interrupted)
    }
}

/// An object alive where it was placed.
#[derive(Clone, Copy)]
struct Object {
    payload: NonNull<u8>,
    size: u64,
}

struct Placer<S> {
    server: S,
    /// Addresses are told from here.
    base: u64,
    objects: Vec<Option<Object>>,
    steps: Steps,
    parts: Steps,
    sample: Sample,
    packing: Vec<Packing>,
    heard: Heard,
}

/// What the trace tells of just now.
#[derive(Clone, Copy, Default)]
struct Heard {
    /// Accesses at all.
    is_watched: bool,
    /// Small parts only.
    is_parts: bool,
    /// Work goes on that is left out.
    is_aside: bool,
}

impl<S: Serve> Placer<S> {
    fn new(server: S, base: u64) -> Self {
        let (steps, parts) = (Steps::default(), Steps::default());
        let (objects, packing) = (Vec::new(), Vec::new());
        let (sample, heard) = (Sample::default(), Heard::default());
        Placer { server, base, objects, steps, parts, sample, packing, heard }
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Alloc { object, request } | Event::Inherit { object, request } => {
                self.call(Op::Alloc(object.0));
                self.alloc(object, &request);
            }
            Event::Free { object, .. } => {
                self.call(Op::Free(object.0));
                self.free(object);
            }
            Event::Realloc { object, request, .. } => {
                self.call(Op::Free(object.0));
                self.call(Op::Alloc(object.0));
                self.realloc(object, &request);
            }
            Event::Access { object, offset, write } => self.access(object, offset, write),
            _ => {}
        }
    }

    fn alloc(&mut self, object: ObjectId, request: &Request) {
        let index = object.0 as usize;
        if index >= self.objects.len() {
            self.objects.resize(index + 1, None);
        }
        let Some(align) = Align::from_log2(request.align_log2) else { return };
        let payload = self.server.alloc(request.size, align);
        self.objects[index] = payload.map(|payload| Object { payload, size: request.size });
    }

    fn free(&mut self, object: ObjectId) {
        let slot = self.objects.get_mut(object.0 as usize);
        if let Some(Object { payload, .. }) = slot.and_then(Option::take) {
            // SAFETY: the payload is this server's and alive; the table names it no more.
            unsafe { self.server.free(payload) };
        }
    }

    /// As the server resizes, else anew.
    fn realloc(&mut self, object: ObjectId, request: &Request) {
        let known = self.objects.get(object.0 as usize).copied().flatten();
        if let Some(Object { payload, .. }) = known {
            // SAFETY: the payload is this server's and alive; the table names the answer instead.
            if let Some(payload) = unsafe { self.server.resize(payload, request.size) } {
                self.objects[object.0 as usize] = Some(Object { payload, size: request.size });
                return;
            }
        }
        let old = self.objects.get_mut(object.0 as usize).and_then(Option::take);
        self.alloc(object, request);
        if let Some(Object { payload, .. }) = old {
            // SAFETY: as above; the table names the new payload.
            unsafe { self.server.free(payload) };
        }
    }

    fn call(&mut self, op: Op) {
        let Heard { is_watched, is_parts, is_aside } = self.heard;
        if is_watched && !is_parts && !is_aside {
            self.sample.calls += 1;
            self.steps.call(op);
        }
    }

    /// What the stretch under way is written to.
    fn steps(&mut self) -> &mut Steps {
        if self.heard.is_parts { &mut self.parts } else { &mut self.steps }
    }

    fn access(&mut self, object: ObjectId, offset: u64, write: bool) {
        if offset >= PARTS as u64 {
            return self.mark(object, offset as usize, write);
        }
        if !self.heard.is_watched {
            return;
        }
        match self.objects.get(object.0 as usize).copied().flatten() {
            Some(Object { payload, size }) if offset < size => {
                let address = payload.addr().get() as u64 - self.base + offset;
                self.steps().touch(address, 1);
            }
            _ => self.sample.unplaced += 1,
        }
    }

    /// A mark of the application; see `freehold_workloads::access`.
    fn mark(&mut self, object: ObjectId, mark: usize, write: bool) {
        let beside = self.objects.get(object.0 as usize).copied().flatten();
        let home = beside.map_or(0, |object| object.payload.addr().get() as u64 - self.base);
        match mark {
            PARTS => self.heard.is_parts = true,
            ASIDE | TASK => {
                self.heard.is_aside = mark == ASIDE;
                self.steps().begin_task(home);
            }
            BARRIER => {
                self.steps().begin_task(home);
                self.steps().end_phase();
                self.end_stretch(write);
            }
            _ => self.sample.unplaced += 1,
        }
    }

    /// After a barrier: the stretch goes on, or it ends.
    fn end_stretch(&mut self, goes_on: bool) {
        if goes_on {
            self.heard.is_watched = true;
            return;
        }
        let Heard { is_watched, is_parts, .. } = std::mem::take(&mut self.heard);
        self.sample.part_stretches += u64::from(is_watched && is_parts);
        if is_watched && !is_parts {
            self.sample.stretches += 1;
            self.look();
        }
    }

    /// How things lie at the end of a stretch; the last one counts.
    fn look(&mut self) {
        let alive = || self.objects.iter().flatten();
        self.sample.objects = alive().count() as u64;
        self.sample.live_bytes = alive().map(|object| object.size).sum();
        let places: Vec<(u64, u64)> = alive()
            .map(|object| (object.payload.addr().get() as u64 - self.base, object.size))
            .collect();
        self.packing = Packing::of(&places);
    }

    fn finish(self) -> Option<Placed> {
        let objects = self.objects.len() as u32;
        let parts = self.parts.finish(objects);
        let sample = Sample { part_words: parts.words, ..self.sample };
        Placed::of(self.steps.finish(objects), parts.work, sample, self.packing)
    }
}

impl Placed {
    /// What was touched and how it lay; `None` if nothing was. Completes the sample.
    pub(super) fn of(
        told: Told,
        parts: Work,
        sample: Sample,
        packing: Vec<Packing>,
    ) -> Option<Placed> {
        let Told { work, words } = told;
        let (tasks, phases) = (work.task_ends.len() as u64, work.phase_ends.len() as u64);
        let sample = Sample { words, tasks, phases, ..sample };
        (words > 0).then_some(Placed { work, parts, sample, packing })
    }
}
