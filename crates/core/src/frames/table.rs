//! The frame table: page blocks, bank sets and their counts, over a store that knows where blocks begin.
//!
//! Invariants: blocks are aligned to their length and so never cross a bank; no two free twins of an order
//! below the largest lie beside each other (but for CMA beside other page blocks); every free block can be found in
//! exactly one area. Which area a block goes to is the policy's business, and so is which block is taken.
//! Splitting and merging exist in the [stores](super::store) only.
//!
//! Frames are counted from the zone's first bank here, so that alignment is that of real addresses.

use super::bank_set::Interleave;
use super::group::Group;
use super::memory::{Area, Link, Memory, SetRecord};
use super::order::Order;
use super::request::{Class, Frame, Kind, SetId};
use super::set_bits::SetBits;
use super::store::{Begins, Changed, Lengths, Store, present};
use super::zone::{Needs, SetupError, Zone};
use crate::row::Row;
use core::marker::PhantomData;
use freehold_blocks::probe::Probe;

/// The frames of a zone and its free blocks.
pub struct Table<'m, S> {
    zone: Zone,
    base: u32,
    bank_log2: u32,
    stride_log2: u32,
    /// The store's.
    pub(super) tags: &'m mut [u8],
    pub(super) links: &'m mut [Link],
    pub(super) low: &'m mut [Group],
    pub(super) high: &'m mut [Group],
    /// log2 of the frames of a high group.
    pub(super) high_log2: u32,
    page_blocks: &'m mut [u8],
    pub(super) areas: &'m mut [Area],
    pub(super) sets: &'m mut [SetRecord],
    /// Which sets are off.
    pub(super) off: SetBits,
    free: u32,
    offline: u32,
    switched_on: u64,
    freed: u64,
    store: PhantomData<S>,
}

impl<'m, S: Store> Table<'m, S> {
    pub(super) fn needs(zone: &Zone, areas: usize) -> Needs {
        let frames = zone.banks() as usize * zone.bank_frames as usize;
        let page_blocks = frames / Order::PAGE_BLOCK.frames() as usize;
        let Lengths { frames, low, high } = S::needs(zone);
        Needs { frames, groups: low + high, page_blocks, areas, sets: zone.sets() }
    }

    /// All frames used by nobody and in no list yet.
    pub(super) fn new(zone: Zone, memory: Memory<'m>, areas: usize) -> Result<Self, SetupError> {
        zone.validate()?;
        let needs = Self::needs(&zone, areas);
        let tags = prefix("tags", memory.tags, needs.frames)?;
        let links = prefix("links", memory.links, needs.frames)?;
        let groups = prefix("groups", memory.groups, needs.groups)?;
        groups.fill(Group::EMPTY);
        let (low, high) = groups.split_at_mut(S::needs(&zone).low);
        let page_blocks = prefix("page_blocks", memory.page_blocks, needs.page_blocks)?;
        let areas = prefix("areas", memory.areas, needs.areas)?;
        let sets = prefix("sets", memory.sets, needs.sets)?;
        tags.fill(0);
        page_blocks.fill(Kind::Movable as u8);
        areas.fill(Area::default());
        sets.fill(SetRecord::default());
        let bank_log2 = zone.bank_frames.trailing_zeros();
        let off = SetBits::default();
        let mut table = Table {
            zone,
            base: zone.base(),
            bank_log2,
            stride_log2: zone.interleave.stride_log2(),
            tags,
            links,
            low,
            high,
            high_log2: 0,
            page_blocks,
            areas,
            sets,
            off,
            free: 0,
            offline: 0,
            switched_on: 0,
            freed: 0,
            store: PhantomData,
        };
        table.describe();
        S::lay_out(&mut table);
        Ok(table)
    }

    /// Page blocks and sets as the zone says.
    fn describe(&mut self) {
        if let Some((cma, frames)) = self.zone.cma {
            let from = page_block_number(cma.0 - self.base());
            let to = from + page_block_number(frames);
            self.page_blocks[from as usize..to as usize].fill(Kind::Cma as u8);
            for block in from..to {
                let set = self.set_of(block * Order::PAGE_BLOCK.frames());
                self.sets[set.index()].flags |= SetRecord::CMA;
            }
        }
        for bank in 0..self.zone.banks() {
            let (from, to) = (bank << self.bank_log2, (bank + 1) << self.bank_log2);
            let (first, end) = present(&self.zone, from, to);
            let there = end - first;
            let set = &mut self.sets[self.zone.interleave.set_of(bank).index()];
            set.frames += there;
            if there != self.zone.bank_frames {
                set.flags |= SetRecord::NOMIG;
            }
        }
    }

