//! The folder of a sweep: a file for each cell that was done, and the dataset beside them.
//!
//! Invariant: a file under a cell's name is whole. One that cannot be read (a disk that lost it, another hand) counts as not there.

use super::found::Found;
use crate::results::{Output, OutputError};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Characters of a cell's name that choose its folder, so that no folder holds millions of files.
const PREFIX: usize = 2;

/// A sweep's folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Makes the folder if it is missing.
    ///
    /// # Errors
    /// When it cannot be made or written.
    pub fn at(folder: &Path) -> Result<Store, StoreError> {
        let cells = folder.join("cells");
        let refused = |source| StoreError::Folder { folder: folder.display().to_string(), source };
        fs::create_dir_all(&cells).map_err(refused)?;
        tempfile::tempfile_in(&cells).map_err(refused)?;
        Ok(Store { folder: folder.to_owned() })
    }

    /// Where all cells lie as one dataset.
    pub fn dataset(&self) -> PathBuf {
        self.folder.join("sweep.parquet")
    }

    /// What the cell found, if it was done.
    pub fn get(&self, name: &str) -> Option<Found> {
        serde_json::from_slice(&fs::read(self.file(name)).ok()?).ok()
    }

    /// Whether the cell was done.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Keeps what the cell found. It is not forced to the disk: a cell lost with the machine's power is done again.
    ///
    /// # Errors
    /// When the disk refuses; nothing is left behind then. When another sweep in the same folder has found something else.
    pub fn put(&self, name: &str, found: &Found) -> Result<(), StoreError> {
        let file = self.file(name);
        let line = format!("{}\n", serde_json::json!(found));
        if self.has(name) {
            let same = fs::read(&file).is_ok_and(|other| other == line.as_bytes());
            let file = file.display().to_string();
            return if same { Ok(()) } else { Err(StoreError::Differs { file }) };
        }
        self.try_put(&file, &line)
            .map_err(|source| StoreError::Cell { file: file.display().to_string(), source })
    }

    fn try_put(&self, file: &Path, line: &str) -> io::Result<()> {
        let folder = file.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder)?;
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary.write_all(line.as_bytes())?;
        temporary.persist(file).map_err(|error| error.error)?;
        Ok(())
    }

    /// Replaces the dataset.
    ///
    /// # Errors
    /// When the disk refuses; the old one is left then.
    pub fn write_dataset(
        &self,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        Output::at(&self.dataset())?.write(fill)
    }

    fn file(&self, name: &str) -> PathBuf {
        let prefix = name.get(..PREFIX).unwrap_or(name);
        self.folder.join("cells").join(prefix).join(format!("{name}.json"))
    }
}

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// At all.
    #[error("the folder {folder} cannot be written: {source}; --out names another")]
    Folder {
        /// The folder.
        folder: String,
        /// What the system said.
        source: io::Error,
    },
    /// For this cell.
    #[error(
        "{file} cannot be written: {source}; the cells done so far are kept, and the same command does the rest"
    )]
    Cell {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// Two sweeps did it, and disagree.
    #[error(
        "{file} holds another result for the same cell: one of the two machines, or the disk, is wrong; \
         remove the file, and the same command does the cell again"
    )]
    Differs {
        /// The file.
        file: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_written_cell_counts_as_not_done() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(&folder.path().join("new")).unwrap();
        let found = Found::failed("a sentence\nof two lines");
        store.put("abcd", &found).unwrap();
        assert_eq!(store.get("abcd").unwrap().error.unwrap(), "a sentence of two lines");
        let file = store.file("abcd");
        let whole = fs::read(&file).unwrap();
        for length in [0, 1, whole.len() / 2] {
            fs::write(&file, &whole[..length]).unwrap();
            assert!(!store.has("abcd"), "{length} bytes of it");
        }
    }

    #[test]
    fn a_cell_done_twice_must_find_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path()).unwrap();
        let (one, other) = (Found::failed("one"), Found::failed("other"));
        store.put("abcd", &one).unwrap();
        store.put("abcd", &one).unwrap();
        let said = store.put("abcd", &other).unwrap_err().to_string();
        assert!(said.contains("abcd.json holds another result"), "{said}");
        assert_eq!(store.get("abcd"), Some(one), "the first stays");
    }
}
