//! What of the program's memory nobody ever wrote, in lines of 64 bytes: some pages of it, at a look.
//!
//! The kernel hands out pages of zeroes. So a line that still holds nothing but zeroes was most likely never written, or only cleared; whose block it
//! lies in, the finisher finds (`finish/blanks.rs`). Memory that was used before is not blank, so what is found is rather too little than too much.
//!
//! Invariants: nothing is read but pages that are in memory, so reading changes nothing for the program; at most [`MOST`] at a look;
//! what was read leaves this file only as a bit a line.

use crate::smaps::Row;
use crate::spool::facts::{FactReader, FactWriter};
use crate::zeroes::{in_turn, read};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of a page, and of a line: a page has as many lines as a word has bits.
pub const PAGE: u64 = 4096;
/// See [`PAGE`].
pub const LINE: u64 = PAGE / u64::BITS as u64;
/// Most pages read at a look.
const MOST: u64 = 256;
/// Most places where one is looked for.
const MOST_PLACES: u64 = 4 * MOST;
/// Bytes that the kernel's page map has for a page, and its bit of one that is in memory.
const ENTRY: u64 = 8;
const PRESENT: u64 = 1 << 63;

/// A page that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// Where it is.
    pub address: u64,
    /// A bit for each line, the first the lowest: whether it holds nothing but zeroes.
    pub blank: u64,
}

/// Reads some pages of the program's own memory, evenly spread, in the order of their addresses. None where that is not allowed.
pub fn look(pid: i32, rows: &[Row]) -> Vec<Page> {
    let is_own = |row: &&Row| row.start != 0 && (row.name.is_empty() || row.name == "[heap]");
    let rows: Vec<&Row> = rows.iter().filter(is_own).collect();
    let all: u64 = rows.iter().map(|row| (row.end - row.start) / PAGE).sum();
    let Ok(map) = File::open(format!("/proc/{pid}/pagemap")) else { return Vec::new() };
    let (mut pages, mut bytes) = (Vec::new(), [0; PAGE as usize]);
    let resident: u64 = rows.iter().map(|row| row.resident / PAGE).sum();
    // Where half of the addresses have no memory, twice as many are asked for.
    let places = MOST.saturating_mul(all).div_ceil(resident.max(1)).min(all).min(MOST_PLACES);
    for place in in_turn(places) {
        let number = (u128::from(place) * u128::from(all) / u128::from(places)) as u64;
        let Some(address) = nth(&rows, number) else { break };
        if pages.len() as u64 == MOST {
            break;
        }
        if is_present(&map, address) && read(pid, address, &mut bytes) {
            let lines = bytes.chunks_exact(LINE as usize).enumerate();
            let blank = lines.filter(|(_, line)| line.iter().all(|byte| *byte == 0));
            pages.push(Page { address, blank: blank.fold(0, |bits, (line, _)| bits | 1 << line) });
        }
    }
    pages.sort_unstable_by_key(|page| page.address);
    pages
}

/// The address of a page, counted over all rows.
fn nth(rows: &[&Row], mut number: u64) -> Option<u64> {
    for row in rows {
        let pages = (row.end - row.start) / PAGE;
        match number.checked_sub(pages) {
            Some(rest) => number = rest,
            None => return Some(row.start + number * PAGE),
        }
    }
    None
}

fn is_present(map: &File, address: u64) -> bool {
    let mut entry = [0; ENTRY as usize];
    let found = map.read_exact_at(&mut entry, address / PAGE * ENTRY);
    found.is_ok() && u64::from_ne_bytes(entry) & PRESENT != 0
}

/// Adds the pages to a fact.
pub fn write(fact: FactWriter, pages: &[Page]) -> FactWriter {
    let fact = fact.number(pages.len() as u64);
    pages.iter().fold(fact, |fact, page| fact.number(page.address).number(page.blank))
}

/// What [`write`] wrote.
pub fn read_back(fact: &mut FactReader<'_>) -> Option<Vec<Page>> {
    let count = fact.number().filter(|&count| count <= MOST)?;
    (0..count).map(|_| Some(Page { address: fact.number()?, blank: fact.number()? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mapping of so many pages, each written as told or not at all; what is seen of it.
    fn seen(pages: u64, write: impl Fn(u64, &mut [u8]) -> bool) -> (u64, Vec<Page>) {
        let (bytes, protection) = (pages * PAGE, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(null, bytes as usize, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: ours; small pages, so that each is in memory by itself.
        unsafe { libc::madvise(start, bytes as usize, libc::MADV_NOHUGEPAGE) };
        let mut resident = 0;
        for number in 0..pages {
            let mut page = [0; PAGE as usize];
            if write(number, &mut page) {
                resident += PAGE;
                // SAFETY: within the mapping, which is ours.
                unsafe {
                    start
                        .cast::<u8>()
                        .add((number * PAGE) as usize)
                        .copy_from(page.as_ptr(), page.len());
                }
            }
        }
        let at = start as u64;
        let row = Row { start: at, end: at + bytes, mapped: bytes, resident, ..Row::default() };
        let file = Row { start: 0, name: "/lib/x".into(), ..row.clone() };
        let found = look(std::process::id().cast_signed(), &[file, row]);
        // SAFETY: ours, and used no more.
        unsafe { libc::munmap(start, bytes as usize) };
        (at, found)
    }

    #[test]
    fn lines_of_zeroes_are_bits_of_their_page() {
        let write = |number, page: &mut [u8]| {
            page[70] = 1;
            page[4095] = u8::from(number == 1);
            number < 2
        };
        let (at, found) = seen(4, write);
        let all_but_second = !(1 << 1);
        let expected = [
            Page { address: at, blank: all_but_second },
            Page { address: at + PAGE, blank: all_but_second & !(1 << 63) },
        ];
        assert_eq!(found, expected, "two of the pages are not in memory");
        let fact = super::write(FactWriter::default(), &found);
        assert_eq!(read_back(&mut FactReader(fact.bytes())).unwrap(), expected);
    }

    #[test]
    fn of_many_pages_some_are_read_all_over_them() {
        let (at, found) = seen(8 * MOST, |number, _| number % 2 == 0);
        assert!((MOST / 4..=MOST).contains(&(found.len() as u64)), "{}", found.len());
        let (first, last) = (found[0].address, found[found.len() - 1].address);
        assert!(first < at + MOST * PAGE && last > at + 7 * MOST * PAGE);
        assert!(found.windows(2).all(|two| two[0].address < two[1].address));
    }

    #[test]
    fn what_is_no_list_of_pages_is_refused() {
        assert_eq!(read_back(&mut FactReader(&u64::MAX.to_le_bytes())), None);
        assert_eq!(read_back(&mut FactReader(&1u64.to_le_bytes())), None);
    }
}
