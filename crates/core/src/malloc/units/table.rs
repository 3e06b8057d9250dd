//! [`Units`]: a table of regions under one lock.
//!
//! One region is enough wherever address space is plentiful; where it is not (`RLIMIT_AS`, strict
//! overcommit), smaller ones follow. The free path knows only the first; a colder path finds the others
//! by a linear search.
//!
//! Invariant: regions are only added, never moved or removed, and each is published (its base
//! becomes non-zero) only when it is whole.

use super::region::{Left, RECORD, Region, Run, Stretch};
use super::supply::{Answer, Question, Supply};
use super::{BANK, UNIT, UnitCount, UnitLayout};
use crate::machine::Machine;
use crate::place::{Home, NodeSet};
use crate::row::Row;
use crate::sync::Lock;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// What lies apart from its neighbours, which others read: processors fetch lines of 64 bytes in pairs.
#[repr(align(128))]
struct Apart<T>(T);

/// Most regions there can be.
pub const MAX_REGIONS: usize = 64;

/// What is reserved, largest first, until the machine agrees, in bytes.
const LADDER: [usize; 9] =
    [1 << 40, 1 << 37, 1 << 34, 1 << 32, 1 << 29, 1 << 26, 1 << 24, 1 << 23, 1 << 22];

/// How often something is asked without the lock for one run, before it is asked at once: a room and a survey are enough
/// but where several homes are short of memory.
const QUESTIONS: usize = 4;

/// The units of a heap. Each region belongs to a home; where there is one memory, to [`Home::ANYWHERE`]. In this
/// order: most of the table stays untouched.
#[repr(C)]
pub struct Units {
    lock: Apart<Lock>,
    /// The purger's tick, by which banks are dated.
    tick: AtomicU32,
    /// Units that may be free and resident; 0: any number.
    kept: AtomicUsize,
    /// The most that is reserved at a time, in bytes; 0: what the machine has.
    largest: AtomicUsize,
    regions: UnsafeCell<[Region; MAX_REGIONS]>,
    /// Under the lock, as the regions.
    supply: UnsafeCell<Supply>,
}

// SAFETY: mutable access to regions happens under `lock` only; shared access reads atomics and
// fields that are constant once a region's base is non-zero.
unsafe impl Sync for Units {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl Send for Units {}

/// Dirty free units that nobody else sees while they are being purged.
#[derive(Clone, Copy, Debug)]
pub struct Dirty {
    region: usize,
    /// Where they start.
    pub address: usize,
    /// How many.
    pub len: UnitCount,
}

/// How far [`Units::next_stretch`] has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    region: usize,
    piece: usize,
}

/// Units handed out, and free units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Handed out.
    pub used: UnitCount,
    /// Free, possibly resident.
    pub dirty: UnitCount,
    /// Committed, in all.
    pub committed: UnitCount,
}

impl Default for Units {
    fn default() -> Units {
        Units::new()
    }
}

impl Units {
    /// No regions yet; all-zero.
    pub const fn new() -> Units {
        Units {
            lock: Apart(Lock::new()),
            tick: AtomicU32::new(0),
            kept: AtomicUsize::new(0),
            largest: AtomicUsize::new(0),
            regions: UnsafeCell::new([const { Region::none() }; MAX_REGIONS]),
            supply: UnsafeCell::new(Supply::new()),
        }
    }

    /// Reserves at most `bytes` of address space at a time, a power of two from 4 MiB.
    pub fn reserve_at_most(&self, bytes: usize) {
        self.largest.store(bytes, Ordering::Relaxed);
    }

    /// Gives all address space back.
    ///
    /// # Safety
    /// Nobody uses the units, or a block in them, from now on.
    pub unsafe fn release(&self, machine: &impl Machine) {
        self.with(machine, |regions| {
            for region in regions.iter_mut().take_while(|region| region.base() != 0) {
                // SAFETY: the caller's.
                unsafe { region.release(machine) };
            }
        });
    }

