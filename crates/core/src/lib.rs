//! The policies of Freehold: what ships, and what the simulators run.
#![no_std]

pub mod align;
pub mod blocks;
pub mod check;
pub mod frames;
pub mod machine;
pub mod malloc;
pub mod place;
pub mod policy;
pub mod registry;
pub mod rounds;
pub mod row;
pub mod sharing;
pub mod size_class;
#[cfg(not(loom))]
pub mod stats;
pub mod sync;
