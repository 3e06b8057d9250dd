//! Free blocks in bits: groups of 64 frames, and above them groups of 64 groups.
//!
//! ```text
//!   high   64 groups, 16 MiB   bits of the groups that are wholly free      blocks of 64 to 1,024 frames
//!            |                      and of those where used blocks begin
//!   low    64 frames           the same of frames                           blocks of 1 to 32 frames
//!
//!   area   lists of orders 0 to 5: low groups by the largest block free in them
//!          lists of orders 6 to 10: high ones
//! ```
//!
//! Most calls touch one [group](super::group), a line of cache, and no list: a block is split and merged within a word by
//! clearing and setting bits, a group changes its list only when its largest free block does. A low group that becomes
//! wholly free is a free bit above, and a bit above is cut into 64 when no low group serves. Linux
//! touches a tag and links of three blocks a merge. (Words of bits as in LLFree, Wrenger et al., USENIX ATC 2023, which has
//! no lists; here they are found in lists of each bank, because banks are what must be found.)
//!
//! A high group covers no two banks: where banks have less than 64 groups, the bits of its neighbours are apart.
//! All of a high group is one list's, so areas here are sets, whatever the kinds of their page blocks.
//!
//! Invariants: no unit has two of the bits free, begins and apart, so that the length of a used block is the distance to the
//! next bit; a low group has bits exactly if its bit above is apart, and never all free; a group is in a list exactly if it has
//! a free bit, and in that of its largest block. Page blocks of CMA merge with no others: `fuse` says where 4 MiB may begin.

use super::bits::{self, Run, UNITS, WHOLE};
use super::group::Group;
use super::lists;
use super::memory::Area;
use super::order::Order;
use super::request::{Kind, SetId};
use super::store::{Begins, Given, Lengths, Store, present};
use super::table::Table;
use super::zone::Zone;
use crate::row::{Row, broken};
use freehold_blocks::check::Broken;
use freehold_blocks::probe::{Probe, Step};

/// Frames of a low group.
const GROUP_FRAMES: u32 = 1 << WHOLE;
/// log2 of the most frames of a high one.
const HIGH_LOG2: u32 = 2 * WHOLE as u32;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Grouped;

impl Grouped {
    /// Groups of both levels for so many frames, in whole banks: for statics.
    pub const fn groups(frames: u32, bank_frames: u32) -> usize {
        (frames / GROUP_FRAMES + (frames >> high_log2(bank_frames))) as usize
    }
}

const fn high_log2(bank_frames: u32) -> u32 {
    let bank = bank_frames.trailing_zeros();
    if bank < HIGH_LOG2 { bank } else { HIGH_LOG2 }
}

/// One of the two levels.
trait Level {
    /// log2 of the frames of a unit: orders of a level are counted from here.
    const UNIT: u8;
    /// The largest order that it keeps.
    const TOP: u8;
    /// The largest that what becomes free in it may have: that, or of the lower level a whole group.
    const LONGEST: u8;

