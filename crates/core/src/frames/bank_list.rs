//! Lists of banks: one for the kernel, one for users, one of free banks (Panwar 2015, section 4.1.2).
//!
//! A request asks the bank that served its class last, then its class's list from the head; then a free bank moves
//! to the head of that list; then users ask the kernel's list, and the kernel takes the user bank with most free
//! pages (or, with `EMPTIEST` false, the first that serves: the thesis saw that behave worse than stock Linux).
//! Free banks are switched off here: they are what "offline" is to the pools. An empty bank returns to them at
//! once, and a kernel bank without kernel pages to the users.

use super::bank_area::{self, Depth, Table};
use super::listed::Listed;
use super::memory::{Beside, SetRecord};
use super::policy::{Picked, Policy, free_of, wake};
use super::request::{Class, Kind, Request, SetId};
use super::store::Changed;
use freehold_blocks::check::Broken;
use freehold_blocks::probe::{Probe, Step};

const LISTS: usize = 2;
const KERNEL: usize = Class::Kernel as usize;
const USER: usize = Class::User as usize;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct BankList<const EMPTIEST: bool> {
    /// First set of each list, + 1.
    heads: [u16; LISTS],
    /// The set that served each class last, + 1.
    last: [u16; LISTS],
}

impl<const EMPTIEST: bool> BankList<EMPTIEST> {
    fn link(&mut self, table: &mut Table<'_>, set: SetId, list: usize) {
        let old = core::mem::replace(&mut self.heads[list], set.0 + 1);
        let bank = &mut table.sets[set.index()];
        (bank.pool, bank.linked, bank.beside) = (list as u8, 1, Beside { next: old, prev: 0 });
        if old != 0 {
            table.sets[usize::from(old) - 1].beside.prev = set.0 + 1;
        }
    }

    fn unlink(&mut self, table: &mut Table<'_>, set: SetId) {
        let bank = &mut table.sets[set.index()];
        let (list, Beside { next, prev }) = (usize::from(bank.pool), bank.beside);
        bank.linked = 0;
        match prev {
            0 => self.heads[list] = next,
            prev => table.sets[usize::from(prev) - 1].beside.next = next,
        }
        if next != 0 {
            table.sets[usize::from(next) - 1].beside.prev = prev;
        }
        for last in self.last.iter_mut().filter(|last| **last == set.0 + 1) {
            *last = 0;
        }
    }

    /// The cached set, then the list from its head; without and then with raids inside a set.
    fn search<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        list: usize,
        depth: Depth,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        probe.step(Step::Index);
        let cached = self.last[list].checked_sub(1).map(SetId);
        if let Some(picked) =
            cached.and_then(|set| bank_area::pick(table, set, wanted, depth, probe))
        {
            return Some(picked);
        }
        let mut at = self.heads[list];
        while let Some(set) = at.checked_sub(1) {
            let picked = bank_area::pick(table, SetId(set), wanted, depth, probe);
            if picked.is_some() {
                self.last[list] = set + 1;
                return picked;
            }
            at = table.sets[usize::from(set)].beside.next;
        }
        None
    }

    /// The user bank that becomes the kernel's: O(banks).
    fn victim<Q: Probe>(&self, table: &Table<'_>, wanted: Request, probe: &mut Q) -> Option<SetId> {
        let (mut at, mut best) = (self.heads[USER], None);
        while let Some(index) = at.checked_sub(1) {
            probe.step(Step::Inspect);
            let (set, bank) = (SetId(index), &table.sets[usize::from(index)]);
            at = bank.beside.next;
            if !bank_area::serves(table, set, wanted) {
                continue;
            }
            if !EMPTIEST {
                return Some(set);
            }
            if best.is_none_or(|(free, _)| bank.free > free) {
                best = Some((bank.free, set));
            }
        }
        best.map(|(_, set)| set)
    }

    fn elsewhere<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        if wanted.kind.class() == Class::User {
            return self.search(table, wanted, KERNEL, Depth::Any, probe);
        }
        let set = self.victim(table, wanted, probe)?;
        // What is set aside for devices stays the users'; the rest of the bank can still serve.
        if !table.sets[set.index()].has(SetRecord::CMA) {
            self.unlink(table, set);
            self.link(table, set, KERNEL);
        }
        bank_area::pick(table, set, wanted, Depth::Any, probe)
    }
}

