//! `freehold study mesh`: distributed heaps on a mesh of nodes, published and ours.
//!
//! ```text
//!   config      the settings, checked          published   the printed figures
//!   programs    the recorded kernels           improve     the improvements by name
//!   measure     one cell, run as often as wanted
//!   ablations   what a change makes of it          speed        one large run against the clock
//!   verdicts    published and goals, beside ours            results   all of it, as JSON
//!   export      every run, as Parquet          page, maps  all of it, as one HTML file
//!   failure     the central node fails
//! ```
//!
//! Invariant: the results are a function of the settings. One table of costs and one load serve every
//! allocator, order and platform. They were fitted to the ratios of the letter, so those are shown and not
//! counted: only a figure by which nothing was chosen is a prediction.

mod ablations;
mod config;
mod export;
mod failure;
mod improve;
mod maps;
mod measure;
mod page;
mod programs;
mod published;
mod results;
mod speed;
mod verdicts;

pub use config::{DEFAULT, Plan, PlanError};
pub use export::write_rows;
pub use failure::Failed;
pub use improve::Improvement;
pub use measure::{Entry, Row, RunError};
pub use page::page;
pub use programs::ProgramError;
pub use published::{PUBLISHED, Published, published};
pub use results::{Results, SCHEMA_VERSION, study};
pub use speed::{Speed, speed};
pub use verdicts::Verdict;

#[cfg(test)]
mod tests;
