//! As much of a core file (ELF, 64 bits) as the tests read: which addresses it holds, and what is there.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Bytes of memory that a core file holds.
struct Loaded {
    address: u64,
    /// How many are in the file; the rest of the mapping was left out.
    len: u64,
    offset: u64,
}

/// An open core file.
pub struct CoreFile {
    file: File,
    loaded: Vec<Loaded>,
}

fn word(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

impl CoreFile {
    pub fn open(path: &Path) -> CoreFile {
        const LOAD: u64 = 1;
        /// How many headers there are is in the first section's `sh_info`.
        const MANY: u64 = 0xFFFF;
        let file = File::open(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let read = |offset, len| {
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, offset).expect("a whole header");
            bytes
        };
        let header = read(0, 64);
        assert_eq!(header[..5], *b"\x7FELF\x02", "{}", path.display());
        let (headers, sections) = (word(&header, 32, 8), word(&header, 40, 8));
        let count = match word(&header, 56, 2) {
            MANY => word(&read(sections, 64), 44, 4),
            count => count,
        };
        let loaded = (0..count).map(|number| read(headers + number * 56, 56));
        let loaded = loaded.filter(|part| word(part, 0, 4) == LOAD);
        let loaded = loaded.map(|part| Loaded {
            offset: word(&part, 8, 8),
            address: word(&part, 16, 8),
            len: word(&part, 32, 8),
        });
        CoreFile { loaded: loaded.collect(), file }
    }

    /// What was at an address; less than `len` bytes where some are not in the file.
    pub fn read(&self, mut address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            let holds = |part: &&Loaded| (part.address..part.address + part.len).contains(&address);
            let Some(part) = self.loaded.iter().find(holds) else { break };
            let within = address - part.address;
            let some = ((part.len - within) as usize).min(len - done);
            let to = &mut bytes[done..done + some];
            self.file.read_exact_at(to, part.offset + within).expect("a whole part");
            done += some;
            address += some as u64;
        }
        bytes.truncate(done);
        bytes
    }

    /// How long the file is, and how much of a disk it takes: pages that are not there are holes, if its writer makes any.
    pub fn sizes(&self) -> (u64, u64) {
        let metadata = self.file.metadata().expect("an open file");
        (metadata.len(), metadata.blocks() * 512)
    }
}
