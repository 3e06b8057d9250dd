//! Fullest first: adaptive pools, each served from the fullest bank that will do.
//!
//! Banks with few pages are left alone, so they run empty by themselves, and what the migration task copies is
//! little. Two more differences to Panwar's pools: pages that move go to the free frames of kernel banks
//! first, which cannot be switched off anyway, but for a reserve of half a set; and pages of users that are
//! known to be short-lived ([`Lifetime::Brief`]) have banks of their own, if any bank is on for them.

use super::adaptive::{class_of, home};
use super::policy::{Picked, Policy};
use super::pools::{BRIEF, Choice, KERNEL, Pools, USER};
use super::request::{Class, Lifetime, Request, SetId};
use super::table::Table;
use crate::check::Broken;
use crate::machine::Probe;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Fullest {
    pools: Pools,
    /// Frames of the kernel's pool that no moving page takes.
    reserve: u32,
}

impl Fullest {
    /// Own pool, then the other.
    const fn order_of(lifetime: Lifetime) -> [usize; 2] {
        match lifetime {
            Lifetime::Long => [USER, BRIEF],
            Lifetime::Brief => [BRIEF, USER],
        }
    }

    fn of_users<Q: Probe>(&self, table: &Table, wanted: Request, probe: &mut Q) -> Option<Picked> {
        let mut pools = Self::order_of(wanted.lifetime).into_iter();
        pools.find_map(|pool| {
            self.pools.take_from(table, pool, wanted.order, Choice::Fullest, probe)
        })
    }
}

impl Policy for Fullest {
    const STARTS_OFF: bool = true;

    fn areas(sets: usize) -> usize {
        sets
    }

    fn new(table: &Table) -> Self {
        let zone = table.zone();
        let reserve = zone.bank_frames * zone.interleave.width() / 2;
        Fullest { pools: Pools::new(table), reserve }
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
        if wanted.kind.class() == Class::Kernel {
            return self.pools.for_kernel(table, wanted, Choice::Fullest, probe);
        }
        if let Some(picked) = self.of_users(table, wanted, probe) {
            return Some(picked);
        }
        let pool = Self::order_of(wanted.lifetime)[0];
        self.pools.for_user_elsewhere(table, wanted, pool, probe)
    }

    fn refuge<Q: Probe>(
        &mut self,
        table: &mut Table,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked> {
        if Pools::free(table, KERNEL) > self.reserve {
            let picked = self.pools.take_from(table, KERNEL, wanted.order, Choice::Fullest, probe);
            if picked.is_some() {
                return picked;
            }
        }
        self.of_users(table, wanted, probe)
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
        Pools::room(table, leaving, Some(self.reserve))
    }

    fn pool(&self, number: u8) -> Option<Class> {
        class_of(number)
    }

    fn check(&self, table: &Table) -> Result<(), Broken> {
        self.pools.check(table)
    }
}