    fn nth(table: &Table<'_, Grouped>, at: u32) -> u32;

    /// The frame of a group's first bit.
    fn frame(table: &Table<'_, Grouped>, nth: u32) -> u32;

    fn all<'t>(table: &'t Table<'_, Grouped>) -> &'t [Group];

    fn all_mut<'t>(table: &'t mut Table<'_, Grouped>) -> (&'t mut [Group], &'t mut [Area]);

    /// Where blocks of the largest order may begin.
    fn fuse(group: &Group) -> u64;

    /// The order of the largest block that a block may be merged into.
    fn most(group: &Group, bit: u32) -> u8;

    /// Whether the run around a unit that is as long again as the largest free block was is free: if not, that is the largest
    /// still, unless what became free at the unit is.
    #[inline(always)]
    fn has_grown(group: &Group, bit: u32, order: u8) -> bool {
        let longer = group.listed;
        order >= longer || longer <= Self::LONGEST && bits::is_free(group.free, bit, longer)
    }

    /// The order of a block of two to that power units.
    #[inline(always)]
    fn order(units_log2: u8) -> Order {
        Order::of(units_log2 + Self::UNIT)
    }

    #[inline(always)]
    fn bit(at: u32) -> u32 {
        at >> Self::UNIT & (UNITS - 1)
    }

    /// What is taken of a group that has a block of that order, and whether it has one of its list's order still.
    fn pick(group: &Group, order: u8) -> (Run, bool);

    /// [`pick`](Self::pick) in the smallest block that will do.
    #[inline]
    fn pick_smallest(group: &Group, order: u8) -> (Run, bool) {
        let fuse = Self::fuse(group);
        let at = bits::smallest(group.free, order, Self::TOP, fuse).unwrap_or_else(|| broken());
        let run = Run::new(at, order);
        (run, bits::has(group.free & !run.all, group.listed - 1, Self::TOP, fuse))
    }

    /// The order of a group's largest free block; it has one.
    #[inline(always)]
    fn largest(group: &Group) -> u8 {
        bits::largest(group.free, Self::TOP, Self::fuse(group))
    }
}

/// Groups of frames.
enum Low {}

impl Level for Low {
    const UNIT: u8 = 0;
    const TOP: u8 = WHOLE - 1;
    const LONGEST: u8 = WHOLE;

    #[inline(always)]
    fn nth(_: &Table<'_, Grouped>, at: u32) -> u32 {
        at >> WHOLE
    }

    #[inline(always)]
    fn frame(_: &Table<'_, Grouped>, nth: u32) -> u32 {
        nth << WHOLE
    }

    #[inline(always)]
    fn all<'t>(table: &'t Table<'_, Grouped>) -> &'t [Group] {
        table.low
    }

    #[inline(always)]
    fn all_mut<'t>(table: &'t mut Table<'_, Grouped>) -> (&'t mut [Group], &'t mut [Area]) {
        (table.low, table.areas)
    }

    #[inline(always)]
    fn fuse(_: &Group) -> u64 {
        !0
    }

    #[inline(always)]
    fn most(_: &Group, _: u32) -> u8 {
        WHOLE
    }

    /// Pages where they lie lowest, the rest where they break the least.
    #[inline(always)]
    fn pick(group: &Group, order: u8) -> (Run, bool) {
        match order {
            0 => bits::lowest::<0>(group.free, group.listed - 1, Self::TOP, !0),
            _ => Self::pick_smallest(group, order),
        }
    }
}

/// Groups of groups.
enum High {}

impl Level for High {
    const UNIT: u8 = WHOLE;
    const TOP: u8 = Order::MAX.log2() - WHOLE;
    const LONGEST: u8 = Self::TOP;

    #[inline(always)]
    fn nth(table: &Table<'_, Grouped>, at: u32) -> u32 {
        at >> table.high_log2
    }

    #[inline(always)]
    fn frame(table: &Table<'_, Grouped>, nth: u32) -> u32 {
        nth << table.high_log2 & !((1 << HIGH_LOG2) - 1)
    }

    #[inline(always)]
    fn all<'t>(table: &'t Table<'_, Grouped>) -> &'t [Group] {
        table.high
    }

    #[inline(always)]
    fn all_mut<'t>(table: &'t mut Table<'_, Grouped>) -> (&'t mut [Group], &'t mut [Area]) {
        (table.high, table.areas)
    }

    #[inline(always)]
    fn fuse(group: &Group) -> u64 {
        group.fuse
    }

    #[inline(always)]
    fn most(group: &Group, bit: u32) -> u8 {
        let first = bit & !((1 << Self::TOP) - 1);
        if group.fuse >> first & 1 == 1 { Self::TOP } else { Self::TOP - 1 }
    }

    /// 2 MiB where they lie lowest, the rest where they break the least.
    #[inline(always)]
    fn pick(group: &Group, order: u8) -> (Run, bool) {
        const HUGE: u8 = Order::PAGE_BLOCK.log2() - WHOLE;
        match order {
            HUGE => bits::lowest::<HUGE>(group.free, group.listed - 1, Self::TOP, group.fuse),
            _ => Self::pick_smallest(group, order),
        }
    }
}

