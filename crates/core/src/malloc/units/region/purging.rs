//! Purging beyond the pages of free units: pages that are resident though no block used them, and the records of
//! empty banks.
//!
//! The first touch of a byte makes the whole huge page resident, so free units of such a bank are as good as dirty even
//! if they were never handed out. They become dirty when any part of the bank is given back.
//!
//! A bank that is wholly free and clean needs no record: tags of free units are zero, and handing out a unit writes its
//! descriptor and bitmap anew. A late giver of a block may still *read* a descriptor (`vacancy`); it then reads zero,
//! a slab that no longer exists.

use super::{RECORD, Region};
use crate::machine::Machine;
use crate::malloc::units::{BANK, BANK_UNITS, UnitCount};
use crate::row::Row;

/// Bytes of the tags of a bank.
const TAGS: usize = BANK_UNITS * 8;

impl Region {
    /// Advises a huge page for bank `at`.
    pub fn make_huge(&mut self, machine: &impl Machine, at: usize) {
        self.view().banks.at_mut(at).huge = true;
        machine.advise(self.address(at, 0) as *mut u8, BANK, true);
    }

    /// Takes that back for bank `at`, a part of which is going to be purged; and so shall be what else is free of it.
    pub fn make_small(&mut self, machine: &impl Machine, at: usize) {
        self.count_resident(at);
        if core::mem::replace(&mut self.view().banks.at_mut(at).huge, false) {
            machine.advise(self.address(at, 0) as *mut u8, BANK, false);
        }
    }

    /// Counts the free units of bank `at` as dirty if it may be one huge page.
    pub fn count_resident(&mut self, at: usize) {
        let bank = self.view().banks.at_mut(at);
        if bank.huge {
            let more = !(bank.used | bank.dirty);
            bank.dirty |= more;
            self.dirty += UnitCount(more.count_ones() as usize);
        }
    }

    /// Gives back the pages of bank `at`'s record if the bank is wholly free and clean, and the page of its tags if all
    /// banks with tags on that page are.
    pub fn purge_record(&mut self, machine: &impl Machine, at: usize) {
        if !self.bank(at).is_clean() {
            return;
        }
        self.leave_out(machine, at);
        let (page, record) = (machine.page_size(), self.record(at));
        purge_pages(machine, page, record, record + RECORD);
        let (first, tags) = (self.tags.start + self.tags_for(0), at * TAGS);
        let start = (first + tags) / page * page;
        let end = (first + tags + TAGS).next_multiple_of(page);
        for from in (start..end).step_by(page) {
            let low = from.saturating_sub(first) / TAGS;
            let high = (from + page - first).div_ceil(TAGS).min(self.committed);
            if (low..high).all(|at| self.bank(at).is_clean()) {
                purge_pages(machine, page, from, from + page);
            }
        }
    }
}

/// Purges the whole pages of `[from, to)`, which is committed. A refusal leaves what is as good.
fn purge_pages(machine: &impl Machine, page: usize, from: usize, to: usize) {
    let (from, to) = (from.next_multiple_of(page), to / page * page);
    if from < to {
        // SAFETY: committed with the banks; nobody needs what is there, and zero is as good.
        unsafe { machine.purge(from as *mut u8, to - from) };
    }
}
