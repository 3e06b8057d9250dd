//! The one schema of results: what a replay found, whoever replayed and on whatever machine.
//!
//! Simulated policies and real allocators fill the same [`Outcome`]; what one of them cannot know is
//! `None`, never zero. JSON carries [`SCHEMA_VERSION`]; Parquet has the same columns.

mod document;
mod held;
mod output;
mod paged;
mod parquet;

pub use document::{
    Circumstances, Document, MachineFacts, ProcessFacts, Refused, Several, TraceFacts, write_json,
};
pub use held::{Held, Keeper, Moment};
pub use output::{Output, OutputError};
pub use paged::{Causes, CausesPoint, Changed, Paged};
pub use parquet::write_parquet;

use serde::{Deserialize, Serialize};

/// Raised when a field changes its meaning; new optional fields do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// How an outcome was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A policy of the core on a simulated region: exact and deterministic.
    #[default]
    Policy,
    /// A malloc on the real machine: measured.
    Allocator,
    /// Freehold's malloc, the shipped code, on a simulated machine with pages: exact and deterministic.
    Malloc,
}

/// What one replay of one trace on one policy or allocator found. Sizes in bytes, times in seconds,
/// latencies in nanoseconds, ratios as plain numbers. New fields are optional: build one with
/// `..Outcome::default()`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The policy's or allocator's name, as `--on` takes it.
    pub name: String,
    /// Simulated or real.
    pub kind: Kind,
    /// For an allocator: the library replayed on, with its version where known.
    pub library: Option<String>,
    /// Events replayed.
    pub events: u64,
    /// Wall seconds the trace took on a real allocator, the median over the runs. `None` for a
    /// policy: how long its simulation took says nothing about it and would make equal results
    /// unequal (see [`Timing`]).
    pub seconds: Option<f64>,
    /// How the runs of an allocator differed; `None` for a policy, which cannot differ.
    pub spread: Option<Spread>,
    /// Allocations that failed under the memory limit (their later frees are skipped).
    pub failures: u64,
    /// Peak of live requested bytes.
    pub peak_live: u64,
    /// Peak memory: the region's extent for a policy, resident bytes less the replayer's own for an
    /// allocator, resident bytes for the simulated malloc.
    pub peak_memory: u64,
    /// Memory when the trace ended.
    pub final_memory: u64,
    /// Johnstone and Wilson's four measures of fragmentation.
    pub johnstone_wilson: JohnstoneWilson,
    /// Internal fragmentation: 1 - requested / gross, averaged over events.
    pub internal_fragmentation: Option<f64>,
    /// External fragmentation: 1 - largest free block / all free bytes below the end of the last
    /// used block. The mean of 1,024 to 2,048 evenly spaced moments (or all there are) and the last;
    /// fewer of next fit, buddies and plain lists where blocks are many and events few, because no
    /// more blocks are walked for it than sixteen million and one for every event.
    pub external_fragmentation: Option<f64>,
    /// Steps the policy took: all, and the worst single call.
    pub steps: Option<Steps>,
    /// Latency of single calls.
    pub latency: Option<Latency>,
    /// CPU seconds, user and system.
    pub cpu_seconds: Option<f64>,
    /// Page faults taken.
    pub page_faults: Option<u64>,
    /// Live and used memory over the run: at most a few hundred points.
    pub timeline: Vec<Point>,
    /// Of the simulated malloc: its machine, its pages, and where its memory is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paged: Option<Paged>,
}

/// How far repeated runs lay apart.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Runs taken.
    pub runs: u32,
    /// Wall seconds of the fastest run.
    pub seconds_min: f64,
    /// Wall seconds of the slowest run.
    pub seconds_max: f64,
    /// Peak memory of the run that used least, bytes.
    pub memory_min: u64,
    /// Peak memory of the run that used most, bytes.
    pub memory_max: u64,
}

/// How long a simulation took: kept apart from [`Outcome`], so that results compare equal byte by
/// byte on every machine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Timing {
    /// The policy.
    pub name: String,
    /// Events replayed.
    pub events: u64,
    /// Wall seconds, decoding included.
    pub seconds: f64,
}

/// Johnstone and Wilson, "The memory fragmentation problem: solved?" (ISMM 1998), section 4: memory
/// used over memory asked for, each less 1 (0 is perfect).
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct JohnstoneWilson {
    /// #1: averaged over all points in time.
    pub average: f64,
    /// #2: at the point of most live bytes.
    pub at_peak_live: f64,
    /// #3: most memory used over the live bytes at that point.
    pub at_peak_used: f64,
    /// #4: most memory used over most live bytes.
    pub peak_over_peak: f64,
}

/// Steps as the core's probe counts them.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Steps {
    /// All steps of all calls.
    pub total: u64,
    /// Mean steps per call.
    pub mean: f64,
    /// The 99th percentile over calls.
    pub p99: u64,
    /// The worst call.
    pub max: u64,
}

/// Latency of a call, nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// 99.99th percentile.
    pub p9999: f64,
    /// The slowest call.
    pub max: f64,
    /// What the clock cannot tell apart: shorter times read as 0. 0 where it was not measured.
    #[serde(default)]
    pub resolution: f64,
}

/// One point of a timeline.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// Events replayed so far.
    pub events: u64,
    /// Bytes requested so far since the start (the paper's axis).
    pub allocated: u64,
    /// Seconds of the recorded program's time.
    pub seconds: f64,
    /// Live requested bytes.
    pub live: u64,
    /// Memory used: extent or resident bytes.
    pub used: u64,
}
