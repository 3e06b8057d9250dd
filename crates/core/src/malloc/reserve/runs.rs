//! Freed runs that a thread has set aside: its next large block of that length, or slab, needs no lock, and lies in memory that is
//! resident.
//!
//! ```text
//! places[0..8]:  address | units      a run each; 0 is none
//! ```
//!
//! The run is not touched, and its tag is that of a large block; its descriptor says that it is no block. The purger takes all of
//! them in each round, and the thread that cuts a slab parts with one if none has a single unit: both make them free units.
//!
//! Invariant: only the owner fills a place (the holder of the registry's lock owns a cache without a thread). Whoever empties one
//! has the run.

use crate::machine::Machine;
use crate::malloc::large;
use crate::malloc::shared::Shared;
use crate::malloc::units::{UNIT, UnitCount};
use core::sync::atomic::{AtomicUsize, Ordering};

/// How many runs are set aside at most: a MiB of those of two units.
const PLACES: usize = 8;

/// See the module. All-zero is empty.
#[derive(Debug)]
#[repr(transparent)]
pub struct Runs {
    places: [AtomicUsize; PLACES],
}

impl Runs {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.iter().all(|place| place.load(Ordering::Relaxed) == 0)
    }

    /// A place for a run of so many units, if all of them have `most` bytes at most with it.
    pub fn place_for(&self, units: UnitCount, most: usize) -> Option<&AtomicUsize> {
        let (mut sum, mut empty) = (units, None);
        for place in &self.places {
            match place.load(Ordering::Relaxed) {
                0 => empty = Some(place),
                run => sum += units_of(run),
            }
        }
        empty.filter(|_| sum.bytes() <= most)
    }

    /// Sets a run aside in a place that is empty.
    pub fn put(place: &AtomicUsize, address: usize, units: UnitCount) {
        // Release pairs with the Acquire of whoever takes it.
        place.store(address | units.0, Ordering::Release);
    }

    /// The address of a run of a length.
    pub fn take(&self, units: UnitCount) -> Option<usize> {
        let fits = |place: &&AtomicUsize| units_of(place.load(Ordering::Relaxed)) == units;
        self.places.iter().find(fits).and_then(take)
    }

    /// Makes free units of one: a slab is about to be cut, which shall lie in what is resident.
    pub fn give_one<M: Machine>(&self, shared: &Shared<M>) {
        if let Some(address) = self.places.iter().find_map(take) {
            give(shared, address);
        }
    }

    /// Makes free units of all. Any thread.
    pub fn give_all<M: Machine>(&self, shared: &Shared<M>) {
        self.places.iter().filter_map(take).for_each(|address| give(shared, address));
    }
}

/// The units of what is in a place.
fn units_of(run: usize) -> UnitCount {
    UnitCount(run % UNIT)
}

/// The address of the run in a place, which is empty then.
fn take(place: &AtomicUsize) -> Option<usize> {
    if place.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let run = place.swap(0, Ordering::Acquire);
    (run != 0).then_some(run / UNIT * UNIT)
}

/// Makes free units of a run that nobody has.
#[inline(never)]
fn give<M: Machine>(shared: &Shared<M>, address: usize) {
    if let Some(region) = shared.units.region_of(address) {
        large::free(shared, region, address, 0);
    }
}
