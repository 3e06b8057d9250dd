//! Adaptive-buddy: a pool of banks for the kernel, one for users, the rest off (Panwar 2015, section 4.2).

use super::pooled::{Pooled, Rule, Table};
use super::pools::{Choice, Pools, USER};
use super::request::{Request, SetId};
use freehold_blocks::probe::Probe;

/// Panwar's pools, with [lists for each bank](super::pools).
pub type Adaptive = Pooled<Recent>;

/// Of the sets of a pool the one serves whose largest free block is the smallest that will do, of several the one for which that
/// became true last; and so on until it does not serve, so pages are reused while they are in caches.
#[derive(Clone, Copy, Debug)]
pub struct Recent;

#[inline(never)]
fn for_user_slow<Q: Probe>(
    pools: &mut Pools,
    table: &mut Table<'_>,
    wanted: Request,
    probe: &mut Q,
) -> Option<SetId> {
    let set = pools.find(table, USER, wanted.order, Choice::Recent, probe);
    set.or_else(|| pools.for_user_elsewhere(table, wanted, USER, probe))
}

impl Rule for Recent {
    const FOR_KERNEL: Choice = Choice::Recent;

    fn new(_: &Table<'_>) -> Self {
        Recent
    }

    #[inline]
    fn for_user<Q: Probe>(
        &self,
        pools: &mut Pools,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId> {
        if let Some(hot) = pools.hot(table, USER, wanted.order, probe) {
            return Some(hot);
        }
        for_user_slow(pools, table, wanted, probe)
    }

    fn for_user_awake<Q: Probe>(
        &self,
        _: &mut Pools,
        _: &mut Table<'_>,
        _: Request,
        _: &mut Q,
    ) -> Option<SetId> {
        None // The thesis knows one node at a time.
    }

    fn refuge<Q: Probe>(
        &self,
        pools: &mut Pools,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId> {
        pools.find(table, USER, wanted.order, Choice::Fullest, probe)
    }

    fn reserve(&self) -> Option<u32> {
        None
    }
}
