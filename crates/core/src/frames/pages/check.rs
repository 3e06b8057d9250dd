//! Whether a zone's structures agree with each other: tags with lists, lists with links, sums with blocks.

use super::allocator::Frames;
use super::memory::{Bank, Link};
use super::policy::Policy;
use super::request::{Class, MAX_ORDER, ORDERS, SetId};
use super::table::Begins;
use crate::check::Broken;

/// What one walk over a set's tags finds.
#[derive(Default)]
struct Found {
    frames: u64,
    free: u64,
    unmovable: u64,
    blocks: u64,
}

impl<P: Policy> Frames<'_, P> {
    /// Walks everything. O(frames). (`at` of a broken invariant is a frame, or a set.)
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), Broken> {
        let mut blocks = 0;
        let (mut free, mut offline) = (0, 0);
        for index in 0..self.table.sets.len() {
            let set = SetId(index as u16);
            let found = self.check_set(set)?;
            let bank = &self.table.sets[index];
            let at = index as u64;
            Broken::unless_equal("a set counts its frames", at, found.frames, bank.frames.into())?;
            Broken::unless_equal("a set counts its free frames", at, found.free, bank.free.into())?;
            let what = "a set counts its unmovable frames";
            Broken::unless_equal(what, at, found.unmovable, bank.unmovable.into())?;
            let off = bank.has(Bank::OFFLINE);
            Broken::unless(!off || bank.is_vacant(), "a set that is off is wholly free", at)?;
            let listed = self.table.off.contains(set);
            Broken::unless(off == listed, "the sets that are off are known", at)?;
            let leaving = bank.has(Bank::LEAVING);
            let what = "a set that is being emptied is isolated and has no unmovable page";
            Broken::unless(!leaving || bank.has(Bank::ISOLATED) && bank.unmovable == 0, what, at)?;
            blocks += found.blocks;
            free += found.free;
            offline += if off { u64::from(bank.frames) } else { 0 };
        }
        Broken::unless_equal("the zone counts its free frames", 0, free, self.table.free().into())?;
        Broken::unless_equal(
            "the zone counts frames off",
            0,
            offline,
            self.table.offline().into(),
        )?;
        let listed = self.check_lists()?;
        Broken::unless_equal("every free block is in a list", 0, blocks, listed)?;
        self.policy.check(&self.table)
    }

    fn check_set(&self, set: SetId) -> Result<Found, Broken> {
        let mut found = Found::default();
        for nth in 0..self.table.width() {
            let (mut at, end) = self.table.bank_range(set, nth);
            while at < end {
                let next = self.table.after(at);
                let frames = u64::from(next - at);
                match self.table.begins(at) {
                    Begins::Hole => {}
                    Begins::Tail => {
                        return Broken::unless(false, "blocks tile a bank", at.into())
                            .map(|()| found);
                    }
                    Begins::Free(order) => {
                        found.free += frames;
                        found.blocks += 1;
                        found.frames += frames;
                        self.check_free(at, order)?;
                    }
                    Begins::Used(order, kind) => {
                        Broken::unless(aligned(at, order), "blocks are aligned", at.into())?;
                        found.frames += frames;
                        if kind.class() == Class::Kernel {
                            found.unmovable += frames;
                        }
                    }
                }
                self.check_tails(at, next)?;
                at = next;
            }
            Broken::unless_equal("no block crosses a bank", end.into(), end.into(), at.into())?;
        }
        Ok(found)
    }

    fn check_free(&self, at: u32, order: u8) -> Result<(), Broken> {
        Broken::unless(aligned(at, order), "blocks are aligned", at.into())?;
        let twin = at ^ 1 << order;
        let merged = order == MAX_ORDER
            || self.table.begins(twin) != Begins::Free(order)
            || !self.table.may_merge(at, twin);
        Broken::unless(merged, "no two free twins", at.into())
    }

    fn check_tails(&self, at: u32, next: u32) -> Result<(), Broken> {
        let clean = (at + 1..next).all(|inside| self.table.begins(inside) == Begins::Tail);
        Broken::unless(clean, "nothing begins inside a block", at.into())
    }

    /// Every list: its links, what it holds, where that belongs. Says how many blocks there are in all.
    fn check_lists(&self) -> Result<u64, Broken> {
        let mut listed = 0;
        for area in 0..self.table.areas.len() {
            for order in 0..ORDERS {
                let first = self.table.areas[area].heads[order];
                let mask = self.table.areas[area].orders >> order & 1 == 1;
                Broken::unless(
                    mask == (first != 0),
                    "a mask says which lists hold any",
                    area as u64,
                )?;
                let mut prev = Link::FIRST | (area as u32) << 4 | order as u32;
                let mut at = first;
                while let Some(block) = at.checked_sub(1) {
                    let link = self.table.link(block);
                    let what = "links of a list lead back";
                    Broken::unless_equal(what, block.into(), prev.into(), link.prev.into())?;
                    let free = self.table.begins(block) == Begins::Free(order as u8);
                    Broken::unless(free, "a list holds free blocks of its order", block.into())?;
                    let kept = self.policy.keeps(&self.table, block, area);
                    Broken::unless(kept, "a free block is in its policy's area", block.into())?;
                    listed += 1;
                    (prev, at) = (at, link.next);
                }
            }
        }
        Ok(listed)
    }
}

const fn aligned(at: u32, order: u8) -> bool {
    at & ((1 << order) - 1) == 0
}
