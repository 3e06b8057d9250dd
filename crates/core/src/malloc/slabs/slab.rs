//! A slab: one unit of 64 KiB cut into blocks of one class.
//!
//! Its free blocks are set bits, out of band: inside the descriptor when there are at most 512 of
//! them, else in the unit's bitmap. Any thread clears bits to take blocks and sets bits to give them, each by
//! one atomic operation for up to 64 blocks, without a lock. The purger takes blocks like
//! a program would, returns their pages and gives them back.
//!
//! Invariant: a set bit is a block that no thread holds. The thread that clears the bit holds the block. `vacancy` owns counts
//! and notification; `next` and `prev` are the owner's.

use super::inbox::Linked;
use super::pages::{PageSet, Pages};
use super::vacancy::Vacancy;
use crate::malloc::block::{Block, Chain};
use crate::malloc::misuse::Misuse;
use crate::malloc::units::UNIT;
use crate::malloc::units::region::Region;
use crate::row::Row;
use crate::size_class::SizeClass;
use crate::sync::{AtomicPtr, AtomicU64};
use core::cell::Cell;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicU16, Ordering, compiler_fence};

/// The descriptor of a unit that is a slab.
#[repr(C)]
pub struct Slab {
    /// How many of its blocks are free, and who knows.
    pub vacancy: Vacancy,
    /// Neighbours in the owner's list of the class.
    pub next: Cell<*mut Slab>,
    news: AtomicPtr<Slab>,
    bits: Cell<*const AtomicU64>,
    base: Cell<usize>,
    class: Cell<u8>,
    blocks: Cell<u16>,
    /// Pages that were purged since a block in them was last taken.
    pub purged: PageSet,
    /// The purger's note: free blocks at its last visit.
    pub seen: AtomicU16,
    /// Pages in which free blocks that start there may have lost their marks; see `sparse`.
    pub unmarked: PageSet,
    /// The owner's count of frees that took the careful path for want of marks.
    pub careful: Cell<u16>,
    /// Pages in which no block was ever taken, so none can be freed twice.
    pub untaken: PageSet,
    /// The bits themselves, when these are enough. Those of the first 64 blocks lie in the line of the count: who frees a block
    /// of 1 KiB or more for another thread fetches no other.
    inline_bits: [AtomicU64; INLINE / 64],
    /// See `next`.
    pub prev: Cell<*mut Slab>,
}

/// Most blocks whose bits fit the descriptor: classes from 128 bytes on.
const INLINE: usize = 512;

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slab>() == crate::malloc::units::region::DESCRIPTOR);
#[cfg(not(loom))]
const _: () = assert!(core::mem::offset_of!(Slab, inline_bits) == 56);

// SAFETY: `link` is `news`, which only the inbox uses.
unsafe impl Linked for Slab {
    fn link(&self) -> &AtomicPtr<Slab> {
        &self.news
    }
}

