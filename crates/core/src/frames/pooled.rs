//! A policy on [pools](super::pools): what adaptive-buddy and fullest-first have in common, which is all but a rule.

use super::grouped::Grouped;
use super::memory::SetRecord;
use super::policy::Policy;
use super::pools::{Choice, KERNEL, Pools, USER};
use super::request::{Class, Request, SetId};
use super::store::{Changed, Store};
use freehold_blocks::check::Broken;
use freehold_blocks::probe::Probe;

pub(super) type Table<'m> = super::table::Table<'m, Grouped>;

/// Which sets of the pools serve whom.
pub trait Rule: Sized + Send {
    /// Which set of its pool serves the kernel.
    const FOR_KERNEL: Choice;

    /// The rule for that zone.
    fn new(table: &Table<'_>) -> Self;

    /// A block for users; may switch sets on and move them between pools.
    fn for_user<Q: Probe>(
        &self,
        pools: &mut Pools,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId>;

    /// See [`Policy::pick_awake`]; of users only.
    fn for_user_awake<Q: Probe>(
        &self,
        pools: &mut Pools,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId>;

    /// See [`Policy::refuge`].
    fn refuge<Q: Probe>(
        &self,
        pools: &mut Pools,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId>;

    /// Frames of the kernel's pool that no moving page takes; `None` where moving pages take none of it.
    fn reserve(&self) -> Option<u32>;
}

/// Pools under a rule.
#[derive(Clone, Debug)]
pub struct Pooled<R> {
    pools: Pools,
    rule: R,
}

impl<R: Rule> Policy for Pooled<R> {
    type Store = Grouped;
    const STARTS_OFF: bool = true;

    fn areas(sets: usize) -> usize {
        sets
    }

    fn new(table: &Table<'_>) -> Self {
        Pooled { pools: Pools::new(table), rule: R::new(table) }
    }

    #[inline]
    fn area(&self, table: &Table<'_>, at: u32) -> usize {
        table.set_of(at).index()
    }

    #[inline]
    fn pick<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId> {
        match wanted.kind.class() {
            Class::Kernel => self.pools.for_kernel(table, wanted, R::FOR_KERNEL, probe),
            Class::User => self.rule.for_user(&mut self.pools, table, wanted, probe),
        }
    }

    fn pick_awake<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId> {
        match wanted.kind.class() {
            Class::Kernel => None,
            Class::User => self.rule.for_user_awake(&mut self.pools, table, wanted, probe),
        }
    }

    fn refuge<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<SetId> {
        self.rule.refuge(&mut self.pools, table, wanted, probe)
    }

    #[inline(always)]
    fn settle<Q: Probe>(&mut self, table: &mut Table<'_>, changed: Changed, probe: &mut Q) {
        self.pools.settle(table, changed, probe);
    }

    fn withdraw<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, probe: &mut Q) {
        self.pools.leave(table, set, probe);
    }

    fn join<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, probe: &mut Q) {
        self.pools.join(table, set, home(table, set), probe);
    }

    fn room(&self, table: &Table<'_>, leaving: Option<SetId>) -> u32 {
        self.pools.room(table, leaving, self.rule.reserve())
    }

    fn pool(&self, number: u8) -> Option<Class> {
        class_of(number)
    }

    fn check(&self, table: &Table<'_>) -> Result<(), Broken> {
        self.pools.check(table)
    }
}

/// Where a set belongs that was isolated, off or new: with the kernel if it holds kernel pages or is shared with
/// a neighbouring zone (section 4.1.2), else with users.
pub(super) fn home<S: Store>(table: &super::table::Table<'_, S>, set: SetId) -> usize {
    let bank = &table.sets[set.index()];
    if bank.unmovable > 0 || bank.has(SetRecord::NOMIG) && !bank.has(SetRecord::CMA) {
        KERNEL
    } else {
        USER
    }
}

pub(super) fn class_of(number: u8) -> Option<Class> {
    Some(if usize::from(number) == KERNEL { Class::Kernel } else { Class::User })
}
