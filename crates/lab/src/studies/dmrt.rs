//! `freehold study dmrt`: the twelve tables of the chapter "DmRT for NUMA", published and ours.
//!
//! ```text
//!   config       the settings, checked         published    the printed figures, and what they say
//!   stream       a trace as the requests       metrics      what is measured, one line each
//!   measure      one attempt of one allocator  tables       all attempts, means with intervals
//!   orders       the chapter's claims          ablations    one change each
//!   gaps         how far ours are from printed
//!   account      where ours differs, and why   results      all of it, as JSON
//!   search       all that is left open, moved  instructions of calls, when asked for
//!   export       every attempt, as Parquet     page         all of it, as one HTML file
//! ```
//!
//! Invariant: no metric is derived from another, and nothing is fitted to what was published: where
//! ours differs, both stand side by side, and the account says why, each cause with the ablation
//! that makes the difference appear or vanish.

mod ablations;
mod account;
mod config;
mod export;
mod gaps;
mod instructions;
mod measure;
mod metrics;
mod orders;
mod page;
mod published;
mod results;
mod search;
mod stream;
mod tables;

pub use ablations::{Ablation, Effect};
pub use account::Finding;
pub use config::{Case, DEFAULT, DMRT, Plan, PlanError};
pub use export::write_rows;
pub use gaps::Gap;
pub use instructions::{Instructions, count as count_instructions};
pub use measure::Row;
pub use metrics::{METRICS, Metric, Unit, metric};
pub use orders::{Tally, Verdict, tallies};
pub use page::page;
pub use published::{Note, PUBLISHED, Published};
pub use results::{Results, SCHEMA_VERSION, Stage, study};
pub use search::{
    Map as SearchMap, SearchError, SearchStage, search, search_page, write_map as write_search_map,
};
pub use stream::StreamError;
pub use tables::{Entry, RunError, Table, Tables, run};
