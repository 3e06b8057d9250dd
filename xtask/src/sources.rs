//! The files of the project: what git tracks or would track, read as text.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One text file of the project.
pub struct Source {
    /// Its path from the root of the project, with `/`.
    pub path: String,
    /// Its contents.
    pub text: String,
}

/// The root of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Every text file that git tracks, or that is new and not ignored.
pub fn all() -> Result<Vec<Source>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root())
        .output()
        .context("git lists the files of the project; it could not be run")?;
    ensure!(listed.status.success(), "git ls-files failed: is this a git checkout?");
    let mut sources = Vec::new();
    for path in String::from_utf8(listed.stdout)?.split('\0').filter(|path| !path.is_empty()) {
        // Files deleted but still tracked, pictures and traces have nothing to say here.
        if let Ok(text) = std::fs::read_to_string(root().join(path)) {
            sources.push(Source { path: path.to_owned(), text });
        }
    }
    Ok(sources)
}

impl Source {
    /// Whether this is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether this is prose.
    pub fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// The lines, numbered from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}
