//! Which pages of the simulated machine are resident, of which size, and how many became so.
//!
//! The kernel below knows each small page that was touched ([`Space::each_resident`]). Two things come on top:
//!
//! - the machine's pages may be longer than the kernel's: one is resident when any part of it was touched;
//! - a bank for which huge pages are advised gets one huge page at its first touch, and then is resident as a whole
//!   until it is given back. Its small pages that nobody has touched are *lent*.
//!
//! Invariant: faults = pages resident that no huge page brought + pages given back of the same kind + huge pages. So faults are
//! counted without watching a single touch.

use super::space::{KERNEL_PAGE, Space};
use freehold_core::malloc::units::{BANK, UNIT};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Kernel pages of a bank.
const BANK_PAGES: usize = BANK / KERNEL_PAGE;

/// What a bank's memory is mapped by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Mapped {
    /// Nothing yet: the next touch decides.
    #[default]
    Nothing,
    /// Small pages.
    Small,
    /// One huge page.
    Huge,
}

#[derive(Clone, Copy, Default)]
struct Bank {
    advised: bool,
    mapped: Mapped,
    /// Pages that came with a huge page, touched or not; one bit each.
    brought: [u64; BANK_PAGES / 64],
}

/// One unit of 64 KiB, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnitPages {
    /// Resident because the malloc or the program touched them.
    pub touched: u64,
    /// Resident only because a huge page is.
    pub lent: u64,
}

/// See the module.
pub struct Resident {
    page: usize,
    huge_pages: bool,
    banks: FxHashMap<usize, Bank>,
    /// Machine pages given back that were resident by a fault of their own.
    gone: u64,
    huge_faults: u64,
    /// Bytes given back.
    purged: u64,
}

impl Resident {
    /// Nothing resident, on a machine with pages of `page` bytes.
    pub fn new(page: usize, huge_pages: bool) -> Resident {
        let banks = FxHashMap::default();
        Resident { page, huge_pages, banks, gone: 0, huge_faults: 0, purged: 0 }
    }

    /// Takes note of the malloc's advice on whole banks.
    pub fn advise(&mut self, range: Range<usize>, huge: bool) {
        if !self.huge_pages {
            return;
        }
        for at in range.step_by(BANK) {
            self.settle(at);
            let bank = self.banks.entry(at).or_default();
            bank.advised = huge;
            if !huge && bank.mapped == Mapped::Huge {
                bank.mapped = Mapped::Small;
            }
        }
    }

    /// Gives the bank that begins at `at` the pages that its first touch brought.
    fn settle(&mut self, at: usize) {
        let bank = self.banks.entry(at).or_default();
        if bank.mapped != Mapped::Nothing {
            return;
        }
        let mut touched = false;
        Space::each_resident(at..at + BANK, |_| touched = true);
        match (touched, bank.advised) {
            (false, _) => {}
            (true, false) => bank.mapped = Mapped::Small,
            (true, true) => {
                bank.mapped = Mapped::Huge;
                bank.brought = [u64::MAX; BANK_PAGES / 64];
                self.huge_faults += 1;
            }
        }
    }

    /// Takes note that a range, whole machine pages of one reservation, is about to be given back.
    pub fn purge(&mut self, range: Range<usize>) {
        let (mut pages, mut without_fault) = (0, 0);
        self.each(range.clone(), |_, state| {
            pages += 1;
            without_fault += u64::from(state.brought);
        });
        self.gone += pages - without_fault;
        self.purged += pages * self.page as u64;
        self.forget(range);
    }

    /// Nothing of the range is resident any more.
    fn forget(&mut self, range: Range<usize>) {
        for at in banks_of(&range) {
            let Some(bank) = self.banks.get_mut(&at) else { continue };
            for page in pages_in(at, &range) {
                bank.brought[page / 64] &= !(1 << (page % 64));
            }
            // The page table of a bank that is given back at one blow goes, too (Linux 6.14 and later).
            let whole = range.start <= at && at + BANK <= range.end;
            bank.mapped = match bank.mapped {
                _ if whole => Mapped::Nothing,
                Mapped::Huge => Mapped::Small,
                other => other,
            };
        }
    }

