//! The project's own chores, so that people and CI run the very same commands.

mod bench;
mod guest;
mod heaptrack;
mod house;
mod mutations;
mod nodes;
mod package;
mod pages;
mod soak;
mod sources;
mod threats;
mod tidy;
pub mod worst;

pub use bench::callgrind::by_object;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The project's own chores.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    after_help = "Example:
  cargo xtask tidy"
)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check what the compiler does not: layers, SAFETY arguments, dead links, file budgets, names.
    Tidy,
    /// Measure Freehold beside its peers: time, memory, latency, start-up, instructions (bench/README.md).
    Bench(bench::Options),
    /// Run a command on a machine with several memories: a stock Linux under QEMU.
    Guest(guest::Options),
    /// Compare the sites that have most with heaptrack's, on five real programs.
    Heaptrack(heaptrack::Options),
    /// Print how much a reader of the malloc must hold: lines, files, methods, circles, terms, bytes; each with its rule.
    House(house::Options),
    /// Draw small errors at random that the tests of core and blocks should notice (hours).
    Mutations(mutations::Options),
    /// Keep what the tests in such guests measure: placement, full nodes, leaving a node, unplugging.
    Nodes(nodes::Options),
    /// Build what is shipped: the wheel, the Debian packages.
    Package(package::Options),
    /// Record the page allocations of a real kernel in such a guest: a stream for `freehold study banks --trace`.
    Pages(pages::Options),
    /// Run real programs' own tests on libfreehold.so; what passes under glibc must pass there.
    Soak(soak::Options),
    /// Misuse every malloc: what is detected, what is silent, what is exploitable (THREAT-MODEL.md).
    Threats(threats::Options),
    /// Find the longest call of the real-time heap and its peers, in instructions.
    Worst(worst::Options),
    /// Measure what recording costs, beside no tool, heaptrack and glibc's mtrace.
    BenchRecorder(bench::recorder::Options),
}

/// Does what the command line asks for.
///
/// # Errors
/// Those of the chore.
pub fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().chore {
        Chore::Tidy => tidy::run(),
        Chore::Guest(options) => guest::run(&options),
        Chore::Heaptrack(options) => heaptrack::run(&options),
        Chore::House(options) => house::run(&options),
        Chore::Mutations(options) => mutations::run(&options),
        Chore::Nodes(options) => nodes::run(&options),
        Chore::Package(options) => package::run(&options),
        Chore::Pages(options) => pages::run(&options),
        Chore::Soak(options) => soak::run(&options),
        Chore::Threats(options) => threats::run(&options),
        Chore::Worst(options) => worst::run(&options),
        Chore::Bench(options) => bench::run(&options),
        Chore::BenchRecorder(options) => bench::recorder::run(&options).map(|()| ExitCode::SUCCESS),
    }
}
