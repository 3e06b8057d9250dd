//! Large blocks of a heap: taken, freed, resized where they lie, or moved.

use super::block::Block;
use super::cache::Cache;
use super::heap::NodeHeap;
use super::large::{self, Large};
use super::tag::LARGE;
use super::units::region::Region;
use super::units::{UNIT, UnitCount, UnitLayout};
use crate::machine::Machine;
use crate::place::Home;
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};

/// The largest request that is considered: beyond it sizes could overflow.
const LARGEST: usize = isize::MAX as usize / 2;

impl<M: Machine> NodeHeap<M> {
    /// A large block at a multiple of `align`, and whether it reads as zero; null when memory
    /// is short.
    #[cold]
    pub(super) fn allocate_large(
        &self,
        cache: &Cache,
        size: usize,
        align: UnitCount,
    ) -> (*mut u8, bool) {
        let _changing = cache.changing();
        let Some((address, zero)) = self.take_large(cache, size, align) else {
            return (ptr::null_mut(), false);
        };
        (ptr::with_exposed_provenance_mut(address), zero)
    }

    /// The address of a large block, and whether it reads as zero.
    fn take_large(&self, cache: &Cache, size: usize, align: UnitCount) -> Option<(usize, bool)> {
        if size > LARGEST || align.0 > LARGEST / UNIT {
            return None;
        }
        let rounded = large::rounded(&self.shared, size);
        let units = UnitCount::holding(rounded);
        let layout = UnitLayout { len: units, align };
        let tail = units.bytes() - rounded;
        let found = if self.is_shared() { self.take_set_aside(cache, layout) } else { None };
        let (region, address, zero) = match found {
            Some((region, address)) => (region, address, false),
            None => {
                let (region, run) = self.take_run(cache, self.here(cache), layout, tail)?;
                (region, run.address, run.zero)
            }
        };
        let large = Large::of(region, address);
        large.size.set(rounded);
        large.units.set(units);
        self.shared.limits.change_tails(0, tail);
        if !zero {
            // SAFETY: the run is ours. What a slab's first block left there was its mark, and a program may copy what it never
            // wrote: back to that very place, by `realloc`, when there is a block in use.
            unsafe { Block::wipe(ptr::with_exposed_provenance_mut(address)) };
            self.drop_tail(address + rounded, tail);
        }
        // SAFETY: the region contains the run.
        let tag = unsafe { region.tag(address) };
        // A run that was set aside has its tag; other threads read and write those beside it.
        if tag.load(Ordering::Relaxed) != LARGE {
            tag.store(LARGE, Ordering::Release);
        }
        self.refresh_for(cache, region, address);
        Some((address, zero))
    }

    /// Frees a large block.
    pub(super) fn free_large_block(&self, cache: &Cache, region: &Region, address: usize) {
        if !(self.is_shared() && self.set_aside_run(cache, region, address)) {
            let units = large::units(region, address);
            large::free(&self.shared, region, address, 0);
            cache.slabs.account(&self.shared, units.bytes());
            self.give_surplus();
        }
    }

    /// Resizes a large block to another large size; its address then, 0 when memory is short.
    pub(super) fn resize_large(&self, cache: &Cache, address: usize, size: usize) -> usize {
        let _changing = cache.changing();
        let shared = &self.shared;
        let Some(region) = shared.units.region_of(address).filter(|_| size <= LARGEST) else {
            return 0;
        };
        let large = Large::of(region, address);
        let rounded = large::rounded(&self.shared, size);
        let (have, units) = (large.units.get(), UnitCount::holding(rounded));
        let tail = units.bytes() - rounded;
        if units < have {
            // Before they are anyone's: a forked child that finds the block believes its length.
            large.units.set(units);
            compiler_fence(Ordering::Release);
            shared.units.give(self.machine(), address + units.bytes(), have - units);
            cache.slabs.account(shared, (have - units).bytes());
        } else if units > have {
            let better = shared.units.is_better_moved(self.machine(), address, have, units);
            let moved = if better { self.move_large(cache, region, address, size) } else { 0 };
            if moved != 0 {
                return moved;
            }
            if !(self.allows(units - have, tail)
                && shared.units.extend(self.machine(), address, have, units).is_some())
            {
                return self.move_large(cache, region, address, size);
            }
        }
        self.give_surplus();
        self.drop_tail(address + rounded, tail);
        shared.limits.change_tails(have.bytes() - large.size.get(), tail);
        large.units.set(units);
        large.size.set(rounded);
        address
    }

    /// Gives back the end of a large block's last unit if the heap has a limit, for what counts as not held shall not be held.
    fn drop_tail(&self, at: usize, len: usize) {
        if len != 0 && self.shared.limits.has_own() {
            // SAFETY: the caller's unit, in which nobody uses what lies behind the block.
            unsafe { self.machine().purge(ptr::with_exposed_provenance_mut(at), len) };
        }
    }

    fn move_large(&self, cache: &Cache, region: &Region, from: usize, size: usize) -> usize {
        let have = Large::of(region, from).size.get();
        let Some((new, _)) = self.take_large(cache, size, UnitCount::ONE) else { return 0 };
        let to: *mut u8 = ptr::with_exposed_provenance_mut(new);
        let source: *mut u8 = ptr::with_exposed_provenance_mut(from);
        // Pages that move stay on their node: only within one home.
        let same = region.home() == Home::ANYWHERE || region.contains(new);
        let moves = same && self.shared.decisions().moves_pages(have, self.usage().used);
        let moved = if moves { large::relocate(&self.shared, from, to, have) } else { 0 };
        if moved == 0 {
            // SAFETY: both blocks are the caller's, disjoint, and at least `have` long.
            unsafe { ptr::copy_nonoverlapping(source, to, have) };
        }
        large::free(&self.shared, region, from, moved);
        cache.slabs.account(&self.shared, have);
        to.addr()
    }
}
