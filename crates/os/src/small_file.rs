//! Small text files of the kernel's, read without allocating or formatting.

use crate::syscall::{Number, call};

/// Bytes of a file that are read: what we want of a node's `meminfo` is in the first 500. Few, for they lie on the
/// stack of whoever allocates.
pub const MOST: usize = 1024;
/// Bytes of a name, the zero at its end included: a control group's is the longest.
const NAME: usize = 320;
const FOLDER: &[u8] = b"/sys/devices/system/node/";
const AT_FDCWD: usize = -100isize as usize;
const READ_ONLY_CLOSED_ON_EXEC: usize = 0o2_000_000;

/// The first bytes of a file.
pub struct SmallFile {
    bytes: [u8; MOST],
    len: usize,
}

impl SmallFile {
    /// Reads a file about all nodes; `None` when that cannot be done.
    pub fn of_nodes(name: &[u8]) -> Option<SmallFile> {
        SmallFile::of_parts([FOLDER, name, b""])
    }

    /// Reads a file about one node, below 100.
    pub fn of_node(node: usize, name: &[u8]) -> Option<SmallFile> {
        let digits = [b'0' + (node / 10 % 10) as u8, b'0' + (node % 10) as u8];
        let number = if node < 10 { digits.get(1..)? } else { &digits };
        let mut folder = [0; 2 + 5];
        let mut parts = b"node".iter().chain(number).chain(b"/");
        let len = folder.iter_mut().zip(&mut parts).map(|(to, from)| *to = *from).count();
        SmallFile::of_parts([FOLDER, folder.get(..len)?, name])
    }

    /// Reads a file by its path.
    pub fn at(path: &[u8]) -> Option<SmallFile> {
        SmallFile::of_parts([path, b"", b""])
    }

    /// Reads a file, by the parts of a path of less than 320 bytes.
    pub fn of_parts(parts: [&[u8]; 3]) -> Option<SmallFile> {
        let mut name = [0; NAME];
        let all = parts.iter().flat_map(|part| part.iter());
        // The last byte stays zero.
        name.iter_mut().take(NAME - 1).zip(all).for_each(|(to, from)| *to = *from);
        let mut file = SmallFile { bytes: [0; MOST], len: 0 };
        let descriptor = open(&name)?;
        let len = read(descriptor, &mut file.bytes);
        close(descriptor);
        file.len = len?;
        Some(file)
    }

    /// What was read.
    pub fn text(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// The numbers in it, from left to right.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        numbers(self.text())
    }

    /// The numbers below 64 of a list such as `0-3,5`, one bit each.
    pub fn set(&self) -> u64 {
        set(self.text())
    }

    /// The number behind a key, as in `MemFree: 123 kB`.
    pub fn number_of(&self, key: &[u8]) -> Option<u64> {
        number_of(self.text(), key)
    }
}

/// Calls `visit` with every line of a file, however long that is, up to a line of more than [`MOST`] bytes.
pub fn each_line(path: &[u8], mut visit: impl FnMut(&[u8])) {
    let mut name = [0; NAME];
    name.iter_mut().take(NAME - 1).zip(path).for_each(|(to, from)| *to = *from);
    let Some(descriptor) = open(&name) else { return };
    let (mut bytes, mut len) = ([0; MOST], 0);
    while let Some(more @ 1..) = read(descriptor, bytes.get_mut(len..).unwrap_or(&mut [])) {
        len += more;
        let text = bytes.get(..len).unwrap_or(&[]);
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let lines = text.get(..whole).unwrap_or(&[]);
        lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).for_each(&mut visit);
        bytes.copy_within(whole..len, 0);
        len -= whole;
    }
    close(descriptor);
}

/// Reads from a descriptor of ours; how many bytes, `None` where that cannot be done.
fn read(descriptor: usize, into: &mut [u8]) -> Option<usize> {
    let arguments = [descriptor, into.as_mut_ptr().addr(), into.len(), 0, 0, 0];
    // SAFETY: the buffer is the caller's and as long as said.
    usize::try_from(unsafe { call(Number::Read, arguments) }).ok()
}

