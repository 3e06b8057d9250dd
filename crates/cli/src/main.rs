//! `freehold`: record any program's allocations, replay them under any policy on any allocator,
//! and show the answer.
//!
//! This crate only speaks with people: it parses, checks, shows progress and prints. Everything it
//! says is computed in `collect`, `trace` and `lab`. It uses the system allocator, so that it can
//! itself be recorded; but for `freehold workload --heap`, which puts a sharing scheme in its place.

mod commands;
mod embedded;
mod ui;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io;
use std::process::ExitCode;

#[global_allocator]
static MALLOC: freehold_lab::shared_heap::Switch = freehold_lab::shared_heap::Switch;

/// Memory that knows its place: record a program's allocations, replay them under any policy or
/// allocator, compare.
#[derive(Parser)]
#[command(
    name = "freehold",
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  freehold compare                        the bundled program, on every policy and allocator
  freehold compare -- python3 script.py   any program of yours
  freehold record -o app.fht -- ./server  record now, look and replay later
  freehold info app.fht                   who has the memory, and what to do; sizes, lifetimes, threads
  freehold diff old.fht new.fht           which functions hold more than before

Exit status: 0 done; 1 it failed, and said why; 2 the command line was wrong; 130 interrupted.
`record` passes on the exit status of the program it recorded."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One line a subcommand.
#[derive(Subcommand)]
enum Command {
    Compare(commands::compare::Args),
    Completions(commands::completions::Args),
    Diff(commands::diff::Args),
    Export(commands::export::Args),
    Hotplug(commands::hotplug::Args),
    Import(commands::import::Args),
    Info(commands::info::Args),
    Man(commands::man::Args),
    Policies(commands::policies::Args),
    Probe(commands::probe::Args),
    Record(commands::record::Args),
    Replay(commands::replay::Args),
    Run(commands::run::Args),
    Strip(commands::strip::Args),
    Study(commands::study::Args),
    Sweep(commands::sweep::Args),
    Top(commands::top::Args),
    Workload(commands::workload::Args),
}

/// Lets `freehold info … | head` end quietly, as other commands do. (`record` takes this back: a
/// closed pipe must not end a recording.)
fn end_with_the_pipe() {
    // SAFETY: no other thread runs yet, and SIG_DFL is a valid disposition for SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// The whole command line, for completions and manual pages.
fn command() -> clap::Command {
    Cli::command()
}

/// How help and wrong command lines are shown: the parser decides by stream, but does not believe every `TERM`.
fn colours() -> ColorChoice {
    let none = ui::refuses_colour() || !(ui::obeys(&io::stdout()) || ui::obeys(&io::stderr()));
    if none { ColorChoice::Never } else { ColorChoice::Auto }
}

fn main() -> ExitCode {
    end_with_the_pipe();
    let matches = command().color(colours()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let done = match cli.command {
        Command::Compare(args) => commands::compare::run(args),
        Command::Completions(args) => commands::completions::run(args),
        Command::Diff(args) => commands::diff::run(args),
        Command::Export(args) => commands::export::run(args),
        Command::Hotplug(args) => commands::hotplug::run(args),
        Command::Import(args) => commands::import::run(args),
        Command::Info(args) => commands::info::run(args),
        Command::Man(args) => commands::man::run(args),
        Command::Policies(args) => commands::policies::run(args),
        Command::Probe(args) => commands::probe::run(args),
        Command::Record(args) => commands::record::run(args),
        Command::Replay(args) => commands::replay::run(args),
        Command::Run(args) => commands::run::run(args),
        Command::Strip(args) => commands::strip::run(args),
        Command::Study(args) => commands::study::run(args),
        Command::Sweep(args) => commands::sweep::run(args),
        Command::Top(args) => commands::top::run(args),
        Command::Workload(args) => commands::workload::run(args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("freehold: {}", ui::in_one_line(&error));
        match error.is::<ui::WrongCommandLine>() {
            true => ExitCode::from(ui::EXIT_USAGE),
            false => ExitCode::FAILURE,
        }
    })
}
