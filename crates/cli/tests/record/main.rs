//! `freehold record` from end to end: small C and C++ programs that know what they did, and the
//! traces of them read back.

mod endings;
mod family;
mod filters;
mod forks;
mod memory;
mod processes;
mod stacks;
#[expect(dead_code, reason = "programs in C++ are for with_tools")]
mod support;
mod tally;