impl Table<'_, Grouped> {
    #[inline(always)]
    fn group<L: Level>(&self, at: u32) -> &Group {
        L::all(self).at(L::nth(self, at) as usize)
    }

    /// Puts a group into the list of its largest block, `listed` being that order + 1; into none when it has no free bit.
    /// Says whether its area has blocks of other orders now.
    #[inline(always)]
    fn relist<L: Level, Q: Probe>(&mut self, nth: u32, listed: u8, probe: &mut Q) -> bool {
        let (groups, areas) = L::all_mut(self);
        let group = groups.at_mut(nth as usize);
        let (was, area) = (core::mem::replace(&mut group.listed, listed), group.set.into());
        let [from, to] = [was, listed].map(|listed| Some(L::order(listed.checked_sub(1)?)));
        lists::change(groups, areas, nth, (area, from, to), probe)
    }

    /// Hands out a block of a group that has one of that order or longer.
    #[inline(always)]
    fn take_of<L: Level, Q: Probe>(
        &mut self,
        nth: u32,
        (order, kind): (u8, Kind),
        probe: &mut Q,
    ) -> (u32, bool) {
        let (groups, _) = L::all_mut(self);
        lists::touch(groups, nth, probe);
        let group = groups.at_mut(nth as usize);
        let (run, stays) = L::pick(group, order);
        group.hand_out(run, kind);
        if order + 1 < group.listed {
            probe.step(Step::Split);
        }
        let relisted = !stays && self.shrink::<L, Q>(nth, probe);
        (L::frame(self, nth) + (run.at() << L::UNIT), relisted)
    }

    /// Lists a group by what its largest free block is now. Says what [`relist`](Self::relist) does.
    #[inline(never)]
    fn shrink<L: Level, Q: Probe>(&mut self, nth: u32, probe: &mut Q) -> bool {
        let group = L::all(self).at(nth as usize);
        let listed = if group.free == 0 { 0 } else { L::largest(group) + 1 };
        self.relist::<L, Q>(nth, listed, probe)
    }

    /// Cuts a block of less than a group out of the smallest larger one of a high group.
    #[inline(never)]
    fn cut<Q: Probe>(
        &mut self,
        above: u32,
        (order, kind): (u8, Kind),
        probe: &mut Q,
    ) -> (u32, bool) {
        let high = self.high.at_mut(above as usize);
        let (run, stays) = High::pick_smallest(high, 0);
        high.free &= !run.first;
        high.apart |= run.first;
        let relisted = !stays && self.shrink::<High, Q>(above, probe);
        probe.step(Step::Split);
        let at = High::frame(self, above) + (run.at() << WHOLE);
        let nth = Low::nth(self, at);
        let group = self.low.at_mut(nth as usize);
        group.free = !0;
        group.hand_out(Run::new(0, order), kind);
        (at, self.relist::<Low, Q>(nth, Low::TOP + 1, probe) | relisted)
    }

    /// Frees a used block of a level, if there is one of that order.
    #[inline(always)]
    fn free_of<L: Level, Q: Probe>(&mut self, at: u32, order: u8, probe: &mut Q) -> Option<Given> {
        let (nth, bit) = (L::nth(self, at), L::bit(at));
        let (groups, _) = L::all_mut(self);
        lists::touch(groups, nth, probe);
        let group = groups.at_mut(nth as usize);
        let class = group.take_back(bit, order)?;
        let set = group.set();
        if bits::is_free(group.free, bit ^ 1 << order, order) {
            probe.step(Step::Merge);
        }
        let relisted = L::has_grown(group, bit, order) && self.grow::<L, Q>(at, order, probe);
        Some(Given { class, set, relisted })
    }

    /// Puts a group right whose free block at a frame was of that order, and may be part of the largest now. Says what
    /// [`relist`](Self::relist) does.
    #[inline(never)]
    fn grow<L: Level, Q: Probe>(&mut self, at: u32, order: u8, probe: &mut Q) -> bool {
        let nth = L::nth(self, at);
        let group = self.group::<L>(at);
        let has = bits::around(group.free, L::bit(at), order, L::most(group, L::bit(at)));
        if has < group.listed {
            return false;
        }
        if L::UNIT == 0 && has == WHOLE {
            self.rejoin(nth, probe)
        } else {
            self.relist::<L, Q>(nth, has + 1, probe)
        }
    }

    /// A free block that was never used, or was apart. Says what [`relist`](Self::relist) does.
    fn add<L: Level, Q: Probe>(&mut self, at: u32, order: u8, probe: &mut Q) -> bool {
        let (nth, bit) = (L::nth(self, at), L::bit(at));
        L::all_mut(self).0.at_mut(nth as usize).free |= bits::run(bit, order);
        self.grow::<L, Q>(at, order, probe)
    }

    /// A low group is wholly free: a bit above again. Says what [`relist`](Self::relist) does.
    #[inline(never)]
    fn rejoin<Q: Probe>(&mut self, nth: u32, probe: &mut Q) -> bool {
        self.low.at_mut(nth as usize).free = 0;
        let relisted = self.relist::<Low, Q>(nth, 0, probe);
        let at = nth << WHOLE;
        let above = High::nth(self, at) as usize;
        self.high.at_mut(above).apart &= !(1 << High::bit(at));
        self.add::<High, Q>(at, 0, probe) | relisted
    }

    /// Says of a level's groups in which set they are, and which of their units are there.
    fn lay_out_level<L: Level>(&mut self, is_there: impl Fn(&Self, u32) -> bool) {
        for nth in 0..L::all(self).len() as u32 {
            let first = L::frame(self, nth);
            let units = (0..UNITS).map(|bit| (1_u64 << bit, first + (bit << L::UNIT)));
            let ours = units.filter(|&(_, at)| L::nth(self, at) == nth);
            let mut group = Group::EMPTY;
            group.apart = !0;
            for (bit, at) in ours {
                group.set = self.set_of(at).0;
                if is_there(self, at) {
                    group.apart &= !bit;
                }
            }
            L::all_mut(self).0[nth as usize] = group;
        }
    }

    /// Where blocks of 4 MiB may begin: not where one half is of CMA.
    fn lay_out_fuses(&mut self) {
        for nth in 0..self.high.len() as u32 {
            let first = High::frame(self, nth);
            let places = (0..UNITS).step_by(1 << High::TOP);
            let there = places.map(|bit| (bit, first + (bit << WHOLE)));
            let fuse = there
                .filter(|&(_, at)| High::nth(self, at) == nth)
                .filter(|&(_, at)| self.may_merge(at, at + Order::PAGE_BLOCK.frames()))
                .fold(0, |fuse, (bit, _)| fuse | 1 << bit);
            self.high[nth as usize].fuse = fuse;
        }
    }

    fn check_group<L: Level>(&self, nth: u32) -> Result<(), Broken> {
        let (group, at) = (L::all(self)[nth as usize], u64::from(L::frame(self, nth)));
        let twice = group.free & group.begins | (group.free | group.begins) & group.apart;
        Broken::unless_equal("no unit is two things", at, 0, twice)?;
        let listed = match group.free {
            0 => 0,
            _ => L::largest(&group) + 1,
        };
        let what = "a group is listed by its largest free block";
        Broken::unless_equal(what, at, listed.into(), group.listed.into())
    }

    /// A low group and its bit above.
    fn check_pair(&self, nth: u32) -> Result<(), Broken> {
        let (group, at) = (&self.low[nth as usize], Low::frame(self, nth));
        let what = "a wholly free group is with the larger blocks";
        Broken::unless(group.free != u64::MAX, what, at.into())?;
        let apart = self.group::<High>(at).apart >> High::bit(at) & 1 == 1;
        let what = "a group has bits exactly if it is apart above";
        Broken::unless(apart != group.is_whole(), what, at.into())
    }

    fn check_lists<L: Level>(&self, keeps: impl Fn(u32, usize) -> bool) -> Result<u64, Broken> {
        let mut blocks = 0;
        let orders = (0..=L::TOP).map(L::order);
        lists::check(L::all(self), self.areas, orders, |nth, area, order| {
            let group = &L::all(self)[nth as usize];
            let at = L::frame(self, nth) + ((group.free.trailing_zeros()) << L::UNIT);
            let right = group.listed == order.log2() - L::UNIT + 1;
            Broken::unless(right, "a list holds what is free of its order", at.into())?;
            let what = "a free block is in its policy's area";
            Broken::unless(keeps(at, area) && area == usize::from(group.set), what, at.into())?;
            blocks += u64::from(bits::blocks(group.free, L::TOP, L::fuse(group)));
            Ok(())
        })?;
        Ok(blocks)
    }
}

