//! One reservation of address space and its metadata.
//!
//! ```text
//!                  base                                                                       base + len
//! ... record | record | tags | away | left out | free banks | index | bank states |  banks ...  |
//!     bank 1   bank 0   8 B           1 bit      1 bit a bank,        24 B          32 units
//!     20 KiB            a unit        a bank     last first           a bank        each
//! ```
//!
//! A bank's record has the descriptors of its units (128 B each) and, behind them, their bitmaps (512 B each).
//! Records lie in front of the base, the first bank's last, and the words of free banks in front of the index,
//! so that all metadata of a small heap lies together: a process that allocates little touches few pages
//! and few page tables.
//!
//! Tags start at the base, so that the free path finds them with the address against which it checks the
//! pointer: `tag = base[(address - base) >> 16]`; the other parts are indexed from the first bank. All
//! cover the whole reservation, and are committed as far as banks are.
//!
//! A region belongs to a [`Home`]. Its banks' pages come from there while the home has any. An index of its own
//! (`away`) lists the banks from elsewhere; the region takes from them when another bank would come from elsewhere too.
//!
//! Invariant: units below `committed` banks have readable tags, descriptors and bitmaps; the tag of
//! a unit that is free, or in which no block starts, is zero. The record of a bank that is wholly free and clean may
//! turn to zero at any moment (`purging`). The heap defines tags and descriptors. All `&mut` methods run under the lock of `units::table`.

mod bits;
mod dumped;
mod mending;
mod part;
mod placing;
mod purging;
mod shrinking;
mod vacating;

use super::bank::Bank;
use super::index::{FreeBanks, Index};
use super::supply::{Supply, nodes_of};
use super::{BANK, BANK_UNITS, UNIT, UNIT_SHIFT, UnitCount, UnitLayout};
use crate::machine::Machine;
use crate::place::Home;
use crate::row::Row;
use core::mem::offset_of;
use core::slice;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use part::{Part, touch};
pub use vacating::Stretch;

/// Bytes of a descriptor: one cache line of state, one of bits.
pub const DESCRIPTOR: usize = 128;
/// Bytes of out-of-band bitmap for a unit: one bit per 16 bytes.
pub const BITMAP: usize = UNIT / 16 / 8;
/// Bytes of a bank's record: the descriptors of all its units, then their bitmaps.
pub const RECORD: usize = BITMAPS_AT + BANK_UNITS * BITMAP;
const BITMAPS_AT: usize = BANK_UNITS * DESCRIPTOR;
/// Banks committed at first; doubled with every step.
const FIRST_STEP: usize = 2;
/// Most banks committed ahead of need.
const LARGEST_STEP: usize = 32;
/// Bytes of words of free banks on the index's page: those of the first GiB.
const WORDS_BESIDE: usize = 64;

/// A reservation cut into banks. All-zero ([`Region::none`]) is one that does not exist. What changes with every run lies apart
/// from what threads read without the lock.
#[repr(C, align(128))]
pub struct Region {
    base: AtomicUsize,
    /// Where the banks begin.
    start: usize,
    /// Bytes of the committed banks; grows, until the region is shrunk.
    span: AtomicUsize,
    /// In front of the base.
    records: Part,
    tags: Part,
    /// The pages from where bank states begin.
    front: Part,
    /// Where bank states begin; the index ends there.
    states: usize,
    /// Banks reserved and banks committed, counted from `start`.
    banks: usize,
    committed: usize,
    /// Banks from here on are not in core files (`dumped`).
    dumped: usize,
    home: Home,
    /// Where the index of banks away from home is.
    away: usize,
    /// What the machine reserved: from where, how long. Of a region that was shrunk: nothing.
    reserved: (usize, usize),
    dirty: UnitCount,
    used: UnitCount,
}

const _: () = assert!(offset_of!(Region, dirty) >= 128, "counts lie apart from the constants");

/// Where a region keeps what `malloc::census` reads from outside, in bytes from its start.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RegionLayout {
    /// From one region to the next.
    pub len: u32,
    /// The address of the tags.
    pub base: u32,
    /// The address of the first bank.
    pub start: u32,
    /// How many banks are committed.
    pub committed: u32,
    /// The address of the banks' states.
    pub states: u32,
    /// Not an offset: how long the banks' records in front of the base are; each begins with descriptors.
    pub record: u32,
}

