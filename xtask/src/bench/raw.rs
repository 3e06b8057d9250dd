//! The raw file: JSON lines, the head first, every run as it was measured. Filtering happens when reading.

use anyhow::Context;
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that appears under its name when it is whole.
pub struct Raw {
    file: BufWriter<File>,
    partial: PathBuf,
    path: PathBuf,
}

impl Raw {
    /// Begins a file with its head.
    pub fn create(path: &Path, head: &Value) -> anyhow::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let partial = path.with_extension("jsonl.partial");
        let file = File::create(&partial)
            .with_context(|| format!("{} cannot be written", partial.display()))?;
        let mut raw = Self { file: BufWriter::new(file), partial, path: path.to_owned() };
        raw.push(head)?;
        Ok(raw)
    }

    /// Appends one line.
    pub fn push(&mut self, value: &Value) -> anyhow::Result<()> {
        serde_json::to_writer(&mut self.file, value)?;
        self.file.write_all(b"\n")?;
        Ok(self.file.flush()?)
    }

    /// Gives the file its name.
    pub fn finish(self) -> anyhow::Result<PathBuf> {
        self.file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        std::fs::rename(&self.partial, &self.path).with_context(|| {
            format!("{} cannot be named {}", self.partial.display(), self.path.display())
        })?;
        Ok(self.path)
    }
}
