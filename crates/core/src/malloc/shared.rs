//! What the owners of one heap share: the machine, the units, the key, and the counts that start the purger.

use super::decisions::Decisions;
use super::limits::Limits;
use super::misuse::{Late, Misuse};
use super::slabs::slab::{Held, Slab};
use super::tag::Tag;
use super::units::Units;
use super::units::region::Region;
use crate::machine::Machine;
use crate::sync::Lock;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// See the module. All-zero but for the machine; the table of regions, of which most stays unused, comes last.
#[repr(C)]
pub(super) struct Shared<M: Machine> {
    pub(super) machine: M,
    /// Held while the purger holds blocks or units.
    pub(super) purging: Lock,
    key: AtomicUsize,
    /// Bytes that became free since the purger last slept.
    freed: AtomicUsize,
    /// Whether rounds of the purger shall end soon.
    pub(super) hurried: AtomicBool,
    pub(super) late: Late,
    pub(super) limits: Limits,
    pub(super) units: Units,
    /// Blocks that the purger holds; under its lock.
    pub(super) held: UnsafeCell<Held>,
}

impl<M: Machine> Shared<M> {
    pub(super) const fn new(machine: M) -> Shared<M> {
        Shared {
            machine,
            purging: Lock::new(),
            key: AtomicUsize::new(0),
            freed: AtomicUsize::new(0),
            hurried: AtomicBool::new(false),
            late: Late::new(),
            limits: Limits::new(),
            units: Units::new(),
            held: UnsafeCell::new(Held::NONE),
        }
    }

    #[inline(always)]
    pub(super) fn decisions(&self) -> &'static Decisions {
        self.machine.decisions()
    }

    /// What marks and links are encoded with: an odd number; see `block`.
    pub(super) fn key(&self) -> usize {
        self.key.load(Ordering::Relaxed) | 1
    }

    pub(super) fn set_key(&self, key: usize) {
        self.key.store(key, Ordering::Relaxed);
    }

    /// Counts bytes that became free.
    pub(super) fn note_freed(&self, bytes: usize) {
        self.freed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were counted are in use again.
    pub(super) fn note_reused(&self, bytes: usize) {
        let less = |freed: usize| Some(freed.saturating_sub(bytes));
        if bytes != 0 {
            _ = self.freed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    #[inline]
    pub(super) fn freed(&self) -> usize {
        self.freed.load(Ordering::Relaxed)
    }

    pub(super) fn forget_freed(&self) {
        self.freed.store(0, Ordering::Relaxed);
    }

    pub(super) fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed)
    }

    /// The region of an address, and the tag of the unit there.
    pub(super) fn tag_at(&self, address: usize) -> Result<(&Region, u64), Misuse> {
        let region = self.units.region_of(address).ok_or(Misuse::NotABlock)?;
        // SAFETY: the region contains the address.
        Ok((region, unsafe { region.tag(address) }.load(Ordering::Acquire)))
    }

    /// Does something with the tag of a live slab.
    pub(super) fn tag_of<R>(&self, slab: &Slab, work: impl FnOnce(&AtomicU64) -> R) -> Option<R> {
        let region = self.units.region_of(slab.base())?;
        // SAFETY: the region contains the slab.
        Some(work(unsafe { region.tag(slab.base()) }))
    }

    /// The slab that an address lies in, if it lies in one.
    pub(super) fn slab_at(&self, address: usize) -> Option<&Slab> {
        let (region, tag) = self.tag_at(address).ok()?;
        matches!(Tag::decode(tag), Tag::Slab(..)).then(|| Slab::of(region, address))
    }
}
