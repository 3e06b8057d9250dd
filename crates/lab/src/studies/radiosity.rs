//! `freehold study radiosity`: the application under every allocator, for real and replayed.
//!
//! ```text
//!   claims    what the paper says, and what came of it
//!   measure   real runs: speed-up over threads beside a loop that allocates nothing, memory, locks
//!   median    of rounds, with its interval
//!   page      HTML: Figure 1 from the recorded trace, speed-up, memory in use
//! ```
//!
//! Invariant: what is measured is named with the machine's processor count; a speed-up is compared only
//! with the loop that ran in the same round, and policies (simulated) are never ranked against
//! allocators (measured).

mod claims;
mod measure;
mod median;
mod page;

pub use measure::{
    Locks, MeasureError, Program, RunRow, Scaled, Server, Summary, loop_seconds, measure, scale,
    watch_locks, write_rows,
};
pub use median::Median;
pub use page::page;

use crate::profile::Point;
use serde::Serialize;

/// Version of the JSON.
pub const SCHEMA_VERSION: u32 = 4;
/// The paper's Figure 1: bytes allocated, useful bytes, and the share of allocated memory in use.
pub const PAPER_ALLOCATED: u64 = 120_000_000;
/// Bytes alive at the end of it.
pub const PAPER_USEFUL: u64 = 10_000_000;
/// "86 % of the allocated memory is actually used".
pub const PAPER_IN_USE: f64 = 0.86;

/// Figure 1: the recorded program's own profile, the same under any allocator.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Profiled {
    /// Bytes allocated in all.
    pub allocated: u64,
    /// Most bytes alive at once.
    pub peak_live: u64,
    /// Objects allocated.
    pub objects: u64,
    /// Live bytes over bytes allocated.
    pub curve: Vec<Point>,
}

/// A policy's memory under the recorded calls.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyUse {
    /// The policy.
    pub policy: String,
    /// Peak of its heap's extent in bytes.
    pub peak_memory: u64,
    /// Peak of live bytes over that.
    pub in_use: f64,
    /// External fragmentation at the end, where it was measured.
    pub external: Option<f64>,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Version of this shape.
    pub schema_version: u32,
    /// Processors of this machine.
    pub processors: usize,
    /// Figure 1.
    pub profile: Profiled,
    /// Each malloc and scheme of core's, with each thread count.
    pub allocators: Vec<Summary>,
    /// Who waits for the schemes' locks.
    pub locks: Vec<Locks>,
    /// Ever finer scenes under each.
    pub scaled: Vec<Scaled>,
    /// Each policy.
    pub policies: Vec<PolicyUse>,
}

impl Results {
    /// The answer in a few sentences.
    pub fn answer(&self) -> Vec<String> {
        let Profiled { allocated, peak_live, .. } = self.profile;
        let mut answer = vec![format!(
            "A program that computes how light spreads in a room of 534 surfaces allocates {:.0} MB to keep \
             {:.1} MB, {:.1} times as much (the program of the paper: 120 MB for 10, 12 times).",
            allocated as f64 / 1e6,
            peak_live as f64 / 1e6,
            allocated as f64 / peak_live.max(1) as f64
        )];
        let best = self
            .allocators
            .iter()
            .filter(|summary| summary.threads == 2 && summary.against_loop.median.is_finite())
            .max_by(|a, b| a.against_loop.median.total_cmp(&b.against_loop.median));
        if let Some(best) = best {
            answer.push(format!(
                "With two threads {} gains {:.2}, a loop that allocates nothing {:.2} in the same rounds: \
                 {:.2} of it ({:.2} to {:.2}; {} processors here).",
                best.allocator,
                best.speed_up,
                best.loop_speed_up,
                best.against_loop.median,
                best.against_loop.low,
                best.against_loop.high,
                self.processors
            ));
        }
        let refused: usize = self.allocators.iter().map(|summary| summary.refused).sum();
        if refused > 0 {
            answer.push(format!(
                "{refused} rounds are refused: the loop seemed to gain more than there are processors, so something else used \
                 this machine."
            ));
        }
        answer.extend(self.on_locks());
        answer.extend(self.on_large_inputs());
        let counted = super::claims::counted(&claims::claims(self));
        answer.push(format!("Of what the paper says, within a tenth of its figures: {counted}."));
        answer
    }

    /// How often threads wait.
    fn on_locks(&self) -> Option<String> {
        let most = self.locks.iter().map(|locks| locks.threads).max()?;
        let waits = self.locks.iter().filter(|locks| locks.threads == most && locks.taken > 0);
        let waits: Vec<String> = waits
            .map(|locks| {
                let share = locks.contended as f64 * 100.0 / locks.taken as f64;
                format!("{} {share:.1} %", locks.scheme)
            })
            .collect();
        let shares = waits.join(", ");
        (!waits.is_empty())
            .then(|| format!("Calls that find a lock taken, with {most} threads: {shares}."))
    }

    /// Who fragments on the finest scene.
    fn on_large_inputs(&self) -> Option<String> {
        let finest = self.scaled.iter().map(|run| run.epsilon).min_by(f64::total_cmp)?;
        let in_use = |run: &Scaled| run.useful_bytes as f64 / run.peak_resident.max(1) as f64;
        let mut of: Vec<&Scaled> = self.scaled.iter().filter(|run| run.epsilon == finest).collect();
        of.sort_by(|a, b| in_use(b).total_cmp(&in_use(a)));
        let (best, worst) = (of.first()?, of.last()?);
        Some(format!(
            "With {:.0} MB of objects {} keeps {:.0} % of the process's memory in use, {} {:.0} % (the paper, \
             on its small scene: 86 %).",
            best.useful_bytes as f64 / 1e6,
            best.server,
            in_use(best) * 100.0,
            worst.server,
            in_use(worst) * 100.0
        ))
    }
}
