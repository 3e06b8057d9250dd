//! The kernel's files, of this machine or of a copy in a folder.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Why the machine cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// No such folder of memory blocks.
    #[error(
        "{0} is missing: this kernel cannot plug memory (CONFIG_MEMORY_HOTPLUG), or hides it, as containers do"
    )]
    NoBlocks(PathBuf),
    /// A file that must be there cannot be read.
    #[error("{path} cannot be read: {why}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// A file that says something else than expected.
    #[error("{path} says {text:?}, which is not understood")]
    Strange {
        /// Which.
        path: PathBuf,
        /// What it says, or its beginning.
        text: String,
    },
}

/// A folder that holds `sys` and `proc`.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// This machine.
    pub fn real() -> Tree {
        Tree::at(Path::new("/"))
    }

    /// A copy of another's files.
    pub fn at(root: &Path) -> Tree {
        Tree { root: root.to_path_buf() }
    }

    /// Where a file is, named from the root.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The text of a file, without the line's end.
    pub(crate) fn text(&self, name: &str) -> Result<String, TreeError> {
        let path = self.path(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim_end().to_owned()),
            Err(why) => Err(TreeError::Unreadable { path, why }),
        }
    }

    /// A hexadecimal number that a file consists of.
    pub(crate) fn hexadecimal(&self, name: &str) -> Result<u64, TreeError> {
        let text = self.text(name)?;
        let digits = text.trim_start_matches("0x");
        u64::from_str_radix(digits, 16).map_err(|_| self.strange(name, &text))
    }

    pub(crate) fn strange(&self, name: &str, text: &str) -> TreeError {
        TreeError::Strange { path: self.path(name), text: text.chars().take(60).collect() }
    }

    /// The names in a folder.
    pub(crate) fn names(&self, folder: &str) -> Result<Vec<String>, TreeError> {
        let path = self.path(folder);
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(why) => return Err(TreeError::Unreadable { path, why }),
        };
        Ok(entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect())
    }

    /// `count` numbers of eight bytes from number `first` on; fewer where the file ends before.
    pub(crate) fn words(
        &self,
        name: &str,
        first: u64,
        count: usize,
    ) -> Result<Vec<u64>, TreeError> {
        let path = self.path(name);
        let read = || -> io::Result<Vec<u8>> {
            let mut file = std::fs::File::open(&path)?;
            file.seek(SeekFrom::Start(first * 8))?;
            let mut bytes = Vec::with_capacity(count * 8);
            file.take(count as u64 * 8).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|why| TreeError::Unreadable { path: path.clone(), why })?;
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        Ok(bytes.chunks_exact(8).map(word).collect())
    }
}
