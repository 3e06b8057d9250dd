//! Files that take their name only when they are whole.

use crate::error::WriteError;
use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Creates `<path>.partial`; refuses targets that could not be replaced by a regular file.
pub(crate) fn create(path: &Path) -> Result<(PathBuf, File), WriteError> {
    if let Some(what) = what_stands_there(path) {
        return Err(WriteError::NotAFile { path: path.to_owned(), what });
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    let partial = PathBuf::from(name);
    match File::create(&partial) {
        Ok(file) => Ok((partial, file)),
        Err(source) => Err(WriteError::Create { path: partial, source }),
    }
}

/// Gives the file its name.
pub(crate) fn publish(partial: &Path, path: &Path) -> Result<(), WriteError> {
    fs::rename(partial, path).map_err(|source| WriteError::Rename {
        path: path.to_owned(),
        partial: partial.to_owned(),
        source,
    })
}

/// What is no regular file at `path`, in words.
pub(crate) fn what_stands_there(path: &Path) -> Option<&'static str> {
    let kind = fs::metadata(path).ok()?.file_type();
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a directory")
    } else if kind.is_char_device() || kind.is_block_device() {
        Some("a device")
    } else if kind.is_fifo() {
        Some("a pipe")
    } else {
        Some("a special file")
    }
}
