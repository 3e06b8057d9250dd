//! Adaptive-buddy: a pool of banks for the kernel, one for users, the rest off (Panwar 2015, section 4.2).

use super::policy::Picked;
use super::pooled::{Pooled, Rule, Table};
use super::pools::{Choice, Pools, USER};
use super::request::Request;
use crate::machine::Probe;

/// Panwar's pools, with [lists for each bank](super::pools).
pub type Adaptive = Pooled<Recent>;

/// Of the sets of a pool the one serves whose largest free block is the smallest that will do, of several the one for which that
/// became true last; and so on until it does not serve, so pages are reused while they are in caches.
#[derive(Clone, Copy, Debug)]
pub struct Recent;

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
    ) -> Option<Picked> {
        match pools.take_from(table, USER, wanted.order, Choice::Recent, probe) {
            Some(picked) => Some(picked),
            None => pools.for_user_elsewhere(table, wanted, USER, probe),
        }
    }

    fn for_user_awake<Q: Probe>(
        &self,
        _: &mut Pools,
        _: &mut Table<'_>,
        _: Request,
        _: &mut Q,
    ) -> Option<Picked> {
        None // The thesis knows one node at a time.
    }

    fn refuge<Q: Probe>(
        &self,
        pools: &mut Pools,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked> {
        pools.take_from(table, USER, wanted.order, Choice::Fullest, probe)
    }

    fn reserve(&self) -> Option<u32> {
        None
    }
}
