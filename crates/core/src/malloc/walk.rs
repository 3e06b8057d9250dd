//! Every block that a program has, and whether an address is one.
//!
//! [`NodeHeap::walk`] is exact for a heap at rest, all of whose caches were detached: once their stacks and
//! depots are empty, a free block is a set bit, and every other block is the program's. [`NodeHeap::examine`] checks one
//! address, at any time: for hardened frees, which check before they touch anything.

use super::block::Block as Links;
use super::found::{Block, Kind};
use super::heap::NodeHeap;
use super::large;
use super::misuse::Misuse;
use super::slabs::slab::{Slab, number_in};
use super::tag::Tag;
use super::units::UNIT;
use crate::machine::Machine;
use core::ptr;
use core::sync::atomic::Ordering;

/// While it lives, the purger is between two steps: within one it has free blocks, whose pages it gives back, or slabs that
/// nobody uses, which it gives up.
pub(super) struct Unpurged<'a, M: Machine>(&'a NodeHeap<M>);

impl<M: Machine> Drop for Unpurged<'_, M> {
    fn drop(&mut self) {
        self.0.registry.lock.unlock(self.0.machine());
        self.0.shared.purging.unlock(self.0.machine());
    }
}

impl<M: Machine> NodeHeap<M> {
    /// Waits until the purger has no block.
    pub(super) fn unpurged(&self) -> Unpurged<'_, M> {
        self.shared.purging.lock(self.machine());
        self.registry.lock.lock(self.machine());
        Unpurged(self)
    }

    /// Calls `visit` with every block that is neither a set bit of its slab nor free units: exactly
    /// those the program has, if every cache was detached before. The units are locked one bank at a
    /// time; nobody may allocate meanwhile, and the purger waits.
    pub fn walk(&self, mut visit: impl FnMut(Block)) {
        self.empty_depots(true);
        let _until_the_end = self.unpurged();
        self.shared.units.each_used(self.machine(), |region, unit| {
            // SAFETY: the unit lies in the region.
            match Tag::decode(unsafe { region.tag(unit) }.load(Ordering::Acquire)) {
                Tag::Slab(_, class) => {
                    let slab = Slab::of(region, unit);
                    let size = class.size();
                    for number in (0..slab.blocks() as usize).filter(|&n| !slab.is_free(n)) {
                        let address = slab.base() + number * size;
                        visit(Block { address, size, kind: Kind::Small });
                    }
                }
                Tag::Large => {
                    if let Ok(size) = large::size(region, unit) {
                        visit(Block { address: unit, size, kind: Kind::Large });
                    }
                }
                Tag::Nothing => {}
            }
        });
    }

    /// The block that starts at `address`, if the program has it: interior pointers, foreign ones
    /// and free blocks are distinguished at once, also in other caches' stacks. O(1).
    pub fn examine(&self, address: *mut u8) -> Result<Block, Misuse> {
        let block = self.find(address)?;
        if block.kind == Kind::Small {
            // SAFETY: a block of a slab, hence mapped; every block has sixteen bytes.
            let marked = unsafe { Links::is_marked(address.cast(), self.shared.key()) };
            if marked || self.is_set_bit(address.addr()) {
                return Err(Misuse::DoubleFree);
            }
        }
        Ok(block)
    }

    /// Whether the block at an address is a set bit of its slab.
    fn is_set_bit(&self, address: usize) -> bool {
        let slab = self.shared.slab_at(address);
        slab.is_some_and(|slab| slab.number(address).is_some_and(|number| slab.is_free(number)))
    }

    /// The block that starts at `address`, in use or not. O(1).
    pub fn find(&self, address: *mut u8) -> Result<Block, Misuse> {
        let at = address.addr();
        let (region, tag) = self.shared.tag_at(at)?;
        match Tag::decode(tag) {
            Tag::Slab(_, class) => {
                number_in(class, at).ok_or(Misuse::NotABlock)?;
                Ok(Block { address: at, size: class.size(), kind: Kind::Small })
            }
            Tag::Large if at.is_multiple_of(UNIT) => {
                Ok(Block { address: at, size: large::size(region, at)?, kind: Kind::Large })
            }
            _ => Err(Misuse::NotABlock),
        }
    }

    /// Marks a block that the program has as free, without giving it to anyone: a hardened free that
    /// keeps it for a while. Until [`NodeHeap::unseal`], [`NodeHeap::examine`] says double free.
    ///
    /// # Safety
    /// The block is the caller's, and small.
    pub unsafe fn seal(&self, address: *mut u8) {
        // SAFETY: the block is the caller's and has sixteen bytes.
        unsafe { Links::link(address.cast(), ptr::null_mut(), self.shared.key()) };
    }

    /// Takes the mark of [`NodeHeap::seal`] away and zeroes where it was; `false` when it was
    /// damaged: somebody wrote to the block after it was freed.
    ///
    /// # Safety
    /// The block was sealed, and is the caller's.
    pub unsafe fn unseal(&self, address: *mut u8) -> bool {
        let key = self.shared.key();
        let block: *mut Links = address.cast();
        // SAFETY: the block is the caller's and has sixteen bytes.
        unsafe {
            let whole = Links::is_marked(block, key) && Links::next(block, key).is_null();
            address.write_bytes(0, size_of::<Links>());
            whole
        }
    }
}
