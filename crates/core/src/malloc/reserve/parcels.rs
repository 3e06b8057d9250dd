//! Freed blocks of other caches' slabs, collected until they go back to their slabs' bits.
//!
//! ```text
//! parcels[class]:  which word of bits of which unit | bits    freed blocks of that word, not yet sent
//! ```
//!
//! A word of bits covers 64 neighbours, and neighbours allocated together are often freed together. A reserve
//! collects them where no other thread looks, and gives them back by one operation. It sends a parcel when a block of another
//! word arrives, and when the parcel holds as many blocks as a refill takes at most.
//! So no free gives back more than one word, and the number of waiting blocks is bounded.
//!
//! To collect a block, a free reads tags only, which seldom change. It leaves the slab's descriptor alone until it sends the
//! parcel: for each block, the descriptor's cache lines would travel from the owner's processor and back.
//!
//! Invariant: collected blocks belong to slabs that cannot be retired, because their blocks are held here, and marked.

use super::arrivals::SHORT_CLASSES;
use crate::machine::Machine;
use crate::malloc::block::Block;
use crate::malloc::misuse::Misuse;
use crate::malloc::shared::Shared;
use crate::malloc::slabs::slab::Slab;
use crate::malloc::slabs::{Slabs, give_word};
use crate::malloc::units::UNIT;
use crate::row::Row;
use crate::size_class::{CLASSES, SizeClass};
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};

/// Words of bits of a unit.
const WORDS: usize = UNIT / 16 / 64;
const _: () = assert!(CLASSES * WORDS <= UNIT, "both fit beside a unit's address");

/// Free blocks of one word of a slab's bits. All-zero is none. `to` is the unit's address, and in the bits that its
/// alignment leaves the class and which word.
#[derive(Debug)]
#[repr(C)]
struct Parcel {
    to: Cell<usize>,
    bits: Cell<u64>,
}

/// What a thread collected. All-zero is nothing.
#[derive(Debug)]
#[repr(C)]
pub struct Parcels {
    parcels: [Parcel; SHORT_CLASSES],
    /// Blocks that are collected, by class.
    pub len: [Cell<u8>; CLASSES],
}

/// A parcel to send: where to, and which blocks of that word. Its owner holds the blocks.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    to: usize,
    bits: u64,
}

impl Parcels {
    /// Marks a block of another cache's slab of `class` and puts it with its neighbours, `most` at most; what has to be sent
    /// by this.
    ///
    /// # Safety
    /// A block of the class starts there; it is free, and the caller's.
    #[inline(always)]
    pub unsafe fn collect(
        &self,
        block: *mut Block,
        class: SizeClass,
        most: usize,
        key: usize,
    ) -> Result<Option<Sealed>, Misuse> {
        let number = class.divide(block.addr() & (UNIT - 1));
        let (label, bit) = (label(block.addr(), class, number / 64), 1 << (number % 64));
        let alone = Sealed { to: label, bits: bit };
        let Some(parcel) = self.parcels.get(class.index()) else {
            // SAFETY: as below.
            unsafe { Block::link(block, ptr::null_mut(), key) };
            return Ok(Some(alone));
        };
        let (to, bits) = (parcel.to.get(), parcel.bits.get());
        let len = self.len.at(class.index());
        if to == label && bits & bit != 0 {
            return Err(Misuse::DoubleFree);
        }
        // SAFETY: the caller's; it stays ours until its bit is set.
        unsafe { Block::link(block, ptr::null_mut(), key) };
        if to == label {
            let (all, now) = (bits | bit, len.get() + 1);
            let full = now as usize >= most;
            parcel.bits.set(if full { 0 } else { all });
            len.set(if full { 0 } else { now });
            return Ok(full.then_some(Sealed { to, bits: all }));
        }
        if most == 1 {
            return Ok(Some(alone));
        }
        // A fork may stop the thread between any two stores: never are bits beside the label of another word.
        parcel.bits.set(0);
        compiler_fence(Ordering::Release);
        parcel.to.set(label);
        compiler_fence(Ordering::Release);
        parcel.bits.set(bit);
        len.set(1);
        Ok((bits != 0).then_some(Sealed { to, bits }))
    }

    /// Whether nothing is collected.
    pub fn is_empty(&self) -> bool {
        self.parcels.iter().all(|parcel| parcel.bits.get() == 0)
    }

    /// Takes out what was collected, parcel by parcel.
    pub fn take_all(&self, mut visit: impl FnMut(Sealed)) {
        for parcel in &self.parcels {
            let sealed = Sealed { to: parcel.to.replace(0), bits: parcel.bits.replace(0) };
            if sealed.bits != 0 {
                self.len.at(class_index(sealed.to)).set(0);
                visit(sealed);
            }
        }
    }
}

impl Sealed {
    /// Gives the blocks back to their slab, for the thread whose slabs are `by`.
    #[cold]
    pub fn send<M: Machine>(self, shared: &Shared<M>, by: &Slabs) -> Result<(), Misuse> {
        // Counted, not noted: a forked child may find a parcel whose note its thread did not live to write.
        let len = self.bits.count_ones();
        let class = SizeClass::new(class_index(self.to)).ok_or(Misuse::NotABlock)?;
        by.account(shared, len as usize * class.size());
        let base = self.to & !(UNIT - 1);
        let region = shared.units.region_of(base).ok_or(Misuse::NotABlock)?;
        // We hold blocks of the slab, so it is alive.
        give_word(shared, Some(by), Slab::of(region, base), self.to % WORDS, self.bits, len)
    }

    /// Calls `visit` with every block's address.
    pub fn each(self, mut visit: impl FnMut(usize)) {
        let Some(class) = SizeClass::new(class_index(self.to)) else { return };
        let mut bits = self.bits;
        while bits != 0 {
            let number = self.to % WORDS * 64 + bits.trailing_zeros() as usize;
            visit((self.to & !(UNIT - 1)) + number * class.size());
            bits &= bits - 1;
        }
    }
}

/// Where the blocks of a word go to.
#[inline(always)]
fn label(address: usize, class: SizeClass, word: usize) -> usize {
    (address & !(UNIT - 1)) | (class.index() * WORDS) | word
}

/// The class in where something goes to.
#[inline(always)]
fn class_index(to: usize) -> usize {
    to % UNIT / WORDS
}
