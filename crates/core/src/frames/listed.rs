//! Free blocks in lists by order, each linked through its first frame: as in Linux, last freed first.
//!
//! What the published policies are reproduced on: where the next page comes from depends on what was freed last, wherever
//! it lies. A merge touches the links of three blocks, which is three cache misses on a large machine.

use super::lists;
use super::order::Order;
use super::request::{Kind, SetId};
use super::store::{Begins, Given, Lengths, Store, Tag};
use super::table::Table;
use super::zone::Zone;
use crate::row::Row;
use freehold_blocks::check::Broken;
use freehold_blocks::probe::{Probe, Step};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Listed;

impl Table<'_, Listed> {
    #[inline]
    fn push<P: Probe>(&mut self, at: u32, order: Order, area: usize, probe: &mut P) {
        lists::push(self.links, self.areas, at, (area, order), probe);
        self.tags[at as usize] = Tag::free(order);
    }

    #[inline]
    fn remove<P: Probe>(&mut self, at: u32, probe: &mut P) {
        lists::remove(self.links, self.areas, at, probe);
        self.tags[at as usize] = 0;
    }

    /// The first block of an area's list of that order, if it has any.
    #[inline]
    pub(super) fn first(&self, area: usize, order: Order) -> Option<u32> {
        self.areas[area].heads[order.index()].checked_sub(1)
    }

    /// The smallest block of an area that holds `order`.
    #[inline(always)]
    pub(super) fn smallest<P: Probe>(
        &self,
        area: usize,
        order: Order,
        probe: &mut P,
    ) -> Option<u32> {
        probe.step(Step::Index);
        self.first(area, self.areas.at(area).orders.smallest_from(order)?)
    }

    /// Moves every free block between two frames, ends of page blocks, into the lists of another area; says how many frames
    /// those were. O(blocks): what a retag costs where lists are the zone's.
    pub(super) fn move_free<P: Probe>(
        &mut self,
        (from, to): (u32, u32),
        area: impl Fn(&Self, u32) -> usize,
        probe: &mut P,
    ) -> u32 {
        let (mut at, mut moved) = (from, 0);
        while at < to {
            probe.step(Step::Inspect);
            let next = self.after(at);
            if let Begins::Free(order) = self.begins(at) {
                self.remove(at, probe);
                let area = area(self, at);
                self.push(at, order, area, probe);
                moved += order.frames();
            }
            at = next;
        }
        moved
    }

    /// [`move_free`](Self::move_free) for all banks of a set.
    pub(super) fn move_set<P: Probe>(
        &mut self,
        set: SetId,
        area: impl Fn(&Self, u32) -> usize + Copy,
        probe: &mut P,
    ) {
        for nth in 0..self.width() {
            self.move_free(self.bank_range(set, nth), area, probe);
        }
    }
}

impl Store for Listed {
    /// A free block, and the area for what remains of it.
    type Picked = (u32, usize);

    fn needs(zone: &Zone) -> Lengths {
        Lengths { frames: zone.banks() as usize * zone.bank_frames as usize, low: 0, high: 0 }
    }

    fn lay_out(_: &mut Table<'_, Self>) {}

    #[inline]
    fn begins(table: &Table<'_, Self>, at: u32) -> Begins {
        Tag::read(table.tags[at as usize])
    }

    #[inline]
    fn set_of(table: &Table<'_, Self>, (at, _): (u32, usize)) -> SetId {
        table.set_of(at)
    }

    fn put(table: &mut Table<'_, Self>, at: u32, order: Order, area: usize) {
        table.push(at, order, area, &mut ());
    }

    #[inline]
    fn take<Q: Probe>(
        table: &mut Table<'_, Self>,
        (at, rest): (u32, usize),
        (order, kind): (Order, Kind),
        probe: &mut Q,
    ) -> (u32, bool) {
        let order = order.known();
        let mut have = table.tags[at as usize] & 15;
        table.remove(at, probe);
        while have > order.log2() {
            have -= 1;
            probe.step(Step::Split);
            let half = Order::of(have);
            table.push(at + half.frames(), half, rest, probe);
        }
        table.tags[at as usize] = Tag::used(order, kind);
        (at, true)
    }

    #[inline]
    fn give<Q: Probe>(
        table: &mut Table<'_, Self>,
        at: u32,
        order: Order,
        area: impl FnOnce(&Table<'_, Self>, u32) -> usize,
        probe: &mut Q,
    ) -> Option<Given> {
        let order = order.known();
        let kind = match Self::begins(table, at) {
            Begins::Used(has, kind) if has == order => kind,
            _ => return None,
        };
        let set = table.set_of(at);
        lists::touch(table.links, at, probe);
        table.tags[at as usize] = 0;
        let (mut at, mut order) = (at, order);
        while let Some(double) = order.double() {
            let twin = at ^ order.frames();
            lists::touch(table.links, twin, probe);
            if table.tags[twin as usize] != Tag::free(order) || !table.may_merge(at, twin) {
                break;
            }
            probe.step(Step::Merge);
            table.remove(twin, probe);
            at &= !order.frames();
            order = double;
        }
        let area = area(table, at);
        table.push(at, order, area, probe);
        Some(Given { class: kind.class(), set, relisted: true })
    }

    fn check(table: &Table<'_, Self>, keeps: impl Fn(u32, usize) -> bool) -> Result<u64, Broken> {
        let mut listed = 0;
        lists::check(&*table.links, table.areas, Order::all(), |block, area, order| {
            let free = table.begins(block) == Begins::Free(order);
            Broken::unless(free, "a list holds free blocks of its order", block.into())?;
            let what = "a free block is in its policy's area";
            Broken::unless(keeps(block, area), what, block.into())?;
            listed += 1;
            Ok(())
        })?;
        Ok(listed)
    }
}
