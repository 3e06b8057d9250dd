//! Free blocks in groups of 64 frames, each a line of cache: what is free there in the bits of a word.
//!
//! ```text
//!   group    free      bit for every free frame        begins   bit where a used block begins
//!            kinds     of those blocks, two bits       links    of the list that the group is in
//!            whole     what begins there of 64 frames and more, as a tag
//!   area     lists of orders 0 to 5: groups by the largest block free in them
//!            lists of orders 6 to 10: free blocks, by their first group
//! ```
//!
//! Most calls touch one group and no list: a block is split and merged within a word by clearing and setting bits, a group
//! changes its list only when its largest free block does, and leaves for the lists above when it is wholly free. Linux
//! touches a tag and links of three blocks a merge. (Words of bits as in LLFree, Wrenger et al., USENIX ATC 2023, which has
//! no other lists; here blocks above are found in lists of each bank, because banks are what must be found.)
//!
//! Invariants: no frame has both bits; frames that are holes have `begins`, so that the length of a used block is the
//! distance to the next bit of either; a group that is part of a block of 64 frames or more has neither bit anywhere. A group
//! is in a list of order 0 to 5 exactly if it has a free bit, and in that of its largest block.

use super::bits::{self, LARGEST, WHOLE};
use super::lists::{self, Linked};
use super::memory::Link;
use super::request::{Kind, MAX_ORDER};
use super::store::{Begins, Store, Tag, present};
use super::table::Table;
use crate::check::Broken;
use crate::machine::{Probe, Step};

/// Frames of a group.
pub const GROUP_FRAMES: u32 = 64;

/// What is known of 64 frames. All-zero is valid.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Group {
    free: u64,
    begins: u64,
    /// The low and the high bit of the kind, where a used block begins.
    kinds: [u64; 2],
    link: Link,
    whole: u8,
    /// The order of the list it is in because of its bits, + 1; 0: in none.
    listed: u8,
}

const _: () = assert!(size_of::<Group>() == 64, "one line of cache");

impl Group {
    /// For statics.
    pub const EMPTY: Group =
        Group { free: 0, begins: 0, kinds: [0; 2], link: Link::EMPTY, whole: 0, listed: 0 };

    /// A used block of less than 64 frames begins at that bit.
    #[inline]
    fn mark(&mut self, at: u32, kind: Kind) {
        let (bit, kind) = (1 << at, kind as u64);
        self.begins |= bit;
        self.kinds[0] = self.kinds[0] & !bit | (kind & 1) << at;
        self.kinds[1] = self.kinds[1] & !bit | (kind >> 1) << at;
    }

    #[inline(always)]
    fn begins(&self, at: u32) -> Begins {
        if self.begins >> at & 1 == 1 {
            let stops = (self.begins | self.free) >> at >> 1 | 1 << (63 - at);
            let [low, high] = self.kinds.map(|bits| (bits >> at & 1) as u8);
            let order = (stops.trailing_zeros() + 1).trailing_zeros();
            return Begins::Used(order as u8, Kind::from_bits(high << 1 | low));
        }
        if self.free >> at & 1 == 1 {
            let order = bits::around(self.free, at, 0);
            let first = at & ((1 << order) - 1) == 0;
            return if first { Begins::Free(order) } else { Begins::Tail };
        }
        if at == 0 { Tag::read(self.whole) } else { Begins::Tail }
    }
}

impl Linked for [Group] {
    const FRAMES_LOG2: u8 = WHOLE;

    #[inline]
    fn link(&self, nth: u32) -> Link {
        self[nth as usize].link
    }

    #[inline]
    fn link_mut(&mut self, nth: u32) -> &mut Link {
        &mut self[nth as usize].link
    }
}

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Grouped;

const fn group_of(at: u32) -> u32 {
    at >> WHOLE
}

