//! How a process tells others where its heaps are: one page of plain words, found by its first bytes.
//!
//! ```text
//! Page    magic | version | layout | counts | first Entry     in the writable data of the library
//! Entry   next -> ... -> 0 | roots | limit | name             one a heap, the main one inside the page
//! ```
//!
//! Nothing on it is kept up to date while the program runs: it says where the structures start and
//! how they are laid out, and the reader counts them itself (`malloc::census`). So a process that
//! nobody looks at pays nothing for being looked at.

use super::plain::{Plain, read};
use super::{Counts, HeapReport, Name};
use crate::malloc::census::{Census, Layout, Peek, Roots};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The first bytes of a page.
pub const MAGIC: [u8; 32] = *b"freehold: where the heaps are\x01\xFE\n";
/// A page starts at a multiple of this.
pub const PAGE_ALIGN: usize = 64;
/// Grows when the page's own fields change their meaning.
pub const PAGE_VERSION: u32 = 2;
/// Most heaps that are visited.
const MOST_HEAPS: usize = 1 << 16;

/// A heap's line.
#[derive(Debug)]
#[repr(C)]
pub struct Entry {
    /// The next heap's; 0 ends the list.
    pub next: AtomicUsize,
    regions: AtomicUsize,
    caches: AtomicUsize,
    limit: AtomicU64,
    name: Name,
}

impl Entry {
    /// A line that says nothing yet.
    pub const fn new(name: Name) -> Entry {
        Entry {
            next: AtomicUsize::new(0),
            regions: AtomicUsize::new(0),
            caches: AtomicUsize::new(0),
            limit: AtomicU64::new(0),
            name,
        }
    }

    /// Says where the heap is.
    pub fn fill(&self, roots: Roots) {
        self.caches.store(roots.caches, Ordering::Relaxed);
        self.regions.store(roots.regions, Ordering::Release);
    }

    /// Puts name and limit into a report.
    pub fn read_into(&self, report: &mut HeapReport) {
        report.name = self.name;
        report.limit = self.limit.load(Ordering::Relaxed);
    }

    /// Says how much the heap may hold, in bytes.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }
}

/// See the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Page {
    magic: [u8; 32],
    version: u32,
    _reserved: u32,
    layout: Layout,
    /// Where exact counts are kept; 0 when they are not.
    pub counts: AtomicUsize,
    /// The main heap's.
    pub main: Entry,
}

const _: () = assert!(align_of::<Page>() == PAGE_ALIGN);

/// Why a page could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// It is none.
    NoPage,
    /// It was written by another version of the library, whose structures differ.
    OtherVersion(u32),
    /// The process did not allocate yet.
    NothingYet,
    /// Memory that it points to cannot be read.
    Memory,
}

impl Page {
    /// The page of a process whose main heap is not known yet.
    pub const fn new() -> Page {
        Page {
            magic: MAGIC,
            version: PAGE_VERSION,
            _reserved: 0,
            layout: Layout::OURS,
            counts: AtomicUsize::new(0),
            main: Entry::new(Name::new(b"main")),
        }
    }

    /// Calls `visit` with every heap of the process whose page is at `address`, the main one first.
    /// The answer has the exact counts, if that process keeps them.
    pub fn visit(
        peek: &impl Peek,
        address: usize,
        mut visit: impl FnMut(&HeapReport),
    ) -> Result<Option<Counts>, Unreadable> {
        let page: Page = read(peek, address).ok_or(Unreadable::Memory)?;
        if page.magic != MAGIC {
            return Err(Unreadable::NoPage);
        }
        if page.version != PAGE_VERSION || !page.layout.is_readable() {
            return Err(Unreadable::OtherVersion(page.version));
        }
        let mut at = address + core::mem::offset_of!(Page, main);
        for _ in 0..MOST_HEAPS {
            let entry: Entry = read(peek, at).ok_or(Unreadable::Memory)?;
            let regions = entry.regions.into_inner();
            if regions == 0 {
                return Err(Unreadable::NothingYet);
            }
            let roots = Roots { regions, caches: entry.caches.into_inner() };
            let census = Census::take(peek, &page.layout, roots).ok_or(Unreadable::Memory)?;
            visit(&HeapReport { name: entry.name, limit: entry.limit.into_inner(), census });
            at = entry.next.into_inner();
            if at == 0 {
                break;
            }
        }
        match page.counts.into_inner() {
            0 => Ok(None),
            at => read(peek, at).map(Some).ok_or(Unreadable::Memory),
        }
    }
}

impl Default for Page {
    fn default() -> Page {
        Page::new()
    }
}

// SAFETY: integers, and atomics of them.
unsafe impl Plain for Page {}
// SAFETY: as above; a name's length is checked when it is used.
unsafe impl Plain for Entry {}
// SAFETY: as above.
unsafe impl Plain for Counts {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::malloc::census::Direct;

    #[test]
    fn a_page_says_what_it_is() {
        // SAFETY: only pages of this test are read.
        let peek = unsafe { Direct::new() };
        let page = Page::new();
        let at = (&raw const page).expose_provenance();
        assert_eq!(Page::visit(&peek, at, |_| {}), Err(Unreadable::NothingYet));
        let other = Page { version: 9, ..Page::new() };
        let at = (&raw const other).expose_provenance();
        assert_eq!(Page::visit(&peek, at, |_| {}), Err(Unreadable::OtherVersion(9)));
        let none = Page { magic: [0; 32], ..Page::new() };
        let at = (&raw const none).expose_provenance();
        assert_eq!(Page::visit(&peek, at, |_| {}), Err(Unreadable::NoPage));
    }
}