/// Closes a descriptor of ours.
fn close(descriptor: usize) {
    // SAFETY: the descriptor is ours.
    unsafe { call(Number::Close, [descriptor, 0, 0, 0, 0, 0]) };
}

/// Opens a file for reading, by a name that ends with a zero.
pub fn open(name: &[u8]) -> Option<usize> {
    if name.last() != Some(&0) {
        return None;
    }
    let arguments = [AT_FDCWD, name.as_ptr().addr(), READ_ONLY_CLOSED_ON_EXEC, 0, 0, 0];
    // SAFETY: the name ends with a zero.
    usize::try_from(unsafe { call(Number::OpenAt, arguments) }).ok()
}

fn numbers(text: &[u8]) -> impl Iterator<Item = u64> {
    text.split(|byte| !byte.is_ascii_digit()).filter(|word| !word.is_empty()).map(number)
}

fn number(digits: &[u8]) -> u64 {
    let digit = |byte: &u8| u64::from(byte.wrapping_sub(b'0'));
    digits.iter().fold(0, |sum: u64, byte| sum.wrapping_mul(10).wrapping_add(digit(byte)))
}

fn set(text: &[u8]) -> u64 {
    let mut bits = 0;
    for range in text.split(|&byte| byte == b',') {
        let mut ends = numbers(range);
        let Some(first) = ends.next() else { continue };
        let last = ends.next().unwrap_or(first).min(63);
        for at in first..=last {
            bits |= 1 << at;
        }
    }
    bits
}

fn number_of(text: &[u8], key: &[u8]) -> Option<u64> {
    let line =
        text.split(|&byte| byte == b'\n').find(|line| line.windows(key.len()).any(|w| w == key))?;
    let at = line.windows(key.len()).position(|w| w == key)?;
    numbers(line.get(at + key.len()..)?).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    #[test]
    fn the_kernel_s_lists_and_tables_are_read() {
        assert_eq!(set(b"0-3,5\n"), 0b10_1111);
        assert_eq!(set(b"\n"), 0);
        assert_eq!(set(b"62-70"), 0b11 << 62);
        assert_eq!(numbers(b"10 20  30\n").collect::<Vec<_>>(), [10, 20, 30]);
        let meminfo = b"Node 1 MemTotal:  1234 kB\nNode 1 MemFree:   567 kB\n";
        assert_eq!(number_of(meminfo, b"MemFree:"), Some(567));
        assert_eq!(number_of(meminfo, b"MemUsed:"), None);
    }

    /// With version 1 in a container's container, `/proc/self/cgroup` has a dozen lines of 200 bytes.
    #[test]
    fn all_lines_of_a_longer_file_are_read() {
        let line = |at: usize| std::format!("{at}:cpu:/{}", "x".repeat(at * 10));
        let lines: Vec<_> = (0..60).map(line).collect();
        let path = std::env::temp_dir().join(std::format!("each_line-{}", std::process::id()));
        std::fs::write(&path, lines.join("\n") + "\n").expect("a file");
        let mut read = Vec::new();
        each_line(path.as_os_str().as_encoded_bytes(), |line| {
            read.push(std::string::String::from_utf8_lossy(line).into_owned());
        });
        std::fs::remove_file(&path).expect("our file");
        assert_eq!(read, lines);
        each_line(b"/no/such/file", |_| unreachable!());
    }

    #[test]
    fn files_that_are_there_are_read_and_others_are_none() {
        assert!(SmallFile::of_nodes(b"no such file").is_none());
        assert!(SmallFile::of_node(99, b"meminfo").is_none());
        // Not every kernel knows of nodes.
        if let Some(online) = SmallFile::of_nodes(b"online") {
            assert_eq!(online.set() & 1, 1);
            let meminfo = SmallFile::of_node(0, b"meminfo").expect("node 0 is online");
            assert!(meminfo.number_of(b"MemTotal:").expect("it has memory") > 0);
        }
    }
}
