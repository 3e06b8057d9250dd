//! `freehold-radiosity`: the default program of `freehold compare`.

use clap::Parser;
use freehold_workloads::radiosity::command::{Args, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(&Args::parse()).unwrap_or_else(|error| {
        eprintln!("freehold-radiosity: {error:#}");
        ExitCode::from(2)
    })
}
