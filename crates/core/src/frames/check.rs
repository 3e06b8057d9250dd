//! Whether a zone's structures agree with each other: tags with lists, lists with links, sums with blocks.

use super::allocator::Frames;
use super::memory::SetRecord;
use super::order::Order;
use super::policy::Policy;
use super::request::{Class, SetId};
use super::store::{Begins, Store};
use freehold_blocks::check::Broken;

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
            let off = bank.has(SetRecord::OFFLINE);
            Broken::unless(!off || bank.is_vacant(), "a set that is off is wholly free", at)?;
            let listed = self.table.off.contains(set);
            Broken::unless(off == listed, "the sets that are off are known", at)?;
            let leaving = bank.has(SetRecord::LEAVING);
            let what = "a set that is being emptied is isolated and has no unmovable page";
            Broken::unless(
                !leaving || bank.has(SetRecord::ISOLATED) && bank.unmovable == 0,
                what,
                at,
            )?;
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
        let keeps = |at, area| self.policy.keeps(&self.table, at, area);
        let listed = P::Store::check(&self.table, keeps)?;
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

    fn check_free(&self, at: u32, order: Order) -> Result<(), Broken> {
        Broken::unless(aligned(at, order), "blocks are aligned", at.into())?;
        let twin = at ^ order.frames();
        let merged = order == Order::MAX
            || self.table.begins(twin) != Begins::Free(order)
            || !self.table.may_merge(at, twin);
        Broken::unless(merged, "no two free twins", at.into())
    }

    fn check_tails(&self, at: u32, next: u32) -> Result<(), Broken> {
        let clean = (at + 1..next).all(|inside| self.table.begins(inside) == Begins::Tail);
        Broken::unless(clean, "nothing begins inside a block", at.into())
    }
}

const fn aligned(at: u32, order: Order) -> bool {
    at.is_multiple_of(order.frames())
}
