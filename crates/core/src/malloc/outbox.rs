//! Blocks of other caches' slabs, on their way home.
//!
//! ```text
//! outbox[class % PARCELS]:  which word of bits of which unit | bits    freed blocks of that word, not yet sent
//! ```
//!
//! A word of bits covers 64 neighbours, and neighbours allocated together are often freed together. The outbox
//! collects them where no other thread looks, and gives them back by one operation. It sends a parcel when a block of another
//! word, or of another class in the same place, arrives, and when the parcel holds as many blocks as a refill takes at most.
//! So no free gives back more than one word, and the number of waiting blocks is bounded.
//!
//! To collect a block, a free reads tags only, which seldom change. It leaves the slab's descriptor alone until it sends the
//! parcel: for each block, the descriptor's cache lines would travel from the owner's processor and back.
//!
//! Invariant: collected blocks belong to slabs that cannot be retired, because their blocks are held here, and marked.

use super::cache::{Block, Cache};
use super::give::size_of_class;
use super::node_heap::{Misuse, NodeHeap};
use super::refill::{Busy, STEP, longest_batch};
use super::slab::{Slab, number_in};
use super::tag::{SPARSE, Tag};
use crate::machine::Machine;
use crate::malloc::units::UNIT;
use crate::row::Row;
use crate::size_class::{CLASSES, SizeClass};
use core::cell::Cell;
use core::ptr;

/// How many there are: as many as fit a cache's page.
pub(super) const PARCELS: usize = 36;

/// Free blocks of one word of a slab's bits. All-zero is none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Parcel {
    to: Cell<usize>,
    bits: Cell<u64>,
}

impl Parcel {
    pub(super) const fn none() -> Parcel {
        Parcel { to: Cell::new(0), bits: Cell::new(0) }
    }
}

/// A parcel to send: where to, and which blocks of that word. Its owner holds the blocks.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    to: usize,
    bits: u64,
}

/// What became of a block of another cache's slab.
#[derive(Clone, Copy, Debug)]
pub enum Collected {
    /// All is done.
    Done,
    /// Done, but what was collected has to go: call `NodeHeap::send`.
    Send(Sealed),
    /// Nothing was done: call `NodeHeap::free_slow`.
    Not,
}

/// Which parcel a block belongs to, and which bit it is there. Where to is the unit's address, and in the bits that its
/// alignment leaves the class and which word.
struct Label {
    to: usize,
    bit: u64,
}

const WORDS: usize = UNIT / 16 / 64;
const _: () = assert!(CLASSES * WORDS <= UNIT, "both fit beside a unit's address");

impl Label {
    /// `None` if no block of a slab of this class starts at the address.
    #[inline(always)]
    fn of(class: SizeClass, address: usize) -> Option<Label> {
        let number = number_in(class, address)?;
        let to = (address & !(UNIT - 1)) | (class.index() * WORDS) | (number / 64);
        Some(Label { to, bit: 1 << (number % 64) })
    }
}

const _: () = assert!(STEP <= u8::MAX as usize, "how many are collected is a byte");
const _: () = assert!(PARCELS <= CLASSES && CLASSES <= 2 * PARCELS, "one or two classes a place");

/// Which parcel the blocks of a class share with those of at most one other; a remainder, without a division.
#[inline(always)]
fn place_of(class: usize) -> usize {
    if class < PARCELS { class } else { class - PARCELS }
}

/// The class in where something goes to.
#[inline(always)]
fn class_in(to: usize) -> usize {
    to % UNIT / WORDS
}

impl Cache {
    /// Collects a block of another cache's slab.
    ///
    /// # Safety
    /// As for [`Cache::give`].
    #[inline(always)]
    pub unsafe fn collect(&self, address: *mut u8) -> Collected {
        let Some(tag) = self.tag_within(address, self.known.get()) else { return Collected::Not };
        let Tag::Slab(owner, class) = Tag::decode(tag) else { return Collected::Not };
        let block: *mut Block = address.cast();
        if tag & SPARSE != 0 || ptr::eq(owner, self) {
            return Collected::Not;
        }
        // SAFETY: as in `own_block`: the unit is a slab, hence mapped.
        if unsafe { Block::is_marked(block, self.key.get()) } {
            return Collected::Not;
        }
        // SAFETY: the block is free now, and no slab of ours has it.
        unsafe { self.note(block, class) }.unwrap_or(Collected::Not)
    }