    /// Gives back what is reserved and not used ([`Region::shrink`]), unless half of [`MAX_REGIONS`] are there: more will follow.
    #[cold]
    pub fn shrink(&self, machine: &impl Machine) {
        self.with(machine, |regions| {
            if regions.at(MAX_REGIONS / 2).base() == 0 {
                let opened = regions.iter_mut().take_while(|region| region.base() != 0);
                opened.for_each(|region| region.shrink(machine));
            }
        });
    }

    /// The lock, for a forked child.
    pub fn lock(&self) -> &Lock {
        &self.lock.0
    }

    /// In a forked child: if a thread that did not come along was changing the regions, they are made whole from the used
    /// bits of their banks; whether that was so. (A run that was being taken or given may be in nobody's hands.)
    #[cold]
    pub fn after_fork(&self, machine: &impl Machine) -> bool {
        let torn = self.lock().disown(machine);
        if torn {
            self.with_supply(machine, |regions, supply| {
                supply.forget();
                regions
                    .iter_mut()
                    .take_while(|r| r.base() != 0)
                    .for_each(|region| region.mend(machine));
            });
        }
        torn
    }

    /// The region whose committed part holds `address`, if it is one of ours.
    #[inline]
    pub fn region_of(&self, address: usize) -> Option<&Region> {
        self.regions().iter().take_while(|r| r.base() != 0).find(|r| r.contains(address))
    }

    /// The address of the table of [`MAX_REGIONS`] regions, for a reader from outside.
    pub fn table(&self) -> usize {
        self.regions.get().addr()
    }

    /// The region that the free path of a home's threads knows; some other while the home has none.
    #[inline]
    pub fn primary(&self, home: Home) -> &Region {
        let [first, others @ ..] = self.regions();
        if first.home() == home {
            return first;
        }
        let mut opened = others.iter().take_while(|region| region.base() != 0);
        opened.find(|region| region.home() == home).unwrap_or(first)
    }

    #[inline]
    fn regions(&self) -> &[Region; MAX_REGIONS] {
        // SAFETY: through a shared reference only atomics and constants of published regions are
        // read (see `Region`), which writers under the lock change atomically or not at all.
        unsafe { &*self.regions.get() }
    }

    /// Runs `work` on the regions under the lock.
    fn with<R>(
        &self,
        machine: &impl Machine,
        work: impl FnOnce(&mut [Region; MAX_REGIONS]) -> R,
    ) -> R {
        // SAFETY: the lock makes this the only mutable access.
        self.lock().with(machine, || work(unsafe { &mut *self.regions.get() }))
    }

    /// A run for a thread of `home`.
    /// `None` when memory or address space is exhausted.
    pub fn take(
        &self,
        machine: &impl Machine,
        home: Home,
        layout: UnitLayout,
    ) -> Option<(&Region, Run)> {
        let largest = self.largest.load(Ordering::Relaxed);
        let wanted = Wanted { home, layout, largest };
        let found = self.with(machine, |regions| {
            let [first, ..] = regions;
            let usual = first.base() != 0 && first.home() == home;
            let run = if usual { first.take_partly_used(layout) } else { None };
            match (run, machine.nodes()) {
                (Some(run), _) => Some((0, run)),
                (None, None) => {
                    // SAFETY: the lock makes this the only access to the supply.
                    let supply = unsafe { &mut *self.supply.get() };
                    take_slow(machine, regions, supply, wanted)
                }
                (None, Some(_)) => None,
            }
        });
        let found = match (found, machine.nodes()) {
            (None, Some(_)) => {
                self.asking(machine, |regions, supply| take_slow(machine, regions, supply, wanted))
            }
            _ => found,
        };
        let (number, run) = found?;
        Some((self.regions().at(number), run))
    }

    /// Free units beyond those that may be kept.
    #[inline]
    pub fn surplus(&self, machine: &impl Machine) -> UnitCount {
        match self.kept.load(Ordering::Relaxed) {
            0 => UnitCount(0),
            kept => self.usage(machine).dirty.beyond(UnitCount(kept)),
        }
    }

