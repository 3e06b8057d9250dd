//! Sweeps: traces x policies x limits x settings, or a study x settings, as one tidy dataset.
//!
//! ```text
//!   Request ── plan ──► Job, Job, Job …      one a cell, each named by a hash of trace, version and arguments
//!                         │  is its file in the store?          store    a file a cell, whole or absent
//!                         ▼  no
//!                       crew ── a line of JSON ──► worker       crew     processes, each with one cell in flight
//!                         │ ◄── what was found ──               worker   replays, or runs the study
//!                         ▼
//!                       dataset                                 dataset  all cells as one Parquet file, in the order of the plan
//! ```
//!
//! Invariants: what a cell found is a function of its name, so the dataset is the same bytes whoever did which cell; only the
//! parent writes files, so a worker that is killed leaves nothing behind; a cell that cannot be done is a row with its error.

mod crew;
mod dataset;
mod found;
mod limit;
mod plan;
mod rows;
mod store;
mod worker;

pub use crew::{Crew, Done};
pub use dataset::write;
pub use found::{Found, Kind};
pub use limit::Limit;
pub use plan::{Cell, Job, Plan, PlanError, Request, Subject, Version};
pub use store::Store;
pub use worker::serve;
