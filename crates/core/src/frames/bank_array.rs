//! The array of banks: the kernel from the lowest bank up, users from the highest down (Panwar 2015, section 4.1.1).
//!
//! First fit over the banks, so the search is O(banks); the thesis gives that as its first fault. `BITS` finds the
//! very same bank in bit sets, a word of 64 banks at a time. Its other fault is the migration task's (see
//! [`Order::Lowest`](super::migrate::Order::Lowest)): banks are evacuated by number, however full.

use super::bank_area::{self, Depth, Table, area_of};
use super::listed::Listed;
use super::memory::SetRecord;
use super::order::{ORDERS, Order, Orders};
use super::policy::{Picked, Policy, wake};
use super::request::{Class, Kind, Request, SetId};
use super::set_bits::SetBits;
use super::store::Changed;
use super::zone::MAX_SETS;
use freehold_blocks::check::Broken;
use freehold_blocks::probe::{Probe, Step};

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct BankArray<const BITS: bool> {
    /// Which usable sets have blocks of a kind and an order. Kept only with `BITS`.
    with: [[SetBits; ORDERS]; Kind::ALL.len()],
    sets: u16,
}

impl<const BITS: bool> BankArray<BITS> {
    /// The first set in the class's direction that serves so far.
    fn sweep<Q: Probe>(
        &self,
        table: &mut Table<'_>,
        wanted: Request,
        depth: Depth,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        if BITS {
            let set = self.first(wanted, depth, probe)?;
            return bank_area::pick(table, set, wanted, depth, probe);
        }
        for nth in 0..self.sets {
            let set = match wanted.kind.class() {
                Class::Kernel => SetId(nth),
                Class::User => SetId(self.sets - 1 - nth),
            };
            if table.sets[set.index()].usable() {
                let picked = bank_area::pick(table, set, wanted, depth, probe);
                if picked.is_some() {
                    return picked;
                }
            }
        }
        None
    }

    /// The set that a scan would find, by words of 64 sets.
    fn first<Q: Probe>(&self, wanted: Request, depth: Depth, probe: &mut Q) -> Option<SetId> {
        let least = wanted.order;
        let raided = if depth == Depth::Own { least.max(Order::PAGE_BLOCK) } else { least };
        let words = usize::from(self.sets).div_ceil(64);
        let mut word = |word: usize| {
            probe.step(Step::Index);
            let or = |kind: Kind, least: Order| {
                self.with[kind as usize][least.index()..]
                    .iter()
                    .fold(0, |bits, with| bits | with.word(word))
            };
            let others = super::buddy::RAIDS[wanted.kind as usize].iter();
            others.fold(or(wanted.kind, least), |bits, &kind| bits | or(kind, raided))
        };
        let found = |at: usize, bit: u32| SetId((at * 64) as u16 + bit as u16);
        match wanted.kind.class() {
            Class::Kernel => (0..words).find_map(|at| {
                let bits = word(at);
                (bits != 0).then(|| found(at, bits.trailing_zeros()))
            }),
            Class::User => {
                (0..words).rev().find_map(|at| Some(found(at, word(at).checked_ilog2()?)))
            }
        }
    }

    fn note(&mut self, table: &Table<'_>, set: SetId) {
        if !BITS {
            return;
        }
        let usable = table.sets[set.index()].usable();
        for kind in Kind::ALL {
            let orders = if usable { table.areas[area_of(set, kind)].orders } else { Orders::NONE };
            for (order, with) in Order::all().zip(&mut self.with[kind as usize]) {
                match orders.has(order) {
                    true => with.insert(set),
                    false => with.remove(set),
                }
            }
        }
    }
}

impl<const BITS: bool> Policy for BankArray<BITS> {
    type Store = Listed;
    const STARTS_OFF: bool = true;

    fn areas(sets: usize) -> usize {
        sets * bank_area::AREAS
    }

    fn new(table: &Table<'_>) -> Self {
        let sets = table.sets.len();
        debug_assert!(sets <= MAX_SETS);
        BankArray { with: [[SetBits::default(); ORDERS]; Kind::ALL.len()], sets: sets as u16 }
    }

    #[inline]
    fn area(&self, table: &Table<'_>, at: u32) -> usize {
        bank_area::area(table, at)
    }

    fn keeps(&self, table: &Table<'_>, at: u32, area: usize) -> bool {
        area / bank_area::AREAS == table.set_of(at).index()
    }

    fn pick<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        if let Some(picked) = self.sweep(table, wanted, Depth::Own, probe) {
            return Some(picked);
        }
        while let Some(set) = wake(table, wanted.kind.class()) {
            self.join(table, set, probe);
            let picked = bank_area::pick(table, set, wanted, Depth::Own, probe);
            if picked.is_some() {
                return picked;
            }
        }
        self.sweep(table, wanted, Depth::Any, probe)
    }

    fn refuge<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        let own = self.sweep(table, wanted, Depth::Own, probe);
        own.or_else(|| self.sweep(table, wanted, Depth::Any, probe))
    }

    fn settle<Q: Probe>(&mut self, table: &mut Table<'_>, Changed { set, .. }: Changed, _: &mut Q) {
        self.note(table, set);
    }

    fn withdraw<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, _: &mut Q) {
        self.note(table, set);
    }

    fn join<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, _: &mut Q) {
        self.note(table, set);
    }

    fn check(&self, table: &Table<'_>) -> Result<(), Broken> {
        for (index, bank) in table.sets.iter().enumerate().filter(|_| BITS) {
            let set = SetId(index as u16);
            for kind in Kind::ALL {
                for order in Order::all() {
                    let has = table.areas[area_of(set, kind)].orders.has(order);
                    let expected = !bank.has(SetRecord::ISOLATED | SetRecord::OFFLINE) && has;
                    let found = self.with[kind as usize][order.index()].contains(set);
                    let what = "a bit says whether the set has blocks of the kind and order";
                    Broken::unless_equal(what, index as u64, expected.into(), found.into())?;
                }
            }
        }
        Ok(())
    }
}
