//! The frame table: which frames begin a block, of what order, free or used; and the lists of the free.
//!
//! ```text
//!   tag    state 2 bits | kind 2 bits | order 4 bits      one byte a frame
//!          tail: inside a block, says nothing
//!          free, used: the first frame of a block
//!          hole: not this zone's
//!   area   eleven lists of free blocks and a mask of those that hold any
//! ```
//!
//! Invariants: blocks are aligned to their length and so never cross a bank; no two free twins of an order
//! below the largest lie beside each other (but for CMA beside other page blocks); every free block is in
//! exactly one list. Which area a block goes to is the policy's business, and so is which block is taken.
//! Splitting and merging exist here only.
//!
//! Frames are counted from the zone's first bank here, so that alignment is that of real addresses.

use super::memory::{Area, Bank, Link, Memory};
use super::request::{Class, Frame, Kind, MAX_ORDER, ORDERS, PAGE_BLOCK_ORDER, SetId};
use super::set_bits::SetBits;
use super::zone::{Needs, SetupError, Zone};
use crate::machine::{Probe, Step};

const FREE: u8 = 1 << 6;
const USED: u8 = 2 << 6;
const HOLE: u8 = 3 << 6;
const STATE: u8 = 3 << 6;

/// What begins at a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begins {
    /// Nothing: the frame lies inside a block.
    Tail,
    /// A free block of that order.
    Free(u8),
    /// A used block.
    Used(u8, Kind),
    /// Not a frame of this zone.
    Hole,
}

/// The frames of a zone and the lists of its free blocks.
pub struct Table<'m> {
    zone: Zone,
    bank_log2: u32,
    tags: &'m mut [u8],
    links: &'m mut [Link],
    page_blocks: &'m mut [u8],
    pub(super) areas: &'m mut [Area],
    pub(super) sets: &'m mut [Bank],
    /// Which sets are off.
    pub(super) off: SetBits,
    free: u32,
    offline: u32,
    switched_on: u64,
    freed: u64,
}

/// Steps on metadata, of which frame.
#[inline]
fn touch<P: Probe>(probe: &mut P, at: u32) {
    probe.step(Step::Touch { at: u64::from(at) });
}

impl<'m> Table<'m> {
    pub(super) fn needs(zone: &Zone, areas: usize) -> Needs {
        let frames = zone.banks() as usize * zone.bank_frames as usize;
        Needs { frames, page_blocks: frames >> PAGE_BLOCK_ORDER, areas, sets: zone.sets() }
    }

    /// All frames used by nobody and in no list yet.
    pub(super) fn new(zone: Zone, memory: Memory<'m>, areas: usize) -> Result<Self, SetupError> {
        zone.validate()?;
        let needs = Self::needs(&zone, areas);
        let tags = prefix("tags", memory.tags, needs.frames)?;
        let links = prefix("links", memory.links, needs.frames)?;
        let page_blocks = prefix("page_blocks", memory.page_blocks, needs.page_blocks)?;
        let areas = prefix("areas", memory.areas, needs.areas)?;
        let sets = prefix("sets", memory.sets, needs.sets)?;
        tags.fill(HOLE);
        page_blocks.fill(Kind::Movable as u8);
        areas.fill(Area::default());
        sets.fill(Bank::default());
        let bank_log2 = zone.bank_frames.trailing_zeros();
        let off = SetBits::default();
        let mut table = Table {
            zone,
            bank_log2,
            tags,
            links,
            page_blocks,
            areas,
            sets,
            off,
            free: 0,
            offline: 0,
            switched_on: 0,
            freed: 0,
        };
        table.describe();
        Ok(table)
    }

    /// Tags, page blocks and sets as the zone says.
    fn describe(&mut self) {
        let (first, end) = (self.zone.first.0 - self.base(), self.zone.end() - self.base());
        self.tags[first as usize..end as usize].fill(0);
        if let Some((cma, frames)) = self.zone.cma {
            let from = (cma.0 - self.base()) >> PAGE_BLOCK_ORDER;
            let to = from + (frames >> PAGE_BLOCK_ORDER);
            self.page_blocks[from as usize..to as usize].fill(Kind::Cma as u8);
            for block in from..to {
                let set = self.set_of(block << PAGE_BLOCK_ORDER);
                self.sets[set.index()].flags |= Bank::CMA;
            }
        }
        for bank in 0..self.zone.banks() {
            let (from, to) = (bank << self.bank_log2, (bank + 1) << self.bank_log2);
            let there = to.min(end) - from.max(first);
            let set = &mut self.sets[self.zone.interleave.set_of(bank).index()];
            set.frames += there;
            if there != self.zone.bank_frames {
                set.flags |= Bank::NOMIG;
            }
        }
    }

