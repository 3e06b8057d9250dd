//! Runs of large blocks that a thread sets aside, while there are other threads: its next large block of that length needs no lock.

use super::cache::Cache;
use super::heap::NodeHeap;
use super::large;
use super::reserve::Runs;
use super::units::region::Region;
use super::units::{UnitCount, UnitLayout};
use crate::machine::Machine;
use core::sync::atomic::AtomicUsize;

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
        let address = cache.reserve.runs.take(layout.len)?;
        cache.slabs.reuse(layout.len.bytes());
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
