//! The laboratory: replay a trace under any policy or allocator, compare, report.

pub mod human;
pub mod measure;
pub mod report;
pub mod real;
pub mod results;
pub mod simulate;
