//! Adaptive-buddy: a pool of banks for the kernel, one for users, the rest off (Panwar 2015, section 4.2).

use super::memory::Bank;
use super::policy::{Picked, Policy};
use super::pools::{Choice, KERNEL, Pools, USER};
use super::request::{Class, Request, SetId};
use super::table::Table;
use crate::check::Broken;
use crate::machine::Probe;

/// Panwar's pools, with [lists for each bank](super::pools): of the sets of a pool the one serves that last
/// got a block of the smallest order that will do, so pages are reused while they are in caches.
#[derive(Clone, Debug)]
pub struct Adaptive {
    pools: Pools,
}

impl Policy for Adaptive {
    const STARTS_OFF: bool = true;

    fn areas(sets: usize) -> usize {
        sets
    }

    fn new(table: &Table) -> Self {
        Adaptive { pools: Pools::new(table) }
    }

    #[inline]
    fn area(&self, table: &Table, at: u32) -> usize {
        table.set_of(at).index()
    }

    #[inline]
    fn pick<Q: Probe>(
        &mut self,
        table: &mut Table,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked> {
        match wanted.kind.class() {
            Class::Kernel => self.pools.for_kernel(table, wanted, Choice::Recent, probe),
            Class::User => {
                match self.pools.take_from(table, USER, wanted.order, Choice::Recent, probe) {
                    Some(picked) => Some(picked),
                    None => self.pools.for_user_elsewhere(table, wanted, USER, probe),
                }
            }
        }
    }

    fn refuge<Q: Probe>(
        &mut self,
        table: &mut Table,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked> {
        self.pools.take_from(table, USER, wanted.order, Choice::Fullest, probe)
    }

    #[inline]
    fn settle<Q: Probe>(&mut self, table: &mut Table, set: SetId, probe: &mut Q) {
        self.pools.settle(table, set, probe);
        self.pools.give_back(table, set, probe);
    }

    fn withdraw<Q: Probe>(&mut self, table: &mut Table, set: SetId, probe: &mut Q) {
        self.pools.leave(table, set, probe);
    }

    fn join<Q: Probe>(&mut self, table: &mut Table, set: SetId, probe: &mut Q) {
        self.pools.join(table, set, home(table, set), probe);
    }

    fn room(&self, table: &Table, leaving: Option<SetId>) -> u32 {
        self.pools.room(table, leaving, None)
    }

    fn pool(&self, number: u8) -> Option<Class> {
        class_of(number)
    }

    fn check(&self, table: &Table) -> Result<(), Broken> {
        self.pools.check(table)
    }
}

/// Where a set belongs that was isolated, off or new: with the kernel if it holds kernel pages or is shared with
/// a neighbouring zone (section 4.1.2), else with users.
pub(super) fn home(table: &Table, set: SetId) -> usize {
    let bank = &table.sets[set.index()];
    if bank.unmovable > 0 || bank.has(Bank::NOMIG) && !bank.has(Bank::CMA) { KERNEL } else { USER }
}

pub(super) fn class_of(number: u8) -> Option<Class> {
    Some(if usize::from(number) == KERNEL { Class::Kernel } else { Class::User })
}
