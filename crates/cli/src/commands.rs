//! The subcommands, one file each: what a person types, checked, handed to a library, printed.

pub mod completions;
pub mod man;
