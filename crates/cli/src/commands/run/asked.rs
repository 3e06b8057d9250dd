//! A file that was asked of the malloc, which writes it when the program ends: whether it can be written is looked at
//! before the program starts, whether it was, afterwards.
//!
//! In its name, `%p` is the number of the process that writes it.

use anyhow::{Context, Result};
use freehold_lab::results::Output;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The file of one option.
pub struct Asked {
    option: &'static str,
    variable: &'static str,
    /// Absolute: the program may go elsewhere.
    path: PathBuf,
    since: SystemTime,
}

impl Asked {
    /// # Errors
    /// When the file could not be written now.
    pub fn new(option: &'static str, variable: &'static str, file: &OsStr) -> Result<Asked> {
        let path = std::path::absolute(file).with_context(|| format!("{option} needs a file"))?;
        let (before, after) = around_number(path.as_os_str());
        let mut one = before.to_owned();
        if let Some(after) = after {
            one.push("0");
            one.push(after);
        }
        Output::at(Path::new(&one)).with_context(|| option.to_owned())?;
        Ok(Asked { option, variable, path, since: SystemTime::now() })
    }

    /// Tells the malloc.
    pub fn hand_to(&self, command: &mut Command) {
        command.env(self.variable, &self.path);
    }

    /// Whether a process has written it since it was asked for.
    pub fn was_written(&self) -> bool {
        let (before, after) = around_number(self.path.as_os_str());
        let Some(after) = after else { return self.is_new(&self.path) };
        let before = Path::new(before);
        let prefix = before.file_name().filter(|_| !ends_in_slash(before)).unwrap_or_default();
        let folder = if prefix.is_empty() { before } else { before.parent().unwrap_or(before) };
        let matches = |name: &OsStr| {
            let name = name.as_bytes();
            name.starts_with(prefix.as_bytes()) && name.ends_with(after.as_bytes())
        };
        let Ok(entries) = fs::read_dir(folder) else { return false };
        entries.flatten().any(|entry| matches(&entry.file_name()) && self.is_new(&entry.path()))
    }

    /// The clock of files is coarser than the one that is asked for the time.
    fn is_new(&self, path: &Path) -> bool {
        const COARSE: std::time::Duration = std::time::Duration::from_secs(2);
        let Ok(found) = fs::metadata(path) else { return false };
        let changed = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        !found.is_file() || changed + COARSE >= self.since
    }

    /// What to say when it was not written.
    pub fn complaint(&self) -> String {
        let path = self.path.display();
        let why = "no process that used the malloc ended by exit";
        format!("{}: {path} was not written: {why}", self.option)
    }
}

/// What stands before the first `%p` and, where there is one, after it. (Only in the name itself: a folder for each
/// process would have to be there before.)
fn around_number(path: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let bytes = path.as_bytes();
    match bytes.windows(2).position(|pair| pair == b"%p") {
        Some(at) => (OsStr::from_bytes(&bytes[..at]), Some(OsStr::from_bytes(&bytes[at + 2..]))),
        None => (path, None),
    }
}

fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &Path) -> Result<Asked> {
        Asked::new("--report", "X", path.as_os_str())
    }

    #[test]
    fn a_file_of_any_process_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = asked(&folder.path().join("r-%p.json")).unwrap();
        assert!(!file.was_written());
        fs::write(folder.path().join("other-7.json"), "").unwrap();
        assert!(!file.was_written());
        fs::write(folder.path().join("r-7.json"), "").unwrap();
        assert!(file.was_written());
        let bare = asked(&folder.path().join("%p")).unwrap();
        fs::write(folder.path().join("1234"), "").unwrap();
        assert!(bare.was_written());
    }

    #[test]
    fn an_old_file_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heap.pb");
        fs::write(&path, "").unwrap();
        let long_ago = SystemTime::now() - std::time::Duration::from_secs(60);
        fs::File::open(&path).unwrap().set_modified(long_ago).unwrap();
        assert!(!asked(&path).unwrap().was_written());
    }
}
