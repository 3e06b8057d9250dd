//! `freehold study dmrt`: the twelve tables of the chapter "DmRT for NUMA", published and ours.
//!
//! ```text
//!   config       the settings, checked         published    the printed figures, and what they say
//!   stream       a trace as the requests       metrics      what is measured, one line each
//!   measure      one attempt of one allocator  tables       all attempts, means with intervals
//! ```
//!
//! Invariant: no metric is derived from another, and nothing is fitted to what was published: where
//! ours differs, both stand side by side, and the account says why, each cause with the ablation
//! that makes the difference appear or vanish.

mod config;
mod measure;
mod metrics;
mod published;
mod stream;
mod tables;

pub use config::{Case, DEFAULT, DMRT, Plan, PlanError};
pub use measure::Row;
pub use metrics::{METRICS, Metric, Unit};
pub use published::{Note, PUBLISHED, Published};
pub use stream::StreamError;
pub use tables::{Entry, RunError, Table, Tables, run};
