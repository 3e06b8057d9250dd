//! A study's folder: the report, the results and the rows behind them, found writable before the work.

use anyhow::{Context, Result};
use freehold_lab::results::{Output, write_json};
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where a study writes: `report.html`, `results.json` and, where it has them, rows as Parquet.
pub struct Outputs {
    page: Output,
    results: Output,
    rows: Option<Output>,
    report: PathBuf,
}

impl Outputs {
    /// Makes the folder; `rows` is the name of the Parquet file.
    ///
    /// # Errors
    /// The folder cannot be made, or a file in it not be written.
    pub fn in_folder(folder: &Path, rows: Option<&str>) -> Result<Self> {
        fs::create_dir_all(folder)
            .with_context(|| format!("the folder {} cannot be made", folder.display()))?;
        let report = folder.join("report.html");
        Ok(Self {
            page: Output::at(&report)?,
            results: Output::at(&folder.join("results.json"))?,
            rows: rows.map(|name| Output::at(&folder.join(name))).transpose()?,
            report,
        })
    }

    /// Writes the page and the results.
    pub fn write(&self, page: &str, results: &impl Serialize) -> Result<()> {
        self.results.write(|mut to| write_json(&mut to, results))?;
        self.page.write(|to| to.write_all(page.as_bytes()))?;
        Ok(())
    }

    /// Writes the rows, for a study that named a file for them.
    pub fn write_rows(
        &self,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<()> {
        if let Some(rows) = &self.rows {
            rows.write(fill)?;
        }
        Ok(())
    }

    /// The end of what a study prints: the results as JSON, or `tables` and where the report lies.
    pub fn print(
        &self,
        json: bool,
        results: &impl Serialize,
        tables: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        let mut out = io::stdout().lock();
        let printed = match json {
            true => write_json(&mut out, results),
            false => tables(&mut out)
                .and_then(|()| writeln!(out, "\nThe whole report: {}", self.report.display())),
        };
        printed.and_then(|()| out.flush()).context("cannot print")
    }
}

/// Lines of at most 100 columns.
pub fn wrapped(text: &str) -> String {
    wrapped_at(text, 100)
}

/// Lines of at most so many columns.
pub fn wrapped_at(text: &str, columns: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line =
            lines.last_mut().filter(|line| line.chars().count() + word.chars().count() < columns);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}