impl<const EMPTIEST: bool> Policy for BankList<EMPTIEST> {
    type Store = Listed;
    const STARTS_OFF: bool = true;

    fn areas(sets: usize) -> usize {
        sets * bank_area::AREAS
    }

    fn new(_: &Table<'_>) -> Self {
        BankList { heads: [0; LISTS], last: [0; LISTS] }
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
        let class = wanted.kind.class();
        let list = class as usize;
        if let Some(picked) = self.search(table, wanted, list, Depth::Own, probe) {
            return Some(picked);
        }
        while let Some(set) = wake(table, class) {
            self.link(table, set, list);
            self.last[list] = set.0 + 1;
            let picked = bank_area::pick(table, set, wanted, Depth::Own, probe);
            if picked.is_some() {
                return picked;
            }
        }
        let any = self.search(table, wanted, list, Depth::Any, probe);
        any.or_else(|| self.elsewhere(table, wanted, probe))
    }

    fn refuge<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Listed>> {
        // The fullest bank that serves: O(banks), as all that this policy does.
        let usable = |&set: &SetId| {
            let bank = &table.sets[set.index()];
            bank.usable() && usize::from(bank.pool) == USER && bank_area::serves(table, set, wanted)
        };
        let users = (0..table.sets.len() as u16).map(SetId).filter(usable);
        let set = users.min_by_key(|set| table.sets[set.index()].free)?;
        bank_area::pick(table, set, wanted, Depth::Any, probe)
    }

    #[inline]
    fn settle<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        Changed { set, .. }: Changed,
        probe: &mut Q,
    ) {
        let bank = &table.sets[set.index()];
        if !bank.usable() || bank.has(SetRecord::NOMIG) {
            return;
        }
        if bank.is_vacant() {
            probe.step(Step::Index);
            self.unlink(table, set);
            table.set_off(set, true);
        } else if bank.unmovable == 0 && usize::from(bank.pool) == KERNEL {
            probe.step(Step::Index);
            self.unlink(table, set);
            self.link(table, set, USER);
        }
    }

    fn withdraw<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, _: &mut Q) {
        self.unlink(table, set);
    }

    fn join<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, _: &mut Q) {
        let bank = &table.sets[set.index()];
        let kernel = bank.unmovable > 0 || bank.has(SetRecord::NOMIG);
        self.link(table, set, if kernel { KERNEL } else { USER });
    }

    /// Panwar's optimal selection: the bank with most free pages to the head of each list. O(banks).
    fn tidy<Q: Probe>(&mut self, table: &mut Table<'_>, probe: &mut Q) {
        for list in 0..LISTS {
            let linked = table.sets.iter().enumerate().filter(|(_, bank)| {
                bank.usable() && bank.linked != 0 && usize::from(bank.pool) == list
            });
            let most = linked.max_by_key(|(index, bank)| (bank.free, core::cmp::Reverse(*index)));
            let Some(set) = most.map(|(index, _)| SetId(index as u16)) else { continue };
            probe.step(Step::Index);
            self.unlink(table, set);
            self.link(table, set, list);
        }
    }

    fn room(&self, table: &Table<'_>, leaving: Option<SetId>) -> u32 {
        free_of(table, leaving, |bank| usize::from(bank.pool) == USER)
    }

    fn pool(&self, number: u8) -> Option<Class> {
        Some(if usize::from(number) == KERNEL { Class::Kernel } else { Class::User })
    }

    fn check(&self, table: &Table<'_>) -> Result<(), Broken> {
        let mut linked = 0_u64;
        for list in 0..LISTS {
            let mut at = self.heads[list];
            while let Some(set) = at.checked_sub(1) {
                linked += 1;
                let bank = &table.sets[usize::from(set)];
                let good = bank.usable() && usize::from(bank.pool) == list && bank.linked == 1;
                Broken::unless(good, "a list holds usable sets of its own class", set.into())?;
                Broken::unless(linked <= table.sets.len() as u64, "lists end", set.into())?;
                at = bank.beside.next;
            }
        }
        let usable = table.sets.iter().filter(|bank| bank.usable()).count() as u64;
        Broken::unless_equal("every usable set is in a list", 0, usable, linked)?;
        let movable = Kind::Movable.class() as usize;
        Broken::unless_equal("the users' list is the second", 0, USER as u64, movable as u64)
    }
}
