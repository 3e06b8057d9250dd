//! Which blocks the program holds, when frees are hardened: one bit for every 16 bytes of address space, out of reach of overflows
//! and writes after free.
//!
//! ```text
//! root   one word a GiB of address space ──>  leaf   8 MiB of bits, touched as they are used
//! ```
//!
//! Marks in free blocks and the bits of slabs record the heap's view, and a write after free can change the marks. These
//! bits record which blocks the program was given and has not given back, and no write to a block can change them.

use crate::off_heap::Table;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use freehold_os::thread::is_alone;

/// Bits of an address: more is not for programs, unless they ask for it.
const ADDRESS_BITS: u32 = 47;
/// log2 of what a leaf covers, in bytes.
const LEAF_SHIFT: u32 = 30;
/// log2 of what a bit stands for: every block starts at a multiple of that.
const GRAIN_SHIFT: u32 = 4;
/// Words of a leaf.
const LEAF: usize = 1 << (LEAF_SHIFT - GRAIN_SHIFT - u64::BITS.trailing_zeros());
/// Words of the root.
const ROOT: usize = 1 << (ADDRESS_BITS - LEAF_SHIFT);

static LEAVES: AtomicPtr<u64> = AtomicPtr::new(ptr::null_mut());

/// The table behind a word, made if it is not there yet; null when memory is short.
fn table(word: &AtomicPtr<u64>, len: usize) -> *mut u64 {
    let there = word.load(Ordering::Acquire);
    if !there.is_null() {
        return there;
    }
    let Some(mut new) = Table::new(len) else { return ptr::null_mut() };
    let at = new.as_mut_ptr();
    // Release pairs with the Acquire above and below: who finds the table finds zeros.
    match word.compare_exchange(ptr::null_mut(), at, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            core::mem::forget(new);
            at
        }
        Err(others) => others,
    }
}

/// The bit of an address.
pub(crate) struct Place {
    word: &'static AtomicU64,
    bit: u64,
}

impl Place {
    /// Where `tables` says that they are, each of so many words.
    #[inline(always)]
    fn of(address: usize, tables: fn(&AtomicPtr<u64>, usize) -> *mut u64) -> Option<Place> {
        if address >> ADDRESS_BITS != 0 || !address.is_multiple_of(1 << GRAIN_SHIFT) {
            return None;
        }
        let root = tables(&LEAVES, ROOT);
        if root.is_null() {
            return None;
        }
        // SAFETY: the root has a word for every GiB below the limit, is never given back, and is used by atomics only.
        let leaf = unsafe { AtomicPtr::from_ptr(root.add(address >> LEAF_SHIFT).cast()) };
        let leaf = tables(leaf, LEAF);
        if leaf.is_null() {
            return None;
        }
        let number = (address >> GRAIN_SHIFT) % (LEAF * 64);
        // SAFETY: as for the root: it has a word for every 64 places of its GiB.
        let word = unsafe { AtomicU64::from_ptr(leaf.add(number / 64)) };
        Some(Place { word, bit: 1 << (number % 64) })
    }

    /// The program is given the block that starts here; `false`: it holds it already.
    #[inline(always)]
    pub(crate) fn give(&self) -> bool {
        let before = match is_alone() {
            true => exchange_alone(self.word, |before| before | self.bit),
            false => self.word.fetch_or(self.bit, Ordering::AcqRel),
        };
        before & self.bit == 0
    }

    /// The program gives the block that starts here back; `false`: it did not hold it.
    #[inline(always)]
    pub(crate) fn take(&self) -> bool {
        let before = match is_alone() {
            true => exchange_alone(self.word, |before| before & !self.bit),
            false => self.word.fetch_and(!self.bit, Ordering::AcqRel),
        };
        before & self.bit != 0
    }
}

/// Where the bit of an address is; `None` when there is no table for it yet, or programs have no such addresses.
#[inline(always)]
pub(crate) fn place(address: *mut u8) -> Option<Place> {
    Place::of(address.addr(), |word, _| word.load(Ordering::Acquire))
}

/// The same, with tables made where there are none yet; `None` when memory for them is short, too.
#[cold]
#[inline(never)]
fn made_place(address: *mut u8) -> Option<Place> {
    Place::of(address.addr(), table)
}

/// What a word was, which becomes something else, where nobody else touches it: a locked operation takes as long as the rest.
#[inline]
fn exchange_alone(word: &AtomicU64, change: impl FnOnce(u64) -> u64) -> u64 {
    let before = word.load(Ordering::Relaxed);
    word.store(change(before), Ordering::Relaxed);
    before
}

/// [`Place::give`] of the place of an address. (Without memory to note it, `true`.)
pub(crate) fn give(address: *mut u8) -> bool {
    made_place(address).is_none_or(|place| place.give())
}

/// [`Place::take`] of the place of an address. (Without memory, `true`.)
pub(crate) fn take(address: *mut u8) -> bool {
    made_place(address).is_none_or(|place| place.take())
}

/// Whether the program holds the block at `address`. (Without memory, `true`.)
pub(crate) fn is_held(address: *mut u8) -> bool {
    let place = place(address).or_else(|| made_place(address));
    place.is_none_or(|Place { word, bit }| word.load(Ordering::Acquire) & bit != 0)
}
