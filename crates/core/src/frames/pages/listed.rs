//! Free blocks in lists by order, each linked through its first frame: as in Linux, last freed first.
//!
//! What the published policies are reproduced on: where the next page comes from depends on what was freed last, wherever
//! it lies. A merge touches the links of three blocks, which is three cache misses on a large machine.

use super::lists;
use super::request::{Kind, MAX_ORDER};
use super::store::{Begins, Store, Tag};
use super::table::Table;
use crate::check::Broken;
use crate::machine::{Probe, Step};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Listed;

impl Table<'_, Listed> {
    #[inline]
    fn push<P: Probe>(&mut self, at: u32, order: u8, area: usize, probe: &mut P) {
        lists::push(self.links, self.areas, at, (area, order), probe);
        self.tags[at as usize] = Tag::free(order);
    }

    #[inline]
    fn remove<P: Probe>(&mut self, at: u32, probe: &mut P) {
        lists::remove(self.links, self.areas, at, probe);
        self.tags[at as usize] = 0;
    }
}

impl Store for Listed {
    fn needs(frames: usize) -> (usize, usize) {
        (frames, 0)
    }

    fn lay_out(_: &mut Table<'_, Self>) {}

    #[inline]
    fn begins(table: &Table<'_, Self>, at: u32) -> Begins {
        Tag::read(table.tags[at as usize])
    }

    #[inline]
    fn first(table: &Table<'_, Self>, area: usize, list: u8, _: u8) -> Option<u32> {
        table.areas[area].heads[usize::from(list)].checked_sub(1)
    }

    fn put(table: &mut Table<'_, Self>, at: u32, order: u8, area: usize) {
        table.push(at, order, area, &mut ());
    }

    #[inline]
    fn take<Q: Probe>(
        table: &mut Table<'_, Self>,
        at: u32,
        (order, kind): (u8, Kind),
        rest: usize,
        probe: &mut Q,
    ) {
        let mut have = table.tags[at as usize] & 15;
        table.remove(at, probe);
        while have > order {
            have -= 1;
            probe.step(Step::Split);
            table.push(at + (1 << have), have, rest, probe);
        }
        table.tags[at as usize] = Tag::used(order, kind);
    }

    #[inline]
    fn give<Q: Probe>(
        table: &mut Table<'_, Self>,
        at: u32,
        order: u8,
        area: impl FnOnce(&Table<'_, Self>, u32) -> usize,
        probe: &mut Q,
    ) {
        lists::touch(table.links, at, probe);
        table.tags[at as usize] = 0;
        let (mut at, mut order) = (at, order);
        while order < MAX_ORDER {
            let twin = at ^ 1 << order;
            lists::touch(table.links, twin, probe);
            if table.tags[twin as usize] != Tag::free(order) || !table.may_merge(at, twin) {
                break;
            }
            probe.step(Step::Merge);
            table.remove(twin, probe);
            at &= !(1 << order);
            order += 1;
        }
        let area = area(table, at);
        table.push(at, order, area, probe);
    }

    fn move_free<Q: Probe>(
        table: &mut Table<'_, Self>,
        (from, to): (u32, u32),
        area: impl Fn(&Table<'_, Self>, u32) -> usize,
        probe: &mut Q,
    ) -> u32 {
        let (mut at, mut moved) = (from, 0);
        while at < to {
            probe.step(Step::Inspect);
            let next = table.after(at);
            if let Begins::Free(order) = table.begins(at) {
                table.remove(at, probe);
                let area = area(table, at);
                table.push(at, order, area, probe);
                moved += 1 << order;
            }
            at = next;
        }
        moved
    }

    fn check(table: &Table<'_, Self>, keeps: impl Fn(u32, usize) -> bool) -> Result<u64, Broken> {
        let mut listed = 0;
        lists::check(&*table.links, table.areas, |block, area, order| {
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
