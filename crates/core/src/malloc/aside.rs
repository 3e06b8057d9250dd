//! Whole units that a thread sets aside, while there are other threads: the runs of its large blocks, and the units of its slabs
//! all of whose blocks others gave back. Its next large block of that length, or slab, needs no lock.

use super::cache::Cache;
use super::heap::NodeHeap;
use super::large::{self, Large};
use super::reserve::Runs;
use super::tag::LARGE;
use super::units::region::{Region, Run};
use super::units::{UnitCount, UnitLayout};
use crate::machine::Machine;
use core::sync::atomic::{AtomicUsize, Ordering};

impl<M: Machine> NodeHeap<M> {
    /// Whether other threads could wait for the lock of the units, too.
    #[inline(always)]
    pub(super) fn is_shared(&self) -> bool {
        self.registry.threads() > 1
    }

    /// The address of a run for a large block.
    #[inline(never)]
    pub(super) fn take_set_aside(
        &self,
        cache: &Cache,
        layout: UnitLayout,
    ) -> Option<(&Region, usize)> {
        if layout.align != UnitCount::ONE || self.here(cache) != cache.home.get() {
            return None;
        }
        let found = self.take_aside(cache, layout.len)?;
        cache.slabs.reuse(layout.len.bytes());
        Some(found)
    }

    /// A unit for a slab: one that was set aside, else a free one.
    #[inline(never)]
    pub(super) fn take_unit(&self, cache: &Cache) -> Option<(&Region, Run)> {
        if let Some((region, address)) = self.take_aside(cache, UnitCount::ONE) {
            return Some((region, Run { address, zero: false, fresh: false, used: UnitCount(0) }));
        }
        cache.reserve.runs.give_one(&self.shared);
        self.take_run(cache, cache.home.get(), UnitLayout::ONE, 0)
    }

    fn take_aside(&self, cache: &Cache, units: UnitCount) -> Option<(&Region, usize)> {
        let address = cache.reserve.runs.take(units)?;
        Some((self.shared.units.region_of(address)?, address))
    }

    /// Sets the run of a large block aside.
    #[inline(never)]
    pub(super) fn set_aside_run(&self, cache: &Cache, region: &Region, address: usize) -> bool {
        let units = large::units(region, address);
        let Some(place) = self.place_for(cache, region, units) else { return false };
        large::take_back(&self.shared, region, address);
        Runs::put(place, address, units);
        // Told to the purger with what else the thread gives back.
        cache.slabs.given.set(cache.slabs.given.get() + units.bytes() as isize);
        true
    }

    /// Sets the unit of a slab aside that was retired, and has no tag.
    #[inline(never)]
    pub(super) fn set_aside_unit(&self, cache: &Cache, address: usize) -> bool {
        if !self.is_shared() {
            return false;
        }
        let Some(region) = self.shared.units.region_of(address) else { return false };
        let Some(place) = self.place_for(cache, region, UnitCount::ONE) else { return false };
        // From here on as if a large block had been taken back from its user.
        let large = Large::of(region, address);
        large.size.set(0);
        large.units.set(UnitCount::ONE);
        // SAFETY: the region contains the unit. Release: a forked child that finds the tag finds the length.
        unsafe { region.tag(address) }.store(LARGE, Ordering::Release);
        Runs::put(place, address, UnitCount::ONE);
        true
    }

    /// Where a run goes, if it is short, of the thread's home, and no limit of the heap's own counts it as used.
    fn place_for<'a>(
        &self,
        cache: &'a Cache,
        region: &Region,
        units: UnitCount,
    ) -> Option<&'a AtomicUsize> {
        let shared = &self.shared;
        if shared.limits.has_own() || region.home() != cache.home.get() {
            return None;
        }
        let kept = shared.units.kept_at_most() / (16 * self.registry.threads());
        cache.reserve.runs.place_for(units, shared.decisions().reserve_runs.min(kept))
    }
}
