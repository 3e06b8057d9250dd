//! `freehold study tlb`: page sizes and translation misses of the radiosity application, published and ours.
//!
//! ```text
//!   published   Table 1 of Cavin and Alonso           place   a trace on a policy: where every word lies
//!   tables      1 to 40 processors, two page sizes    packing how densely pages are filled
//!   real        the same by a real malloc, in a child  steps   words and marks as work
//!   caches      what the caches hold of which words    counted all loads and stores, by cachegrind
//!   answer      the sentences                         export  Parquet
//!   claims      what the paper says, judged
//!   page        HTML                                  serve   who places: a policy or malloc
//! ```
//!
//! The application tells the recorder which words of which objects it touches: in stated iterations all the
//! work on a stated share of its surfaces, and of the others a stated share of pieces, each whole. A policy
//! of the registry places the recorded objects; `sim::processors` runs the recorded pieces of work on P
//! processors with a TLB and caches each.
//!
//! By real mallocs the recorded calls are placed once more, each in a process of its own: these rows are measured.
//!
//! Invariant: all other results are a function of the trace and the policies. Every parameter is stated and
//! none is fitted to a cell of Table 1; only the unit is (our one-processor, 16 KiB cell is scaled to the published), and the cost of a
//! miss was chosen by what 1 MiB pages save. What is fitted is never counted among predictions (`claims`).

mod answer;
mod caches;
mod claims;
pub mod counted;
mod export;
mod packing;
mod page;
mod place;
mod published;
mod real;
mod serve;
mod steps;
mod tables;

pub use caches::CacheUse;
pub use export::write_rows;
pub use packing::Packing;
pub use page::page;
pub use place::{PlaceError, Placed, Sample, place};
pub use published::{PROCESSORS, Published, published};
pub use real::{Seen, look_here};
pub use tables::{Cell, Mallocs, Policied, Results, Row, Share, Sources, run, run_really};

#[cfg(test)]
mod tests;
