//! The archive that the guest boots from: cpio's "newc" format, as the kernel reads it
//! (Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! Invariant: same content, same bytes: no times, owners or inode numbers of this machine.

use std::collections::BTreeSet;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive being written.
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    files: BTreeSet<String>,
}

impl Archive {
    /// With the folders that the guest mounts its file systems on.
    pub fn new() -> Archive {
        let mut archive =
            Archive { bytes: Vec::new(), folders: BTreeSet::new(), files: BTreeSet::new() };
        for folder in ["proc", "sys", "dev", "tmp", "out"] {
            archive.add_folder(folder);
        }
        archive
    }

    /// Adds a file that anyone may read and run, and the folders that it lies in; once only.
    pub fn add(&mut self, path: &str, content: &[u8]) {
        let path = path.trim_start_matches('/');
        if !self.files.insert(path.to_owned()) {
            return;
        }
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.add_folder(folder);
        }
        self.entry(path, PROGRAM, content);
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn add_folder(&mut self, path: &str) {
        if let Some((above, _)) = path.rsplit_once('/') {
            self.add_folder(above);
        }
        if self.folders.insert(path.to_owned()) {
            self.entry(path, FOLDER, &[]);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        let length = name.len() as u32 + 1;
        // inode, mode, owner, group, links, time, size, four device numbers, length of the name, no checksum
        let numbers = [0, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, 0, 0, length, 0]
            .map(|n| format!("{n:08x}"));
        self.bytes.extend_from_slice(b"070701");
        self.bytes.extend(numbers.concat().into_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn folders_come_before_their_files_and_nothing_comes_twice() {
        let mut archive = Archive::new();
        archive.add("/a/b/c", b"12345");
        archive.add("a/b/c", b"other");
        archive.add("a/d", b"");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("no {name:?}"));
        assert!(
            at("a\0") < at("a/b\0") && at("a/b\0") < at("a/b/c\0") && at("a/b/c\0") < at("a/d\0")
        );
        assert!(text.contains("12345\0\0\x00070701") && !text.contains("other"));
        assert!(bytes.len().is_multiple_of(4) && text.contains("TRAILER!!!"));
    }
}