    /// Takes note that pages move: those at `to` take the place of what was there.
    pub fn relocate(&mut self, from: Range<usize>, to: usize) {
        self.purge(to..to + from.len());
        for at in banks_of(&from) {
            let brought = self.banks.get(&at).map(|bank| bank.brought);
            for page in
                pages_in(at, &from).filter(|page| brought.is_some_and(|b| is_set(&b, *page)))
            {
                let moved = at + page * KERNEL_PAGE - from.start + to;
                let bank = self.banks.entry(moved / BANK * BANK).or_default();
                bank.mapped = Mapped::Small;
                let page = moved % BANK / KERNEL_PAGE;
                bank.brought[page / 64] |= 1 << (page % 64);
            }
        }
        self.forget(from);
    }

    /// Calls `visit` with every unit of 64 KiB of a committed range that has resident pages; the range consists of whole
    /// machine pages. Units are cut at multiples of 64 KiB.
    pub fn each_unit(&mut self, range: Range<usize>, mut visit: impl FnMut(usize, UnitPages)) {
        let (mut at, mut unit) = (0, UnitPages::default());
        let page = self.page as u64;
        self.each(range, |address, state| {
            if address / UNIT * UNIT != at {
                if unit != UnitPages::default() {
                    visit(at, unit);
                }
                (at, unit) = (address / UNIT * UNIT, UnitPages::default());
            }
            let kind = if state.touched { &mut unit.touched } else { &mut unit.lent };
            *kind += page;
        });
        if unit != UnitPages::default() {
            visit(at, unit);
        }
    }

    /// Calls `visit` with every resident machine page of a range.
    fn each(&mut self, range: Range<usize>, mut visit: impl FnMut(usize, State)) {
        if self.huge_pages {
            banks_of(&range).for_each(|at| self.settle(at));
        }
        let page = self.page;
        let mut pending: Option<(usize, State)> = None;
        self.each_kernel_page(range, |address, state| {
            let at = address / page * page;
            match &mut pending {
                Some((same, whole)) if *same == at => {
                    whole.touched |= state.touched;
                    whole.brought |= state.brought;
                }
                _ => {
                    if let Some((at, state)) = pending.replace((at, state)) {
                        visit(at, state);
                    }
                }
            }
        });
        if let Some((at, state)) = pending {
            visit(at, state);
        }
    }

    /// The same of the kernel's pages, those that a huge page brought included.
    fn each_kernel_page(&self, range: Range<usize>, mut visit: impl FnMut(usize, State)) {
        let has_huge = |at: &usize| {
            self.banks.get(at).is_some_and(|bank| bank.brought != [0; BANK_PAGES / 64])
        };
        let touched = State { touched: true, brought: false };
        let mut from = range.start;
        for at in banks_of(&range).filter(|at| self.huge_pages && has_huge(at)) {
            let (start, end) = (at.max(range.start), (at + BANK).min(range.end));
            Space::each_resident(from..start, |page| visit(page, touched));
            let brought = self.banks.get(&at).map_or([0; BANK_PAGES / 64], |bank| bank.brought);
            let mut here = [0u64; BANK_PAGES / 64];
            Space::each_resident(start..end, |page| {
                let page = (page - at) / KERNEL_PAGE;
                here[page / 64] |= 1 << (page % 64);
            });
            for page in pages_in(at, &(start..end)) {
                let state = State { touched: is_set(&here, page), brought: is_set(&brought, page) };
                if state.touched || state.brought {
                    visit(at + page * KERNEL_PAGE, state);
                }
            }
            from = end;
        }
        Space::each_resident(from..range.end, |page| visit(page, touched));
    }

    /// Bytes that may become resident without a page fault of their own: banks whose first touch brings a huge page.
    pub fn may_be_brought(&self) -> u64 {
        let waits = |bank: &&Bank| bank.advised && bank.mapped == Mapped::Nothing;
        (self.banks.values().filter(waits).count() * BANK) as u64
    }

    /// Page faults so far, while `pages` machine pages are resident.
    pub fn faults(&self, pages: u64) -> u64 {
        let brought =
            self.banks.iter().map(|(_, bank)| brought_pages(bank, self.page)).sum::<u64>();
        pages.saturating_sub(brought) + self.gone + self.huge_faults
    }

    /// Bytes given back so far.
    pub fn purged(&self) -> u64 {
        self.purged
    }
}

/// Of one page.
#[derive(Clone, Copy)]
struct State {
    touched: bool,
    brought: bool,
}

/// Machine pages that a bank's huge page brought.
fn brought_pages(bank: &Bank, page: usize) -> u64 {
    let bits = bank.brought.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
    bits / (page / KERNEL_PAGE) as u64
}

fn is_set(bits: &[u64; BANK_PAGES / 64], page: usize) -> bool {
    bits[page / 64] >> (page % 64) & 1 != 0
}

