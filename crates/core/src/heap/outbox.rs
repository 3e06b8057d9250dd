//! Blocks of other caches' slabs, on their way home.
//!
//! ```text
//! outbox[class % PARCELS]:  which word of bits of which slab | bits    what was freed of it and not yet sent
//! ```
//!
//! A word of bits covers 64 neighbours, and neighbours that were allocated together are often freed together: they are
//! collected here, where nobody else looks, and then given back by one operation. A block of another word, or of another
//! class at the same place, sends what was collected: so no free gives back more than one word, however many were
//! collected, and none waits longer than until it would be too much.
//!
//! Invariant: what is collected is of slabs that cannot be retired, for their blocks are held here, and marked.

use super::cache::{Block, Cache};
use super::node_heap::{Misuse, NodeHeap};
use super::refill::Busy;
use super::slab::Slab;
use crate::frames::region::DESCRIPTOR;
use crate::machine::Machine;
use crate::row::Row;
use crate::size_class::{CLASSES, SizeClass};
use core::cell::Cell;
use core::ptr;

/// How many there are: as many as fit a cache's page.
pub(super) const PARCELS: usize = 36;
/// Bytes of blocks of one class that wait at most.
const MOST_BYTES: usize = 4 * 1024;

/// Free blocks of one word of a slab's bits. All-zero is none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Parcel {
    /// The slab's descriptor, and which word in the bits that its alignment leaves.
    to: Cell<usize>,
    bits: Cell<u64>,
}

const WORDS: usize = crate::frames::UNIT / 16 / 64;
const _: () =
    assert!(WORDS <= DESCRIPTOR, "the number of a word fits beside a descriptor's address");

impl Parcel {
    pub(super) const fn none() -> Parcel {
        Parcel { to: Cell::new(0), bits: Cell::new(0) }
    }
}

impl<M: Machine> NodeHeap<M> {
    /// Frees a block of another cache's slab.
    pub(super) fn free_foreign(
        &self,
        cache: &Cache,
        slab: &Slab,
        block: *mut Block,
        class: SizeClass,
    ) -> Result<(), Misuse> {
        let number = slab.number(block.addr()).ok_or(Misuse::NotABlock)?;
        // SAFETY: the block is free now, and ours until its bit is set.
        unsafe { Block::link(block, ptr::null_mut(), cache.key.get()) };
        let to = ptr::from_ref(slab).expose_provenance() | (number / 64);
        let parcel = cache.outbox.at(class.index() % PARCELS);
        if parcel.to.get() != to {
            self.send(cache, parcel)?;
            parcel.to.set(to);
        }
        let bit = 1 << (number % 64);
        if parcel.bits.get() & bit != 0 {
            return Err(Misuse::DoubleFree);
        }
        parcel.bits.set(parcel.bits.get() | bit);
        let len = cache.outbox_len.at(class.index()).get() + 1;
        cache.outbox_len.at(class.index()).set(len);
        if len as usize * class.size() < MOST_BYTES { Ok(()) } else { self.send(cache, parcel) }
    }

    /// Sends everything that was collected. Blocks given twice are found at once or never.
    pub(super) fn send_all(&self, cache: &Cache) {
        for parcel in &cache.outbox {
            let _ = self.send(cache, parcel);
        }
    }

    fn send(&self, cache: &Cache, parcel: &Parcel) -> Result<(), Misuse> {
        let (to, bits) = (parcel.to.replace(0), parcel.bits.replace(0));
        if bits == 0 {
            return Ok(());
        }
        let _busy = Busy::new(cache);
        let slab: *const Slab = ptr::with_exposed_provenance(to / DESCRIPTOR * DESCRIPTOR);
        // SAFETY: we hold blocks of the slab, so it is alive.
        let slab = unsafe { &*slab };
        let len = cache.outbox_len.at(slab.class().index()).replace(0);
        self.account(cache, len as usize * slab.class().size());
        self.give_word(Some(cache), slab, to % DESCRIPTOR, bits, len.into())
    }
}

const _: () = assert!(PARCELS <= CLASSES);