impl Region {
    /// See [`RegionLayout`].
    pub const LAYOUT: RegionLayout = RegionLayout {
        len: size_of::<Region>() as u32,
        base: offset_of!(Region, base) as u32,
        start: offset_of!(Region, start) as u32,
        committed: offset_of!(Region, committed) as u32,
        states: offset_of!(Region, states) as u32,
        record: RECORD as u32,
    };

    /// No region.
    pub const fn none() -> Region {
        Region {
            base: AtomicUsize::new(0),
            start: 0,
            span: AtomicUsize::new(0),
            records: Part::NONE,
            tags: Part::NONE,
            front: Part::NONE,
            states: 0,
            banks: 0,
            committed: 0,
            dumped: 0,
            dirty: UnitCount(0),
            used: UnitCount(0),
            home: Home::ANYWHERE,
            away: 0,
            reserved: (0, 0),
        }
    }

    /// Reserves `len` bytes (a multiple of a bank) for `home` and commits what the first banks need, pages for which
    /// come from `from`; `false` when the machine refuses, which leaves the region non-existent.
    pub fn open(&mut self, machine: &impl Machine, home: Home, from: Home, len: usize) -> bool {
        let page = machine.page_size();
        let reserved = machine.reserve(len, BANK) as usize;
        if reserved == 0 {
            return false;
        }
        let (units, most) = (len / UNIT, len / BANK);
        // In the middle of a bank: the first records and the first tags lie under one page table.
        let base = (reserved + most * RECORD + BANK / 2).next_multiple_of(BANK) - BANK / 2;
        let tags = (units * 8).next_multiple_of(page);
        // The index lies so in its page that some words of free banks and some states fit beside it.
        let words = size_of::<Index>() + bytes_for(most) + most.div_ceil(64) * 8;
        let words = words.next_multiple_of(page);
        let index = base + tags + words + WORDS_BESIDE;
        let states = index + size_of::<Index>();
        let start = (states + most * size_of::<Bank>()).next_multiple_of(BANK);
        let banks = (reserved + len).saturating_sub(start) / BANK;
        (self.records.start, self.tags.start) = (base, base);
        (self.front.start, self.states) = (states / page * page, states);
        (self.start, self.banks, self.committed) = (start, banks, 0);
        (self.home, self.away) = (home, base + tags);
        if let Some((nodes, home)) = nodes_of(machine, home) {
            nodes.prefer(reserved as *mut u8, len, home);
        }
        if from != home {
            self.prefer_for_metadata(machine, from);
        }
        self.reserved = (reserved, len);
        if banks == 0 || !self.open_metadata(machine, base + tags) {
            // SAFETY: nobody knows of the region yet.
            unsafe { self.release(machine) };
            return false;
        }
        touch(index, size_of::<Index>());
        // Release pairs with the Acquire in `base()`: who sees the base sees the parts.
        self.base.store(base, Ordering::Release);
        true
    }

    /// Commits, at one blow each, records and tags of the first banks; and the words of free banks, the
    /// indexes and the first states, which begin at `words`.
    fn open_metadata(&mut self, machine: &impl Machine, words: usize) -> bool {
        let page = machine.page_size();
        let banks = FIRST_STEP.min(self.banks);
        let records = (banks * RECORD).next_multiple_of(page);
        let tags = self.tags_for(banks).next_multiple_of(page);
        let end = self.front.start + page;
        // SAFETY: the ranges lie within the reservation, which is fresh.
        let ready = unsafe {
            machine.commit((self.tags.start - records) as *mut u8, records + tags)
                && machine.commit(words as *mut u8, end - words)
        };
        if ready {
            (self.records.committed, self.tags.committed) = (records, tags);
            self.front.committed = page;
        }
        ready
    }

    /// Bytes of tags for the units before the banks and in so many of these.
    fn tags_for(&self, banks: usize) -> usize {
        ((self.start - self.tags.start) / UNIT + banks * BANK_UNITS) * 8
    }

    /// Whose memory it is.
    pub fn home(&self) -> Home {
        self.home
    }

    /// Where the reservation starts, also the address of the tags; 0 for none.
    #[inline]
    pub fn base(&self) -> usize {
        self.base.load(Ordering::Acquire)
    }

    /// Bytes from the base within which every unit has a readable tag. Where it was once, tags stay readable.
    #[inline]
    pub fn reach(&self) -> usize {
        self.start.wrapping_sub(self.base()) + self.span.load(Ordering::Acquire)
    }

    /// Whether `address` lies in a committed bank.
    #[inline]
    pub fn contains(&self, address: usize) -> bool {
        // In this order: who sees a span sees where it starts.
        let span = self.span.load(Ordering::Acquire);
        address.wrapping_sub(self.start) < span
    }

