//! The free blocks of one bank set, by kind: what both bank-buddies search, set by set.
//!
//! Every set has four areas, one a kind. A request takes from its own kind's, or claims a whole free page block
//! of another's; only when no set has either does it take what others left in a shared page block.

use super::buddy::RAIDS;
use super::listed::Listed;
use super::order::Order;
use super::policy::Picked;
use super::request::{Kind, Request, SetId};
use freehold_blocks::probe::{Probe, Step};

pub(super) type Table<'m> = super::table::Table<'m, Listed>;

/// Areas of a set.
pub const AREAS: usize = Kind::ALL.len();

/// How far a search goes within a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Its own kind's blocks, or a whole page block that is free.
    Own,
    /// Any block that the kind may use.
    Any,
}

/// The area of a set for a kind.
#[inline]
pub const fn area_of(set: SetId, kind: Kind) -> usize {
    set.index() * AREAS + kind as usize
}

/// The area for a free block.
#[inline]
pub fn area(table: &Table<'_>, at: u32) -> usize {
    area_of(table.set_of(at), table.page_block(at))
}

/// A block of that set, if the search goes that far.
#[inline]
pub fn pick<Q: Probe>(
    table: &mut Table<'_>,
    set: SetId,
    wanted: Request,
    depth: Depth,
    probe: &mut Q,
) -> Option<Picked<Listed>> {
    probe.step(Step::Inspect);
    let own = area_of(set, wanted.kind);
    if let Some(at) = table.smallest(own, wanted.order, probe) {
        return Some((at, own));
    }
    let least =
        if depth == Depth::Own { wanted.order.max(Order::PAGE_BLOCK) } else { wanted.order };
    for order in least.and_longer().rev() {
        for &victim in RAIDS[wanted.kind as usize] {
            let area = area_of(set, victim);
            probe.step(Step::Index);
            if let Some(at) = table.first(area, order) {
                let fixed = victim == Kind::Cma || wanted.kind == Kind::Cma;
                if order < Order::PAGE_BLOCK || fixed {
                    return Some((at, area));
                }
                table.retag(at, order, wanted.kind);
                return Some((at, own));
            }
        }
    }
    None
}

/// Whether the set has a block of at least that order that the kind may use.
pub fn serves(table: &Table<'_>, set: SetId, wanted: Request) -> bool {
    let has = |kind: Kind| table.areas[area_of(set, kind)].orders.has_from(wanted.order);
    has(wanted.kind) || RAIDS[wanted.kind as usize].iter().copied().any(has)
}