impl Slab {
    /// What zero is without loom.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Slab {
        Slab {
            vacancy: Vacancy::new(),
            next: Cell::new(ptr::null_mut()),
            news: AtomicPtr::new(ptr::null_mut()),
            bits: Cell::new(ptr::null()),
            base: Cell::new(0),
            class: Cell::new(0),
            blocks: Cell::new(0),
            purged: PageSet::new(),
            seen: AtomicU16::new(0),
            unmarked: PageSet::new(),
            careful: Cell::new(0),
            untaken: PageSet::new(),
            inline_bits: core::array::from_fn(|_| AtomicU64::new(0)),
            prev: Cell::new(ptr::null_mut()),
        }
    }

    /// The offset of `blocks`, in bytes, for a reader from outside.
    pub const BLOCKS_AT: usize = core::mem::offset_of!(Slab, blocks);

    /// The descriptor of the unit of an address as that of a slab: all-zero, and not alive, if it never was one.
    #[inline]
    pub fn of(region: &Region, address: usize) -> &Slab {
        // SAFETY: descriptors of committed units are readable, valid when zero, and live as long as the heap.
        unsafe { &*region.descriptor(address).cast() }
    }

    /// Makes the unit at `base` a slab, all blocks free, but for its tag and its vacancy. The caller owns the unit
    /// alone, makes it known by its tag, and then starts the vacancy: a thread that finds the slab alive finds its owner.
    pub fn cut(&self, base: usize, class: SizeClass, bitmap: *mut u8) {
        let blocks = class.blocks_in(UNIT);
        self.base.set(base);
        self.class.set(class.index() as u8);
        self.blocks.set(blocks as u16);
        self.next.set(ptr::null_mut());
        self.prev.set(ptr::null_mut());
        self.purged.clear();
        self.seen.store(0, Ordering::Relaxed);
        self.unmarked.clear();
        self.careful.set(0);
        self.untaken.fill();
        self.bits.set(if blocks <= INLINE { self.inline_bits.as_ptr() } else { bitmap.cast() });
        for (at, word) in self.words().iter().enumerate() {
            word.store(self.full(at), Ordering::Relaxed);
        }
    }

    /// Where its blocks start.
    #[inline]
    pub fn base(&self) -> usize {
        self.base.get()
    }

    /// How many blocks it has, free or not.
    #[inline]
    pub fn blocks(&self) -> u32 {
        self.blocks.get() as u32
    }

    /// What it is cut into.
    #[inline]
    pub fn class(&self) -> SizeClass {
        SizeClass::new(self.class.get() as usize).unwrap_or(const { SizeClass::new(0).unwrap() })
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `bits` points to the inline words, when they are enough, or to the unit's bitmap,
        // which has a bit for every 16 bytes; both live as long as the heap.
        unsafe {
            core::slice::from_raw_parts(self.bits.get(), (self.blocks.get() as usize).div_ceil(64))
        }
    }

    /// The bits that word `at` has when every block is free.
    #[inline]
    fn full(&self, at: usize) -> u64 {
        match self.blocks.get() as usize - at * 64 {
            len @ 0..64 => (1 << len) - 1,
            _ => u64::MAX,
        }
    }

    /// The number of the block at `address` in this slab; `None` if no block starts there.
    #[inline]
    pub fn number(&self, address: usize) -> Option<usize> {
        number_in(self.class(), address)
    }

    /// Whether block `number` is a set bit.
    pub fn is_free(&self, number: usize) -> bool {
        self.words().at(number / 64).load(Ordering::Acquire) >> (number % 64) & 1 != 0
    }

    /// Every free block that starts in `part` of the slab, in bytes. They stay free only as long as nobody takes blocks.
    pub fn each_free_in(&self, part: Range<usize>, mut visit: impl FnMut(*mut Block)) {
        let size = self.class().size();
        let first = part.start.div_ceil(size);
        let end = part.end.div_ceil(size).min(self.blocks.get() as usize);
        for number in first..end {
            if self.is_free(number) {
                visit(ptr::with_exposed_provenance_mut(self.base.get() + number * size));
            }
        }
    }

    /// Takes up to `want` blocks, lowest first, onto `chain`: a slab that is never full touches its first pages only.
    pub fn take(&self, want: usize, chain: &mut Chain) {
        let before = chain.len;
        for (at, word) in self.words().iter().enumerate() {
            let free = word.load(Ordering::Relaxed);
            if free != 0 {
                self.take_word(at, lowest(free, want - (chain.len - before)), chain);
                if chain.len - before >= want {
                    break;
                }
            }
        }
        if chain.len != before {
            self.vacancy.withdraw((chain.len - before) as u32);
        }
    }

    fn take_word(&self, at: usize, wanted: u64, chain: &mut Chain) {
        // Acquire (within AcqRel) pairs with the giver's Release: its writes to the block are over.
        let got = self.words().at(at).fetch_and(!wanted, Ordering::AcqRel) & wanted;
        let size = self.class().size();
        let base = self.base.get() + at * 64 * size;
        if got == 0 {
            return;
        }
        // SAFETY: clearing their bits made the blocks ours.
        unsafe { chain.add(base, size, got) };
        if !self.purged.get().with(self.untaken.get()).is_empty() {
            let (low, high) = (got.trailing_zeros() as usize, 63 - got.leading_zeros() as usize);
            let first = (at * 64 + low) * size;
            let pages = Pages::touching(first, (at * 64 + high + 1) * size - first);
            self.purged.remove(pages);
            self.untaken.remove(pages);
        }
    }

    /// Gives `len` blocks back, those whose bits are set in `bits` of word `at`. `true`: the caller has to put the slab into
    /// its owner's inbox. Any thread.
    #[inline]
    pub fn give(&self, at: usize, bits: u64, len: u32) -> Result<bool, Misuse> {
        // Once its bits are set the slab may be retired and its unit reused: ask before.
        let ticket = self.vacancy.add(len);
        let blocks = self.blocks();
        if self.set(at, bits) != 0 {
            return Err(Misuse::DoubleFree);
        }
        Ok(self.vacancy.announce(ticket, blocks))
    }

    /// Its owner ends the slab, if all its blocks are free and it is not queued.
    pub fn end(&self) -> bool {
        if !self.claim_all() {
            return false;
        }
        let ended = self.vacancy.retire();
        if !ended {
            self.unclaim(self.word_count());
        }
        ended
    }

    /// Who took the slab from its owner's inbox ends it in the owner's place, if that has unlisted it and all its blocks are
    /// free.
    pub fn end_unlisted(&self) -> bool {
        let idle = self.vacancy.free() == self.blocks() && !self.vacancy.is_listed();
        let ended = idle && self.claim_all();
        if ended {
            self.vacancy.retire_queued();
        }
        ended
    }

    /// Sets the bits in `given` of word `at`; the answer has those that were set already: blocks
    /// given twice.
    #[inline]
    pub fn set(&self, at: usize, given: u64) -> u64 {
        // Release pairs with the Acquire of whoever takes the blocks.
        self.words().at(at).fetch_or(given, Ordering::AcqRel) & given
    }

    /// Claims every block, if all are free; else changes nothing.
    fn claim_all(&self) -> bool {
        let words = self.words();
        for (at, word) in words.iter().enumerate() {
            let full = self.full(at);
            if word.compare_exchange(full, 0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                self.unclaim(at);
                return false;
            }
        }
        true
    }

    /// Sets all bits of the first `words` words again; their count was never withdrawn.
    fn unclaim(&self, words: usize) {
        for at in 0..words {
            self.words().at(at).fetch_or(self.full(at), Ordering::AcqRel);
        }
    }

    /// How many words of bits there are.
    pub fn word_count(&self) -> usize {
        self.words().len()
    }

    /// Set bits, as seen one word after the other.
    pub fn count_free(&self) -> u32 {
        self.words().iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum()
    }

    /// Takes every block that lies within pages of `page` bytes all of whose blocks are free, and
    /// that are not purged already. Returns the pages and leaves the numbers of
    /// the blocks in `held`. Nothing is written into blocks.
    pub fn hold_free_pages(&self, page: usize, held: &mut Held) -> Pages {
        let size = self.class().size();
        let purged = self.purged.get();
        let mut pages = Pages::NONE;
        let mut start = 0;
        while start < UNIT {
            let end = start + page;
            let these = Pages::touching(start, page);
            let first = start / size;
            let last = ((end - 1) / size).min(self.blocks.get() as usize - 1);
            // A page behind the last block is never touched: nothing to return.
            if !these.without(purged).is_empty() && first <= last && self.hold(first, last, held) {
                pages = pages.with(these);
            }
            start = end;
        }
        if held.len != 0 {
            self.vacancy.withdraw(held.len);
        }
        pages
    }

    /// Takes the blocks `first ..= last` that are not held yet; all of them or none.
    fn hold(&self, first: usize, last: usize, held: &mut Held) -> bool {
        let words = || self.words().iter().enumerate().take(last / 64 + 1).skip(first / 64);
        let missing = |at: usize, held: &Held| mask_in_word(at, first, last) & !*held.bits.at(at);
        let all_free = words().all(|(at, word)| {
            let wanted = missing(at, held);
            word.load(Ordering::Relaxed) & wanted == wanted
        });
        all_free
            && words().all(|(at, word)| {
                let wanted = missing(at, held);
                let got = word.fetch_and(!wanted, Ordering::AcqRel) & wanted;
                *held.bits.at_mut(at) |= got;
                held.len += got.count_ones();
                // Else the owner was faster. What was taken stays held, and is given back with
                // the rest.
                got == wanted
            })
    }
}

