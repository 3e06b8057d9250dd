//! Blocks above the largest class: runs of whole units.
//!
//! A free run stays resident until the purger comes, so a program that allocates and frees a
//! large block over and over pays neither system calls nor page faults. Each bank records which of its units read
//! as zero; `calloc` need not write those.
//!
//! Invariant: the first unit of a large block is tagged `LARGE`, the others are tagged 0.

use super::block::Block;
use super::cache::Cache;
use super::heap::NodeHeap;
use super::shared::Shared;
use super::slabs::vacancy::Vacancy;
use super::tag::LARGE;
use super::units::region::{DESCRIPTOR, Region, Run};
use super::units::{BANK, UNIT};
use crate::machine::Machine;
use crate::place::Home;
use crate::size_class::MAX_CLASS_SIZE;
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};

/// The descriptor of a large block's first unit.
#[repr(C)]
pub(super) struct Large {
    /// Not ours: a slab's late giver may still look at it. Never alive while the unit is large.
    _vacancy: Vacancy,
    /// What its user may use, in bytes: the request rounded up to pages.
    pub(super) size: Cell<usize>,
    pub(super) units: Cell<usize>,
}

const _: () = assert!(size_of::<Large>() <= DESCRIPTOR);

/// The largest request that is considered: beyond it sizes could overflow.
const LARGEST: usize = isize::MAX as usize / 2;

impl Large {
    /// The descriptor of the unit of an address as that of a large block.
    fn of(region: &Region, address: usize) -> &Large {
        // SAFETY: descriptors of committed units are readable, valid when zero, and live as long as the heap.
        unsafe { &*region.descriptor(address).cast::<Large>() }
    }
}

/// What the user of a large block may use, in bytes.
pub(super) fn size(region: &Region, address: usize) -> usize {
    Large::of(region, address).size.get()
}

/// How many units a large block has.
pub(super) fn units(region: &Region, address: usize) -> usize {
    Large::of(region, address).units.get()
}

/// Makes a block of the caller's zero: long ones by giving their pages back, which takes less time, and no memory for
/// what the program does not touch.
pub(super) fn clear<M: Machine>(shared: &Shared<M>, block: *mut u8, size: usize) {
    let discard = size >= shared.decisions().large_pages_from;
    // SAFETY: the block is the caller's, and large ones are as long as whole pages.
    unsafe {
        if !discard || !shared.machine.purge(block, rounded(&shared.machine, size)) {
            ptr::write_bytes(block, 0, size);
        }
    }
}

/// Frees a large block.
#[inline(never)]
pub(super) fn free<M: Machine>(shared: &Shared<M>, region: &Region, address: usize) {
    let units = units(region, address);
    // SAFETY: the region contains the block.
    unsafe { region.tag(address) }.store(0, Ordering::Relaxed);
    give(shared, address, units);
}

/// Gives units back of which nobody is told anything any more.
fn give<M: Machine>(shared: &Shared<M>, address: usize, units: usize) {
    shared.units.give(&shared.machine, address, units);
    shared.note_freed(units * UNIT);
}

fn rounded(machine: &impl Machine, size: usize) -> usize {
    size.max(MAX_CLASS_SIZE + 1).next_multiple_of(machine.page_size())
}

impl<M: Machine> NodeHeap<M> {
    /// A large block at a multiple of `align` units, and whether it reads as zero; null when memory
    /// is short.
    #[cold]
    pub(super) fn allocate_large(
        &self,
        cache: &Cache,
        size: usize,
        align: usize,
    ) -> (*mut u8, bool) {
        let _changing = cache.changing();
        let Some(run) = self.take_large(cache, size, align) else {
            return (ptr::null_mut(), false);
        };
        cache.slabs.ask_for_huge(&self.shared, run, Some(size));
        (ptr::with_exposed_provenance_mut(run.address), run.zero)
    }

    /// A run that is a large block already.
    fn take_large(&self, cache: &Cache, size: usize, align: usize) -> Option<Run> {
        if size > LARGEST || align > LARGEST / UNIT {
            return None;
        }
        let units = size.div_ceil(UNIT).max(1);
        let (region, run) = self.take_run(cache, self.here(cache), units, align)?;
        let large = Large::of(region, run.address);
        large.size.set(rounded(self.machine(), size));
        large.units.set(units);
        if !run.zero {
            // SAFETY: the run is ours. What a slab's first block left there was its mark, and a program may copy what it never
            // wrote: back to that very place, by `realloc`, when there is a block in use.
            unsafe { Block::wipe(ptr::with_exposed_provenance_mut(run.address)) };
        }
        // SAFETY: the region contains the run.
        unsafe { region.tag(run.address) }.store(LARGE, Ordering::Release);
        self.refresh_for(cache, region, run.address);
        Some(run)
    }

    /// Resizes a large block to another large size; its address then, 0 when memory is short.
    pub(super) fn resize_large(&self, cache: &Cache, address: usize, size: usize) -> usize {
        let _changing = cache.changing();
        let shared = &self.shared;
        let Some(region) = shared.units.region_of(address).filter(|_| size <= LARGEST) else {
            return 0;
        };
        let large = Large::of(region, address);
        let (have, units) = (large.units.get(), size.div_ceil(UNIT));
        if units < have {
            // Before they are anyone's: a forked child that finds the block believes its length.
            large.units.set(units);
            compiler_fence(Ordering::Release);
            give(shared, address + units * UNIT, have - units);
        } else if units > have
            && shared.units.extend(self.machine(), address, have, units).is_none()
        {
            return self.move_large(cache, region, address, size);
        }
        large.units.set(units);
        large.size.set(rounded(self.machine(), size));
        address
    }

    fn move_large(&self, cache: &Cache, region: &Region, from: usize, size: usize) -> usize {
        let have = Large::of(region, from).size.get();
        // No huge pages: a block that grows by steps may be a reserve more than a use.
        let Some(run) = self.take_large(cache, size, 1) else { return 0 };
        let to: *mut u8 = ptr::with_exposed_provenance_mut(run.address);
        let source: *mut u8 = ptr::with_exposed_provenance_mut(from);
        // Pages that move stay on their node: only within one home.
        let same = region.home() == Home::ANYWHERE || region.contains(run.address);
        let moves = have >= self.shared.decisions().large_pages_from && same;
        if !(moves && relocate(&self.shared, from, to, have)) {
            // SAFETY: both blocks are the caller's, disjoint, and at least `have` long.
            unsafe { ptr::copy_nonoverlapping(source, to, have) };
        }
        free(&self.shared, region, from);
        to.addr()
    }
}

/// Moves the pages of a block to another, which holds nothing yet. The kernel moves what was advised
/// alike in one call, so the whole banks and the rest may need one each.
fn relocate<M: Machine>(shared: &Shared<M>, from: usize, to: *mut u8, len: usize) -> bool {
    let source: *mut u8 = ptr::with_exposed_provenance_mut(from);
    let (machine, whole) = (&shared.machine, len / BANK * BANK);
    // SAFETY: both blocks are the caller's, page-aligned, disjoint, and at least `len` long.
    let moved = unsafe {
        machine.relocate(source, to, len)
            || (whole != 0
                && machine.relocate(source, to, whole)
                && (whole == len || {
                    let (source, to) = (source.add(whole), to.add(whole));
                    if !machine.relocate(source, to, len - whole) {
                        ptr::copy_nonoverlapping(source, to, len - whole);
                    }
                    true
                }))
    };
    if moved {
        shared.units.inherit(machine, from, to.addr(), len);
    }
    moved
}
