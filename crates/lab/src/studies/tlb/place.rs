//! A recorded program on a policy: which addresses its words have, and what its pieces of work are.

use super::packing::Packing;
use super::steps::Steps;
use crate::models::dispatch;
use crate::simulate::memory::Memory;
use freehold_core::policy::{Policy, Visitor};
use freehold_core::units::Align;
use freehold_sim::processors::{Op, Work};
use freehold_trace::{Event, ObjectId, ProcessId, ReadError, Request, Trace};
use freehold_workloads::access::{BARRIER, TASK};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

/// Length of the region: address space only, until it is touched.
const REGION: u64 = 16 << 30;
/// Events between two looks at the interruption flag.
const PATIENCE: u64 = 1 << 16;

/// Why a trace could not be placed.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
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
    /// A real malloc under which the application did not run.
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
    /// Words whose object was not there: freed just then, or refused by the policy.
    pub unplaced: u64,
    /// Recorded stretches: iterations of the application.
    pub stretches: u64,
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
        let mut placer = Placer::new(P::new(region).ok_or_else(error)?, base);
        let mut records = self.trace.records_of(self.process)?;
        let mut seen = 0;
        while let Some(run) = records.next_run()? {
            run.events.iter().for_each(|timed| placer.apply(&timed.event));
            seen += run.events.len() as u64;
            if seen >= PATIENCE {
                seen = 0;
                if self.interrupted.load(Ordering::Relaxed) {
                    return Err(PlaceError::Interrupted);
                }
            }
        }
        placer.finish().ok_or(PlaceError::NoAccesses)
    }
}

/// An object alive in the policy.
#[derive(Clone, Copy)]
struct Object {
    payload: NonNull<u8>,
    size: u64,
}

struct Placer<P> {
    policy: P,
    base: u64,
    objects: Vec<Option<Object>>,
    steps: Steps,
    sample: Sample,
    packing: Vec<Packing>,
    is_watched: bool,
}

impl<P: Policy> Placer<P> {
    fn new(policy: P, base: u64) -> Self {
        let (steps, sample) = (Steps::default(), Sample::default());
        let (objects, packing) = (Vec::new(), Vec::new());
        Placer { policy, base, objects, steps, sample, packing, is_watched: false }
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
        let payload = self.policy.alloc(request.size, align, &mut ());
        self.objects[index] = payload.map(|payload| Object { payload, size: request.size });
    }

    fn free(&mut self, object: ObjectId) {
        let slot = self.objects.get_mut(object.0 as usize);
        if let Some(Object { payload, .. }) = slot.and_then(Option::take) {
            // SAFETY: the payload is this policy's and alive; the table names it no more.
            unsafe { self.policy.free(payload, &mut ()) };
        }
    }

    /// In place where the policy can, else anew.
    fn realloc(&mut self, object: ObjectId, request: &Request) {
        let known = self.objects.get(object.0 as usize).copied().flatten();
        if let Some(Object { payload, .. }) = known {
            // SAFETY: the payload is this policy's and alive.
            if unsafe { self.policy.resize_in_place(payload, request.size, &mut ()) } {
                self.objects[object.0 as usize] = Some(Object { payload, size: request.size });
                return;
            }
        }
        let old = self.objects.get_mut(object.0 as usize).and_then(Option::take);
        self.alloc(object, request);
        if let Some(Object { payload, .. }) = old {
            // SAFETY: as above; the table names the new payload.
            unsafe { self.policy.free(payload, &mut ()) };
        }
    }

    fn call(&mut self, op: Op) {
        if self.is_watched {
            self.sample.calls += 1;
            self.steps.call(op);
        }
    }

    fn access(&mut self, object: ObjectId, offset: u64, write: bool) {
        if offset == BARRIER as u64 || offset == TASK as u64 {
            return self.mark(object, offset, write);
        }
        if !self.is_watched {
            return;
        }
        match self.objects.get(object.0 as usize).copied().flatten() {
            Some(Object { payload, size }) if offset < size => {
                self.steps.touch(payload.addr().get() as u64 - self.base + offset, 1);
            }
            _ => self.sample.unplaced += 1,
        }
    }

    /// A mark of the application; see `freehold_workloads::access`.
    fn mark(&mut self, object: ObjectId, mark: u64, write: bool) {
        let beside = self.objects.get(object.0 as usize).copied().flatten();
        let home = beside.map_or(0, |object| object.payload.addr().get() as u64 - self.base);
        self.steps.begin_task(home);
        if mark == TASK as u64 {
            return;
        }
        self.steps.end_phase();
        if self.is_watched && !write {
            self.sample.stretches += 1;
            self.look();
        }
        self.is_watched = write;
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
        self.steps.finish(objects, self.sample, self.packing)
    }
}