    /// Marks the block and puts it with its neighbours.
    ///
    /// # Safety
    /// The block is free, of another cache's slab of this class, and the caller's.
    #[inline(always)]
    unsafe fn note(&self, block: *mut Block, class: SizeClass) -> Result<Collected, Misuse> {
        let label = Label::of(class, block.addr()).ok_or(Misuse::NotABlock)?;
        let parcel = self.outbox.at(place_of(class.index()));
        let (to, bits) = (parcel.to.get(), parcel.bits.get());
        let len = self.outbox_len.at(class.index());
        if to == label.to && bits & label.bit != 0 {
            return Err(Misuse::DoubleFree);
        }
        // SAFETY: the caller's; it stays ours until its bit is set.
        unsafe { Block::link(block, ptr::null_mut(), self.key.get()) };
        let most = longest_batch(class.index());
        if to == label.to {
            let (all, now) = (bits | label.bit, len.get() + 1);
            let full = now as usize >= most;
            parcel.bits.set(if full { 0 } else { all });
            len.set(if full { 0 } else { now });
            return Ok(if full {
                Collected::Send(Sealed { to, bits: all })
            } else {
                Collected::Done
            });
        }
        if most == 1 {
            // Too long to wait for neighbours.
            return Ok(Collected::Send(Sealed { to: label.to, bits: label.bit }));
        }
        if bits != 0 {
            self.outbox_len.at(class_in(to)).set(0);
        }
        parcel.to.set(label.to);
        parcel.bits.set(label.bit);
        len.set(1);
        Ok(if bits == 0 { Collected::Done } else { Collected::Send(Sealed { to, bits }) })
    }
}

impl Cache {
    /// Whether nothing is collected.
    pub(super) fn has_sent_all(&self) -> bool {
        self.outbox.iter().all(|parcel| parcel.bits.get() == 0)
    }

    /// Takes what was collected out, and calls `visit` with every block's address.
    pub(super) fn each_collected(&self, mut visit: impl FnMut(usize)) {
        for parcel in &self.outbox {
            let (to, mut bits) = (parcel.to.replace(0), parcel.bits.replace(0));
            let Some(class) = SizeClass::new(class_in(to)).filter(|_| bits != 0) else { continue };
            while bits != 0 {
                let number = to % WORDS * 64 + bits.trailing_zeros() as usize;
                visit((to & !(UNIT - 1)) + number * class.size());
                bits &= bits - 1;
            }
        }
        self.outbox_len.iter().for_each(|len| len.set(0));
    }
}

impl<M: Machine> NodeHeap<M> {
    /// Frees a block of another cache's slab.
    pub(super) fn free_foreign(
        &self,
        cache: &Cache,
        block: *mut Block,
        class: SizeClass,
    ) -> Result<(), Misuse> {
        // SAFETY: the block is free now, and its tag says whose it is.
        match unsafe { cache.note(block, class) }? {
            Collected::Send(sealed) => self.send(cache, sealed),
            _ => Ok(()),
        }
    }

    /// Frees what [`Cache::give`] answered [`Freed::Slow`](super::Freed::Slow) to: collects it, if it can be collected.
    ///
    /// # Safety
    /// As for [`NodeHeap::free_slow`].
    pub(super) unsafe fn free_other(&self, cache: &Cache, address: *mut u8) -> Result<(), Misuse> {
        // SAFETY: the caller's.
        match unsafe { cache.collect(address) } {
            Collected::Done => Ok(()),
            Collected::Send(sealed) => self.send(cache, sealed),
            // SAFETY: the caller's; nothing was done yet.
            Collected::Not => unsafe { self.free_slow(cache, address) },
        }
    }

    /// Sends everything that was collected. Blocks given twice are found at once or never.
    pub(super) fn send_all(&self, cache: &Cache) {
        for parcel in &cache.outbox {
            let sealed = Sealed { to: parcel.to.replace(0), bits: parcel.bits.replace(0) };
            if sealed.bits != 0 {
                cache.outbox_len.at(class_in(sealed.to)).set(0);
                let _ = self.send(cache, sealed);
            }
        }
    }

    /// Gives what was collected back to its slab.
    #[cold]
    pub fn send(&self, cache: &Cache, Sealed { to, bits }: Sealed) -> Result<(), Misuse> {
        let _busy = Busy::new(cache);
        // Counted, not noted: a forked child may find a parcel whose note its thread did not live to write.
        let len = bits.count_ones();
        self.account(cache, len as usize * size_of_class(class_in(to)));
        let base = to & !(UNIT - 1);
        let region = self.runs.region_of(base).ok_or(Misuse::NotABlock)?;
        let slab: *const Slab = region.descriptor(base).cast();
        // SAFETY: we hold blocks of the slab, so it is alive.
        self.give_word(Some(cache), unsafe { &*slab }, to % WORDS, bits, len)
    }
}
