//! `freehold man`: the manual pages, from the same definitions as `--help`.

use crate::ui;
use anyhow::{Context, Result};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Print the manual page, or write all of them to a folder.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold man                    on a terminal, as man shows it
  freehold man > freehold.1       else, the page's source
  freehold man --out ~/.local/share/man/man1")]
pub struct Args {
    /// Write freehold.1 and a page for each subcommand into this folder; made if it is missing.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Prints or writes the pages.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.out {
        Some(folder) => write_all(&folder).with_context(|| {
            format!("the manual pages cannot be written to {}", folder.display())
        })?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(crate::command()).render(&mut page)?;
            print(&typeset(&String::from_utf8_lossy(&page)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The source of the page; on a terminal the page itself, where `man` is installed, or else what it says as help.
fn print(page: &str) -> Result<()> {
    if !io::stdout().is_terminal() {
        return ui::print(page);
    }
    match Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn() {
        Ok(mut man) => {
            // One that is left early takes no more, which is no error.
            let _ = man.stdin.take().map(|mut to| to.write_all(page.as_bytes()));
            man.wait().context("man was lost")?;
            Ok(())
        }
        Err(_) => ui::print(crate::command().render_long_help()),
    }
}

fn write_all(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let drafts = tempfile::tempdir()?;
    clap_mangen::generate_to(crate::command(), drafts.path())?;
    for draft in fs::read_dir(drafts.path())? {
        let draft = draft?;
        let page = fs::read_to_string(draft.path())?;
        fs::write(folder.join(draft.file_name()), typeset(&page))?;
    }
    Ok(())
}

/// The page with its examples and tables, which are the indented lines at its end, as they were written: a manual page would
/// fill them into paragraphs.
fn typeset(page: &str) -> String {
    let Some((before, extra)) = page.split_once(".SH EXTRA\n") else { return page.to_owned() };
    let (title, extra) = match extra.strip_prefix("Examples:\n") {
        Some(rest) => ("EXAMPLES", rest),
        None => ("NOTES", extra),
    };
    let mut set = format!("{before}.SH {title}\n");
    let mut as_written = false;
    for line in extra.lines() {
        let indented = line.starts_with("  ");
        if indented != as_written {
            set += if indented { ".nf\n" } else { ".fi\n" };
            as_written = indented;
        }
        set += line;
        set.push('\n');
    }
    set
}

#[cfg(test)]
mod tests {
    use super::typeset;

    #[test]
    fn indented_lines_stay_as_they_are_and_others_are_filled() {
        let page = ".SH OPTIONS\nnone\n.SH EXTRA\nExamples:\n  a    one\n  b    two\n\nA sentence\nin two lines.\n";
        let set = ".SH OPTIONS\nnone\n.SH EXAMPLES\n.nf\n  a    one\n  b    two\n.fi\n\nA sentence\nin two lines.\n";
        assert_eq!(typeset(page), set);
        assert_eq!(typeset(".SH OPTIONS\nnone\n"), ".SH OPTIONS\nnone\n");
    }
}
