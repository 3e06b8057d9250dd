//! `freehold-kernel`: the programs of `freehold study mesh`.

use clap::Parser;
use freehold_workloads::kernels::command::{Args, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(&Args::parse()).unwrap_or_else(|error| {
        eprintln!("freehold-kernel: {error:#}");
        ExitCode::from(2)
    })
}
