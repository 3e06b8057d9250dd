//! `freehold workload`: the programs that come with the command, to be recorded, replayed or looked at.

use anyhow::{Context, Result};
use freehold_workloads::kernels::command as kernel;
use freehold_workloads::radiosity::command as radiosity;
use std::ffi::OsString;
use std::process::ExitCode;

/// Run a program that comes with this command; `compare` runs radiosity when it is given none.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold workload radiosity --scene cornell --picture box.png
  freehold workload kernel fast
  freehold record -o room.fht -- freehold workload radiosity --threads 2")]
pub struct Args {
    #[command(subcommand)]
    program: Program,
}

#[derive(clap::Subcommand)]
enum Program {
    Radiosity(radiosity::Args),
    Kernel(kernel::Args),
}

/// Runs it; the exit status is the program's.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.program {
        Program::Radiosity(args) => radiosity::run(&args),
        Program::Kernel(args) => kernel::run(&args),
    }
}

/// The command line that `compare` records when it is given none: this very file.
///
/// # Errors
/// When the path of this file cannot be found out.
pub fn default_program() -> Result<Vec<OsString>> {
    let this = std::env::current_exe().context("the path of this command is not known")?;
    Ok(vec![this.into_os_string(), "workload".into(), "radiosity".into()])
}
