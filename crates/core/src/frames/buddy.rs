//! Linux's buddy allocator with lists for each kind, and both of its rules for raiding other kinds.
//!
//! A request takes the smallest block of its own kind, last freed first. With none left it raids another kind,
//! the largest block first, so that raids are rare and what they mix stays together (Gorman and Whitcroft, "The
//! what, the why and the where to of anti-fragmentation", OLS 2006). Nothing here knows of banks but `isolate`:
//! this is what the bank-aware policies are compared with.

use super::listed::Listed;
use super::memory::SetRecord;
use super::order::Order;
use super::policy::{Picked, Policy, wake};
use super::request::{Kind, Request, SetId};
use super::store::{Begins, Changed};
use freehold_blocks::probe::{Probe, Step};

type Table<'m> = super::table::Table<'m, Listed>;

/// The area of sets that are isolated or off: searched by nobody. The kinds' own areas have their numbers.
const ISOLATE: usize = 4;

/// Smaller blocks are raided alone: half of the order of a page block.
const ALONE: Order = Order::of(Order::PAGE_BLOCK.log2() / 2);

/// Whom a kind raids, in this order (`fallbacks` in Linux's `mm/page_alloc.c`). Movable requests may use CMA.
pub(super) const RAIDS: [&[Kind]; 4] = [
    &[Kind::Reclaimable, Kind::Movable],
    &[Kind::Unmovable, Kind::Movable],
    &[Kind::Cma, Kind::Reclaimable, Kind::Unmovable],
    &[Kind::Movable, Kind::Reclaimable, Kind::Unmovable],
];

/// The zone's one buddy allocator.
///
/// `CLAIM` false is Linux 3.17, which the thesis ran: the free blocks around a raided one change to the raider's
/// lists, and the page block its kind when at least half of it was free. `CLAIM` true is the rule since 6.x:
/// claim the whole page block (when the block is at least that long, or half of it is free), or else take the
/// smallest block and change nothing.
#[derive(Clone, Copy, Debug)]
pub struct Buddy<const CLAIM: bool>;

impl<const CLAIM: bool> Buddy<CLAIM> {
    /// Where a free block of a usable or isolated set is kept.
    fn place(table: &Table<'_>, at: u32) -> usize {
        let set = table.set_of(at);
        if table.sets[set.index()].usable() { table.page_block(at) as usize } else { ISOLATE }
    }

    fn raid<Q: Probe>(
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        for order in wanted.order.and_longer().rev() {
            for &victim in RAIDS[wanted.kind as usize] {
                probe.step(Step::Index);
                let Some(at) = table.first(victim as usize, order) else { continue };
                if victim == Kind::Cma || wanted.kind == Kind::Cma {
                    return Some((at, victim as usize)); // CMA never changes, and takes nothing over.
                }
                if !CLAIM {
                    return Some(take_over(table, at, order, wanted.kind, victim, probe));
                }
                if claim(table, at, order, wanted.kind, probe) {
                    return Some((at, wanted.kind as usize));
                }
                return Self::steal(table, wanted, probe);
            }
        }
        None
    }

    /// The smallest block of another kind, which keeps its kind.
    fn steal<Q: Probe>(
        table: &Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        let from = |&victim: &Kind| {
            let at = table.smallest(victim as usize, wanted.order, probe)?;
            let Begins::Free(order) = table.begins(at) else { return None };
            Some((order, at, victim as usize))
        };
        let smallest =
            RAIDS[wanted.kind as usize].iter().filter_map(from).min_by_key(|found| found.0);
        smallest.map(|(_, at, rest)| (at, rest))
    }
}

/// Linux 3.17's `try_to_steal_freepages`: says where the rest of the block goes.
pub(super) fn take_over<Q: Probe>(
    table: &mut Table<'_>,
    at: u32,
    order: Order,
    kind: Kind,
    victim: Kind,
    probe: &mut Q,
) -> Picked<Listed> {
    if order >= Order::PAGE_BLOCK {
        table.retag(at, order, kind);
        return (at, kind as usize);
    }
    // Small blocks are raided alone, unless for caches of inodes, which come in bursts.
    if order < ALONE && kind != Kind::Reclaimable {
        return (at, victim as usize);
    }
    let moved = table.move_free(page_block_of(at), |_, _| kind as usize, probe);
    if moved >= Order::PAGE_BLOCK.frames() / 2 {
        table.retag(at, Order::PAGE_BLOCK, kind);
    }
    (at, kind as usize)
}

/// The rule since 6.x: the page block changes sides if at least half of it is free.
fn claim<Q: Probe>(
    table: &mut Table<'_>,
    at: u32,
    order: Order,
    kind: Kind,
    probe: &mut Q,
) -> bool {
    if order >= Order::PAGE_BLOCK {
        table.retag(at, order, kind);
        return true;
    }
    let range = page_block_of(at);
    let (mut free, mut block) = (0, range.0);
    while block < range.1 {
        probe.step(Step::Inspect);
        if let Begins::Free(order) = table.begins(block) {
            free += order.frames();
        }
        block = table.after(block);
    }
    if free < Order::PAGE_BLOCK.frames() / 2 {
        return false;
    }
    table.retag(at, Order::PAGE_BLOCK, kind);
    table.move_free(range, |_, _| kind as usize, probe);
    true
}

fn page_block_of(at: u32) -> (u32, u32) {
    let frames = Order::PAGE_BLOCK.frames();
    let first = at / frames * frames;
    (first, first + frames)
}

impl<const CLAIM: bool> Policy for Buddy<CLAIM> {
    type Store = Listed;
    const STARTS_OFF: bool = false;

    fn areas(_: usize) -> usize {
        ISOLATE + 1
    }

    fn new(_: &Table<'_>) -> Self {
        Buddy
    }

    #[inline]
    fn area(&self, table: &Table<'_>, at: u32) -> usize {
        Self::place(table, at)
    }

    fn keeps(&self, table: &Table<'_>, at: u32, area: usize) -> bool {
        (area == ISOLATE) != table.sets[table.set_of(at).index()].usable()
    }

    #[inline]
    fn pick<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        if let Some(picked) = self.refuge(table, wanted, probe) {
            return Some(picked);
        }
        while let Some(set) = wake(table, wanted.kind.class()) {
            self.join(table, set, probe);
            let picked = self.refuge(table, wanted, probe);
            if picked.is_some() {
                return picked;
            }
        }
        None
    }

    #[inline]
    fn refuge<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        match table.smallest(wanted.kind as usize, wanted.order, probe) {
            Some(at) => Some((at, wanted.kind as usize)),
            None => Self::raid(table, wanted, probe),
        }
    }

    #[inline]
    fn settle<Q: Probe>(&mut self, _: &mut Table<'_>, _: Changed, _: &mut Q) {}

    fn withdraw<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, probe: &mut Q) {
        table.move_set(set, |_, _| ISOLATE, probe);
    }

    fn join<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, probe: &mut Q) {
        debug_assert!(!table.sets[set.index()].has(SetRecord::ISOLATED | SetRecord::OFFLINE));
        table.move_set(set, Self::place, probe);
    }
}