    /// The tag of the unit that `address` lies in.
    ///
    /// # Safety
    /// [`Region::contains`] said yes.
    #[inline]
    pub unsafe fn tag(&self, address: usize) -> &AtomicU64 {
        let unit = (address - self.base()) >> UNIT_SHIFT;
        // SAFETY: tags are committed for all units within reach, and live as long as the heap.
        unsafe { &*(self.base() as *const AtomicU64).add(unit) }
    }

    /// The descriptor of the unit that `address` lies in: [`DESCRIPTOR`] bytes, at first zero.
    /// Reads only constants: no lock needed.
    #[inline]
    pub fn descriptor(&self, address: usize) -> *mut u8 {
        let unit = self.unit(address);
        (self.record(unit / BANK_UNITS) + unit % BANK_UNITS * DESCRIPTOR) as *mut u8
    }

    /// The bitmap of the unit that `address` lies in: [`BITMAP`] bytes, at first zero.
    #[inline]
    pub fn bitmap(&self, address: usize) -> *mut u8 {
        let unit = self.unit(address);
        (self.record(unit / BANK_UNITS) + BITMAPS_AT + unit % BANK_UNITS * BITMAP) as *mut u8
    }

    /// Where the record of bank `at` is.
    #[inline]
    fn record(&self, at: usize) -> usize {
        self.records.start - (at + 1) * RECORD
    }

    /// Free units whose pages may be resident.
    pub fn dirty_units(&self) -> UnitCount {
        self.dirty
    }

    /// Units handed out.
    pub fn used_units(&self) -> UnitCount {
        self.used
    }

    /// Banks that are committed.
    pub fn committed_banks(&self) -> usize {
        self.committed
    }

    /// The state of bank `at`, below [`Region::committed_banks`].
    pub fn bank(&mut self, at: usize) -> &Bank {
        self.view().banks.at(at)
    }

    /// The address of `unit` in bank `at`.
    pub fn address(&self, at: usize, unit: usize) -> usize {
        self.start + at * BANK + unit * UNIT
    }

    /// A run of `len` units at a multiple of `align` units: its address and whether it reads as
    /// zero. `None` when neither the committed banks nor the machine have it.
    #[inline(never)]
    pub fn take(
        &mut self,
        machine: &impl Machine,
        supply: &mut Supply,
        layout: UnitLayout,
    ) -> Option<Run> {
        if let Some(run) = self.take_partly_used(layout) {
            return Some(run);
        }
        if self.home != Home::ANYWHERE
            && layout.fits_bank()
            && let Some(run) = self.take_away(machine, supply, layout)
        {
            return Some(run);
        }
        let UnitLayout { len, align } = layout;
        let need = len.banks();
        let align = (align.0 / BANK_UNITS).max(1);
        let bias = self.start / BANK % align;
        let at = loop {
            let committed = self.committed;
            match self.view().free.find(need, align, bias, committed) {
                Some(at) => break at,
                None if self.grow(machine, need, align) => {}
                None => return None,
            }
        };
        if self.home != Home::ANYWHERE {
            self.place(machine, supply, at, need)?;
        }
        self.dump(machine, at, need);
        let state = self.bank(at);
        let (mut zero, fresh) = (true, state.dirty == 0 && !state.huge);
        for (bank, first, len) in pieces(at * BANK_UNITS, len) {
            zero &= self.take_units(bank, first, len);
        }
        Some(Run { address: self.address(at, 0), zero, fresh, used: self.used })
    }

    /// Says of the banks that `[to, to + len)` touches what is said of any that `[from, from + len)`
    /// does: pages moved, and took what the machine was advised along.
    pub fn inherit(&mut self, from: usize, to: usize, len: usize) {
        let (first, last) = (self.bank_of(from), self.bank_of(from + len - 1));
        let (start, end) = (self.bank_of(to), self.bank_of(to + len - 1));
        let banks = self.view().banks;
        if banks.iter().take(last + 1).skip(first).any(|bank| bank.huge) {
            banks.iter_mut().take(end + 1).skip(start).for_each(|bank| bank.huge = true);
        }
        let node = banks.at(first).node;
        if banks.iter().take(end + 1).skip(start).any(|bank| bank.node != node) {
            for at in start..=end {
                self.relist(at, node);
            }
        }
    }

