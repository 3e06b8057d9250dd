//! `freehold completions`: completions for a shell, from the same definitions as `--help`.

use crate::ui;
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
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "freehold", &mut script);
    ui::print(String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
