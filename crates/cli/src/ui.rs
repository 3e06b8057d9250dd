//! What every command shows and obeys: what it prints, progress on standard error, and Ctrl-C.

use anyhow::{Context, Result};
use freehold_lab::human;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Work shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// How a command ends after Ctrl-C, as shells expect: 128 + SIGINT.
pub const EXIT_INTERRUPTED: u8 = 130;

/// How a command ends when its command line was wrong.
pub const EXIT_USAGE: u8 = 2;

/// What is wrong with the command line, where it takes more than the parser to see it. `main` ends with [`EXIT_USAGE`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongCommandLine(pub String);

/// Refuses `-` for what must be a file: one of that name would be a surprise.
///
/// # Errors
/// When the path is `-`; `why` says why it cannot be standard output.
pub fn named_file(path: &Path, why: &str) -> Result<()> {
    if path != Path::new("-") {
        return Ok(());
    }
    Err(WrongCommandLine(format!("-: {why}; name a file (./- is one of that name)")).into())
}

/// Prints to standard output. One that takes no more is an error, as `println!` would not have it.
pub fn print(text: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).context("cannot print")
}

/// Reads a number of bytes, for options.
pub fn bytes(text: &str) -> Result<u64, String> {
    match human::parse_bytes(text) {
        Some(0) | None => Err("a number of bytes such as 4096, 64M or 2GiB is wanted".to_owned()),
        Some(bytes) => Ok(bytes),
    }
}

/// The processes that are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// The one of this number.
    One(u32),
    /// All of them.
    All,
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Which, String> {
        match text {
            "all" => Ok(Which::All),
            number => number
                .parse()
                .map(Which::One)
                .map_err(|_| "it is neither a number nor `all`".to_owned()),
        }
    }
}

impl Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Which::One(number) => number.fmt(f),
            Which::All => f.write_str("all"),
        }
    }
}

/// A word as a shell reads it back.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Whether a stream is a terminal that moves its cursor when it is told to: not one that calls itself dumb, or nothing.
pub fn obeys(stream: &impl IsTerminal) -> bool {
    let named = std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb");
    named && stream.is_terminal()
}

/// Whether a stream shall have colours: <https://no-color.org> asks for none.
pub fn wants_colour(stream: &impl IsTerminal) -> bool {
    obeys(stream) && !refuses_colour()
}

/// Whether the user wants no colours anywhere.
pub fn refuses_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// A progress bar on standard error that appears only when the work takes long and a person looks.
pub struct Progress {
    label: &'static str,
    began: Instant,
    bar: Option<ProgressBar>,
    shown: bool,
}

impl Progress {
    /// A bar that says `label` before its figures.
    pub fn new(label: &'static str) -> Self {
        Self { label, began: Instant::now(), bar: None, shown: obeys(&io::stderr()) }
    }

    /// `done` of `total` (0 where it is not known) units are done.
    pub fn set(&mut self, done: u64, total: u64) {
        if !self.shown || (self.bar.is_none() && self.began.elapsed() < PATIENCE) {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| new_bar(self.label));
        bar.set_length(total.max(done));
        bar.set_position(done);
    }

    /// Writes a line to standard error, above the bar where there is one.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(label: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("{msg:22} {bar:32} {percent:>3} %  {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(label);
    bar
}

/// The error and its causes in one line; a cause that the words before it already say is left out.
pub fn in_one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !line.contains(&cause) {
            line += if line.is_empty() { "" } else { ": " };
            line += &cause;
        }
    }
    line
}

/// A flag that SIGINT and SIGTERM raise. The first asks the work to stop tidily; a second one ends
/// the process at once.
pub fn interrupted() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let status = i32::from(EXIT_INTERRUPTED);
        // Registered in this order, the second signal finds the flag raised by the first.
        let registered =
            signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)));
        debug_assert!(registered.is_ok(), "SIGINT and SIGTERM can be handled");
    }
    flag
}

/// Columns and lines of the terminal that standard output is; `None` where it is none, or of no size.
pub fn terminal_size() -> Option<(usize, usize)> {
    let mut window = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel fills in the structure, or refuses.
    let asked = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut window) };
    let has_size = asked == 0 && window.ws_col > 0 && window.ws_row > 0;
    has_size.then(|| (window.ws_col.into(), window.ws_row.into()))
}

/// Whether the flag was raised.
pub fn is_raised(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::in_one_line;
    use anyhow::anyhow;

    #[test]
    fn no_cause_is_told_twice() {
        let error = anyhow!("the disk is full").context("a.fht: the disk is full").context("sorry");
        assert_eq!(in_one_line(&error), "sorry: a.fht: the disk is full");
    }
}
