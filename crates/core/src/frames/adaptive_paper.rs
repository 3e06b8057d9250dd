//! Adaptive-buddy as the thesis has it: a pool's banks share its lists (Panwar 2015, section 4.2).
//!
//! What this shows is the cost of a bank that changes its pool: every free block of it is taken out of one pool's
//! lists and put into the other's. [`Adaptive`](super::Adaptive) makes the same choice of banks in O(1). Within a
//! pool pages come from the common lists, last freed first, from whatever bank.

use super::listed::Listed;
use super::memory::SetRecord;
use super::order::Order;
use super::policy::{Picked, Policy, free_of, wake};
use super::pooled::{class_of, home};
use super::pools::{KERNEL, USER};
use super::request::{Class, Request, SetId};
use super::store::{Begins, Changed};
use freehold_blocks::probe::{Probe, Step};

type Table<'m> = super::table::Table<'m, Listed>;

/// The area of sets that are isolated or off.
const ELSEWHERE: usize = 2;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct AdaptivePaper;

impl AdaptivePaper {
    fn place(table: &Table<'_>, at: u32) -> usize {
        let bank = &table.sets[table.set_of(at).index()];
        if bank.usable() { bank.pool.into() } else { ELSEWHERE }
    }

    fn enter<Q: Probe>(table: &mut Table<'_>, set: SetId, pool: usize, probe: &mut Q) {
        table.sets[set.index()].pool = pool as u8;
        table.move_set(set, |_, _| pool, probe);
    }

    /// The user bank with most free pages that has the order.
    fn emptiest<Q: Probe>(table: &Table<'_>, order: Order, probe: &mut Q) -> Option<SetId> {
        let mut best: Option<(u32, SetId)> = None;
        for (index, bank) in table.sets.iter().enumerate() {
            probe.step(Step::Inspect);
            let able = bank.usable() && usize::from(bank.pool) == USER && !bank.has(SetRecord::CMA);
            let more = best.is_none_or(|(free, _)| bank.free > free) && bank.free >= order.frames();
            if able && more && Self::block_in(table, SetId(index as u16), order).is_some() {
                best = Some((bank.free, SetId(index as u16)));
            }
        }
        best.map(|(_, set)| set)
    }

    /// Any free block of at least that order in a set. O(blocks of the set).
    fn block_in(table: &Table<'_>, set: SetId, order: Order) -> Option<u32> {
        (0..table.width()).find_map(|nth| {
            let (mut at, end) = table.bank_range(set, nth);
            while at < end {
                if matches!(table.begins(at), Begins::Free(has) if has >= order) {
                    return Some(at);
                }
                at = table.after(at);
            }
            None
        })
    }

    fn kernel<Q: Probe>(
        table: &mut Table<'_>,
        order: Order,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        if let Some(at) = table.smallest(KERNEL, order, probe) {
            return Some((at, KERNEL));
        }
        let set = match wake(table, Class::Kernel) {
            Some(set) => set,
            None => Self::emptiest(table, order, probe)?,
        };
        Self::enter(table, set, KERNEL, probe);
        table.smallest(KERNEL, order, probe).map(|at| (at, KERNEL))
    }
}

impl Policy for AdaptivePaper {
    type Store = Listed;
    const STARTS_OFF: bool = true;

    fn areas(_: usize) -> usize {
        ELSEWHERE + 1
    }

    fn new(_: &Table<'_>) -> Self {
        AdaptivePaper
    }

    #[inline]
    fn area(&self, table: &Table<'_>, at: u32) -> usize {
        Self::place(table, at)
    }

    fn pick<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        if wanted.kind.class() == Class::Kernel {
            return Self::kernel(table, wanted.order, probe);
        }
        if let Some(at) = table.smallest(USER, wanted.order, probe) {
            return Some((at, USER));
        }
        while let Some(set) = wake(table, Class::User) {
            Self::enter(table, set, USER, probe);
            if let Some(at) = table.smallest(USER, wanted.order, probe) {
                return Some((at, USER));
            }
        }
        table.smallest(KERNEL, wanted.order, probe).map(|at| (at, KERNEL))
    }

    fn refuge<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        table.smallest(USER, wanted.order, probe).map(|at| (at, USER))
    }

    fn settle<Q: Probe>(&mut self, _: &mut Table<'_>, _: Changed, _: &mut Q) {}

    fn withdraw<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, probe: &mut Q) {
        table.move_set(set, |_, _| ELSEWHERE, probe);
    }

    fn join<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, probe: &mut Q) {
        let pool = home(table, set);
        Self::enter(table, set, pool, probe);
    }

    fn room(&self, table: &Table<'_>, leaving: Option<SetId>) -> u32 {
        free_of(table, leaving, |bank| usize::from(bank.pool) == USER)
    }

    fn pool(&self, number: u8) -> Option<Class> {
        class_of(number)
    }
}
