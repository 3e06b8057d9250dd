//! Files that are there whole or not at all.
//!
//! Invariant: under the final name stands what stood there before or the whole new file. Work goes
//! to a temporary name beside it, which is removed however the work ends short of SIGKILL.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// Why an output file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be written: {source}")]
pub struct OutputError {
    path: String,
    source: io::Error,
}

/// A path that was found writable when it was made.
#[derive(Clone, Debug)]
pub struct Output {
    path: PathBuf,
}

impl Output {
    /// Checks that `path` can be written, before the long work whose result goes there.
    ///
    /// # Errors
    /// When its folder is missing or refuses new files, or `path` is a folder.
    pub fn at(path: &Path) -> Result<Self, OutputError> {
        let refused = |source| OutputError { path: path.display().to_string(), source };
        // A link stays a link: what it points to is replaced.
        let path_itself = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let output = Self { path: path_itself };
        match fs::metadata(&output.path) {
            Ok(found) if found.is_dir() => return Err(refused(io::ErrorKind::IsADirectory.into())),
            Ok(found) if found.is_file() => drop(output.temporary().map_err(refused)?),
            Ok(_) => drop(OpenOptions::new().write(true).open(&output.path).map_err(refused)?),
            Err(_) => drop(output.temporary().map_err(refused)?),
        }
        Ok(output)
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the whole file, and then gives it its name.
    ///
    /// # Errors
    /// When `fill` fails or the disk refuses; nothing is left behind then.
    pub fn write(
        &self,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        self.try_write(fill)
            .map_err(|source| OutputError { path: self.path.display().to_string(), source })
    }

    fn try_write(
        &self,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|found| !found.is_file()) {
            // A device or a pipe has no name to swap.
            return filled(OpenOptions::new().write(true).open(&self.path)?, fill).map(drop);
        }
        let temporary = self.temporary()?;
        filled(temporary.as_file().try_clone()?, fill)?.sync_all()?;
        temporary.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }

    fn temporary(&self) -> io::Result<NamedTempFile> {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // 0666 before the user's mask, as any other file.
        let made = Builder::new()
            .prefix(".freehold-")
            .suffix(".part")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder);
        // The reason alone: the file's passing name is nobody's business.
        made.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::other(format!("there is no folder {}", folder.display()))
            }
            kind => kind.into(),
        })
    }
}

fn filled(
    file: File,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
) -> io::Result<File> {
    let mut buffered = BufWriter::new(file);
    fill(&mut buffered)?;
    buffered.into_inner().map_err(|error| error.into_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        let output = Output::at(&path).unwrap();
        assert!(names(folder.path()).is_empty(), "the check leaves nothing behind");
        output.write(|to| to.write_all(b"old")).unwrap();
        let full = |to: &mut (dyn Write + Send)| {
            to.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        let refused = output.write(full).unwrap_err().to_string();
        assert!(refused.contains("report.html cannot be written"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["report.html"]);
    }

    #[test]
    fn what_cannot_be_written_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Output::at(folder.path()).is_err(), "a folder");
        let missing =
            Output::at(&folder.path().join("missing/report.html")).unwrap_err().to_string();
        assert!(missing.ends_with("/missing"), "{missing}");
        assert!(!missing.contains(".part"), "{missing}");
    }

    #[test]
    fn a_full_device_is_an_error() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            println!("skipped: this system has no /dev/full");
            return;
        }
        let output = Output::at(full).unwrap();
        assert!(output.write(|to| to.write_all(&[0; 100_000])).is_err());
    }

    #[test]
    fn a_link_keeps_pointing_to_the_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        Output::at(&link).unwrap().write(|to| to.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
