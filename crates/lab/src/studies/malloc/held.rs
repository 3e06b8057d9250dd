//! Held to reality: the same trace on the real library, whose resident memory the kernel counts.
//!
//! The real replay leaves out the program's own computing, so it is faster than the program was, and the purger comes less
//! often. The simulation is therefore run once more with a clock that is as much faster. From the real figure is subtracted what
//! `freehold-replayer` has before its first event without the library. What the library adds to that before the first event stays in
//! it, and is named beside it: it is most of the difference where a program needs little memory.

use crate::malloc::{self, Settings};
use crate::real::{self, Allocator, Measured, RealError};
use crate::results::{Causes, Outcome};
use crate::simulate::{self, SimulateError};
use freehold_trace::Trace;
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// How near the simulated peak is to be: 5 %.
const NEAR: f64 = 0.05;
/// Real replays of each program.
const RUNS: u32 = 5;

/// One program, simulated and real. Bytes; peaks.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Held {
    /// Simulated.
    pub simulated: u64,
    /// Real, the median of the runs.
    pub real: u64,
    /// Of the real one, what the library has before the first event: its own data, which the simulation does not have.
    pub library: u64,
    /// Of the run that needed least.
    pub real_least: u64,
    /// Of the run that needed most.
    pub real_most: u64,
    /// When the trace ended: simulated, real.
    pub last: (u64, u64),
    /// Page faults, a number: simulated, real.
    pub faults: (u64, u64),
    /// How many times faster than the program the real replay was.
    pub speed: f64,
    /// Whether the machine gives huge pages to programs that ask for them.
    pub huge_pages: bool,
    /// The simulated peak by cause.
    pub at_peak: Causes,
}

impl Held {
    fn of(simulated: &Outcome, measured: &Measured, settings: &Settings) -> Held {
        let real = &measured.outcome;
        let spread = real.spread.unwrap_or_default();
        Held {
            simulated: simulated.peak_memory,
            real: real.peak_memory,
            library: measured.at_start,
            real_least: spread.memory_min,
            real_most: spread.memory_max,
            last: (simulated.final_memory, real.final_memory),
            faults: (simulated.page_faults.unwrap_or(0), real.page_faults.unwrap_or(0)),
            speed: settings.speed,
            huge_pages: settings.huge_pages,
            at_peak: simulated.paged.as_ref().map(|paged| paged.at_peak).unwrap_or_default(),
        }
    }

    /// What is simulated too much, over what is real.
    pub fn share(&self) -> f64 {
        self.simulated as f64 / self.real.max(1) as f64 - 1.0
    }

    /// Whether the two are as near as they are to be.
    pub fn is_near(&self) -> bool {
        self.share().abs() <= NEAR
    }
}

/// Why the two cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// The simulation, or the trace.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// The real replay.
    #[error(transparent)]
    Real(#[from] RealError),
}

impl HeldError {
    /// Whether it only says that the user asked to stop.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Simulate(SimulateError::Interrupted) | Self::Real(RealError::Interrupted)
        )
    }
}

/// Replays the busiest process of a trace on the real `library`, and then simulates the same at its speed. `None` where
/// nothing was allocated.
///
/// # Errors
/// When either fails or `interrupted` becomes true.
pub fn hold(
    trace: &Trace,
    library: &Allocator,
    replayer: &Path,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Option<Held>, HeldError> {
    let Some(process) = simulate::busiest(trace) else { return Ok(None) };
    let survey = simulate::survey(trace, process, &mut |_, _| (), interrupted)?;
    let options = real::Options { repeats: RUNS, ..real::Options::default() };
    let libraries = std::slice::from_ref(library);
    let measured =
        real::replay(trace, process, libraries, &options, replayer, progress, interrupted)?;
    let Some(measured) = measured.into_iter().next() else { return Ok(None) };
    let measured = measured?;
    let speed = survey.facts.seconds / measured.outcome.seconds.unwrap_or(1.0).max(1e-9);
    let settings =
        Settings { huge_pages: gives_huge_pages(), speed: speed.max(1e-3), ..Settings::default() };
    let (simulated, _) =
        malloc::replay(trace, process, &survey, &settings, &mut |_, _| (), interrupted)?;
    Ok(Some(Held::of(&simulated, &measured, &settings)))
}

/// Whether this machine gives huge pages to programs that ask for them.
fn gives_huge_pages() -> bool {
    let said = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    said.is_ok_and(|text| text.contains("[madvise]") || text.contains("[always]"))
}