impl Store for Grouped {
    /// A set: its smallest group that will do is taken from.
    type Picked = SetId;

    fn needs(zone: &Zone) -> Lengths {
        let frames = zone.banks() * zone.bank_frames;
        let low = (frames / GROUP_FRAMES) as usize;
        Lengths { frames: 0, low, high: Self::groups(frames, zone.bank_frames) - low }
    }

    fn lay_out(table: &mut Table<'_, Self>) {
        table.high_log2 = high_log2(table.zone().bank_frames);
        let (first, end) = present(table.zone(), 0, u32::MAX);
        let there = first..end;
        table.lay_out_level::<Low>(|_, at| there.contains(&at));
        table.lay_out_level::<High>(|table, at| table.group::<Low>(at).is_whole());
        table.lay_out_fuses();
    }

    #[inline]
    fn begins(table: &Table<'_, Self>, at: u32) -> Begins {
        let low = table.group::<Low>(at);
        if !low.is_whole() {
            return low.begins(Low::bit(at), WHOLE);
        }
        if !at.is_multiple_of(GROUP_FRAMES) {
            return Begins::Tail;
        }
        let high = table.group::<High>(at);
        match high.begins(High::bit(at), High::most(high, High::bit(at))) {
            Begins::Free(order) => Begins::Free(High::order(order.log2())),
            Begins::Used(order, kind) => Begins::Used(High::order(order.log2()), kind),
            other => other,
        }
    }

