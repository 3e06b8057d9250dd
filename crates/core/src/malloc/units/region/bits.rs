//! Changes a bank's bits and its place in the index: every run taken or given passes through here.
//!
//! Written for the machine with one memory: nothing here asks a node, and a bank found among those at home
//! is not checked for where it belongs.

use super::{Region, Run};
use crate::malloc::units::bank::Bank;
use crate::malloc::units::{UnitCount, UnitLayout};
use crate::row::Row;

impl Region {
    /// A run in a partly used bank at home, if one has it (`Index::find`): what is nearly always there, and no node is asked.
    #[inline(always)]
    pub fn take_partly_used(&mut self, layout: UnitLayout) -> Option<Run> {
        if layout.fits_bank() { self.take_in_bank::<false>(layout) } else { None }
    }

    /// The same of the banks at home or of those `AWAY`.
    #[inline(always)]
    pub(super) fn take_in_bank<const AWAY: bool>(&mut self, layout: UnitLayout) -> Option<Run> {
        let view = self.view();
        let index = if AWAY { view.away } else { view.index };
        let at = index.find(view.banks, layout)?;
        let first = view.banks.at(at).find(layout)?;
        let zero = self.take_listed(at, AWAY, first, layout.len);
        Some(Run { address: self.address(at, first), zero, fresh: false, used: self.used })
    }

    /// Takes units of one bank; whether they read as zero.
    #[inline(always)]
    pub(super) fn take_units(&mut self, at: usize, first: usize, len: UnitCount) -> bool {
        let away = self.is_away(at);
        self.take_listed(at, away, first, len)
    }

    /// The same of a bank that is known to be `away` from home or not.
    #[inline(always)]
    pub(super) fn take_listed(
        &mut self,
        at: usize,
        away: bool,
        first: usize,
        len: UnitCount,
    ) -> bool {
        let dirty = self.change_listed(at, away, |bank| bank.take(first, len));
        self.used += len;
        self.dirty -= dirty;
        dirty.0 == 0
    }

    #[inline(always)]
    fn is_away(&mut self, at: usize) -> bool {
        let home = self.home;
        self.view().banks.at(at).node != home
    }

    /// Changes one bank's bits and where it is listed; the region's counts are the caller's.
    #[inline(always)]
    pub(super) fn change<R>(&mut self, at: usize, work: impl FnOnce(&mut Bank) -> R) -> R {
        let away = self.is_away(at);
        self.change_listed(at, away, work)
    }

    #[inline(always)]
    fn change_listed<R>(&mut self, at: usize, away: bool, work: impl FnOnce(&mut Bank) -> R) -> R {
        let mut view = self.view();
        let index = if away { view.away } else { view.index };
        index.remove(view.banks, at);
        let bank = view.banks.at_mut(at);
        let result = work(bank);
        let free = bank.used == 0;
        index.insert(view.banks, at);
        view.free.set(at, free);
        result
    }
}
