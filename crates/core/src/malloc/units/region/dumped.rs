//! Which banks belong into a core file: those that hold something.
//!
//! ```text
//!   bank 0                                       dumped             committed
//!   | in | in | left out (all clean) | in | in |    ahead of need     | ...
//! ```
//!
//! Invariant: core files hold every bank in which anything is in use. They leave out the banks past `dumped` and those whose bit
//! is set; the last bank before `dumped` has no bit, nor has any behind it.
//!
//! Each hole splits a mapping, and the system allows 65,530 mappings. So a hole is left out only if it is long for the size of
//! the heap (`least_hole`): there are at most some 500, and a hole that a new run makes too short is dumped again.

use super::{Region, bytes_for};
use crate::machine::Machine;
use crate::malloc::units::BANK;
use crate::malloc::units::index::Index;
use crate::row::Row;
use core::ops::Range;
use core::slice;

/// About how many holes there may be: a GiB of banks.
const HOLES: usize = 512;

impl Region {
    /// Puts `len` banks from `at`, which are going to be used, into core files.
    pub(super) fn dump(&mut self, machine: &impl Machine, at: usize, len: usize) {
        let (old, end) = (self.dumped, at + len);
        if end > old {
            self.say(machine, old..end, true);
            self.dumped = end;
        }
        if (at..end.min(old)).any(|at| self.is_left_out(at)) {
            let least = self.least_hole();
            let before = self.left_out_before(at, least);
            let behind = (end..end + least).take_while(|&at| self.is_left_out(at)).count();
            let short = |len: usize| if len < least { len } else { 0 };
            let back = at - short(before)..end.min(old) + short(behind);
            self.set(back.clone(), false);
            self.say(machine, back, true);
        }
    }

    /// Leaves bank `at`, which is wholly free and clean, out of core files: as one of the last, or with its neighbours as
    /// a hole.
    pub(super) fn leave_out(&mut self, machine: &impl Machine, at: usize) {
        self.leave_out_last(machine);
        if at >= self.dumped {
            return;
        }
        let least = self.least_hole();
        let before = (at.saturating_sub(least)..at).rev();
        let start = at - before.take_while(|&at| self.bank(at).is_clean()).count();
        let behind = at..self.dumped.min(at + least);
        let end = at + behind.take_while(|&at| self.bank(at).is_clean()).count();
        if end - start >= least {
            // What was left out before is so already.
            let new = (start..end).find(|&at| !self.is_left_out(at)).unwrap_or(end);
            let known = (new..end).rev().take_while(|&at| self.is_left_out(at)).count();
            self.set(new..end - known, true);
            self.say(machine, new..end - known, false);
        }
    }

    fn leave_out_last(&mut self, machine: &impl Machine) {
        let old = self.dumped;
        while self.dumped > 0 && self.bank(self.dumped - 1).is_clean() {
            self.dumped -= 1;
        }
        if self.dumped < old {
            self.set(self.dumped..old, false);
            self.say(machine, self.dumped..old, false);
        }
    }

    /// Puts every bank into core files: who was changing that did not come along into this process.
    pub(super) fn dump_all(&mut self, machine: &impl Machine) {
        let committed = self.committed;
        self.bits().fill(0);
        self.dumped = committed;
        self.say(machine, 0..committed, true);
    }

    /// Banks that a hole has at least.
    fn least_hole(&self) -> usize {
        1 + self.dumped / HOLES
    }

    /// How many banks in front of bank `at` are left out, up to `most`.
    fn left_out_before(&mut self, at: usize, most: usize) -> usize {
        let before = (at.saturating_sub(most)..at).rev();
        before.take_while(|&at| self.is_left_out(at)).count()
    }

    /// Tells the machine about some banks.
    fn say(&self, machine: &impl Machine, banks: Range<usize>, wanted: bool) {
        if !banks.is_empty() {
            machine.dump(self.address(banks.start, 0) as *mut u8, banks.len() * BANK, wanted);
        }
    }

    fn is_left_out(&mut self, at: usize) -> bool {
        at < self.dumped && *self.bits().at(at / 64) >> (at % 64) & 1 != 0
    }

    fn set(&mut self, banks: Range<usize>, left_out: bool) {
        for at in banks {
            let (word, bit) = (self.bits().at_mut(at / 64), 1 << (at % 64));
            *word = if left_out { *word | bit } else { *word & !bit };
        }
    }

    /// The banks that are left out, one bit each.
    fn bits(&mut self) -> &mut [u64] {
        let words = (self.away + size_of::<Index>()) as *mut u64;
        // SAFETY: `open` committed them behind the index of banks away, zero at first; they are reached only through
        // `&mut self`, whose lifetime they take.
        unsafe { slice::from_raw_parts_mut(words, bytes_for(self.banks) / 8) }
    }

    /// The first broken invariant is the error.
    pub(super) fn check_dumped(&mut self) -> Result<(), &'static str> {
        let (dumped, committed) = (self.dumped, self.committed);
        let out = |region: &mut Region, at| at >= dumped || region.is_left_out(at);
        if (0..committed).any(|at| self.bank(at).used != 0 && out(self, at)) {
            return Err("a bank in use is left out of core files");
        }
        let last = dumped.saturating_sub(1);
        let noted =
            |region: &mut Region, at: usize| *region.bits().at(at / 64) >> (at % 64) & 1 != 0;
        if (last..committed).any(|at| noted(self, at)) {
            return Err("a hole is noted past the banks in core files");
        }
        Ok(())
    }
}
