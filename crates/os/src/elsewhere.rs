//! What a process has on some nodes beside its heaps: stacks, data, mappings of its own; moved piece by piece.
//!
//! ```text
//! /proc/self/numa_maps   how many pages of each mapping lie on which node: mappings without any are passed over
//! /proc/self/maps        where that mapping ends; both are in order of addresses and read side by side
//! move_pages             which of 512 pages lie there, and to move them
//! ```
//!
//! Mappings with a memory policy are left alone: somebody has said where they belong, the heaps among them. So are pages
//! that others have mapped, too. Nothing is allocated: files are read word by word, and long words cut off.

use crate::nodes::{BATCH, Memories};
use crate::small_file::open;
use crate::syscall::{Number, call};
use freehold_core::machine::Nodes;
use freehold_core::place::{Home, NodeId, NodeSet};

/// Bytes of a file that are read at a time, and of a word that are kept: names of files are of no interest.
const BUFFER: usize = 1024;
const WORD: usize = 40;
/// Room that the nearest node must have to be chosen, in bytes.
const ROOM: u64 = 64 << 20;

/// How far the walk has come.
#[derive(Debug)]
pub struct Elsewhere<'a> {
    memories: &'a Memories,
    page: usize,
    from: NodeSet,
    to: NodeSet,
    counts: Words,
    ranges: Words,
    /// Of the mapping at hand: what was not looked at, how many pages are there still, and where they go.
    start: usize,
    end: usize,
    there: usize,
    refuge: Option<NodeId>,
}

impl<'a> Elsewhere<'a> {
    /// From the first mapping on: what lies on nodes of `from` is to go to those of `to`. `None` where the kernel does
    /// not tell.
    pub(crate) fn new(
        memories: &'a Memories,
        page: usize,
        from: NodeSet,
        to: NodeSet,
    ) -> Option<Elsewhere<'a>> {
        let counts = Words::of(b"/proc/self/numa_maps\0")?;
        let ranges = Words::of(b"/proc/self/maps\0")?;
        let (start, end, there, refuge) = (0, 0, 0, None);
        Some(Elsewhere { memories, page, from, to, counts, ranges, start, end, there, refuge })
    }

    /// Moves what of the next 2 MiB or less lies there; how many bytes left. `None` when all was looked at.
    pub fn step(&mut self) -> Option<usize> {
        while self.start >= self.end || self.there == 0 {
            self.next_mapping()?;
        }
        let at = self.start as *mut u8;
        // Never a part of a huge page, of which the first page that is named takes all along.
        // Pages are powers of two.
        let end = ((self.start | (self.page * BATCH - 1)) + 1).min(self.end);
        let count = pages(end - self.start, self.page);
        self.start += count * self.page;
        let mut homes = [Home::ANYWHERE; BATCH];
        let homes = homes.get_mut(..count)?;
        let before = self.look(at, homes);
        self.there = self.there.saturating_sub(before);
        let Some(to) = self.refuge.filter(|_| before > 0) else { return Some(0) };
        self.memories.migrate(at, self.page, homes, self.from, to);
        Some(before.saturating_sub(self.look(at, homes)) * self.page)
    }

    /// How many of the pages lie there.
    fn look(&self, at: *mut u8, homes: &mut [Home]) -> usize {
        let known = self.memories.locate(at, self.page, homes);
        let there = |home: &&Home| home.node().is_some_and(|node| self.from.contains(node));
        if known { homes.iter().filter(there).count() } else { 0 }
    }

    /// Goes to the next mapping with pages there, whose policy is the system's.
    fn next_mapping(&mut self) -> Option<()> {
        let (start, bytes) = loop {
            let (start, bytes) = counted(&mut self.counts, self.from)?;
            if bytes > 0 {
                break (start, bytes);
            }
        };
        let end = loop {
            let (first, end) = range(&mut self.ranges)?;
            // A mapping that is gone by now is passed over.
            if end > start {
                self.start = start.max(first);
                break end;
            }
        };
        (self.end, self.there) = (end, pages(bytes, self.page));
        self.refuge = self.find_refuge();
        Some(())
    }

    /// The nearest node with room, or the one that has the most.
    fn find_refuge(&self) -> Option<NodeId> {
        let survey = self.memories.survey(self.from.iter().next()?);
        let free = |node: NodeId| survey.rooms.get(node.index()).map_or(0, |room| room.free);
        let far = |node: &NodeId| survey.distances.get(node.index()).copied();
        let roomy = self.to.iter().filter(|&node| free(node) >= ROOM).min_by_key(far);
        roomy.or_else(|| self.to.iter().max_by_key(|&node| free(node)))
    }
}

/// How many pages so many bytes are.
fn pages(bytes: usize, page: usize) -> usize {
    bytes.checked_div(page).unwrap_or(0)
}

/// A line of `numa_maps`: where the mapping starts, and how many bytes of it lie on nodes of `set`; none where it has a
/// policy.
fn counted(words: &mut Words, set: NodeSet) -> Option<(usize, usize)> {
    let (start, mut more) = words.next(|word| hexadecimal(word).0)?;
    let (mut pages, mut kib, mut place) = (0, 4, 0);
    while more {
        place += 1;
        let (_, goes_on) = words.next(|word| match word {
            [b'N', rest @ ..] => {
                let (node, count) = assigned(rest);
                let in_set = NodeId::new(node).is_some_and(|node| set.contains(node));
                pages += if in_set { count } else { 0 };
            }
            _ if place == 1 && word != b"default" => kib = 0,
            _ if kib != 0 => kib = word.strip_prefix(b"kernelpagesize_kB=").map_or(kib, decimal),
            _ => {}
        })?;
        more = goes_on;
    }
    Some((start, pages * kib * 1024))
}