    /// From now on at most so many units, one at least, shall be free and resident.
    pub fn keep_at_most(&self, units: UnitCount) {
        self.kept.store(units.0.max(1), Ordering::Relaxed);
    }

    /// How many bytes may be free and resident.
    #[inline]
    pub fn kept_at_most(&self) -> usize {
        match self.kept.load(Ordering::Relaxed) {
            0 => usize::MAX,
            units => units.saturating_mul(UNIT),
        }
    }

    /// Runs `work` under the lock. While it leaves a question: asks that without the lock, and runs `work` again.
    #[cold]
    fn asking<R>(
        &self,
        machine: &impl Machine,
        mut work: impl FnMut(&mut [Region; MAX_REGIONS], &mut Supply) -> Option<R>,
    ) -> Option<R> {
        let (mut answer, mut asked) = (Answer::None, 0);
        loop {
            let (result, question) = self.with_supply(machine, |regions, supply| {
                supply.start(core::mem::take(&mut answer), asked == QUESTIONS);
                let result = work(regions, supply);
                (result, supply.question())
            });
            match machine.nodes() {
                Some(nodes) if question != Question::None && asked < QUESTIONS => {
                    (answer, asked) = (question.ask(nodes), asked + 1);
                }
                _ => return result,
            }
        }
    }

    /// Runs `work` on the regions and what the nodes supply, under the lock.
    fn with_supply<R>(
        &self,
        machine: &impl Machine,
        work: impl FnOnce(&mut [Region; MAX_REGIONS], &mut Supply) -> R,
    ) -> R {
        // SAFETY: the lock makes this the only access to the supply.
        self.with(machine, |regions| work(regions, unsafe { &mut *self.supply.get() }))
    }

    /// From now on no bank comes from the nodes of `closed`, and from all others again; see [`Supply::close`].
    #[cold]
    pub fn close(&self, machine: &impl Machine, closed: NodeSet, strict: bool) {
        self.with_supply(machine, |_, supply| supply.close(closed, strict));
        for number in 0..MAX_REGIONS {
            self.asking(machine, |regions, supply| {
                let region = regions.get(number).filter(|region| region.base() != 0)?;
                let from = source(machine, supply, region.home())?;
                region.prefer_for_metadata(machine, from);
                Some(())
            });
        }
    }

    /// The nodes that are closed.
    pub fn closed(&self, machine: &impl Machine) -> NodeSet {
        self.with_supply(machine, |_, supply| supply.closed())
    }

    /// The next stretch of memory that may lie on closed nodes, and which these are; `None` when all were seen.
    #[cold]
    pub fn next_stretch(
        &self,
        machine: &impl Machine,
        cursor: &mut Cursor,
    ) -> Option<(Stretch, NodeSet)> {
        self.asking(machine, |regions, supply| {
            while let Some(region) = regions.get_mut(cursor.region).filter(|r| r.base() != 0) {
                while let Some(stretch) = region.stretch(machine, supply, cursor.piece) {
                    if supply.has_question() {
                        return None;
                    }
                    cursor.piece += 1;
                    if stretch.len != 0 {
                        return Some((stretch, supply.closed()));
                    }
                }
                *cursor = Cursor { region: cursor.region + 1, piece: 0 };
            }
            None
        })
    }

    /// Takes a run back, or a part of one; its pages may be resident.
    pub fn give(&self, machine: &impl Machine, address: usize, len: UnitCount) {
        let left = Left::Since(self.tick.load(Ordering::Relaxed));
        self.give_as(machine, address, len, left);
    }

    /// The same where it is known what is left in the pages.
    pub fn give_as(&self, machine: &impl Machine, address: usize, len: UnitCount, left: Left) {
        self.with_region(machine, address, |region| region.give(address, len, left));
    }

    /// Lengthens a run where it lies; see [`Region::extend`].
    pub fn extend(
        &self,
        machine: &impl Machine,
        address: usize,
        len: UnitCount,
        longer: UnitCount,
    ) -> Option<bool> {
        self.asking(machine, |regions, supply| {
            let region = regions.iter_mut().find(|r| r.contains(address))?;
            region.extend(machine, supply, address, len, longer)
        })
    }

