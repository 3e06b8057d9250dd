//! `freehold study tlb`: page sizes and translation misses of the radiosity application, published and ours.
//!
//! ```text
//!   published   Table 1 of Cavin and Alonso           place   a trace on a policy: where every word lies
//!   tables      1 to 40 processors, two page sizes    packing how densely pages are filled
//!   real        the same under a real malloc           steps   words and marks as work
//!   caches      what the caches hold of which words    answer  the sentences
//!   export      Parquet                               page    HTML
//! ```
//!
//! The application tells the recorder which words of which objects it touches: in stated iterations all the
//! work on a stated share of its surfaces, and of the others a stated share of pieces, each whole. A policy
//! of the registry places the recorded objects; `sim::processors` runs the recorded pieces of work on P
//! processors with a TLB and caches each.
//!
//! Under real mallocs the application runs again and tells where its words lie: these rows are measured.
//!
//! Invariant: all other results are a function of the trace and the policies. Every parameter is stated and
//! none is fitted to a cell; only the unit is: our one-processor, 16 KiB cell is scaled to the published.

mod answer;
mod caches;
mod export;
mod packing;
mod page;
mod place;
mod published;
mod real;
mod steps;
mod tables;

pub use caches::CacheUse;
pub use export::write_rows;
pub use packing::Packing;
pub use page::page;
pub use place::{PlaceError, Placed, Sample, place};
pub use published::{PROCESSORS, Published, published};
pub use tables::{Cell, Policied, Program, Results, Row, Share, Sources, run, run_really};

#[cfg(test)]
mod tests;
