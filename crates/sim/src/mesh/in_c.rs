//! The allocator in C: under the lock, the core itself goes through the heap.

use super::load::Act;
use super::network::Sent;
use super::run::{Allocator, FIRST, What, World};
use super::sites::Accesses;
use freehold_core::place::mesh::{Answer, HeapId};

impl World<'_> {
    /// The lock is the core's: it takes or frees the block, gives the lock back, and is done.
    pub(super) fn work_in_c(&mut self, node: HeapId, at: u64) {
        let act = self.cores[node.index()].act;
        let costs = self.costs;
        let lock = self.locked_by_c(node);
        let mut made = Accesses::default();
        let (answer, place, work, accesses) = match act {
            Act::Malloc { object, size } => {
                match self.sites.alloc_counted(object, lock, size, at, &mut made) {
                    Some(place) => (Answer::Served, place, costs.c_alloc, costs.c_alloc_accesses),
                    None => (Answer::Full, lock, costs.full_lazy, costs.c_alloc_accesses),
                }
            }
            Act::Free { object } => {
                let place = self.sites.owner(object).map_or(node, |owner| owner.home);
                self.sites.free_counted(object, at, &mut made);
                (Answer::Freed, place, costs.c_free, costs.c_free_accesses)
            }
            Act::Think(_) | Act::Pause => return,
        };
        let accesses = if self.setup.counts_accesses { made.words() } else { accesses };
        self.run.accesses += if self.is_counting() { accesses } else { 0 };
        let Sent { arrived: touched, waited } = self.touch(node, place, accesses, at + work);
        let core = &mut self.cores[node.index()];
        core.spent.work += work + accesses * costs.c_access;
        core.spent.travel += touched - (at + work + accesses * costs.c_access) - waited;
        core.spent.queued += waited;
        core.served_by = (answer == Answer::Served).then_some(place);
        let end = self.unlock(node, lock, touched);
        match answer {
            Answer::Freed => self.end(node, true, end),
            answer => self.step(node, Some(answer), end),
        }
    }

    /// Whose lock a call of the allocator in C takes: the one there is, the own heap's, or that of the heap
    /// a block goes back to.
    pub(super) fn locked_by_c(&self, node: HeapId) -> HeapId {
        match (self.setup.allocator, self.cores[node.index()].act) {
            (Allocator::Private, Act::Free { object }) => {
                self.sites.owner(object).map_or(node, |owner| owner.home)
            }
            (Allocator::Private, _) => node,
            _ => FIRST,
        }
    }

    /// So many accesses to the memory of `place`, one after the other: when the last is done, and what they waited
    /// for links.
    fn touch(&mut self, node: HeapId, place: HeapId, accesses: u64, at: u64) -> Sent {
        let costs = self.costs;
        if node == place {
            return Sent { arrived: at + accesses * costs.c_access, waited: 0 };
        }
        (0..accesses).fold(Sent { arrived: at, waited: 0 }, |before, _| {
            let there = self.network.send(&costs, node, place, costs.flits_out, before.arrived);
            let done = there.arrived + costs.c_access;
            let back = self.network.send(&costs, place, node, costs.flits_back, done);
            Sent { waited: before.waited + there.waited + back.waited, ..back }
        })
    }

    /// Gives the lock back without waiting for it to arrive: when the core goes on.
    fn unlock(&mut self, node: HeapId, lock: HeapId, at: u64) -> u64 {
        let command = self.costs.command;
        let sent = at + command;
        self.cores[node.index()].spent.work += command;
        self.post(node, lock, What::Unlock, sent);
        sent
    }
}
