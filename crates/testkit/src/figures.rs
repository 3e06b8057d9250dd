//! Figures that a test has measured anyway, for whoever keeps results.

use std::io::Write;

/// The variable that names the file to which figures are appended; without it they go nowhere.
pub const VARIABLE: &str = "FREEHOLD_FIGURES";

/// Keeps one line of JSON.
///
/// # Panics
/// When the file that was asked for cannot be written.
pub fn keep(line: &str) {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
}
