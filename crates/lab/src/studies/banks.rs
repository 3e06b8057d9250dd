//! `freehold study banks`: page frames and memory banks, published and ours.
//!
//! ```text
//!   published  the thesis's tables and figures, and its slips     config   settings, read and checked
//!   measure    one run: a row                                     results  all runs of the study
//!   answer     c at equal copying; sentences                      sizes    table 4.2
//!   speed      table 6.1, on the real machine                     export   Parquet
//!   page       HTML                                               maps     footprints as pictures
//!   streams    of another make, drawn and recorded                malloc   a malloc trace as pages
//!   verdicts   every printed figure: fitted, predicted, or undecidable here
//! ```
//!
//! Streams, machines and energy are `freehold_sim::banks`; policies and the migration task are the core's, the very
//! code that a kernel would run. Invariant: all but `speed` is a function of the settings.

mod answer;
mod config;
mod export;
mod malloc;
mod maps;
mod measure;
mod page;
mod published;
mod results;
mod sizes;
mod speed;
mod streams;
mod verdicts;

pub use config::{DEFAULT, Plan};
pub use export::write_rows;
pub use freehold_sim::banks::PageTrace;
pub use malloc::{MallocError, pages};
pub use measure::{BanksError, Calls, Named, Row, simulate};
pub use page::{page, page_of_recording};
pub use published::{Printed, printed};
pub use results::{Curve, Energy, Footprint, Pinned, Results, SCHEMA_VERSION, study};
pub use sizes::Size;
pub use speed::{PAGES, Timed, measure as measure_speed};
pub use streams::{MACHINE, Replayed, replay};
pub use verdicts::Verdict;

#[cfg(test)]
mod tests;
