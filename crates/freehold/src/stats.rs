//! What the process's heaps hold: [`Stats`], and the page on which other processes find it.
//!
//! Reading costs the reader only: it walks structures where they lie (`core::malloc::census`) and
//! stops no thread. Exact counts of calls exist when the program runs with `FREEHOLD_STATS=1`.

use crate::main_heap::HEAP;
use crate::off_heap::Table;
use crate::page::PAGE;
use crate::{counts, heaps, mode};
use core::sync::atomic::Ordering;
use freehold_core::malloc::census::Direct;
pub use freehold_core::malloc::census::{Census, ClassCensus};
pub use freehold_core::malloc::units::UNIT;
use freehold_core::stats::page::Page;
pub use freehold_core::stats::{Counts, Format, HeapReport, Name, Out, Report};

/// A snapshot of all heaps of the process.
///
/// ```
/// use freehold::stats::{Format, Stats};
///
/// let block = freehold::process::allocate(100);
/// let stats = Stats::take().expect("memory for a table");
/// assert_eq!(stats.heaps()[0].name.as_bytes(), b"main");
/// assert!(stats.heaps()[0].census.in_use() >= 100);
/// stats.write(Format::Text, &mut |bytes: &[u8]| print!("{}", String::from_utf8_lossy(bytes)));
/// # unsafe { freehold::process::free(block) };
/// ```
pub struct Stats {
    heaps: Table<HeapReport>,
    len: usize,
    counts: Option<Counts>,
}

impl Stats {
    /// Counts all heaps now; `None` when memory is short. Before the first allocation, or
    /// [`process::start`](crate::process::start), no options are known yet, and no counts kept. Other threads go on meanwhile, so figures
    /// are of slightly different moments. O(memory in use / 64 KiB).
    pub fn take() -> Option<Stats> {
        // Before the first call nobody has said so yet.
        PAGE.main.fill(HEAP.roots());
        heaps::with_list(|list| {
            let mut heaps = Table::new(1 + list.len())?;
            // SAFETY: the page is ours, and the list of heaps stands still.
            let peek = unsafe { Direct::new() };
            let mut len = 0;
            let page = (&raw const PAGE).expose_provenance();
            let visited = Page::visit(&peek, page, |heap| {
                if let Some(place) = heaps.get_mut(len) {
                    *place = *heap;
                    len += 1;
                }
            });
            visited.ok()?;
            let counts = (PAGE.counts.load(Ordering::Relaxed) != 0).then(counts::read);
            Some(Stats { heaps, len, counts })
        })
    }

    /// The heaps, the process's own first.
    pub fn heaps(&self) -> &[HeapReport] {
        self.heaps.get(..self.len).unwrap_or(&[])
    }

    /// Exact counts, if they are kept.
    pub fn counts(&self) -> Option<&Counts> {
        self.counts.as_ref()
    }

    /// Writes everything in a format.
    pub fn write(&self, format: Format, out: &mut dyn Out) {
        let pid = freehold_os::thread::process();
        Report { pid, heaps: self.heaps(), counts: self.counts() }.write(format, out);
    }
}

/// Whether calls are watched, hence slower: a profile, exact counts or hardening was asked for.
pub fn is_watched() -> bool {
    mode::is_on()
}