/// Where the banks begin that a range touches.
fn banks_of(range: &Range<usize>) -> impl Iterator<Item = usize> + use<> {
    (range.start / BANK * BANK..range.end).step_by(BANK)
}

/// The kernel pages of the bank at `at` that lie in a range, counted from the bank's start.
fn pages_in(at: usize, range: &Range<usize>) -> Range<usize> {
    let page = |address: usize| address.clamp(at, at + BANK).saturating_sub(at) / KERNEL_PAGE;
    page(range.start)..page(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory {
        at: *mut u8,
        _space: Space,
        resident: Resident,
    }

    /// Four banks.
    fn memory(page: usize, huge: bool) -> Memory {
        let mut space = Space::default();
        let at = space.reserve(4 * BANK, BANK);
        // SAFETY: within the reservation.
        assert!(unsafe { Space::commit(at, 4 * BANK) });
        at.expose_provenance();
        Memory { at, _space: space, resident: Resident::new(page, huge) }
    }

    impl Memory {
        fn touch(&self, page: usize) {
            // SAFETY: within the four banks.
            unsafe { self.at.add(page * KERNEL_PAGE).write(1) };
        }

        fn whole(&self) -> Range<usize> {
            self.at.addr()..self.at.addr() + 4 * BANK
        }

        fn pages(&self, range: Range<usize>) -> Range<usize> {
            self.at.addr() + range.start * KERNEL_PAGE..self.at.addr() + range.end * KERNEL_PAGE
        }

        fn purge(&mut self, pages: Range<usize>) {
            self.resident.purge(self.pages(pages.clone()));
            self.discard(pages);
        }

        fn discard(&self, pages: Range<usize>) {
            let range = self.pages(pages);
            let at = self.at.with_addr(range.start);
            // SAFETY: within the four banks, nothing in use.
            assert!(unsafe { Space::discard(at, range.len()) });
        }

        /// Touched and lent kilobytes, faults.
        fn sum(&mut self) -> (u64, u64, u64) {
            let (mut touched, mut lent) = (0, 0);
            self.resident.each_unit(self.whole(), |_, unit| {
                (touched, lent) = (touched + unit.touched, lent + unit.lent);
            });
            let pages = (touched + lent) / self.resident.page as u64;
            (touched >> 10, lent >> 10, self.resident.faults(pages))
        }
    }

    #[test]
    fn a_long_page_is_resident_as_a_whole() {
        let mut memory = memory(16 << 10, false);
        [0, 3, 4, 1000].into_iter().for_each(|page| memory.touch(page));
        assert_eq!(memory.sum(), (48, 0, 3));
        memory.purge(0..4);
        assert_eq!(memory.sum(), (32, 0, 3));
        memory.touch(1);
        assert_eq!(memory.sum(), (48, 0, 4));
        assert_eq!(memory.resident.purged(), 16 << 10);
    }

    #[test]
    fn an_advised_bank_is_resident_from_its_first_touch() {
        let mut memory = memory(4096, true);
        memory.touch(512);
        memory.resident.advise(memory.pages(0..2 * BANK_PAGES), true);
        assert_eq!(memory.sum(), (4, 0, 1), "the second bank has a small page already");
        [7, 8].into_iter().for_each(|page| memory.touch(page));
        assert_eq!(memory.sum(), (12, 2048 - 8, 2));
        memory.resident.advise(memory.pages(0..BANK_PAGES), false);
        memory.purge(4..8);
        assert_eq!(memory.sum(), (8, 2048 - 20, 2));
        [4, 5].into_iter().for_each(|page| memory.touch(page));
        assert_eq!(memory.sum(), (16, 2048 - 20, 4), "what was split faults page by page");
        memory.purge(0..BANK_PAGES);
        assert_eq!(memory.sum(), (4, 0, 4));
        memory.resident.advise(memory.pages(0..BANK_PAGES), true);
        memory.touch(1);
        assert_eq!(memory.sum(), (8, 2048 - 4, 5), "a bank given back as a whole begins anew");
    }

    #[test]
    fn pages_that_move_take_what_a_huge_page_brought_along() {
        let mut memory = memory(4096, true);
        memory.resident.advise(memory.pages(0..BANK_PAGES), true);
        memory.touch(0);
        assert_eq!(memory.sum(), (4, 2044, 1));
        let to = memory.pages(1000..1001).start;
        memory.resident.relocate(memory.pages(0..2), to);
        memory.discard(0..2);
        memory.touch(1000);
        assert_eq!(memory.sum(), (4, 2044, 1));
    }
}
