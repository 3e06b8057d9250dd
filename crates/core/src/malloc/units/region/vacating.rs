//! A region's memory on closed nodes, piece by piece: metadata first, then bank by bank.
//!
//! For a bank that must leave its node, the region first sets where new pages come from, so that no new page appears on
//! the old node. The caller then moves the present pages, outside of the lock: that delays no thread.

use super::Region;
use crate::machine::{Machine, Nodes};
use crate::malloc::units::BANK;
use crate::malloc::units::supply::{Supply, nodes_of};
use crate::place::{Home, NodeId};

/// At most a bank's worth of memory in use, and where what of it lies on closed nodes shall go; nowhere when there is no
/// room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Where it starts: a whole page.
    pub at: usize,
    /// Bytes, whole pages.
    pub len: usize,
    /// Where to.
    pub to: Option<NodeId>,
}

impl Region {
    /// Piece `number` of the region, which may be empty; `None` past the last.
    #[cold]
    pub fn stretch(
        &mut self,
        machine: &impl Machine,
        supply: &mut Supply,
        number: usize,
    ) -> Option<Stretch> {
        let nodes = machine.nodes()?;
        let mut number = number;
        for (at, len) in self.metadata() {
            let pieces = len.div_ceil(BANK);
            if number < pieces {
                let (at, len) = (at + number * BANK, (len - number * BANK).min(BANK));
                return Some(Stretch { at, len, to: self.destination(nodes, supply) });
            }
            number -= pieces;
        }
        let bank = *self.view().banks.get(number)?;
        let (at, empty) = (self.address(number, 0), bank.used | bank.dirty == 0);
        let len = if empty { 0 } else { BANK };
        Some(Stretch { at, len, to: self.leave(nodes, supply, number) })
    }

    /// Makes the pages of the region's bookkeeping come from `from` as far as they are not there yet.
    #[cold]
    pub(in crate::malloc::units) fn prefer_for_metadata(&self, machine: &impl Machine, from: Home) {
        let Some((nodes, node)) = nodes_of(machine, from) else { return };
        let start = self.records.start - self.banks * super::RECORD;
        let start = start / machine.page_size() * machine.page_size();
        let end = self.start;
        nodes.prefer(start as *mut u8, end - start, node);
    }

    /// Where bookkeeping is committed, as (start, length).
    pub(super) fn metadata(&self) -> [(usize, usize); 3] {
        let (records, tags, front) = (self.records, self.tags, self.front);
        [
            (records.start - records.committed, records.committed),
            (tags.start, tags.committed),
            (self.away, front.start + front.committed - self.away),
        ]
    }

    /// Where bank `at` goes when it is on a closed node; from now on its pages come from there.
    fn leave(&mut self, nodes: &dyn Nodes, supply: &mut Supply, at: usize) -> Option<NodeId> {
        let Some(node) = self.view().banks.get(at)?.node.node() else {
            // The user's policy places it: move the present pages; the policy decides about new ones.
            return self.destination(nodes, supply);
        };
        if !supply.closed().contains(node) {
            return Some(node);
        }
        let (to, _) = supply.find(nodes, self.home.node().unwrap_or(node), 1)?;
        self.relist(at, Home::of(to));
        nodes.prefer(self.address(at, 0) as *mut u8, BANK, to);
        Some(to)
    }

    /// Where to with what belongs to no bank in particular.
    fn destination(&self, nodes: &dyn Nodes, supply: &mut Supply) -> Option<NodeId> {
        let from = self.home.node().or_else(|| supply.closed().iter().next())?;
        supply.find(nodes, from, 1).map(|(node, _)| node)
    }
}
