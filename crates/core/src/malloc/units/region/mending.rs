//! A region in a forked child whose parent had a thread half way through changing it: derives all other state anew
//! from the banks' used bits.

use super::Region;
use crate::machine::Machine;
use crate::malloc::units::index::Index;
use crate::malloc::units::{BANK, UnitCount};
use crate::place::Home;
use core::sync::atomic::Ordering;

impl Region {
    /// Lists every bank anew, and counts; all of them belong into core files. O(banks committed).
    pub fn mend(&mut self, machine: &impl Machine) {
        self.dump_all(machine);
        let (home, committed) = (self.home, self.committed);
        let view = self.view();
        (*view.index, *view.away) = (Index::EMPTY, Index::EMPTY);
        let mut free = view.free;
        let (mut used, mut dirty) = (UnitCount(0), UnitCount(0));
        for at in 0..committed {
            let Some(bank) = view.banks.get_mut(at) else { break };
            bank.mend();
            if bank.node == Home::ANYWHERE {
                // Committed, but its home is not yet set.
                bank.node = home;
            }
            let (away, none) = (bank.node != home, bank.used == 0);
            used += bank.used_units();
            dirty += bank.dirty_units();
            free.set(at, none);
            let index = if away { &mut *view.away } else { &mut *view.index };
            index.insert(view.banks, at);
        }
        (self.used, self.dirty) = (used, dirty);
        self.span.store(committed * BANK, Ordering::Release);
    }
}
