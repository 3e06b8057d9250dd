//! Which places begin a used block: one bit each, beside the blocks.
//!
//! It makes `free` of anything else an error instead of damage: a block freed twice, a pointer into
//! the middle of one, a pointer of somebody else. Only the heap's owner changes bits; frees from
//! other threads read them. So the words are atomics, but relaxed and never read-modify-write: plain
//! loads and stores on every machine. A thread that was handed a block sees its bit, because the
//! bit was set before the handing over; what it sees of other bits means nothing to it.

use super::sent::Sent;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORD: u64 = 64;

/// The bits; see the module. `Copy`, as it is a view of memory that somebody else owns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    words: NonNull<AtomicU64>,
}

// SAFETY: the words are atomics; whoever makes a `Used` says that they live.
unsafe impl Send for Used {}
// SAFETY: as above; `set` and `clear` are unsafe for the owner's sake.
unsafe impl Sync for Used {}

impl Used {
    /// How many bytes the bits of `places` take.
    pub(super) const fn bytes(places: u32) -> u64 {
        (places as u64).div_ceil(WORD) * 8
    }

    /// No place of `places` begins a block.
    ///
    /// # Safety
    /// The [`Used::bytes`] at `at`, 8-aligned, are nobody else's for as long as this or a copy of it
    /// is used, and no place asked about is `places` or more.
    pub(super) unsafe fn new(at: NonNull<u8>, places: u32) -> Used {
        let words = at.cast::<AtomicU64>();
        for word in 0..u64::from(places).div_ceil(WORD) as usize {
            // SAFETY: the caller's bytes.
            unsafe { words.add(word).write(AtomicU64::new(0)) };
        }
        Used { words }
    }

    /// The word `index`, of the 64 places from `64 * index` on.
    ///
    /// # Safety
    /// Its first place is less than the number of places.
    #[inline(always)]
    unsafe fn word(&self, index: u64) -> &AtomicU64 {
        // SAFETY: a word of the memory that `new` was given, initialised there.
        unsafe { self.words.add(index as usize).as_ref() }
    }

    /// Whether a used block begins at `place`.
    ///
    /// # Safety
    /// `place` is less than the number of places.
    #[inline(always)]
    pub(super) unsafe fn holds(&self, place: u64) -> bool {
        // SAFETY: the caller's.
        unsafe { self.word(place / WORD) }.load(Relaxed) & mask(place) != 0
    }

    /// A used block begins at `place`.
    ///
    /// # Safety
    /// `place` is less than the number of places; the caller owns the heap.
    #[inline(always)]
    pub(super) unsafe fn set(&self, place: u64) {
        // SAFETY: the caller's.
        let word = unsafe { self.word(place / WORD) };
        word.store(word.load(Relaxed) | mask(place), Relaxed);
    }

    /// No used block begins at `place` any more. `false`, and nothing done, when none did, or when
    /// `place` is in `sent`.
    ///
    /// # Safety
    /// `place` is less than the number of places, of both; the caller owns the heap.
    #[inline(always)]
    pub(super) unsafe fn withdraw(&self, place: u64, sent: &Sent) -> bool {
        // SAFETY: the caller's.
        let (word, sent) = unsafe { (self.word(place / WORD), sent.leaf(place / WORD)) };
        let bits = word.load(Relaxed);
        if bits & mask(place) == 0 || sent & mask(place) != 0 {
            return false;
        }
        word.store(bits ^ mask(place), Relaxed);
        true
    }

    /// How many used blocks there are. O(places).
    ///
    /// # Safety
    /// There are so many places.
    pub(super) unsafe fn count(&self, places: u64) -> u64 {
        let words = 0..places.div_ceil(WORD);
        // SAFETY: the caller's.
        words.map(|index| u64::from(unsafe { self.word(index) }.load(Relaxed).count_ones())).sum()
    }

    /// No used block begins at `place` any more, whether or not one did and was sent: which is told.
    ///
    /// # Safety
    /// `place` is less than the number of places; the caller owns the heap.
    pub(super) unsafe fn clear(&self, place: u64) -> bool {
        // SAFETY: the caller's.
        let word = unsafe { self.word(place / WORD) };
        let bits = word.load(Relaxed);
        word.store(bits & !mask(place), Relaxed);
        bits & mask(place) != 0
    }
}

#[inline(always)]
fn mask(place: u64) -> u64 {
    1 << (place % WORD)
}