/// A line of `maps`: the addresses.
fn range(words: &mut Words) -> Option<(usize, usize)> {
    let (range, mut more) = words.next(|word| {
        let (start, len) = hexadecimal(word);
        (start, hexadecimal(word.get(len + 1..).unwrap_or_default()).0)
    })?;
    while more {
        (_, more) = words.next(|_| ())?;
    }
    Some(range)
}

/// `1=20`.
fn assigned(word: &[u8]) -> (usize, usize) {
    let mut parts = word.split(|&byte| byte == b'=');
    (decimal(parts.next().unwrap_or_default()), decimal(parts.next().unwrap_or_default()))
}

fn decimal(digits: &[u8]) -> usize {
    let digit = |byte: &u8| usize::from(byte.wrapping_sub(b'0'));
    digits.iter().fold(0, |sum: usize, byte| sum.wrapping_mul(10).wrapping_add(digit(byte)))
}

/// The number that a word begins with, and how many digits it has.
fn hexadecimal(word: &[u8]) -> (usize, usize) {
    let digits = word.iter().map_while(|&byte| char::from(byte).to_digit(16));
    digits.fold((0, 0), |(sum, len), digit| (sum << 4 | digit as usize, len + 1))
}

/// A file of the kernel's, word by word.
#[derive(Debug)]
struct Words {
    descriptor: usize,
    buffer: [u8; BUFFER],
    at: usize,
    len: usize,
}

impl Words {
    /// Opens a file whose name ends with a zero.
    fn of(name: &[u8]) -> Option<Words> {
        Some(Words { descriptor: open(name)?, buffer: [0; BUFFER], at: 0, len: 0 })
    }

    /// Hands the next word to `work`, and says whether the line goes on behind it; `None` at the end of the file.
    fn next<R>(&mut self, work: impl FnOnce(&[u8]) -> R) -> Option<(R, bool)> {
        let (word, len, goes_on) = self.word()?;
        Some((work(word.get(..len).unwrap_or_default()), goes_on))
    }

    /// The next word, its length, and whether the line goes on behind it.
    #[inline(never)]
    fn word(&mut self) -> Option<([u8; WORD], usize, bool)> {
        let (mut word, mut len) = ([0; WORD], 0);
        loop {
            match self.byte()? {
                b' ' if len == 0 => {}
                end @ (b' ' | b'\n') => return Some((word, len, end == b' ')),
                byte => {
                    if let Some(place) = word.get_mut(len) {
                        *place = byte;
                        len += 1;
                    }
                }
            }
        }
    }

    fn byte(&mut self) -> Option<u8> {
        if self.at == self.len {
            let arguments = [self.descriptor, self.buffer.as_mut_ptr().addr(), BUFFER, 0, 0, 0];
            // SAFETY: the buffer is ours and as long as said.
            let len = unsafe { call(Number::Read, arguments) };
            self.len = usize::try_from(len).ok().filter(|&len| len > 0)?;
            self.at = 0;
        }
        self.at += 1;
        self.buffer.get(self.at - 1).copied()
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        unsafe { call(Number::Close, [self.descriptor, 0, 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::io::Write;
    use std::vec::Vec;

    fn words(text: &str) -> Words {
        let path = std::env::temp_dir().join(std::format!(
            "freehold-words-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        let name = std::format!("{}\0", path.display());
        let words = Words::of(name.as_bytes()).expect("it is there");
        std::fs::remove_file(&path).unwrap();
        words
    }

    #[test]
    fn pages_on_nodes_are_counted_where_nobody_has_a_policy() {
        let long = "x".repeat(3000);
        let mut words = words(&std::format!(
            "5555 default file=/{long} mapped=3 N0=2 N1=1 kernelpagesize_kB=4\n\
             7f0000 prefer:1 anon=4 N1=4 kernelpagesize_kB=4\n7f8000 default stack N1=2 N3=5 kernelpagesize_kB=2048\n\
             7fff00 default\n"
        ));
        let set = NodeSet::from_bits(0b1010);
        let lines: Vec<_> = std::iter::from_fn(|| counted(&mut words, set)).collect();
        assert_eq!(lines, [(0x5555, 4096), (0x7f_0000, 0), (0x7f_8000, 7 << 21), (0x7f_ff00, 0)]);
    }

    #[test]
    fn ranges_are_read() {
        let mut words =
            words("1000-3000 r-xp 00000000 fe:00 12 /a name\n7fff00-7fff10 rw-p 0 0:0 0 \n");
        assert_eq!(range(&mut words), Some((0x1000, 0x3000)));
        assert_eq!(range(&mut words), Some((0x7f_ff00, 0x7f_ff10)));
        assert_eq!(range(&mut words), None);
    }

    #[test]
    fn the_files_of_this_process_are_walked() {
        let memories = Memories::new();
        let none = NodeSet::default();
        // Not every kernel has nodes.
        let Some(mut walk) = Elsewhere::new(&memories, 4096, none, none) else { return };
        assert_eq!(walk.step(), None, "nothing lies on no node");
        let mut ranges = Words::of(b"/proc/self/maps\0").expect("it is there");
        let here = (&raw const walk).addr();
        let mut all = std::iter::from_fn(|| range(&mut ranges));
        assert!(all.any(|(start, end)| start <= here && here < end), "the stack is among them");
    }
}