    /// Takes back `len` units at `address`.
    pub fn give(&mut self, address: usize, len: UnitCount, left: Left) {
        let clean = left == Left::Nothing;
        for (bank, first, len) in pieces(self.unit(address), len) {
            self.change(bank, |state| {
                state.give(first, len, clean);
                if let Left::Since(tick) = left {
                    state.freed_at = tick;
                }
            });
            self.used -= len;
            if !clean {
                self.dirty += len;
            }
        }
    }

    /// Hands out dirty units of bank `at` so that nobody takes them while they are purged.
    pub fn hide(&mut self, at: usize, first: usize, len: UnitCount) {
        self.take_units(at, first, len);
    }

    /// Lengthens the run at `address` from `len` to `longer` units where it lies. Says whether the
    /// new units read as zero; `None` when some of them are in use or not committed.
    pub fn extend(
        &mut self,
        machine: &impl Machine,
        supply: &mut Supply,
        address: usize,
        len: UnitCount,
        longer: UnitCount,
    ) -> Option<bool> {
        let (unit, more) = (self.unit(address) + len.0, longer - len);
        let end = (unit + more.0).div_ceil(BANK_UNITS);
        if end > self.committed {
            return None;
        }
        let view = self.view();
        let free = |(bank, first, len)| {
            let bank: &Bank = view.banks.at(bank);
            bank.used & super::bank::mask(first, len) == 0
        };
        if !pieces(unit, more).all(free) {
            return None;
        }
        if self.home != Home::ANYWHERE {
            // Banks that the run has a part of already stay where they are.
            let first = unit.div_ceil(BANK_UNITS);
            if first < end {
                self.place(machine, supply, first, end - first)?;
            }
        }
        let first = unit / BANK_UNITS;
        self.dump(machine, first, end - first);
        let mut zero = true;
        for (bank, first, len) in pieces(unit, more) {
            zero &= self.take_units(bank, first, len);
        }
        Some(zero)
    }

    /// Whether the run at `address` had better move than become longer where it lies: what it would get there is free and clean, and
    /// where it would come to lie is memory that may be resident. To move pages takes less time than to touch a quarter as many for
    /// the first time. Only runs longer than a bank, where there is one memory: of others nothing is known.
    pub fn is_better_moved(&mut self, address: usize, len: UnitCount, longer: UnitCount) -> bool {
        let (unit, more) = (self.unit(address) + len.0, longer - len);
        let (committed, need) = (self.committed, longer.banks());
        let is_within = (unit + more.0).div_ceil(BANK_UNITS) <= committed;
        if !is_within || need < 2 || more.0 < len.0 / 4 || self.home != Home::ANYWHERE {
            return false;
        }
        let view = self.view();
        let is_fresh = |(bank, first, len)| {
            let bank: &Bank = view.banks.at(bank);
            (bank.used | bank.dirty) & super::bank::mask(first, len) == 0
        };
        let is_resident = |at| view.banks.iter().skip(at).take(need).all(|bank| bank.dirty != 0);
        pieces(unit, more).all(is_fresh)
            && view.free.find(need, 1, 0, committed).is_some_and(is_resident)
    }

    /// Whether the reservation has uncommitted banks enough for such a run.
    pub fn has_room(&self, UnitLayout { len, align }: UnitLayout) -> bool {
        self.banks - self.committed >= len.banks() + (align.0 / BANK_UNITS).max(1) - 1
    }

    /// The bank that `address` lies in.
    pub fn bank_of(&self, address: usize) -> usize {
        self.unit(address) / BANK_UNITS
    }

    /// The unit at `address`, counted from the first bank.
    #[inline]
    fn unit(&self, address: usize) -> usize {
        (address - self.start) >> UNIT_SHIFT
    }

    /// Commits more banks, so that `need` neighbours aligned to `align` banks can be found.
    fn grow(&mut self, machine: &impl Machine, need: usize, align: usize) -> bool {
        let room = self.banks - self.committed;
        let need = need + align - 1;
        let ahead = self.committed.clamp(FIRST_STEP, LARGEST_STEP);
        (room >= ahead && ahead > need && self.commit(machine, ahead))
            || (room >= need && self.commit(machine, need))
            || (align == 1 && room >= 1 && need > 1 && self.commit_missing(machine, need))
    }

    /// Commits only what the free banks at the end lack of `need`.
    fn commit_missing(&mut self, machine: &impl Machine, need: usize) -> bool {
        let committed = self.committed;
        let free = &self.view().free;
        let tail = (0..committed).rev().take_while(|&at| free.has(at)).count();
        let missing = need.saturating_sub(tail);
        missing > 0 && missing <= self.banks - committed && self.commit(machine, missing)
    }

