//! Taking a run at a place that somebody has in mind.

use super::{Region, Run, pieces};
use crate::frames::BANK_UNITS;
use crate::frames::bank::{Bank, mask};
use crate::row::Row;

impl Region {
    /// The run of `len` units whose last one is at address `last`, if all of them are free, dirty and at home.
    #[inline(always)]
    pub fn take_resident(&mut self, last: usize, len: usize) -> Option<Run> {
        let end = self.unit(last) + 1;
        let start = end.checked_sub(len)?;
        let home = self.home;
        let banks = self.view().banks;
        // From the end: that is what is in use most often.
        let mut at = end;
        while at != start {
            let (bank, within): (&Bank, usize) =
                (banks.at((at - 1) / BANK_UNITS), (at - 1) % BANK_UNITS + 1);
            let some = within.min(at - start);
            let wanted = mask(within - some, some);
            if bank.dirty & wanted != wanted || bank.node != home {
                return None;
            }
            at -= some;
        }
        for (at, first, len) in pieces(start, len) {
            self.take_listed(at, false, first, len);
        }
        let address = self.address(0, start);
        Some(Run { address, zero: false, fresh: 0, used: self.used_units })
    }
}
