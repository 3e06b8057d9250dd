//! Errors that are told and not kept, so that a later run tries these cells again: those that a caller found elsewhere (the Python
//! module, on a cluster or in a store), and those of this attempt.

use anyhow::{Context, Result};
use freehold_lab::sweep::{Found, Job, Subject};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A sentence for each.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Known {
    /// By the cell's name.
    pub cells: BTreeMap<String, String>,
    /// Of all cells of a trace, by its path.
    pub traces: BTreeMap<PathBuf, String>,
}

impl Known {
    /// Those that `--errors` names.
    pub fn read(path: &Path) -> Result<Known> {
        let text = fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not a file of --errors", path.display()))
    }

    /// One more, of this attempt.
    pub fn add(&mut self, name: &str, found: Found) {
        self.cells.insert(name.to_owned(), found.error.unwrap_or_default());
    }

    /// Why the cell has no result; `None` if nothing is known.
    pub fn error(&self, job: &Job) -> Option<&String> {
        let of_trace = || match &job.cell.subject {
            Subject::Replay { trace, .. } => self.traces.get(trace),
            Subject::Study { .. } => None,
        };
        let of_cell = job.name.as_ref().ok().and_then(|name| self.cells.get(name));
        of_cell.or_else(of_trace)
    }
}
