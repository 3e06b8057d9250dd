//! `freehold study threads`: fits under locks and heaps per thread, on real threads.
//!
//! ```text
//!   plan       the settings, checked, and the cells       published   the paper's figures
//!   measure    the rounds                                 laws        Amdahl's, and the universal one
//!   heaps      a fit, shared in some way                  server      jobs in processes of their own
//!     locks    those that core does not have              crew        threads that begin together
//!   turns      heaps a thread and the loop, in turns        lines     of a process's answers, waited for
//!   patterns   what a thread does                         calls       what it calls
//!   rows       what is asked of the runs                  results     all of it, as JSON
//!   tables     means with intervals, crossings            account     what holds of the paper, computed
//!     causes   what it comes from, in numbers               answer      the study in a few sentences
//!   export     every run, as Parquet                      page        all of it, as one HTML file
//!   byte_exact figure 14 on lists that are cut to the byte
//! ```
//!
//! Nothing here is simulated but the counts of figure 14: heaps are core's, over real memory; threads, locks and times
//! are the machine's. So results differ from run to run, and are given with intervals over runs.
//! Invariant: after every run the heap is walked, every block accounted for, and every block's ends were
//! what its holder wrote; a study whose heap is damaged ends with an error, not with a number.

mod account;
mod answer;
mod byte_exact;
mod calls;
mod causes;
mod crew;
mod export;
mod heaps;
mod laws;
mod lines;
pub(crate) mod locks;
mod measure;
mod page;
mod patterns;
mod plan;
mod published;
mod results;
mod rows;
mod server;
mod tables;
#[cfg(test)]
mod tests;
mod turns;

pub use account::Finding;
pub use export::write_rows;
pub use measure::{Left, MeasureError, Measured, measure};
pub use page::page;
pub use plan::{DEFAULT, Plan, QUICK};
pub use results::{Results, SCHEMA_VERSION};
pub use server::serve;
