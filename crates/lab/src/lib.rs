//! The laboratory: replay a trace under any policy or allocator, compare, report.

pub mod answer;
pub mod compare;
pub mod difference;
pub mod held;
mod holdings;
pub mod human;
pub mod malloc;
pub mod measure;
pub mod models;
pub mod probe;
pub mod profile;
pub mod real;
pub mod report;
pub mod resident;
pub mod results;
pub mod selection;
pub mod shared_heap;
pub mod simulate;
pub mod sites;
pub mod studies;
pub mod sweep;
pub mod trial;