    fn commit(&mut self, machine: &impl Machine, more: usize) -> bool {
        let committed = self.committed + more;
        let states = self.states + committed * size_of::<Bank>() - self.front.start;
        let at = self.address(self.committed, 0) as *mut u8;
        let ready = self.records.extend_down(machine, committed * RECORD)
            && self.tags.extend(machine, self.tags_for(committed))
            && self.front.extend(machine, states)
            // SAFETY: these banks lie within the reservation and were never handed out.
            && unsafe { machine.commit_ahead(at, more * BANK) };
        if !ready {
            return false;
        }
        let old = core::mem::replace(&mut self.committed, committed);
        touch(self.states + old * size_of::<Bank>(), more * size_of::<Bank>());
        let home = self.home;
        let mut view = self.view();
        for bank in old..committed {
            view.free.set(bank, true);
        }
        if home != Home::ANYWHERE {
            view.banks.iter_mut().skip(old).for_each(|bank| bank.node = home);
        }
        // Release pairs with the Acquire in `reach()`: who sees the reach may read the tags.
        self.span.store(committed * BANK, Ordering::Release);
        true
    }

    fn view(&mut self) -> View<'_> {
        // SAFETY: the parts are committed (indexes and free banks at opening, states with the
        // banks), disjoint, zero at first, which is valid for all of them, and reached only through
        // `&mut self`, whose lifetime the view takes.
        unsafe {
            let states = self.states as *mut Bank;
            let index = states.cast::<Index>().sub(1);
            let words = self.banks.div_ceil(64);
            View {
                index: &mut *index,
                away: &mut *(self.away as *mut Index),
                free: FreeBanks {
                    words: slice::from_raw_parts_mut(index.cast::<u64>().sub(words), words),
                },
                banks: slice::from_raw_parts_mut(states, self.committed),
            }
        }
    }

    /// Walks every bank; the first broken invariant is the error.
    pub fn check(&mut self) -> Result<(), &'static str> {
        let (mut used, mut dirty) = (UnitCount(0), UnitCount(0));
        let committed = self.committed;
        let view = self.view();
        for (at, bank) in view.banks.iter().enumerate().take(committed) {
            used += bank.used_units();
            if bank.used.count_ones() as usize != bank.used_units().0 {
                return Err("a bank's count of used units disagrees with its bits");
            }
            dirty += bank.dirty_units();
            if bank.used & bank.dirty != 0 {
                return Err("a unit is both used and dirty");
            }
            if view.free.has(at) != (bank.used == 0) {
                return Err("the bitmap of free banks disagrees with a bank");
            }
        }
        if (used, dirty) != (self.used, self.dirty) {
            return Err("the region's counts disagree with its banks");
        }
        self.check_dumped()
    }
}

/// The metadata of the banks. `index` lists those at home, `away` the others.
struct View<'a> {
    index: &'a mut Index,
    away: &'a mut Index,
    free: FreeBanks<'a>,
    banks: &'a mut [Bank],
}

const _: () = assert!(size_of::<Index>().is_multiple_of(8));

/// A run of units handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where it starts.
    pub address: usize,
    /// Whether all of it reads as zero.
    pub zero: bool,
    /// Whether its first bank was wholly free and untouched, and nothing was advised: worth [`Region::make_huge`] if it
    /// will be used densely.
    pub fresh: bool,
    /// How many units of its region are in use, these included.
    pub used: UnitCount,
}

/// Bytes of one bit a bank, for so many of them.
const fn bytes_for(banks: usize) -> usize {
    banks.div_ceil(64) * 8
}

/// What may be left in the pages of units that are given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// They read as zero.
    Nothing,
    /// They may be resident; they were in use until this tick of the purger's.
    Since(u32),
    /// They may be resident, but nobody has used them for a while: they need not wait to be purged.
    Rested,
}

/// Cuts `len` units from `unit` (counted from the first bank) into (bank, first, len).
fn pieces(unit: usize, len: UnitCount) -> impl Iterator<Item = (usize, usize, UnitCount)> {
    let end = unit + len.0;
    let mut at = unit;
    core::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let (bank, first) = (at / BANK_UNITS, at % BANK_UNITS);
        let len = (BANK_UNITS - first).min(end - at);
        at += len;
        Some((bank, first, UnitCount(len)))
    })
}
