//! What a trace says about a program: counts, sizes, lifetimes, live memory, threads.
//!
//! Each process is read alone and handed out as soon as it is profiled; what all of them had live at once comes of
//! another pass over all events in the order of time, which knows of each object no more than its size ([`total`]).
//! The two run side by side. A trace of one process takes one pass for both.
//!
//! Invariant: memory grows with the live objects and the open blocks of processes that are alive at once, and with
//! one profile, never with the length of the trace or the number of its processes (but for a few words of each);
//! everything kept per event is folded into bounded histograms ([`histogram`]), curves ([`curve`]) and counts.
//!
//! Conventions. *Live bytes* are bytes asked for. The *allocation clock* advances by the size of
//! each allocation and by the growth of each reallocation. A lifetime runs from the allocation to
//! the free; a reallocation continues it. A forked child's live memory begins with what it
//! inherits; the total over processes counts those objects once, for the parent.

mod calls;
mod curve;
mod figures;
mod frees_between;
mod histogram;
pub(crate) mod live;
mod process;
mod size_by_lifetime;
#[cfg(test)]
mod tests;
mod top_sizes;
mod total;

pub use calls::Calls;
pub use curve::Point;
pub use figures::{Figures, Lifetimes, Peak};
pub use frees_between::FreesBetween;
pub use histogram::Bucket;
pub use process::{ProcessProfile, ThreadProfile};
pub use size_by_lifetime::Cell;
pub use top_sizes::TopSize;
pub use total::TotalProfile;

use freehold_trace::{Damage, Header, ProcessId, ProcessInfo, ReadError, Records, Run, Trace};
use process::{Process, Sums};
use serde::Serialize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use total::Total;

/// Raised when a field of the JSON changes its meaning.
pub const PROFILE_SCHEMA: u32 = 2;

/// Events between two looks at the stop flag.
const STRIDE: u64 = 1 << 18;

/// What `freehold info` knows beside the processes.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// [`PROFILE_SCHEMA`].
    pub schema: u32,
    /// Facts about the recording.
    pub header: Header,
    /// Length of the trace file in bytes.
    pub file_bytes: u64,
    /// Over all processes looked at.
    pub total: TotalProfile,
    /// How many those are.
    #[serde(skip)]
    pub processes: usize,
    /// What could not be read, if anything.
    pub damage: Vec<Damage>,
}

/// Profiles a trace, or one process of it. Each process is handed to `each` when it is known, in the order of their
/// numbers, before the total is; `each` says whether to go on. `None` when it did not, or when `stop` was raised.
///
/// # Errors
/// When the operating system refuses to read; damage is no error, it is listed in the profile.
pub fn profile(
    trace: &Trace,
    only: Option<ProcessId>,
    each: &mut dyn FnMut(ProcessProfile) -> bool,
    progress: &mut dyn FnMut(u64, u64),
    stop: &AtomicBool,
) -> Result<Option<Profile>, ReadError> {
    let all = trace.processes().iter();
    let chosen: Vec<&ProcessInfo> =
        all.filter(|info| only.is_none_or(|only| info.id == only)).collect();
    let mut total = Total::new(&chosen);
    let mut sums = Sums::default();
    let control = Control { stop, halt: AtomicBool::new(false), done: AtomicU64::new(0) };
    let damage = match chosen[..] {
        [one] => {
            let expected = trace.events_of(one.id);
            let mut told = |done| progress(done, expected);
            let mut pass = Pass { control: &control, progress: Some(&mut told) };
            pass.alone(trace, one, &mut total, &mut sums, each)?
        }
        _ => {
            let mut told = |done| progress(done, trace.events() * 2);
            let mut pass = Pass { control: &control, progress: Some(&mut told) };
            thread::scope(|scope| {
                let together = scope.spawn(|| {
                    Pass { control: &control, progress: None }.together(trace, &mut total)
                });
                let whole = pass.each(trace, &chosen, &mut sums, each);
                control.halt.store(!matches!(whole, Ok(true)), Ordering::Relaxed);
                let damage = together.join().unwrap_or_else(|panic| resume_unwind(panic));
                whole.and_then(|whole| if whole { damage } else { Ok(None) })
            })?
        }
    };
    let Some(found) = damage else { return Ok(None) };
    let header = trace.header().clone();
    Ok(Some(Profile {
        schema: PROFILE_SCHEMA,
        total: total.finish(&header, &sums),
        header,
        file_bytes: trace.file_len(),
        processes: chosen.len(),
        damage: trace.damage().iter().cloned().chain(found).collect(),
    }))
}