/// The number of the block at `address` in its slab, which is of `class`; `None` if no block starts there. Asks nothing
/// of the slab's descriptor, which its owner and others write.
#[inline]
pub fn number_in(class: SizeClass, address: usize) -> Option<usize> {
    let offset = address & (UNIT - 1);
    class.starts_at(offset).then(|| class.divide(offset))
}

/// Blocks of one slab that the purger holds. All-zero is none. Where a forked child finds them: a block is here as long as
/// its bit is not set (but for the moment between two instructions, in which it is nowhere).
pub struct Held {
    /// Of which slab; null for none.
    pub slab: *const Slab,
    /// One bit a block.
    pub bits: [u64; UNIT / 16 / 64],
    /// How many.
    pub len: u32,
}

impl Held {
    /// Nothing.
    pub const NONE: Held = Held { slab: ptr::null(), bits: [0; UNIT / 16 / 64], len: 0 };

    /// Nothing is held yet, and what will be is of `slab`.
    pub fn start(&mut self, slab: &Slab) {
        (self.slab, self.len) = (slab, 0);
    }

    /// Sets the bits of all that is held.
    pub fn give_back(&mut self, slab: &Slab) {
        for (at, word) in self.bits.iter_mut().enumerate().take(slab.word_count()) {
            let bits = core::mem::take(word);
            if bits != 0 {
                compiler_fence(Ordering::Release);
                slab.set(at, bits);
            }
        }
        (self.slab, self.len) = (ptr::null(), 0);
    }
}