    /// See [`Region::is_better_moved`].
    pub fn is_better_moved(
        &self,
        machine: &impl Machine,
        address: usize,
        len: UnitCount,
        longer: UnitCount,
    ) -> bool {
        let mut better = false;
        self.with_region(machine, address, |region| {
            better = region.is_better_moved(address, len, longer);
        });
        better
    }

    /// Advises a huge page for the bank that a [`Run::fresh`] run has opened, and that will be used densely.
    pub fn make_huge(&self, machine: &impl Machine, address: usize) {
        self.with_region(machine, address, |region| {
            region.make_huge(machine, region.bank_of(address));
        });
    }

    /// Parts of the bank of `address` are going to be purged: no huge page there any more.
    pub fn make_small(&self, machine: &impl Machine, address: usize) {
        self.with_region(machine, address, |region| {
            region.make_small(machine, region.bank_of(address));
        });
    }

    /// See [`Region::inherit`].
    pub fn inherit(&self, machine: &impl Machine, from: usize, to: usize, len: usize) {
        self.with_region(machine, from, |region| {
            if region.contains(to) {
                region.inherit(from, to, len);
            }
        });
    }

    fn with_region(&self, machine: &impl Machine, address: usize, work: impl FnOnce(&mut Region)) {
        self.with(machine, |regions| {
            regions.iter_mut().find(|r| r.contains(address)).map(work);
        });
    }

    /// Runs `work` while no run can be taken or given: what it sees used stays used.
    pub fn frozen<R>(&self, machine: &impl Machine, work: impl FnOnce() -> R) -> R {
        self.lock().with(machine, work)
    }

    /// Starts the purger's next tick.
    pub fn next_tick(&self) -> u32 {
        self.tick.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Hides one run of dirty units of a bank at or after `from` in which nothing was freed for
    /// `age` ticks; says where to go on. Its caller purges it and calls [`Units::purged`].
    pub fn hide_dirty(
        &self,
        machine: &impl Machine,
        from: (usize, usize),
        age: u32,
    ) -> Option<(Dirty, (usize, usize))> {
        let tick = self.tick.load(Ordering::Relaxed);
        self.with(machine, |regions| {
            let (mut region, mut bank) = from;
            while let Some(here) = regions.get_mut(region).filter(|r| r.base() != 0) {
                let none = here.dirty_units().0 == 0;
                let dirty = if none { bank..bank } else { bank..here.committed_banks() };
                for at in dirty {
                    let state = *here.bank(at);
                    if tick.wrapping_sub(state.freed_at) < age || state.first_dirty().is_none() {
                        continue;
                    }
                    here.count_resident(at);
                    let state = *here.bank(at);
                    if let Some((first, len)) = state.first_dirty() {
                        let address = here.address(at, first);
                        here.hide(at, first, len);
                        if len != UnitCount::BANK {
                            here.make_small(machine, at);
                        }
                        return Some((Dirty { region, address, len }, (region, at)));
                    }
                }
                (region, bank) = (region + 1, 0);
            }
            None
        })
    }

    /// Puts hidden units back, clean if the machine took their pages.
    pub fn purged(&self, machine: &impl Machine, dirty: Dirty, clean: bool) {
        let since = Left::Since(self.tick.load(Ordering::Relaxed));
        self.with(machine, |regions| {
            let region = regions.at_mut(dirty.region);
            region.give(dirty.address, dirty.len, if clean { Left::Nothing } else { since });
            region.purge_record(machine, region.bank_of(dirty.address));
        });
    }

    /// Calls `visit` with the address of every used unit, bank by bank; the lock is held for one
    /// bank at a time, so what is visited may be gone a moment later.
    pub fn each_used(&self, machine: &impl Machine, mut visit: impl FnMut(&Region, usize)) {
        for (number, region) in self.regions().iter().enumerate() {
            if region.base() == 0 {
                return;
            }
            let mut at = 0;
            loop {
                let used = self.with(machine, |regions| {
                    let region = regions.at_mut(number);
                    (at < region.committed_banks()).then(|| region.bank(at).used)
                });
                let Some(mut used) = used else { break };
                while used != 0 {
                    visit(region, region.address(at, used.trailing_zeros() as usize));
                    used &= used - 1;
                }
                at += 1;
            }
        }
    }

    /// What is used, dirty and committed.
    #[cold]
    pub fn usage(&self, machine: &impl Machine) -> Usage {
        self.with(machine, |regions| {
            let opened = regions.iter().take_while(|region| region.base() != 0);
            opened.fold(Usage::default(), |sum, region| Usage {
                used: sum.used + region.used_units(),
                dirty: sum.dirty + region.dirty_units(),
                committed: sum.committed + UnitCount::whole_in(region.committed_banks() * BANK),
            })
        })
    }

    /// Walks every region; the first broken invariant is the error.
    pub fn check(&self, machine: &impl Machine) -> Result<(), &'static str> {
        self.with(machine, |regions| {
            regions.iter_mut().filter(|r| r.base() != 0).try_for_each(Region::check)
        })
    }
}