    #[inline(always)]
    fn set_of(_: &Table<'_, Self>, set: SetId) -> SetId {
        set
    }

    fn put(table: &mut Table<'_, Self>, at: u32, order: Order, area: usize) {
        debug_assert_eq!(area, table.set_of(at).index());
        match order.log2().checked_sub(WHOLE) {
            None => table.add::<Low, _>(at, order.log2(), &mut ()),
            Some(order) => table.add::<High, _>(at, order, &mut ()),
        };
    }

    #[inline(always)]
    fn take<Q: Probe>(
        table: &mut Table<'_, Self>,
        set: SetId,
        (order, kind): (Order, Kind),
        probe: &mut Q,
    ) -> (u32, bool) {
        probe.step(Step::Index);
        let lists = table.areas.at(set.index());
        let list = lists.orders.smallest_from(order).unwrap_or_else(|| broken());
        let head = *lists.heads.at(list.index());
        let nth = head.checked_sub(1).unwrap_or_else(|| broken());
        let (order, list) = (order.log2(), list.log2());
        if order >= WHOLE {
            table.take_of::<High, Q>(nth, (order - WHOLE, kind), probe)
        } else if list < WHOLE {
            table.take_of::<Low, Q>(nth, (order, kind), probe)
        } else {
            table.cut(nth, (order, kind), probe)
        }
    }

    #[inline(always)]
    fn give<Q: Probe>(
        table: &mut Table<'_, Self>,
        at: u32,
        order: Order,
        _: impl FnOnce(&Table<'_, Self>, u32) -> usize,
        probe: &mut Q,
    ) -> Option<Given> {
        match order.log2().checked_sub(WHOLE) {
            None => table.free_of::<Low, Q>(at, order.log2(), probe),
            Some(_) if !at.is_multiple_of(GROUP_FRAMES) => None,
            Some(order) => table.free_of::<High, Q>(at, order, probe),
        }
    }

    fn check(table: &Table<'_, Self>, keeps: impl Fn(u32, usize) -> bool) -> Result<u64, Broken> {
        (0..table.low.len() as u32).try_for_each(|nth| {
            table.check_group::<Low>(nth)?;
            table.check_pair(nth)
        })?;
        (0..table.high.len() as u32).try_for_each(|nth| table.check_group::<High>(nth))?;
        Ok(table.check_lists::<Low>(&keeps)? + table.check_lists::<High>(&keeps)?)
    }
}