    /// Puts every frame into the largest free blocks, each into the area that `area` says.
    pub(super) fn fill(&mut self, area: impl Fn(&Table<'_, S>, u32) -> usize) {
        let mut at = self.zone.first.0 - self.base();
        let end = self.zone.end() - self.base();
        while at < end {
            let fits = at.trailing_zeros().min((end - at).ilog2());
            let mut order = Order::new(fits as u8).unwrap_or(Order::MAX);
            let half = Order::PAGE_BLOCK;
            if order > half && !self.may_merge(at, at ^ half.frames()) {
                order = half;
            }
            let area = area(self, at);
            S::put(self, at, order, area);
            let set = self.set_of(at).index();
            self.sets[set].free += order.frames();
            self.free += order.frames();
            at += order.frames();
        }
    }

    /// The zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Frames free, those of banks that are off included.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Frames of banks that are off.
    pub fn offline(&self) -> u32 {
        self.offline
    }

    /// Frames freed since the beginning.
    pub fn freed(&self) -> u64 {
        self.freed
    }

    /// How often a set was switched on.
    pub fn switched_on(&self) -> u64 {
        self.switched_on
    }

    #[inline]
    fn base(&self) -> u32 {
        self.base
    }

    /// The frame's place in the table, if the zone has it.
    #[inline]
    pub(super) fn local(&self, frame: Frame) -> Option<u32> {
        let there = frame.0.wrapping_sub(self.zone.first.0) < self.zone.frames;
        there.then(|| frame.0 - self.base())
    }

    #[inline]
    pub(super) fn global(&self, at: u32) -> Frame {
        Frame(at + self.base())
    }

    #[inline(always)]
    pub(super) fn set_of(&self, at: u32) -> SetId {
        Interleave::set_at(self.stride_log2, at >> self.bank_log2)
    }

    /// First and last + 1 frame of the `nth` bank of a set.
    pub(super) fn bank_range(&self, set: SetId, nth: u32) -> (u32, u32) {
        let bank = self.zone.interleave.bank_of(set, nth);
        (bank << self.bank_log2, (bank + 1) << self.bank_log2)
    }

    /// How many banks a set has.
    pub(super) fn width(&self) -> u32 {
        self.zone.interleave.width()
    }

    /// The kind of the page block around a frame.
    #[inline]
    pub(super) fn page_block(&self, at: u32) -> Kind {
        Kind::from_bits(self.page_blocks[page_block_number(at) as usize])
    }

    /// Gives the page blocks of a block another kind. CMA never changes.
    pub(super) fn retag(&mut self, at: u32, order: Order, kind: Kind) {
        let first = page_block_number(at) as usize;
        let count = page_block_number(order.frames()).max(1) as usize;
        for block in &mut self.page_blocks[first..first + count] {
            if *block != Kind::Cma as u8 {
                *block = kind as u8;
            }
        }
    }

    /// What begins there.
    pub(super) fn begins(&self, at: u32) -> Begins {
        match self.local(self.global(at)) {
            Some(_) => S::begins(self, at),
            None => Begins::Hole,
        }
    }

    /// The block behind the one at `at`: blocks tile a bank.
    pub(super) fn after(&self, at: u32) -> u32 {
        match self.begins(at) {
            Begins::Free(order) | Begins::Used(order, _) => at + order.frames(),
            Begins::Tail | Begins::Hole => at + 1,
        }
    }

    /// Hands out a block of what was picked, which lies in `set`.
    #[inline(always)]
    pub(super) fn take<P: Probe>(
        &mut self,
        picked: S::Picked,
        set: SetId,
        (order, kind): (Order, Kind),
        probe: &mut P,
    ) -> (u32, Changed) {
        let (at, relisted) = S::take(self, picked, (order, kind), probe);
        let frames = order.frames();
        self.free -= frames;
        let bank = self.sets.at_mut(set.index());
        bank.free -= frames;
        if kind.class() == Class::Kernel {
            bank.unmovable += frames;
        }
        (at, Changed::of(set, bank, relisted))
    }

    /// Takes a used block back and merges it; `area` says where the free block goes that begins at a frame. `None` when no
    /// such block begins there: then nothing has changed.
    #[inline(always)]
    pub(super) fn give<P: Probe>(
        &mut self,
        (at, order): (u32, Order),
        area: impl FnOnce(&Table<'_, S>, u32) -> usize,
        probe: &mut P,
    ) -> Option<Changed> {
        let given = S::give(self, at, order, area, probe)?;
        let frames = order.frames();
        self.free += frames;
        self.freed += u64::from(frames);
        let bank = self.sets.at_mut(given.set.index());
        bank.free += frames;
        if given.class == Class::Kernel {
            bank.unmovable -= frames;
        }
        Some(Changed::of(given.set, bank, given.relisted))
    }

    /// CMA does not merge with what is not: who takes the block would take both.
    #[inline]
    pub(super) fn may_merge(&self, one: u32, other: u32) -> bool {
        let far = page_block_number(one ^ other) != 0;
        !far || (self.page_block(one) == Kind::Cma) == (self.page_block(other) == Kind::Cma)
    }

    /// The set is switched off or on; its frames are wholly free.
    pub(super) fn set_off(&mut self, set: SetId, off: bool) {
        let bank = &mut self.sets[set.index()];
        if bank.has(SetRecord::OFFLINE) == off {
            return;
        }
        bank.flags ^= SetRecord::OFFLINE;
        if off {
            self.offline += bank.frames;
            self.off.insert(set);
        } else {
            self.offline -= bank.frames;
            self.switched_on += 1;
            self.off.remove(set);
        }
    }
}

/// The number of the page block around a frame.
#[inline(always)]
const fn page_block_number(at: u32) -> u32 {
    at / Order::PAGE_BLOCK.frames()
}

fn prefix<'m, T>(
    what: &'static str,
    all: &'m mut [T],
    wants: usize,
) -> Result<&'m mut [T], SetupError> {
    let has = all.len();
    all.get_mut(..wants).ok_or(SetupError::TooShort(what, wants, has))
}
