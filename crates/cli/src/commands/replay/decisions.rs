//! `freehold replay --decisions`: what the malloc decides by.

use crate::ui;
use anyhow::{Context, Result};
use freehold_core::malloc::decisions::Decision;
use freehold_lab::malloc::decisions;
use freehold_lab::results::write_json;
use serde::Serialize;
use std::fmt::Write;
use std::io;

/// Raised when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct Document {
    schema_version: u32,
    decisions: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    shipped: usize,
    off: Option<usize>,
    reason: &'static str,
}

/// Prints the table, or the same as JSON.
///
/// # Errors
/// Standard output takes no more.
pub fn print(json: bool) -> Result<()> {
    if !json {
        return ui::print(text());
    }
    let row = |one: &Decision| Row {
        name: one.name,
        shipped: one.shipped,
        off: one.off,
        reason: one.reason.trim(),
    };
    let document = Document {
        schema_version: SCHEMA_VERSION,
        decisions: decisions().iter().map(row).collect(),
    };
    write_json(&mut io::stdout().lock(), &document).context("cannot print")
}

fn text() -> String {
    let mut out = String::new();
    let width = decisions().iter().map(|one| one.name.len()).max().unwrap_or(0);
    for one in decisions() {
        let off = one.off.map_or(String::new(), |off| format!(", off is {}", number(off)));
        let reason = crate::commands::study::wrapped_at(one.reason.trim(), 94);
        let reason = reason.replace('\n', "\n      ");
        let _ = writeln!(out, "{:width$}  {}{off}\n      {reason}", one.name, number(one.shipped));
    }
    out
}

/// As `--set` takes it: whole powers with their unit.
fn number(value: usize) -> String {
    match value {
        usize::MAX => "never".to_owned(),
        value if value >= 1 << 20 && value.is_multiple_of(1 << 20) => format!("{}M", value >> 20),
        value if value >= 1 << 10 && value.is_multiple_of(1 << 10) => format!("{}K", value >> 10),
        value => value.to_string(),
    }
}