/// The bits of word `at` that stand for blocks `first ..= last`.
fn mask_in_word(at: usize, first: usize, last: usize) -> u64 {
    let low = first.saturating_sub(at * 64);
    let high = (last - at * 64).min(63);
    (u64::MAX << low) & (u64::MAX >> (63 - high))
}

/// The lowest `len` set bits of `bits`, or all.
fn lowest(bits: u64, len: usize) -> u64 {
    if len >= 64 {
        return bits;
    }
    // Often they are neighbours.
    let (first, row) = (bits.trailing_zeros(), (1 << len) - 1);
    if bits.checked_shr(first).is_some_and(|rest| rest & row == row) {
        return row << first;
    }
    let mut rest = bits;
    for _ in 0..len {
        // Once nothing is left, nothing changes.
        rest &= rest.wrapping_sub(1);
    }
    bits & !rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_what_they_say() {
        assert_eq!(mask_in_word(0, 3, 5), 0b11_1000);
        assert_eq!(mask_in_word(1, 3, 65), 0b11);
        assert_eq!(mask_in_word(0, 3, 65), u64::MAX << 3);
        assert_eq!(lowest(0b1011_0100, 2), 0b1_0100);
        assert_eq!(lowest(0b1011_0100, 9), 0b1011_0100);
        assert_eq!(lowest(0b1110_0000, 2), 0b0110_0000);
        assert_eq!(lowest(u64::MAX, 63), u64::MAX >> 1);
        assert_eq!(lowest(0b11 << 62, 2), 0b11 << 62);
        assert_eq!(lowest(0b11 << 62, 3), 0b11 << 62);
        assert_eq!((lowest(0, 5), lowest(7, 0)), (0, 0));
    }
}
