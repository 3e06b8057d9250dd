//! `freehold man`: the manual pages, from the same definitions as `--help`.

use crate::ui;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the manual page, or write all of them to a folder.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold man | man -l -
  freehold man --out ~/.local/share/man/man1")]
pub struct Args {
    /// Write freehold.1 and a page for each subcommand into this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Prints or writes the pages.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.out {
        Some(folder) => clap_mangen::generate_to(crate::command(), &folder).with_context(|| {
            format!("the manual pages cannot be written to {}", folder.display())
        })?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(crate::command()).render(&mut page)?;
            ui::print(String::from_utf8_lossy(&page))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
