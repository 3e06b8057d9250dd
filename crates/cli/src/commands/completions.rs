//! `freehold completions`: completions for a shell, from the same definitions as `--help`.

use anyhow::Result;
use clap_complete::Shell;
use std::process::ExitCode;

/// Print completions for a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold completions bash > ~/.local/share/bash-completion/completions/freehold
  freehold completions fish > ~/.config/fish/completions/freehold.fish")]
pub struct Args {
    /// The shell.
    shell: Shell,
}

/// Prints the completions.
pub fn run(args: Args) -> Result<ExitCode> {
    clap_complete::generate(args.shell, &mut crate::command(), "freehold", &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}
