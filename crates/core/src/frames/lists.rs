//! Doubly linked lists of free blocks, a head for each order of an area, linked through metadata that is handed in.
//!
//! An entry leaves its list without anybody knowing which that is: the first one's `prev` says it.

use super::memory::{Area, Link};
use super::order::Order;
use crate::row::Row;
use freehold_blocks::check::Broken;
use freehold_blocks::probe::{Probe, Step};

/// What has links, one for each number.
pub trait Linked {
    /// `log2` of the frames that an entry stands for.
    const FRAMES_LOG2: u8;

    /// The links of an entry.
    fn link(&self, nth: u32) -> Link;

    /// The same, to be changed.
    fn link_mut(&mut self, nth: u32) -> &mut Link;
}

impl Linked for [Link] {
    const FRAMES_LOG2: u8 = 0;

    #[inline]
    fn link(&self, nth: u32) -> Link {
        self[nth as usize]
    }

    #[inline]
    fn link_mut(&mut self, nth: u32) -> &mut Link {
        &mut self[nth as usize]
    }
}

/// A step on the metadata of an entry.
#[inline]
pub fn touch<L: Linked + ?Sized, P: Probe>(_: &L, nth: u32, probe: &mut P) {
    probe.step(Step::Touch { at: u64::from(nth) << L::FRAMES_LOG2 });
}

/// Puts an entry at the head of a list.
#[inline]
pub fn push<L: Linked + ?Sized, P: Probe>(
    all: &mut L,
    areas: &mut [Area],
    nth: u32,
    (area, order): (usize, Order),
    probe: &mut P,
) {
    probe.step(Step::Index);
    touch(all, nth, probe);
    let lists = &mut areas[area];
    let old = core::mem::replace(&mut lists.heads[order.index()], nth + 1);
    lists.orders.insert(order);
    let prev = Link::FIRST | (area as u32) << 4 | u32::from(order.log2());
    *all.link_mut(nth) = Link { next: old, prev };
    if old != 0 {
        touch(all, old - 1, probe);
        all.link_mut(old - 1).prev = nth + 1;
    }
}

/// Takes an entry out of its list.
#[inline]
pub fn remove<L: Linked + ?Sized, P: Probe>(
    all: &mut L,
    areas: &mut [Area],
    nth: u32,
    probe: &mut P,
) {
    take_out(all, nth, probe, |prev, next| {
        let lists = &mut areas[((prev & !Link::FIRST) >> 4) as usize];
        set_head(lists, Order::of((prev & 15) as u8), next);
    });
}

/// Takes an entry that is in list `from` of an area out of it, and puts it at the head of `to`; with `None`, it is in none or
/// goes into none. Says whether other lists of the area hold any now.
#[inline(always)]
pub fn change<L: Linked + ?Sized, P: Probe>(
    all: &mut L,
    areas: &mut [Area],
    nth: u32,
    (area, from, to): (usize, Option<Order>, Option<Order>),
    probe: &mut P,
) -> bool {
    let held = areas.at(area).orders;
    if let Some(order) = from {
        take_out(all, nth, probe, |_, next| set_head(areas.at_mut(area), order, next));
    }
    if let Some(order) = to {
        push(all, areas, nth, (area, order), probe);
    }
    areas.at(area).orders != held
}

#[inline(always)]
fn set_head(lists: &mut Area, order: Order, next: u32) {
    *lists.heads.at_mut(order.index()) = next;
    if next == 0 {
        lists.orders.remove(order);
    }
}

/// Joins an entry's neighbours. If it has none before it, `head` gets its `prev`, which says the list, and who is first now.
#[inline(always)]
fn take_out<L: Linked + ?Sized, P: Probe>(
    all: &mut L,
    nth: u32,
    probe: &mut P,
    head: impl FnOnce(u32, u32),
) {
    touch(all, nth, probe);
    let Link { next, prev } = all.link(nth);
    if prev & Link::FIRST != 0 {
        probe.step(Step::Index);
        head(prev, next);
    } else {
        touch(all, prev - 1, probe);
        all.link_mut(prev - 1).next = next;
    }
    if next != 0 {
        touch(all, next - 1, probe);
        all.link_mut(next - 1).prev = prev;
    }
}

/// Walks the lists of some orders of every area: whether masks and links agree, and what `visit` says of each (entry, area,
/// order).
pub fn check<L: Linked + ?Sized>(
    all: &L,
    areas: &[Area],
    orders: impl Iterator<Item = Order> + Clone,
    mut visit: impl FnMut(u32, usize, Order) -> Result<(), Broken>,
) -> Result<(), Broken> {
    for (area, lists) in areas.iter().enumerate() {
        for order in orders.clone() {
            let first = lists.heads[order.index()];
            let mask = lists.orders.has(order);
            let what = "a mask says which lists hold any";
            Broken::unless(mask == (first != 0), what, area as u64)?;
            let mut prev = Link::FIRST | (area as u32) << 4 | u32::from(order.log2());
            let mut at = first;
            while let Some(nth) = at.checked_sub(1) {
                let link = all.link(nth);
                let what = "links of a list lead back";
                Broken::unless_equal(what, nth.into(), prev.into(), link.prev.into())?;
                visit(nth, area, order)?;
                (prev, at) = (at, link.next);
            }
        }
    }
    Ok(())
}
