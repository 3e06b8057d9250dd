//! The subcommands, one file each: what a person types, checked, handed to a library, printed.

pub mod compare;
pub mod completions;
pub mod diff;
pub mod export;
pub mod hotplug;
pub mod import;
pub mod info;
pub mod man;
pub mod policies;
pub mod probe;
pub mod record;
pub mod replay;
pub mod run;
pub mod strip;
pub mod study;
pub mod sweep;
pub mod top;
pub mod workload;
