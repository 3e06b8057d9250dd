//! Blocks above the largest class: runs of whole units.
//!
//! A free run stays resident until the purger comes, so a program that allocates and frees a
//! large block over and over pays neither system calls nor page faults. Each bank records which of its units read
//! as zero; `calloc` need not write those.
//!
//! Invariant: the first unit of a large block is tagged `LARGE`, the others are tagged 0.

use super::cache::{Block, Cache};
use super::node_heap::NodeHeap;
use super::refill::Busy;
use super::tag::LARGE;
use super::vacancy::Vacancy;
use crate::machine::Machine;
use crate::malloc::units::{BANK, UNIT, region::DESCRIPTOR, region::Region, region::Run};
use crate::place::Home;
use crate::size_class::MAX_CLASS_SIZE;
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};

/// Above this it is cheaper to move pages than to copy bytes, and to discard pages than to clear them.
const PAGES_MIN: usize = 1 << 20;

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

/// How many units a block of `size` bytes needs.
fn units_for(size: usize) -> usize {
    size.div_ceil(UNIT).max(1)
}

fn descriptor(region: &Region, address: usize) -> &Large {
    // SAFETY: descriptors of committed units are readable, valid when zero, and live for ever.
    unsafe { &*region.descriptor(address).cast::<Large>() }
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
        let _busy = Busy::new(cache);
        let Some(run) = self.take_large(cache, size, align) else {
            return (ptr::null_mut(), false);
        };
        self.ask_for_huge(cache, run, size);
        (ptr::with_exposed_provenance_mut(run.address), run.zero)
    }

    /// Makes a block of the caller's zero: long ones by giving their pages back, which takes less time, and no memory for
    /// what the program does not touch.
    pub(super) fn clear(&self, block: *mut u8, size: usize) {
        // SAFETY: the block is the caller's, and large ones are as long as whole pages.
        unsafe {
            if size < PAGES_MIN || !self.machine.purge(block, self.round(size)) {
                ptr::write_bytes(block, 0, size);
            }
        }
    }

    /// A run that is a large block already.
    fn take_large(&self, cache: &Cache, size: usize, align: usize) -> Option<Run> {
        if size > LARGEST || align > LARGEST / UNIT {
            return None;
        }
        let units = units_for(size);
        let run = self.take_run(cache, self.here(cache), units, align)?;
        let region = self.runs.region_of(run.address)?;
        let large = descriptor(region, run.address);
        large.size.set(self.round(size));
        large.units.set(units);
        if !run.zero {
            // SAFETY: the run is ours. What a slab's first block left there was its mark, and a program may copy what it never
            // wrote: back to that very place, by `realloc`, when there is a block in use.
            unsafe { Block::wipe(ptr::with_exposed_provenance_mut(run.address)) };
        }
        // SAFETY: the region contains the run.
        unsafe { region.tag(run.address) }.store(LARGE, Ordering::Release);
        if run.address - region.base() >= cache.known.get() {
            self.refresh(cache);
        }
        Some(run)
    }

    fn round(&self, size: usize) -> usize {
        size.max(MAX_CLASS_SIZE + 1).next_multiple_of(self.machine.page_size())
    }

    pub(super) fn large_size(&self, region: &Region, address: usize) -> usize {
        descriptor(region, address).size.get()
    }

    pub(super) fn large_units(&self, region: &Region, address: usize) -> usize {
        descriptor(region, address).units.get()
    }

    #[inline(never)]
    pub(super) fn free_large(&self, region: &Region, address: usize) {
        let units = self.large_units(region, address);
        // SAFETY: the region contains the block.
        unsafe { region.tag(address) }.store(0, Ordering::Relaxed);
        self.runs.give(&self.machine, address, units, false);
        self.pressure.fetch_add(units * UNIT, Ordering::Relaxed);
    }

    /// Resizes a large block to another large size; its address then, 0 when memory is short.
    pub(super) fn resize_large(&self, cache: &Cache, address: usize, size: usize) -> usize {
        let _busy = Busy::new(cache);
        let Some(region) = self.runs.region_of(address) else { return 0 };
        if size > LARGEST {
            return 0;
        }
        let large = descriptor(region, address);
        let (have, units) = (large.units.get(), size.div_ceil(UNIT));
        if units < have {
            // Before they are anyone's: a forked child that finds the block believes its length.
            large.units.set(units);
            compiler_fence(Ordering::Release);
            self.runs.give(&self.machine, address + units * UNIT, have - units, false);
            self.pressure.fetch_add((have - units) * UNIT, Ordering::Relaxed);
        } else if units > have && self.runs.extend(&self.machine, address, have, units).is_none() {
            return self.move_large(cache, region, address, size);
        }
        large.units.set(units);
        large.size.set(self.round(size));
        address
    }

    fn move_large(&self, cache: &Cache, region: &Region, from: usize, size: usize) -> usize {
        let have = self.large_size(region, from);
        // No huge pages: a block that grows by steps may be a reserve more than a use.
        let Some(run) = self.take_large(cache, size, 1) else { return 0 };
        let to: *mut u8 = ptr::with_exposed_provenance_mut(run.address);
        let source: *mut u8 = ptr::with_exposed_provenance_mut(from);
        // Pages that move stay on their node: only within one home.
        let same = region.home() == Home::ANYWHERE || region.contains(run.address);
        let moves = have >= PAGES_MIN && same;
        if !(moves && self.relocate(from, to, have)) {
            // SAFETY: both blocks are the caller's, disjoint, and at least `have` long.
            unsafe { ptr::copy_nonoverlapping(source, to, have) };
        }
        self.free_large(region, from);
        to.addr()
    }

    /// Moves the pages of a block to another, which holds nothing yet. The kernel moves what was advised
    /// alike in one call, so the whole banks and the rest may need one each.
    fn relocate(&self, from: usize, to: *mut u8, len: usize) -> bool {
        let source: *mut u8 = ptr::with_exposed_provenance_mut(from);
        let whole = len / BANK * BANK;
        // SAFETY: both blocks are the caller's, page-aligned, disjoint, and at least `len` long.
        let moved = unsafe {
            self.machine.relocate(source, to, len)
                || (whole != 0
                    && self.machine.relocate(source, to, whole)
                    && (whole == len || {
                        let (source, to) = (source.add(whole), to.add(whole));
                        if !self.machine.relocate(source, to, len - whole) {
                            ptr::copy_nonoverlapping(source, to, len - whole);
                        }
                        true
                    }))
        };
        if moved {
            self.runs.inherit(&self.machine, from, to.addr(), len);
        }
        moved
    }
}
