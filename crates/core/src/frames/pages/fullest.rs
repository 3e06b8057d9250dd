//! Fullest first: adaptive pools, each served from the fullest bank that will do.
//!
//! Banks with few pages are left alone, so they run empty by themselves, and what the migration task copies is
//! little. Two more differences to Panwar's pools: pages that move go to the free frames of kernel banks
//! first, which cannot be switched off anyway, but for a reserve of an eighth of a set; and pages of users that are
//! known to be short-lived ([`Lifetime::Brief`]) have banks of their own, if any bank is on for them.

use super::adaptive::{class_of, home};
use super::policy::{Picked, Policy};
use super::pools::{BRIEF, Choice, KERNEL, Pools, USER};
use super::request::{Class, Lifetime, Request, SetId};
use super::table::Table;
use crate::check::Broken;
use crate::machine::Probe;

/// One part in so many of a set.
const RESERVE: u32 = 8;

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

    #[inline]
    fn of_users<Q: Probe>(
        &mut self,
        table: &mut Table,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked> {
        let [own, other] = Self::order_of(wanted.lifetime);
        let picked = self.pools.take_from(table, own, wanted.order, Choice::Fullest, probe);
        picked.or_else(|| self.pools.take_from(table, other, wanted.order, Choice::Fullest, probe))
    }

    /// What users get when their own pool has nothing.
    #[inline(never)]
    fn pick_slow<Q: Probe>(
        &mut self,
        table: &mut Table,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked> {
        let [own, other] = Self::order_of(wanted.lifetime);
        let picked = self.pools.take_from(table, other, wanted.order, Choice::Fullest, probe);
        picked
            .or_else(|| self.spare_of_kernel(table, wanted, probe))
            .or_else(|| self.pools.for_user_elsewhere(table, wanted, own, probe))
    }

    /// What the kernel's banks have beyond its reserve: they are on in any case.
    fn spare_of_kernel<Q: Probe>(
        &mut self,
        table: &mut Table,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked> {
        if self.pools.most_free(KERNEL) <= self.reserve {
            return None;
        }
        self.pools.take_from(table, KERNEL, wanted.order, Choice::Fullest, probe)
    }
}

impl Policy for Fullest {
    const STARTS_OFF: bool = true;

    fn areas(sets: usize) -> usize {
        sets
    }

    fn new(table: &Table) -> Self {
        let zone = table.zone();
        let reserve = zone.bank_frames * zone.interleave.width() / RESERVE;
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
        let own = Self::order_of(wanted.lifetime)[0];
        let picked = self.pools.take_from(table, own, wanted.order, Choice::Fullest, probe);
        if picked.is_some() {
            return picked;
        }
        self.pick_slow(table, wanted, probe)
    }

    fn pick_awake<Q: Probe>(
        &mut self,
        table: &mut Table,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked> {
        match wanted.kind.class() {
            Class::Kernel => None,
            Class::User => self
                .of_users(table, wanted, probe)
                .or_else(|| self.spare_of_kernel(table, wanted, probe)),
        }
    }

    fn refuge<Q: Probe>(
        &mut self,
        table: &mut Table,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked> {
        let spare = self.spare_of_kernel(table, wanted, probe);
        spare.or_else(|| self.of_users(table, wanted, probe))
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
        self.pools.room(table, leaving, Some(self.reserve))
    }

    fn pool(&self, number: u8) -> Option<Class> {
        class_of(number)
    }

    fn check(&self, table: &Table) -> Result<(), Broken> {
        self.pools.check(table)
    }
}
