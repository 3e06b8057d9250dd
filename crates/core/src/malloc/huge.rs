//! Which banks get huge pages: those that will soon be full.
//!
//! A first touch of a 2 MiB page costs as much as some hundred first touches of 4 KiB pages, so huge pages pay once a
//! seventh of a bank is used; but RSS counts the unused part of a huge page, too. So the heap asks for them
//! only where next to nothing stays untouched:
//!
//! ```text
//! whole banks of a block of 2 MiB to 64 MiB       once 8 MiB are in use; but never for one that grows by realloc
//! a bank opened for a slab or a smaller block     once 12 MiB are in use, if the thread fills slabs: it has
//!                                                 twice as many as classes, so half of them are being filled at most;
//!                                                 or as many as classes, which are half of what is in use: then there
//!                                                 are no other threads' slabs that are being filled, too
//! a bank opened for a smaller block, and the      once 32 MiB are: a bank more or less does not matter then
//! last, partial bank of a block
//! a bank opened for a slab                        once 32 MiB are, if the thread has a bank's worth of slabs: of a
//!                                                 thousand threads with a slab each, little of each slab is touched
//! ```
//!
//! The heap advises only banks that are wholly free and untouched; `purge` takes the advice back.

use super::cache::Cache;
use super::node_heap::NodeHeap;
use crate::machine::Machine;
use crate::malloc::units::{BANK, UNIT, region::Run};
use crate::row::Row;
use core::sync::atomic::Ordering;

/// Units in use below which nothing is asked for; and none for slabs.
const SOME_UNITS: usize = (8 << 20) / UNIT;
const SLAB_UNITS: usize = (12 << 20) / UNIT;
/// Units in use from which on a bank more or less does not matter.
const MANY_UNITS: usize = (32 << 20) / UNIT;
/// Slabs a class that make a cache one that fills its slabs.
const SLABS_A_CLASS: u32 = 2;
/// Slabs that fill a bank.
const SLABS_A_BANK: u32 = (BANK / UNIT) as u32;
/// Longer blocks are often tables of which little is ever touched.
const LONGEST: usize = 64 << 20;

/// The size to name when a run was taken for a slab.
pub(super) const A_SLAB: usize = 0;

impl<M: Machine> NodeHeap<M> {
    /// Asks for huge pages where a run that was just taken for `size` bytes, or for [`A_SLAB`], will fill banks.
    #[inline]
    pub(super) fn ask_for_huge(&self, cache: &Cache, run: Run, size: usize) {
        if run.fresh != 0 && run.used >= SOME_UNITS {
            self.judge_banks(cache, run, size);
        }
    }

    #[cold]
    fn judge_banks(&self, cache: &Cache, run: Run, size: usize) {
        let banks = match size {
            0..BANK if run.used >= SLAB_UNITS && fills_slabs(cache, run.used) => 1,
            A_SLAB if run.used < MANY_UNITS || owned(cache) < SLABS_A_BANK => return,
            0..BANK if run.used >= MANY_UNITS => 1,
            BANK..=LONGEST if run.used >= MANY_UNITS => size.div_ceil(BANK),
            BANK..=LONGEST => size / BANK,
            _ => return,
        };
        let fresh = run.fresh & (u32::MAX >> (32 - banks));
        self.runs.make_huge(&self.machine, run.address, fresh);
    }
}

/// A cache got a slab of `class`.
pub(super) fn count_slab(cache: &Cache, class: usize) {
    cache.owned.fetch_add(1, Ordering::Relaxed);
    let word = &cache.opened.at(class / 64);
    word.set(word.get() | 1 << (class % 64));
}

/// Whether next to all slabs have been filled of which `used` units consist: those of the cache, and others'.
fn fills_slabs(cache: &Cache, used: usize) -> bool {
    let classes: u32 = cache.opened.iter().map(|word| word.get().count_ones()).sum();
    let owned = owned(cache);
    owned >= classes * SLABS_A_CLASS || (owned >= classes && owned as usize * 2 >= used)
}

fn owned(cache: &Cache) -> u32 {
    cache.owned.load(Ordering::Relaxed)
}
