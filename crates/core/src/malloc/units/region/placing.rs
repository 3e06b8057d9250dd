//! Which node a region's banks get their pages from: the cold half of a region with a home.
//!
//! The region decides when it hands out a wholly free bank, and notes it in the bank. The region as a whole prefers its
//! home, so only banks away from it cost a mapping of their own.

use super::Region;
use crate::machine::{Machine, Nodes};
use crate::malloc::units::bank::Bank;
use crate::malloc::units::region::Run;
use crate::malloc::units::supply::{Supply, nodes_of};
use crate::malloc::units::{BANK, UnitCount, UnitLayout};
use crate::place::{Home, NodeId};
use crate::row::Row;

impl Region {
    /// A run in a bank away from home, if that is where the next bank would come from.
    #[cold]
    pub(super) fn take_away(
        &mut self,
        machine: &impl Machine,
        supply: &mut Supply,
        layout: UnitLayout,
    ) -> Option<Run> {
        let (nodes, home) = nodes_of(machine, self.home)?;
        let elsewhere = self.view().away.any() && !supply.stays_here(nodes, home)?;
        if elsewhere { self.take_in_bank_away(layout) } else { None }
    }

    /// Once, for all machines.
    #[inline(never)]
    fn take_in_bank_away(&mut self, layout: UnitLayout) -> Option<Run> {
        self.take_in_bank::<true>(layout)
    }

    /// Decides which nodes those of `len` banks from `at` that are wholly free get their pages from; `None` when there
    /// is room for them nowhere on the path, or something must be asked first: then nothing was taken.
    #[cold]
    pub(super) fn place(
        &mut self,
        machine: &impl Machine,
        supply: &mut Supply,
        at: usize,
        len: usize,
    ) -> Option<()> {
        let Some((nodes, home)) = nodes_of(machine, self.home) else { return Some(()) };
        let (mut bank, end) = (at, at + len);
        while bank < end {
            // What is in use stays; what is at home, resident already, needs nothing.
            let banks = self.view().banks;
            let banks = banks.get(bank..end).unwrap_or_default();
            let here = Home::of(home);
            let open = !supply.closed().contains(home);
            let resident = |bank: &Bank| bank.dirty != 0 && bank.node == here && open;
            let settled = |bank: &Bank| bank.used != 0 || resident(bank);
            let want = banks.iter().take_while(|bank| !settled(bank)).count();
            if want == 0 {
                bank += 1;
                continue;
            }
            let (node, some) = supply.next(nodes, home, want)?;
            self.rebind(machine, nodes, node, bank, some);
            bank += some;
        }
        Some(())
    }

    fn state(&mut self, at: usize) -> Bank {
        self.view().banks.get(at).copied().unwrap_or_default()
    }

    /// Makes the pages of `len` free banks from `at` come from `node`.
    fn rebind(
        &mut self,
        machine: &impl Machine,
        nodes: &dyn Nodes,
        node: NodeId,
        at: usize,
        len: usize,
    ) {
        let there = Home::of(node);
        let Some(first) = (at..at + len).find(|&at| self.state(at).node != there) else { return };
        for at in first..at + len {
            // Also when it is clean: a transparent huge page brings more than was touched, and that stays where it is.
            if self.state(at).node != there {
                let all = self.address(at, 0) as *mut u8;
                // SAFETY: the bank is committed and wholly free.
                if unsafe { machine.purge(all, BANK) } {
                    let dirty =
                        self.change(at, |bank| core::mem::take(&mut bank.dirty).count_ones());
                    self.dirty -= UnitCount(dirty as usize);
                }
            }
            if let Some(bank) = self.view().banks.get_mut(at) {
                bank.node = there;
            }
        }
        let len = (at + len - first) * BANK;
        nodes.prefer(self.address(first, 0) as *mut u8, len, node);
    }

    /// Says where the pages of bank `at` come from, and lists it accordingly.
    pub(super) fn relist(&mut self, at: usize, node: Home) {
        let home = self.home;
        let view = self.view();
        let (here, there) = (view.banks.at(at).node == home, node == home);
        let mut lists = [view.away, view.index];
        lists.at_mut(usize::from(here)).remove(view.banks, at);
        view.banks.at_mut(at).node = node;
        lists.at_mut(usize::from(there)).insert(view.banks, at);
    }
}
