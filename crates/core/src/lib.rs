//! The policies of Freehold: what ships, and what the simulators run.
#![no_std]

pub mod machine;
