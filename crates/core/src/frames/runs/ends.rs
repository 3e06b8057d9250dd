//! Where blocks ended: runs placed by their last page instead of by how full banks are.
//!
//! For programs that touch their blocks at both ends only (`heap::edges` finds out). A run starts at a unit, so starts
//! share one page of sixteen; but a block may end in any, and with time every page of every unit would be some block's
//! end and resident. So a block is put where an earlier one ended in the same page of a unit, if all the units it
//! needs before that are free and dirty.
//!
//! ```text
//! a block of 41 pages         |................|................|........x|         its end is page 8 of a unit
//! page 8 ended earlier in     ... unit 7 (in use), unit 19 (free, but 18 is not), unit 30    -> units 28 to 30
//! ```
//!
//! Only dirty units: they may be resident anyhow, so nothing grows by it but what is scattered. That is also why it is not
//! for every program: where whole blocks are touched, it costs up to half of the peak.
//!
//! Invariant: what is remembered are units of regions, perhaps no longer free: each is asked before it is used.

use super::{MAX_REGIONS, Region, Run, Runs};
use crate::frames::{UNIT, UNIT_SHIFT};
use crate::machine::Machine;
use crate::place::Home;
use crate::row::Row;
use core::sync::atomic::Ordering;

/// Pages in a unit that are told apart.
const PAGES: usize = 16;
/// Ends remembered for each. A program with 16 blocks needs 16, one with 200 needs 128.
const DEPTH: usize = 128;

/// For each page of a unit, the units in which blocks that ended there were freed last. All-zero is none.
pub(super) struct Ends {
    /// Last units, as address / [`UNIT`], newest last.
    units: [[u32; DEPTH]; PAGES],
    len: [u8; PAGES],
}

/// In which page of its last unit a block of `size` bytes ends.
#[inline]
fn page_of(size: usize) -> usize {
    (size - 1) / (UNIT / PAGES) % PAGES
}

impl Ends {
    pub(super) const NONE: Ends = Ends { units: [[0; DEPTH]; PAGES], len: [0; PAGES] };

    /// A block that ended in `page` of the unit at `address` was freed. What was remembered longest is forgotten.
    fn push(&mut self, page: usize, address: usize) {
        // Addresses have 48 bits, unless a program asks for more.
        let Ok(unit) = u32::try_from(address >> UNIT_SHIFT) else { return };
        let (units, len) = (self.units.at_mut(page), self.len.at_mut(page));
        if *len as usize == DEPTH {
            units.rotate_left(1);
            *len -= 1;
        }
        *units.at_mut(*len as usize) = unit;
        *len += 1;
    }

    /// The first answer for the address of a unit in which a block ended in `page`, newest first; that unit is forgotten.
    fn pop<R>(&mut self, page: usize, mut take: impl FnMut(usize) -> Option<R>) -> Option<R> {
        let (units, len) = (self.units.at_mut(page), self.len.at_mut(page));
        for at in (0..*len as usize).rev() {
            if let Some(taken) = take((*units.at(at) as usize) << UNIT_SHIFT) {
                *len -= 1;
                *units.at_mut(at) = *units.at(*len as usize);
                return Some(taken);
            }
        }
        None
    }

    /// Whether every unit that is remembered lies in a region.
    pub(super) fn check(&self, regions: &[Region]) -> Result<(), &'static str> {
        for (units, &len) in self.units.iter().zip(&self.len) {
            let known = |unit: &u32| {
                let address = (*unit as usize) << UNIT_SHIFT;
                regions.iter().any(|region| region.contains(address))
            };
            if !units.get(..len as usize).is_some_and(|units| units.iter().all(known)) {
                return Err("a block ended outside of all regions");
            }
        }
        Ok(())
    }
}

impl Runs {
    /// A run of `len` units for a block of `size` bytes whose last page lies where that of an earlier one lay; `None` when
    /// there is no such place in the home's regions that is free and dirty, or the home is closed: then [`Runs::take`] is to
    /// be asked.
    pub fn take_by_end(
        &self,
        machine: &impl Machine,
        home: Home,
        len: usize,
        size: usize,
    ) -> Option<Run> {
        self.with_ends(machine, |regions, ends| {
            // SAFETY: as for the ends: the lock makes this the only access.
            let closed = unsafe { &*self.supply.get() }.closed();
            if home.node().is_some_and(|node| closed.contains(node)) {
                return None;
            }
            ends.pop(page_of(size), |unit| {
                let region = regions.iter_mut().find(|region| region.contains(unit))?;
                if region.home() == home { region.take_resident(unit, len) } else { None }
            })
        })
    }

    /// As [`Runs::give`] of the dirty run of a block of `size` bytes; where that ended is remembered.
    pub fn give_by_end(&self, machine: &impl Machine, address: usize, len: usize, size: usize) {
        let tick = self.tick.load(Ordering::Relaxed);
        self.with_ends(machine, |regions, ends| {
            let Some(region) = regions.iter_mut().find(|r| r.contains(address)) else { return };
            region.give(address, len, false, Some(tick));
            ends.push(page_of(size), address + (len - 1) * UNIT);
        });
    }

    /// Runs `work` on the regions and what is remembered of ends, under the lock.
    pub(super) fn with_ends<R>(
        &self,
        machine: &impl Machine,
        work: impl FnOnce(&mut [Region; MAX_REGIONS], &mut Ends) -> R,
    ) -> R {
        // SAFETY: the lock makes this the only access to the ends.
        self.with(machine, |regions| work(regions, unsafe { &mut *self.ends.get() }))
    }
}