impl Table<'_, Grouped> {
    #[inline]
    fn group(&mut self, nth: u32) -> &mut Group {
        &mut self.groups[nth as usize]
    }

    /// Puts a group into the list of its largest block; of none when it has no free bit.
    #[inline]
    fn relist<Q: Probe>(&mut self, nth: u32, largest: Option<u8>, area: usize, probe: &mut Q) {
        let listed = largest.map_or(0, |order| order + 1);
        if core::mem::replace(&mut self.group(nth).listed, listed) != 0 {
            lists::remove(self.groups, self.areas, nth, probe);
        }
        if let Some(order) = largest {
            lists::push(self.groups, self.areas, nth, (area, order), probe);
        }
    }

    /// Links a free block of whole groups.
    #[inline]
    fn push<Q: Probe>(&mut self, at: u32, order: u8, area: usize, probe: &mut Q) {
        lists::push(self.groups, self.areas, group_of(at), (area, order), probe);
        self.group(group_of(at)).whole = Tag::free(order);
    }

    /// Unlinks one.
    #[inline]
    fn remove<Q: Probe>(&mut self, at: u32, probe: &mut Q) {
        lists::remove(self.groups, self.areas, group_of(at), probe);
        self.group(group_of(at)).whole = 0;
    }

    /// Cuts a block out of whole groups.
    #[inline(never)]
    fn cut<Q: Probe>(
        &mut self,
        at: u32,
        has: u8,
        (order, kind): (u8, Kind),
        rest: usize,
        probe: &mut Q,
    ) {
        self.remove(at, probe);
        for half in (order.max(WHOLE)..has).rev() {
            probe.step(Step::Split);
            self.push(at + (1 << half), half, rest, probe);
        }
        let nth = group_of(at);
        if order >= WHOLE {
            self.group(nth).whole = Tag::used(order, kind);
            return;
        }
        probe.step(Step::Split);
        let group = self.group(nth);
        group.free = !bits::run(0, order);
        group.mark(0, kind);
        self.relist(nth, Some(LARGEST), rest, probe);
    }

    /// Merges a block of whole groups, which is in no list, with its twins; links it.
    #[inline(never)]
    fn merge<Q: Probe>(
        &mut self,
        at: u32,
        order: u8,
        area: impl FnOnce(&Self, u32) -> usize,
        probe: &mut Q,
    ) {
        let (mut at, mut order) = (at, order);
        while order < MAX_ORDER {
            let twin = at ^ 1 << order;
            lists::touch(self.groups, group_of(twin), probe);
            let free = self.group(group_of(twin)).whole == Tag::free(order);
            if !free || !self.may_merge(at, twin) {
                break;
            }
            probe.step(Step::Merge);
            self.remove(twin, probe);
            at &= !(1 << order);
            order += 1;
        }
        let area = area(self, at);
        self.push(at, order, area, probe);
    }

    fn check_group(&self, nth: usize) -> Result<(), Broken> {
        let (group, at) = (&self.groups[nth], nth as u64);
        Broken::unless(group.free & group.begins == 0, "no frame is both free and used", at)?;
        let bits = group.free | group.begins;
        Broken::unless(group.whole == 0 || bits == 0, "a whole group has no bits", at)?;
        Broken::unless(
            group.free != u64::MAX,
            "a wholly free group is with the larger blocks",
            at,
        )?;
        let listed = if group.free == 0 { 0 } else { bits::largest(group.free) + 1 };
        let what = "a group is listed by its largest free block";
        Broken::unless_equal(what, at, listed.into(), group.listed.into())
    }
}

impl Store for Grouped {
    fn needs(frames: usize) -> (usize, usize) {
        (0, frames / GROUP_FRAMES as usize)
    }

    fn lay_out(table: &mut Table<'_, Self>) {
        for nth in 0..table.groups.len() as u32 {
            let from = nth * GROUP_FRAMES;
            let (first, end) = present(table.zone(), from, from + GROUP_FRAMES);
            let here = (first..end).fold(0, |bits, at| bits | 1 << (at - from));
            table.group(nth).begins = !here;
        }
    }

    #[inline(always)]
    fn begins(table: &Table<'_, Self>, at: u32) -> Begins {
        table.groups[group_of(at) as usize].begins(at % GROUP_FRAMES)
    }

    #[inline(always)]
    fn first(table: &Table<'_, Self>, area: usize, list: u8, order: u8) -> Option<u32> {
        let nth = table.areas[area].heads[usize::from(list)].checked_sub(1)?;
        let first = nth * GROUP_FRAMES;
        if list >= WHOLE {
            return Some(first);
        }
        bits::lowest(table.groups[nth as usize].free, order).map(|at| first + at)
    }

