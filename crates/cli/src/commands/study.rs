//! `freehold study`: whole experiments, each one command and one page.

mod banks;
mod bundled;
mod chosen;
mod dmrt;
mod fragmentation;
mod malloc;
mod mesh;
mod outputs;
mod radiosity;
mod recorded;
mod threads;
mod tlb;

use anyhow::Result;
pub use outputs::wrapped_at;
use std::process::ExitCode;

/// Run a whole experiment and write its report.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold study banks                   page frames and memory banks that can be switched off
  freehold study dmrt                    the twelve tables of the chapter \"DmRT for NUMA\", and ours
  freehold study dmrt --quick            the same, few attempts of each
  freehold study fragmentation           six recorded programs on the policies
  freehold study malloc                  Freehold's malloc on twenty programs, each decision switched
  freehold study mesh                    distributed heaps on a mesh of 4 to 4,096 nodes
  freehold study radiosity               the radiosity application under every allocator
  freehold study threads                 fits under locks, heaps per thread, on real threads
  freehold study tlb                     page sizes and TLB misses of the radiosity application")]
pub struct Args {
    #[command(subcommand)]
    study: Study,
}

/// One line a study.
#[derive(clap::Subcommand)]
enum Study {
    Banks(banks::Args),
    Dmrt(dmrt::Args),
    Fragmentation(fragmentation::Args),
    Malloc(malloc::Args),
    Mesh(mesh::Args),
    Radiosity(radiosity::Args),
    Threads(threads::Args),
    Tlb(tlb::Args),
}

/// Runs the study.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.study {
        Study::Banks(args) => banks::run(args),
        Study::Dmrt(args) => dmrt::run(args),
        Study::Fragmentation(args) => fragmentation::run(args),
        Study::Malloc(args) => malloc::run(args),
        Study::Mesh(args) => mesh::run(args),
        Study::Radiosity(args) => radiosity::run(args),
        Study::Threads(args) => threads::run(args),
        Study::Tlb(args) => tlb::run(args),
    }
}
