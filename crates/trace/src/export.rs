//! A trace in the formats of others: CSV, Parquet; by call stack: pprof, collapsed stacks, speedscope; both: heaptrack.
//!
//! Invariant: streaming; memory is a batch of rows (CSV, Parquet), or the live objects and the stacks that differ.
//! CSV and Parquet have the same columns, see [`row`].

mod csv;
mod flame;
mod heaptrack;
#[cfg(feature = "parquet")]
mod parquet;
mod pprof;
pub mod row;
mod samples;

pub use csv::csv;
pub use flame::{collapsed, speedscope};
pub use heaptrack::heaptrack;
#[cfg(feature = "parquet")]
pub use parquet::parquet;
pub use pprof::pprof;
pub use row::SiteOf;

use crate::error::ReadError;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// Events between two looks at the stop flag.
const STRIDE: u64 = 1 << 16;

/// Why an export did not come about.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The trace cannot be read any more.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output refuses.
    #[error("cannot write the export: {0}")]
    Write(#[from] io::Error),
    /// The caller's flag was raised.
    #[error("interrupted")]
    Interrupted,
}

/// How long work speaks with its caller.
pub struct Control<'a> {
    /// Told how much of how much is done: events for exports, bytes for imports.
    pub progress: &'a mut dyn FnMut(u64, u64),
    /// Raised to end the work early.
    pub stop: &'a AtomicBool,
}

impl Control<'_> {
    /// To be called with every unit of work; looks up only now and then.
    #[inline]
    pub(crate) fn goes_on(&mut self, done: u64, total: u64) -> bool {
        if !done.is_multiple_of(STRIDE) {
            return true;
        }
        (self.progress)(done, total);
        !self.stop.load(Ordering::Relaxed)
    }
}