    /// Puts every frame into the largest free blocks, each into the area that `area` says.
    pub(super) fn fill(&mut self, area: impl Fn(&Table, u32) -> usize) {
        let mut at = self.zone.first.0 - self.base();
        let end = self.zone.end() - self.base();
        while at < end {
            let fits = (end - at).ilog2().min(u32::from(MAX_ORDER));
            let mut order = at.trailing_zeros().min(fits) as u8;
            if order > PAGE_BLOCK_ORDER && !self.may_merge(at, at ^ 1 << PAGE_BLOCK_ORDER) {
                order = PAGE_BLOCK_ORDER;
            }
            let area = area(self, at);
            self.push(at, order, area, &mut ());
            let set = self.set_of(at).index();
            self.sets[set].free += 1 << order;
            self.free += 1 << order;
            at += 1 << order;
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
        self.zone.base()
    }

    /// The frame's place in the table, if the zone has it.
    #[inline]
    pub(super) fn local(&self, frame: Frame) -> Option<u32> {
        let at = frame.0.wrapping_sub(self.base());
        ((at as usize) < self.tags.len()).then_some(at)
    }

    #[inline]
    pub(super) fn global(&self, at: u32) -> Frame {
        Frame(at + self.base())
    }

    #[inline]
    pub(super) fn set_of(&self, at: u32) -> SetId {
        self.zone.interleave.set_of(at >> self.bank_log2)
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
        Kind::from_bits(self.page_blocks[(at >> PAGE_BLOCK_ORDER) as usize])
    }

    /// Gives the page blocks of a block another kind. CMA never changes.
    pub(super) fn retag(&mut self, at: u32, order: u8, kind: Kind) {
        let first = (at >> PAGE_BLOCK_ORDER) as usize;
        let count = 1 << order.saturating_sub(PAGE_BLOCK_ORDER);
        for block in &mut self.page_blocks[first..first + count] {
            if *block != Kind::Cma as u8 {
                *block = kind as u8;
            }
        }
    }

    /// What begins there.
    #[inline]
    pub(super) fn begins(&self, at: u32) -> Begins {
        let tag = self.tags[at as usize];
        match tag & STATE {
            FREE => Begins::Free(tag & 15),
            USED => Begins::Used(tag & 15, Kind::from_bits(tag >> 4)),
            HOLE => Begins::Hole,
            _ => Begins::Tail,
        }
    }

    /// The links of a free block.
    pub(super) fn link(&self, at: u32) -> Link {
        self.links[at as usize]
    }

    /// The block behind the one at `at`: blocks tile a bank.
    pub(super) fn after(&self, at: u32) -> u32 {
        match self.begins(at) {
            Begins::Free(order) | Begins::Used(order, _) => at + (1 << order),
            Begins::Tail | Begins::Hole => at + 1,
        }
    }

    #[inline]
    pub(super) fn push<P: Probe>(&mut self, at: u32, order: u8, area: usize, probe: &mut P) {
        probe.step(Step::Index);
        touch(probe, at);
        let lists = &mut self.areas[area];
        let old = lists.heads[usize::from(order)];
        lists.heads[usize::from(order)] = at + 1;
        lists.orders |= 1 << order;
        let prev = Link::FIRST | (area as u32) << 4 | u32::from(order);
        self.links[at as usize] = Link { next: old, prev };
        if old != 0 {
            touch(probe, old - 1);
            self.links[old as usize - 1].prev = at + 1;
        }
        self.tags[at as usize] = FREE | order;
    }

    /// Takes a free block out of its list.
    #[inline]
    pub(super) fn remove<P: Probe>(&mut self, at: u32, probe: &mut P) {
        touch(probe, at);
        let Link { next, prev } = self.links[at as usize];
        if prev & Link::FIRST != 0 {
            probe.step(Step::Index);
            let lists = &mut self.areas[((prev & !Link::FIRST) >> 4) as usize];
            let order = (prev & 15) as usize;
            lists.heads[order % ORDERS] = next;
            if next == 0 {
                lists.orders &= !(1 << order);
            }
        } else {
            touch(probe, prev - 1);
            self.links[prev as usize - 1].next = next;
        }
        if next != 0 {
            touch(probe, next - 1);
            self.links[next as usize - 1].prev = prev;
        }
        self.tags[at as usize] = 0;
    }

    /// Hands out the first frames of the free block at `at`, the rest into lists of `area`.
    #[inline]
    pub(super) fn take<P: Probe>(
        &mut self,
        at: u32,
        order: u8,
        kind: Kind,
        rest: usize,
        probe: &mut P,
    ) {
        let mut have = self.tags[at as usize] & 15;
        self.remove(at, probe);
        while have > order {
            have -= 1;
            probe.step(Step::Split);
            self.push(at + (1 << have), have, rest, probe);
        }
        self.tags[at as usize] = USED | (kind as u8) << 4 | order;
        let frames = 1 << order;
        self.free -= frames;
        let index = self.set_of(at).index();
        let set = &mut self.sets[index];
        set.free -= frames;
        if kind.class() == Class::Kernel {
            set.unmovable += frames;
        }
    }

    /// Takes a used block back and merges it; says where the free block begins and its order. It is in
    /// no list: the caller pushes it.
    #[inline]
    pub(super) fn give<P: Probe>(
        &mut self,
        at: u32,
        order: u8,
        kind: Kind,
        probe: &mut P,
    ) -> (u32, u8) {
        let frames = 1 << order;
        self.free += frames;
        self.freed += u64::from(frames);
        let index = self.set_of(at).index();
        let set = &mut self.sets[index];
        set.free += frames;
        if kind.class() == Class::Kernel {
            set.unmovable -= frames;
        }
        touch(probe, at);
        self.tags[at as usize] = 0;
        let (mut at, mut order) = (at, order);
        while order < MAX_ORDER {
            let twin = at ^ 1 << order;
            touch(probe, twin);
            if self.tags[twin as usize] != FREE | order || !self.may_merge(at, twin) {
                break;
            }
            probe.step(Step::Merge);
            self.remove(twin, probe);
            at &= !(1 << order);
            order += 1;
        }
        (at, order)
    }

    /// CMA does not merge with what is not: who takes the block would take both.
    #[inline]
    pub(super) fn may_merge(&self, one: u32, other: u32) -> bool {
        let far = (one ^ other) >> PAGE_BLOCK_ORDER != 0;
        !far || (self.page_block(one) == Kind::Cma) == (self.page_block(other) == Kind::Cma)
    }

    /// Moves every free block between two frames into the lists of another area; says how many frames
    /// those were. O(blocks): what a retag costs where lists are the zone's.
    pub(super) fn move_free<P: Probe>(
        &mut self,
        (from, to): (u32, u32),
        area: impl Fn(&Table, u32) -> usize,
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
                moved += 1 << order;
            }
            at = next;
        }
        moved
    }

    /// [`move_free`](Self::move_free) for all banks of a set.
    pub(super) fn move_set<P: Probe>(
        &mut self,
        set: SetId,
        area: impl Fn(&Table, u32) -> usize + Copy,
        probe: &mut P,
    ) {
        for nth in 0..self.width() {
            self.move_free(self.bank_range(set, nth), area, probe);
        }
    }

    /// The smallest block of an area that holds `order`.
    #[inline]
    pub(super) fn smallest<P: Probe>(&self, area: usize, order: u8, probe: &mut P) -> Option<u32> {
        probe.step(Step::Index);
        let lists = &self.areas[area];
        let orders = lists.orders >> order;
        if orders == 0 {
            return None;
        }
        let found = u32::from(order) + orders.trailing_zeros();
        lists.heads[found as usize].checked_sub(1)
    }

    /// The set is switched off or on; its frames are wholly free.
    pub(super) fn set_off(&mut self, set: SetId, off: bool) {
        let bank = &mut self.sets[set.index()];
        if bank.has(Bank::OFFLINE) == off {
            return;
        }
        bank.flags ^= Bank::OFFLINE;
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

fn prefix<'m, T>(
    what: &'static str,
    all: &'m mut [T],
    wants: usize,
) -> Result<&'m mut [T], SetupError> {
    let has = all.len();
    all.get_mut(..wants).ok_or(SetupError::TooShort(what, wants, has))
}
