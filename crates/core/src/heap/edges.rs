//! Whether the program touches its large blocks at both ends only.
//!
//! Then they are placed by their ends ([`Runs::take_by_end`](crate::frames::runs::Runs::take_by_end)), and get no huge
//! pages, which would be resident as a whole for two pages of use.
//!
//! Found out by looking at blocks that are freed: most of eight pages of the middle read as zero, the last page does not.
//! Some in a row change the answer, and the longer one stands, the fewer blocks are looked at: a page that is looked at and
//! was never touched costs a page fault, though no memory (the kernel shows its page of zeros). Blocks that were asked for
//! as zero say nothing: their zeros may be what the program reads. Nor do blocks that read as zero without a page fault:
//! their pages were looked at before, or the program has filled them with zeros.

use super::node_heap::NodeHeap;
use crate::machine::Machine;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::{ptr, slice};

/// Most blocks between two that are looked at.
const LONGEST_GAP: u32 = 1023;
/// Blocks in a row that change the answer.
const ENOUGH: u32 = 4;
/// Shorter blocks, in pages, have no middle.
const MIDDLE_MIN: usize = 20;
/// Words that are looked at in one go: a page that is in use is known as such soon.
const PIECE: usize = 16;
/// A page is looked at between any two of so many parts of a block.
const PARTS: usize = 9;
/// Of these pages, how many may be in use: old ends of other blocks, or what is not touched would soon not look so.
const STRAYS: usize = 3;
/// Page faults by which pages show that they were never touched; one may be for this code itself.
const FAULTS: usize = 2;

/// What was seen. Threads may miss each other's looks: they are samples.
pub(super) struct Edges {
    /// Blocks still to pass before the next is looked at.
    left: AtomicU32,
    /// As many the next time.
    gap: AtomicU32,
    /// How many in a row did not look as [`Edges::only`] says.
    doubts: AtomicU32,
    /// The answer.
    only: AtomicBool,
}

impl Edges {
    pub(super) const fn new() -> Edges {
        Edges {
            left: AtomicU32::new(0),
            gap: AtomicU32::new(0),
            doubts: AtomicU32::new(0),
            only: AtomicBool::new(false),
        }
    }

    /// Whether blocks are touched at their ends only.
    #[inline]
    pub(super) fn only(&self) -> bool {
        self.only.load(Ordering::Relaxed)
    }

    /// Whether the block that is being freed shall be looked at.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left != 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// A block was looked at: whether only its ends are touched, if that could be told.
    fn learn(&self, edges: Option<bool>) {
        let (only, doubts) = (self.only(), self.doubts.load(Ordering::Relaxed));
        let longer = (self.gap.load(Ordering::Relaxed) * 2 + 1).min(LONGEST_GAP);
        let (doubts, gap) = match edges {
            None => (doubts, longer),
            Some(edges) if edges == only => (0, longer),
            Some(_) => (doubts + 1, 0),
        };
        self.only.store(only != (doubts >= ENOUGH), Ordering::Relaxed);
        self.doubts.store(if doubts >= ENOUGH { 0 } else { doubts }, Ordering::Relaxed);
        self.gap.store(gap, Ordering::Relaxed);
        self.left.store(gap, Ordering::Relaxed);
    }
}

impl<M: Machine> NodeHeap<M> {
    /// Looks at a large block that is about to be freed; `zeroed`: it was handed out to be zero.
    #[cold]
    #[inline(never)]
    pub(super) fn look_inside(&self, address: usize, size: usize, zeroed: bool) {
        let page = self.machine.page_size();
        if zeroed || size < MIDDLE_MIN * page {
            return;
        }
        let before = self.machine.faults();
        let is_there = |at: usize| {
            let at = ptr::with_exposed_provenance_mut(at);
            self.machine.bring(at, page)
        };
        // SAFETY: a large block, the caller's, has these bytes, whole pages of them.
        let edged = unsafe { is_edged(address, size, page, is_there) };
        let after = self.machine.faults();
        let untouched = match before.zip(after) {
            Some((before, after)) => after.wrapping_sub(before) >= FAULTS,
            None => true,
        };
        self.edges.learn(edged.filter(|&edged| !edged || untouched || self.edges.only()));
    }
}

/// Whether next to nothing but the last page of a block differs from zero; `None` where a page of it cannot be read. Each
/// page is asked for before it is read: the program may have forbidden that, or kept the page from a forked child.
///
/// # Safety
/// `[address, address + size)` is a large block that is the caller's, of [`MIDDLE_MIN`] pages of `page` bytes or more, and
/// of these pages those can be read of which `is_there` says so.
unsafe fn is_edged(
    address: usize,
    size: usize,
    page: usize,
    is_there: impl Fn(usize) -> bool,
) -> Option<bool> {
    let is_zero = |at: usize| {
        if !is_there(address + at) {
            return None;
        }
        let words: *const u64 = ptr::with_exposed_provenance(address + at);
        // SAFETY: a whole page of the block, which is there.
        let words = unsafe { slice::from_raw_parts(words, page / size_of::<u64>()) };
        Some(words.chunks(PIECE).all(|words| words.iter().fold(0, |bits, word| bits | word) == 0))
    };
    let mut touched = 0;
    for part in 1..PARTS {
        // Odd pages: no block began there.
        touched += !is_zero((size / PARTS * part / page * page) | page)? as usize;
        if touched > STRAYS {
            return Some(false);
        }
    }
    Some(!is_zero(size - page)?)
}
