//! Fullest first: adaptive pools, each served from the fullest bank that will do.
//!
//! Banks with few pages are left alone, so they run empty by themselves, and what the migration task copies is
//! little. Two more differences to Panwar's pools: pages that move go to the free frames of kernel banks
//! first, which cannot be switched off anyway, but for a reserve of an eighth of a set; and pages of users that are
//! known to be short-lived ([`Lifetime::Brief`]) have banks of their own, if any bank is on for them.

use super::pooled::{Pooled, Rule, Table};
use super::pools::{BRIEF, Choice, KERNEL, Pools, USER};
use super::request::{Lifetime, Request, SetId};
use freehold_blocks::probe::Probe;

/// One part in so many of a set.
const RESERVE: u32 = 8;

/// See the [module](self).
pub type Fullest = Pooled<FullestFirst>;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct FullestFirst {
    /// Frames of the kernel's pool that no moving page takes.
    reserve: u32,
}

/// Own pool, then the other.
const fn pools_of(lifetime: Lifetime) -> [usize; 2] {
    match lifetime {
        Lifetime::Long => [USER, BRIEF],
        Lifetime::Brief => [BRIEF, USER],
    }
}

#[inline]
fn of_users<Q: Probe>(
    pools: &mut Pools,
    table: &mut Table<'_>,
    wanted: Request,
    probe: &mut Q,
) -> Option<SetId> {
    let [own, other] = pools_of(wanted.lifetime);
    let picked = pools.find(table, own, wanted.order, Choice::Fullest, probe);
    picked.or_else(|| pools.find(table, other, wanted.order, Choice::Fullest, probe))
}

impl FullestFirst {
    /// What users get when their own pool's hot set has nothing.
    #[inline(never)]
    fn for_user_slow<Q: Probe>(
        &self,
        pools: &mut Pools,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId> {
        let own = pools_of(wanted.lifetime)[0];
        of_users(pools, table, wanted, probe)
            .or_else(|| self.spare_of_kernel(pools, table, wanted, probe))
            .or_else(|| pools.for_user_elsewhere(table, wanted, own, probe))
    }

    /// What the kernel's banks have beyond its reserve: they are on in any case.
    fn spare_of_kernel<Q: Probe>(
        &self,
        pools: &mut Pools,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId> {
        if pools.most_free(table, KERNEL) <= self.reserve {
            return None;
        }
        pools.find(table, KERNEL, wanted.order, Choice::Fullest, probe)
    }
}

impl Rule for FullestFirst {
    const FOR_KERNEL: Choice = Choice::Fullest;

    fn new(table: &Table<'_>) -> Self {
        let zone = table.zone();
        FullestFirst { reserve: zone.bank_frames * zone.interleave.width() / RESERVE }
    }

    #[inline]
    fn for_user<Q: Probe>(
        &self,
        pools: &mut Pools,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId> {
        let own = pools_of(wanted.lifetime)[0];
        if let Some(hot) = pools.hot(table, own, wanted.order, probe) {
            return Some(hot);
        }
        self.for_user_slow(pools, table, wanted, probe)
    }

    fn for_user_awake<Q: Probe>(
        &self,
        pools: &mut Pools,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId> {
        of_users(pools, table, wanted, probe)
            .or_else(|| self.spare_of_kernel(pools, table, wanted, probe))
    }

    fn refuge<Q: Probe>(
        &self,
        pools: &mut Pools,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId> {
        let spare = self.spare_of_kernel(pools, table, wanted, probe);
        spare.or_else(|| of_users(pools, table, wanted, probe))
    }

    fn reserve(&self) -> Option<u32> {
        Some(self.reserve)
    }
}