/// A run that is asked for, whose; and the most that may be reserved for it.
#[derive(Clone, Copy)]
struct Wanted {
    home: Home,
    layout: UnitLayout,
    largest: usize,
}

/// A run from the first of the home's regions that has it, another region, or another home.
#[cold]
#[inline(never)]
fn take_slow(
    machine: &impl Machine,
    regions: &mut [Region; MAX_REGIONS],
    supply: &mut Supply,
    wanted: Wanted,
) -> Option<(usize, Run)> {
    let Wanted { home, layout, .. } = wanted;
    for (number, region) in regions.iter_mut().enumerate() {
        if region.base() == 0 && !open(machine, region, supply, wanted) {
            break;
        }
        if region.home() != home {
            continue;
        }
        if let Some(run) = region.take(machine, supply, layout) {
            return Some((number, run));
        }
        if supply.has_question() || region.has_room(layout) {
            // Memory is short, not address space: another region would not help.
            return None;
        }
    }
    // Address space is short: better another home's than none.
    let opened = regions.iter_mut().enumerate().take_while(|(_, region)| region.base() != 0);
    let mut others = opened.filter(|(_, region)| region.home() != home);
    others.find_map(|(number, region)| {
        let known = !supply.has_question();
        let run = if known { region.take(machine, supply, layout) } else { None };
        Some((number, run?))
    })
}

/// Opens a region that can hold a run.
fn open(
    machine: &impl Machine,
    region: &mut Region,
    supply: &mut Supply,
    Wanted { home, layout, largest }: Wanted,
) -> bool {
    let units = layout.len.0.checked_add(layout.align.0);
    let bytes = units.and_then(|units| units.checked_mul(UNIT));
    let need = bytes.and_then(|bytes| bytes.checked_next_multiple_of(BANK));
    let Some(need) = need else { return false };
    let Some(from) = source(machine, supply, home) else { return false };
    let most = if largest == 0 { usize::MAX } else { largest };
    let mut fitting = LADDER.iter().filter(|&&len| len <= most && len - no_bank(len) >= need);
    fitting.any(|&len| region.open(machine, home, from, len))
}

/// How much of a reservation may be no bank: a bank where the metadata of all fits into half of one, else less than one
/// fiftieth and two ends.
const fn no_bank(len: usize) -> usize {
    if len / BANK * RECORD <= BANK / 2 { BANK } else { len / 50 + 2 * BANK }
}

/// Where pages of a home come from that belong to no bank: from there, or, while it is closed, where banks come from.
/// `None`: something must be asked first.
#[inline]
fn source(machine: &impl Machine, supply: &mut Supply, home: Home) -> Option<Home> {
    match (home.node(), machine.nodes()) {
        (Some(node), Some(nodes)) if supply.closed().contains(node) => {
            let found = supply.find(nodes, node, 1);
            if supply.has_question() {
                None
            } else {
                Some(found.map_or(home, |(node, _)| Home::of(node)))
            }
        }
        _ => Some(home),
    }
}
