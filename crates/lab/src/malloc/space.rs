//! Address space for the simulated machine: reserved, committed, asked of the kernel page by page.
//!
//! Invariant: what is handed out are private mappings of this space alone, removed when it is dropped; the kernel gives
//! them small pages only, so that a page is resident exactly if somebody has written to it.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::OnceLock;

/// Bytes of the pages by which the kernel answers.
pub const KERNEL_PAGE: usize = 4096;
/// Kernel pages that one call asks about.
const AT_ONCE: usize = 4096;

struct Reservation {
    at: *mut libc::c_void,
    len: usize,
}

/// See the module.
#[derive(Default)]
pub struct Space {
    reservations: Vec<Reservation>,
}

/// Ranges of addresses, in order; neighbours are one.
#[derive(Default)]
pub struct Ranges(BTreeMap<usize, usize>);

impl Ranges {
    /// Adds a range, which may overlap others.
    pub fn add(&mut self, range: Range<usize>) {
        let before = self.0.range(..=range.start).next_back();
        let start = before.filter(|one| *one.1 >= range.start).map_or(range.start, |one| *one.0);
        let touching: Vec<usize> = self.0.range(start..=range.end).map(|one| *one.0).collect();
        let ends = touching.iter().filter_map(|start| self.0.remove(start));
        let end = ends.fold(range.end, usize::max);
        self.0.insert(start, end);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.0.iter().map(|(start, end)| *start..*end)
    }
}

impl Space {
    /// `len` bytes at a multiple of `align`, neither readable nor writable; null when the system has no room.
    pub fn reserve(&mut self, len: usize, align: usize) -> *mut u8 {
        let Some(whole) = len.checked_add(align) else { return ptr::null_mut() };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory that anyone else owns.
        let at = unsafe { libc::mmap(ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        // SAFETY: advice on the own mapping. A kernel without huge pages refuses, and gives none anyway.
        let _ = unsafe { libc::madvise(at, whole, libc::MADV_NOHUGEPAGE) };
        self.reservations.push(Reservation { at, len: whole });
        let start = at.cast::<u8>();
        start.wrapping_add(start.align_offset(align))
    }

    /// Makes reserved bytes readable and writable; whether the system let us.
    ///
    /// # Safety
    /// The range lies within one reservation.
    pub unsafe fn commit(at: *mut u8, len: usize) -> bool {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the caller's.
        unsafe { libc::mprotect(at.cast(), len, access) == 0 }
    }

    /// Gives pages back; whether the system took them. They read as zero afterwards.
    ///
    /// # Safety
    /// The range is committed and nothing in it is in use.
    pub unsafe fn discard(at: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's.
        unsafe { libc::madvise(at.cast(), len, libc::MADV_DONTNEED) == 0 }
    }

    /// Calls `visit` with the address of each kernel page of the committed range that is resident: one that was written. A
    /// page that was only read is the kernel's page of zeros, and no memory.
    pub fn each_resident(range: Range<usize>, mut visit: impl FnMut(usize)) {
        let mut answer = vec![0u8; AT_ONCE.min(range.len() / KERNEL_PAGE) * ENTRY];
        for start in range.clone().step_by(AT_ONCE * KERNEL_PAGE) {
            let pages = ((range.end - start) / KERNEL_PAGE).min(AT_ONCE);
            let entries = &mut answer[..pages * ENTRY];
            read_entries(start, entries);
            for (page, entry) in entries.chunks_exact(ENTRY).enumerate() {
                let entry = u64::from_ne_bytes(entry.try_into().unwrap_or_default());
                if entry & (PRESENT | OURS_ALONE) == PRESENT | OURS_ALONE {
                    visit(start + page * KERNEL_PAGE);
                }
            }
        }
    }
}

/// Bytes of an entry of `/proc/self/pagemap`, and its bits: the page is there; no other process has it, nor does the kernel.
const ENTRY: usize = 8;
const PRESENT: u64 = 1 << 63;
const OURS_ALONE: u64 = 1 << 56;

/// Reads the entries of the pages from `start`. Where there is no such file (no `/proc`), what is mapped counts as written.
fn read_entries(start: usize, entries: &mut [u8]) {
    static PAGEMAP: OnceLock<Option<File>> = OnceLock::new();
    let file = PAGEMAP.get_or_init(|| File::open("/proc/self/pagemap").ok());
    let at = (start / KERNEL_PAGE * ENTRY) as u64;
    if file.as_ref().is_some_and(|file| file.read_exact_at(entries, at).is_ok()) {
        return;
    }
    let pages = entries.len() / ENTRY;
    let mut mapped = vec![0u8; pages];
    let at = ptr::with_exposed_provenance_mut(start);
    // SAFETY: the kernel writes one byte for each page of the range, which `mapped` has room for.
    let status = unsafe { libc::mincore(at, pages * KERNEL_PAGE, mapped.as_mut_ptr()) };
    debug_assert_eq!(status, 0, "committed memory is mapped");
    for (entry, mapped) in entries.chunks_exact_mut(ENTRY).zip(mapped) {
        let is_there = if mapped & 1 != 0 { PRESENT | OURS_ALONE } else { 0 };
        entry.copy_from_slice(&is_there.to_ne_bytes());
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        for Reservation { at, len } in self.reservations.drain(..) {
            // SAFETY: exactly a mapping made by `reserve`; who was given it is gone before the machine.
            let status = unsafe { libc::munmap(at, len) };
            debug_assert_eq!(status, 0, "an own mapping can be removed");
        }
    }
}

/// Page faults that the calling thread has taken: no more pages than these can have become resident.
pub fn faults() -> u64 {
    // SAFETY: all-zero is a valid rusage, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    (usage.ru_minflt + usage.ru_majflt) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident(range: Range<usize>) -> Vec<usize> {
        let mut pages = Vec::new();
        Space::each_resident(range.clone(), |page| pages.push((page - range.start) / KERNEL_PAGE));
        pages
    }

    #[test]
    fn a_page_is_resident_from_its_first_touch_until_it_is_discarded() {
        let mut space = Space::default();
        let at = space.reserve(64 << 20, 2 << 20);
        assert!(at.addr().is_multiple_of(2 << 20));
        // SAFETY: within the reservation.
        assert!(unsafe { Space::commit(at, 32 << 20) });
        let whole = at.expose_provenance()..at.addr() + (32 << 20);
        assert!(resident(whole.clone()).is_empty());
        for page in [0, 5, 6, 4095, 4096] {
            // SAFETY: committed, and ours.
            unsafe { at.add(page * KERNEL_PAGE).write(1) };
        }
        assert_eq!(resident(whole.clone()), [0, 5, 6, 4095, 4096]);
        // SAFETY: committed, and nothing in it is in use.
        assert!(unsafe { Space::discard(at.add(5 * KERNEL_PAGE), KERNEL_PAGE) });
        assert_eq!(resident(whole.clone()), [0, 6, 4095, 4096]);
        // SAFETY: committed, and ours; reading a page does not make it memory.
        assert_eq!(unsafe { at.add(9 * KERNEL_PAGE).read_volatile() }, 0);
        assert_eq!(resident(whole), [0, 6, 4095, 4096]);
    }

    #[test]
    fn neighbours_are_one_range() {
        let mut ranges = Ranges::default();
        for range in [0..10, 30..40, 20..30, 50..60, 10..20, 60..61] {
            ranges.add(range);
        }
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [0..40, 50..61]);
        ranges.add(35..55);
        assert!(ranges.iter().eq(std::iter::once(0..61)));
    }
}