    fn put(table: &mut Table<'_, Self>, at: u32, order: u8, area: usize) {
        if order >= WHOLE {
            return table.push(at, order, area, &mut ());
        }
        let group = table.group(group_of(at));
        group.free |= bits::run(at % GROUP_FRAMES, order);
        let largest = bits::largest(group.free);
        table.relist(group_of(at), Some(largest), area, &mut ());
    }

    #[inline(always)]
    fn take<Q: Probe>(
        table: &mut Table<'_, Self>,
        at: u32,
        (order, kind): (u8, Kind),
        rest: usize,
        probe: &mut Q,
    ) {
        let (nth, bit) = (group_of(at), at % GROUP_FRAMES);
        lists::touch(table.groups, nth, probe);
        let group = table.group(nth);
        if let Begins::Free(has) = Tag::read(group.whole) {
            return table.cut(at, has, (order, kind), rest, probe);
        }
        let has = bits::around(group.free, bit, order);
        group.free &= !bits::run(bit, order);
        group.mark(bit, kind);
        let (free, listed) = (group.free, group.listed);
        if has > order {
            probe.step(Step::Split);
        }
        if has + 1 == listed {
            let largest = (free != 0).then(|| bits::largest(free));
            if largest != Some(has) {
                table.relist(nth, largest, rest, probe);
            }
        }
    }

    #[inline(always)]
    fn give<Q: Probe>(
        table: &mut Table<'_, Self>,
        at: u32,
        order: u8,
        area: impl FnOnce(&Table<'_, Self>, u32) -> usize,
        probe: &mut Q,
    ) {
        let (nth, bit) = (group_of(at), at % GROUP_FRAMES);
        lists::touch(table.groups, nth, probe);
        let group = table.group(nth);
        if order >= WHOLE {
            group.whole = 0;
            return table.merge(at, order, area, probe);
        }
        group.begins &= !(1 << bit);
        group.free |= bits::run(bit, order);
        let has = bits::around(group.free, bit, order);
        if has > order {
            probe.step(Step::Merge);
        }
        if has == WHOLE {
            group.free = 0;
            table.relist(nth, None, 0, probe);
            table.merge(at - bit, WHOLE, area, probe);
        } else if has >= group.listed {
            let area = area(table, at);
            table.relist(nth, Some(has), area, probe);
        }
    }

    fn move_free<Q: Probe>(
        table: &mut Table<'_, Self>,
        (from, to): (u32, u32),
        area: impl Fn(&Table<'_, Self>, u32) -> usize,
        probe: &mut Q,
    ) -> u32 {
        let (mut nth, mut moved) = (group_of(from), 0);
        while nth < group_of(to) {
            probe.step(Step::Inspect);
            let group = *table.group(nth);
            let (order, groups, frames) = match Tag::read(group.whole) {
                Begins::Free(order) => (Some(order), 1 << (order - WHOLE), 1 << order),
                Begins::Used(order, _) => (None, 1 << (order - WHOLE), 0),
                _ => (group.listed.checked_sub(1), 1, group.free.count_ones()),
            };
            if let Some(order) = order {
                let area = area(table, nth * GROUP_FRAMES);
                lists::remove(table.groups, table.areas, nth, probe);
                lists::push(table.groups, table.areas, nth, (area, order), probe);
            }
            moved += frames;
            nth += groups;
        }
        moved
    }

    fn check(table: &Table<'_, Self>, keeps: impl Fn(u32, usize) -> bool) -> Result<u64, Broken> {
        (0..table.groups.len()).try_for_each(|nth| table.check_group(nth))?;
        let mut listed = 0;
        lists::check(&*table.groups, table.areas, |nth, area, order| {
            let group = &table.groups[nth as usize];
            let at = nth * GROUP_FRAMES;
            let (right, blocks) = match order {
                WHOLE.. => (group.whole == Tag::free(order), 1),
                _ => (group.listed == order + 1, bits::blocks(group.free)),
            };
            Broken::unless(right, "a list holds what is free of its order", at.into())?;
            let what = "a free block is in its policy's area";
            Broken::unless(keeps(at, area), what, at.into())?;
            listed += u64::from(blocks);
            Ok(())
        })?;
        Ok(listed)
    }
}
