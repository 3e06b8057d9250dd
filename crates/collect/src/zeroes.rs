//! How much of a process's huge pages nobody ever wrote.
//!
//! The kernel says how many bytes of a mapping lie in huge pages, never how many of them the program uses. But it zeroes each huge page whole, so a part
//! of it that still holds nothing but zeroes was most likely never written. (The kernel itself goes by the same when it
//! splits huge pages that are little used.) A few huge pages of each mapping are read, evenly spread.
//!
//! Invariants: nothing is read but pages that are in memory, so reading changes nothing for the program; what was read
//! leaves this file only as a number of bytes. Where reading is not allowed, nothing is known, which counts as no zeroes.

use crate::smaps::Row;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A huge page, and the pages that it could be instead.
const HUGE: u64 = 2 << 20;
const PAGE: usize = 4096;
const PAGES: usize = HUGE as usize / PAGE;
/// Most huge pages read of a mapping, most places where one is looked for, and most read in all.
const MOST_OF_ONE: usize = 16;
const MOST_PLACES: u64 = 512;
const MOST: usize = 32;
/// Bytes that the kernel's page map has for a page, and its bit of one that is in memory.
const ENTRY: usize = 8;
const PRESENT: u64 = 1 << 63;

/// Estimates the zeroes of each row that lies mostly in huge pages.
pub fn look(pid: i32, rows: &mut [Row]) {
    let is_huge =
        |row: &&mut Row| row.start != 0 && row.huge >= HUGE && row.huge * 2 >= row.resident;
    let mut rows: Vec<&mut Row> = rows.iter_mut().filter(is_huge).collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.huge));
    let Ok(map) = File::open(format!("/proc/{pid}/pagemap")) else { return };
    let mut page = vec![0; HUGE as usize];
    let mut left = MOST;
    for row in rows {
        let (mut seen, mut zero) = (0, 0);
        for at in places(row) {
            if seen == MOST_OF_ONE.min(left) {
                break;
            }
            if is_present(&map, at) && read(pid, at, &mut page) {
                seen += 1;
                zero += page.chunks_exact(PAGE).filter(|page| **page == [0; PAGE]).count();
            }
        }
        left -= seen;
        row.zero = row.huge * zero as u64 / (seen * PAGES).max(1) as u64;
    }
}

/// Where huge pages may be, evenly spread over the row.
fn places(row: &Row) -> impl Iterator<Item = u64> + use<> {
    let (first, behind) = (row.start.div_ceil(HUGE), row.end / HUGE);
    let all = behind.saturating_sub(first);
    let many = all.min(MOST_PLACES);
    in_turn(many).map(move |place| (first + place * all / many) * HUGE)
}

/// The numbers below `many`, each once, neighbours late: who stops early has seen some of all.
pub fn in_turn(many: u64) -> impl Iterator<Item = u64> + use<> {
    // By a step that has no divisor in common with the number.
    let step = (many * 5 / 8..many).find(|&step| gcd(step, many) == 1).unwrap_or(1);
    (0..many).map(move |i| i * step % many)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether every part of the huge page is in memory.
fn is_present(map: &File, at: u64) -> bool {
    let mut entries = [0; PAGES * ENTRY];
    let offset = at / PAGE as u64 * ENTRY as u64;
    map.read_exact_at(&mut entries, offset).is_ok()
        && entries.chunks_exact(ENTRY).all(|entry| {
            entry.try_into().is_ok_and(|entry| u64::from_ne_bytes(entry) & PRESENT != 0)
        })
}

/// Copies memory of the process.
pub fn read(pid: i32, at: u64, to: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: at as *mut _, iov_len: to.len() };
    // SAFETY: `local` is `to`, which is borrowed for writing; the kernel checks the other process's addresses.
    let copied =
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    copied == to.len() as isize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_spread_and_none_comes_twice() {
        for (megabytes, expected) in [(1, 0), (4, 1), (64, 31), (64 << 10, 512)] {
            let row = Row {
                start: 0x7f00_0010_0000,
                end: 0x7f00_0010_0000 + (megabytes << 20),
                ..Row::default()
            };
            let mut all: Vec<u64> = places(&row).collect();
            assert!(
                all.iter().all(|&at| at >= row.start && at + HUGE <= row.end && at % HUGE == 0)
            );
            let last = all.iter().take(16).max().copied().unwrap_or(0);
            assert!(expected < 31 || last > row.start + (megabytes << 20) / 2, "{megabytes}");
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), expected, "{megabytes} MiB");
        }
    }

    /// In ordinary pages: what matters here is which are in memory, and what they hold.
    #[test]
    fn what_was_never_written_is_found_and_what_was_is_not() {
        let bytes = 17 * HUGE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(null, bytes as usize, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let at = start as u64;
        let found = |write: &dyn Fn(usize, &mut [u8])| {
            // SAFETY: the mapping is ours, and borrowed by nobody else.
            let all = unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>(), bytes as usize) };
            all.chunks_mut(PAGE).enumerate().for_each(|(number, page)| write(number, page));
            let mut rows = [Row {
                start: at,
                end: at + bytes,
                resident: bytes,
                huge: bytes,
                ..Row::default()
            }];
            look(std::process::id().cast_signed(), &mut rows);
            rows[0].zero as f64 / bytes as f64
        };
        // The first half of it is not in memory, so nothing is known of that.
        let half = |number, page: &mut [u8]| {
            if number > 8 * PAGES {
                page[9] = 0
            }
        };
        assert_eq!(found(&half), 1.0);
        assert_eq!(found(&|number, page| page[4095] = u8::from(number % 4 == 0)), 0.75);
        assert_eq!(found(&|_, page| page[7] = 1), 0.0);
        // SAFETY: ours, and used no more.
        unsafe { libc::munmap(start, bytes as usize) };
    }
}