/// What both passes see.
struct Control<'a> {
    /// The user asked to stop.
    stop: &'a AtomicBool,
    /// The other pass has failed or was told to stop.
    halt: AtomicBool,
    /// Events read.
    done: AtomicU64,
}

impl Control<'_> {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && !self.halt.load(Ordering::Relaxed)
    }
}

/// A pass over the events. Of two, one tells how far both are.
struct Pass<'a> {
    control: &'a Control<'a>,
    progress: Option<&'a mut dyn FnMut(u64)>,
}

impl Pass<'_> {
    /// The only process, and the total with it. What could not be read; `None` when told to stop.
    fn alone(
        &mut self,
        trace: &Trace,
        info: &ProcessInfo,
        total: &mut Total,
        sums: &mut Sums,
        each: &mut dyn FnMut(ProcessProfile) -> bool,
    ) -> Result<Option<Vec<Damage>>, ReadError> {
        let mut records = trace.records_of(info.id)?;
        let mut process = Process::new(info);
        total.enter(info.id);
        let whole = self.read(&mut records, |run| {
            process.enter(run.thread);
            for timed in run.events {
                total.see(timed.tick, process.see(timed.tick, &timed.event));
            }
        })?;
        sums.merge(&process.sums);
        let goes_on = whole && each(process.finish(trace.header()));
        Ok(goes_on.then(|| records.damage().to_vec()))
    }

    /// One process after the other. False when told to stop.
    fn each(
        &mut self,
        trace: &Trace,
        infos: &[&ProcessInfo],
        sums: &mut Sums,
        each: &mut dyn FnMut(ProcessProfile) -> bool,
    ) -> Result<bool, ReadError> {
        for info in infos {
            let mut records = trace.records_of(info.id)?;
            let mut process = Process::new(info);
            let whole = self.read(&mut records, |run| {
                process.enter(run.thread);
                for timed in run.events {
                    process.see(timed.tick, &timed.event);
                }
            })?;
            sums.merge(&process.sums);
            if !whole || !each(process.finish(trace.header())) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// All processes at once, for the total. What could not be read; `None` when told to stop.
    fn together(
        &mut self,
        trace: &Trace,
        total: &mut Total,
    ) -> Result<Option<Vec<Damage>>, ReadError> {
        let mut records = trace.records()?;
        let whole = self.read(&mut records, |run| {
            total.enter(run.process);
            for timed in run.events {
                total.follow(timed.tick, &timed.event);
            }
        })?;
        Ok(whole.then(|| records.damage().to_vec()))
    }

    /// Hands all runs to `see`. False when told to stop.
    fn read(
        &mut self,
        records: &mut Records,
        mut see: impl FnMut(&Run<'_>),
    ) -> Result<bool, ReadError> {
        let (mut told, mut report_at) = (0, STRIDE);
        while let Some(run) = records.next_run()? {
            see(&run);
            if records.given() >= report_at {
                self.tell(records.given() - told);
                told = records.given();
                report_at = told + STRIDE;
                if !self.control.goes_on() {
                    return Ok(false);
                }
            }
        }
        self.tell(records.given() - told);
        Ok(self.control.goes_on())
    }

    /// So many events more.
    fn tell(&mut self, events: u64) {
        let done = self.control.done.fetch_add(events, Ordering::Relaxed) + events;
        if let Some(progress) = &mut self.progress {
            progress(done);
        }
    }
}
