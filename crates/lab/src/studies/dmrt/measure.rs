//! One attempt of one allocator, measured: a row of the study.

use super::config::{DMRT, Plan};
use super::instructions::Counted;
use crate::measure::{FragmentationMeter, StepHistogram};
use crate::models;
use freehold_blocks::policy::{Policy, Visitor};
use freehold_blocks::{BlockHeap, DmrtLists};
use freehold_core::place::Path;
use freehold_sim::numa::{
    self, Background, Backing, Machine, Memory, NoRoom, Request, Seen, Setup, Watch,
};
use freehold_stepper::Stepper;
use serde::Serialize;
use std::cell::RefCell;

/// Classes of requested sizes: small, normal, large.
pub const CLASSES: usize = 3;

/// What one attempt of one allocator came to. Counts, bytes, nanoseconds; ratios as plain numbers.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Row {
    /// The chapter's number of the case.
    pub case: u32,
    /// Requests of the attempt.
    pub requests: u32,
    /// The allocator.
    pub allocator: &'static str,
    /// The path it went.
    pub path: String,
    /// Which attempt, from 0.
    pub attempt: u32,
    /// Requests served.
    pub satisfied: u32,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes served.
    pub bytes_satisfied: u64,
    /// Requests of each class.
    pub by_class: [u32; CLASSES],
    /// Of these, served.
    pub by_class_satisfied: [u32; CLASSES],
    /// Served from the own node.
    pub from_local: u32,
    /// Served from the shared memory.
    pub from_shared: u32,
    /// Served from another node.
    pub from_remote: u32,
    /// Failed although a memory that was tried had bytes enough free.
    pub failed_with_room: u32,
    /// Simulated nanoseconds of all calls.
    pub ns: u64,
    /// Steps of all calls.
    pub steps: u64,
    /// Mean steps of a call.
    pub steps_mean: f64,
    /// Its 99th percentile.
    pub steps_p99: u64,
    /// The worst call.
    pub steps_max: u64,
    /// 1 - longest free block / free bytes, averaged over requests and the memories of the path.
    pub external: f64,
    /// 1 - bytes alive / bytes of their blocks, averaged over requests.
    pub internal: f64,
    /// Johnstone and Wilson's third measure.
    pub jw3: f64,
    /// Johnstone and Wilson's fourth measure.
    pub jw4: f64,
}

/// What an allocator is run on.
pub struct Run<'a> {
    /// The study.
    pub plan: &'a Plan,
    /// The allocator.
    pub allocator: &'static str,
    /// Its path.
    pub path: Path,
    /// Its machine.
    pub machine: &'a Machine,
    /// What is there before.
    pub background: &'a Background,
    /// The requests.
    pub requests: &'a [Request],
    /// Memory to simulate with.
    pub backing: &'a mut Backing,
    /// Who counts instructions in place of steps, if somebody does.
    pub stepper: Option<&'a RefCell<Stepper>>,
}

impl Run<'_> {
    /// Runs it. Case and attempt of the row are left to the caller.
    ///
    /// # Errors
    /// When it could not begin.
    pub fn measure(self) -> Result<Row, NoRoom> {
        if self.allocator == DMRT {
            let params = self.plan.dmrt;
            return self.with(|region| {
                BlockHeap::<DmrtLists<0>>::with_index(region, DmrtLists::with(params))
            });
        }
        models::dispatch(self.allocator, self).unwrap_or_else(|| Ok(Row::default()))
    }

    fn with<P: Policy>(
        self,
        make: impl Fn(freehold_blocks::Region) -> Option<P>,
    ) -> Result<Row, NoRoom> {
        let plan = self.plan;
        let setup = Setup {
            machine: self.machine,
            costs: &plan.costs,
            path: self.path,
            effort: plan.effort,
            thresholds: plan.thresholds,
            background: self.background,
            free_of_charge: plan.free_of_charge,
        };
        let mut meter = Meter::new(self.allocator, self.path);
        match self.stepper {
            None => numa::run(self.backing, &setup, self.requests, make, &mut meter)?,
            Some(stepper) => {
                let make = |region| Some(Counted::of(make(region)?, stepper));
                numa::run(self.backing, &setup, self.requests, make, &mut meter)?;
            }
        }
        Ok(meter.finish())
    }
}

impl Visitor for Run<'_> {
    type Out = Result<Row, NoRoom>;

    fn visit<P: Policy>(self) -> Self::Out {
        self.with(P::new)
    }
}

/// Watches a run.
struct Meter {
    row: Row,
    steps: StepHistogram,
    fragmentation: FragmentationMeter,
    external_sum: f64,
    internal_sum: f64,
}

/// The class of a requested size, by the chapter's limits.
pub fn class_of(size: u64) -> usize {
    match size {
        0..512 => 0,
        512..0x20_0000 => 1,
        _ => 2,
    }
}

impl Meter {
    fn new(allocator: &'static str, path: Path) -> Self {
        let row = Row { allocator, path: path.to_string(), ..Row::default() };
        let (steps, fragmentation) = (StepHistogram::default(), FragmentationMeter::default());
        Self { row, steps, fragmentation, external_sum: 0.0, internal_sum: 0.0 }
    }

    fn call(&mut self, steps: u64, ns: u64) {
        self.steps.add(steps);
        self.row.ns += ns;
    }

    fn finish(mut self) -> Row {
        let (steps, jw) = (self.steps.finish(), self.fragmentation.finish());
        let requests = f64::from(self.row.requests.max(1));
        self.row.steps = steps.total;
        self.row.steps_mean = steps.mean;
        self.row.steps_p99 = steps.p99;
        self.row.steps_max = steps.max;
        self.row.external = self.external_sum / requests;
        self.row.internal = self.internal_sum / requests;
        (self.row.jw3, self.row.jw4) = (jw.at_peak_used, jw.peak_over_peak);
        self.row
    }

    fn served(&mut self, seen: &Seen<'_>, from: Memory) {
        let (row, size) = (&mut self.row, seen.request.size);
        row.satisfied += 1;
        row.bytes_satisfied += size;
        row.by_class_satisfied[class_of(size)] += 1;
        match from {
            Memory::Shared => row.from_shared += 1,
            Memory::Of(node) if node == seen.request.node => row.from_local += 1,
            Memory::Of(_) => row.from_remote += 1,
        }
    }
}

impl Watch for Meter {
    fn freed(&mut self, steps: u64, ns: u64) {
        self.call(steps, ns);
    }

    fn asked(&mut self, seen: Seen<'_>) {
        self.call(seen.steps, seen.ns);
        self.row.requests += 1;
        self.row.bytes += seen.request.size;
        self.row.by_class[class_of(seen.request.size)] += 1;
        self.row.failed_with_room += u32::from(seen.room_enough);
        if let Some(from) = seen.served {
            self.served(&seen, from);
        }
        let state = seen.state;
        self.external_sum += state.external;
        self.internal_sum += 1.0 - state.live as f64 / state.gross.max(1) as f64;
        self.fragmentation.observe(state.live, state.extent);
    }
}
