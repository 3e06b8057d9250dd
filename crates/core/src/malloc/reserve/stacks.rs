//! [`Reserve`]: the depots, spare stacks and parcels of one thread, and which blocks go back when memory grows.

use super::arrivals::Arrivals;
use super::depot::{Depot, Magazine};
use super::parcels::Parcels;
use super::runs::Runs;
use crate::machine::Machine;
use crate::malloc::block::{Block, List};
use crate::malloc::decisions::Decisions;
use crate::malloc::shared::Shared;
use crate::malloc::slabs::{Slabs, give_list};
use crate::malloc::units::UNIT;
use crate::row::Row;
use crate::size_class::{CLASSES, SizeClass};
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicU16, Ordering};

/// Stacks of a class that go back in turn: the links of the others come from memory meanwhile.
pub const ABREAST: usize = 3;

/// See the module. All-zero is empty.
#[repr(C)]
pub struct Reserve {
    /// The stack of a metered cache to which frees go, and its length.
    spare: [Cell<*mut Block>; CLASSES],
    /// Between what other threads leave alone and what most caches do not have: others write here.
    pub arrivals: Arrivals,
    pub spare_len: [Cell<u16>; CLASSES],
    /// Stacks set aside, how many blocks they have (of which more than a u16 says are that), and
    /// how few they had since the purger looked last.
    depots: [Depot; CLASSES],
    pub held: [AtomicU16; CLASSES],
    low: [AtomicU16; CLASSES],
    /// A set of classes: stacks of them were set aside that go back when memory grows.
    stocked: Cell<u64>,
    pub runs: Runs,
    /// Bytes in the depots, at most, a block as 64 or more; see `is_full`.
    stock: Cell<usize>,
    /// Bytes that shall go back for slabs that were cut.
    debt: Cell<usize>,
    /// The class whose turn it is to go back.
    turn: Cell<u8>,
    /// How often the depots held too much.
    recount: Cell<u8>,
    pub parcels: Parcels,
}

impl Reserve {
    /// Whether it holds no other thread's block, and no run.
    pub fn is_empty(&self) -> bool {
        self.parcels.is_empty() && self.runs.is_empty()
    }

    /// Sets a stack aside, in the depot. Its first block has room for a magazine's header.
    pub fn put(&self, class: SizeClass, stack: List, key: usize) {
        let at = class.index();
        // SAFETY: the reserve is its thread's, and so are the stack's blocks, which are large enough.
        let total = unsafe { self.depots.at(at).put(stack.first.cast(), stack.len as u32, key) };
        self.held.at(at).store(short(total), Ordering::Relaxed);
        if total as usize != stack.len {
            self.stock_up(at);
        }
        self.stock.set(self.stock.get() + stack.len * weight(class));
    }

    /// Whether it holds blocks of a class of its owner's slabs.
    pub fn has_any(&self, class: SizeClass) -> bool {
        let depot = self.depots.at(class.index());
        !depot.is_empty() || self.arrivals.holds(class) || self.has_spare(class)
    }

    /// The stack of a class that was set aside last, else what others freed.
    #[inline(never)]
    pub fn take(&self, class: SizeClass, key: usize) -> Option<List> {
        let at = class.index();
        let depot = self.depots.at(at);
        let empty = (ptr::null_mut(), 0);
        // SAFETY: the reserve is its thread's.
        let (magazine, left) = if depot.is_empty() { empty } else { unsafe { depot.pop(key) } };
        if magazine.is_null() {
            return Some(self.arrivals.take(class)).filter(|arrived| !arrived.is_empty());
        }
        let left = short(left);
        self.held.at(at).store(left, Ordering::Relaxed);
        if left < self.low.at(at).load(Ordering::Relaxed) {
            self.low.at(at).store(left, Ordering::Relaxed);
        }
        // SAFETY: `pop` made the magazine ours.
        let len = unsafe { (*magazine).len } as usize;
        self.stock.set(self.stock.get().saturating_sub(len * weight(class)));
        Some(List { first: magazine.cast(), len })
    }

    /// Takes everything from a depot, by any thread; its owner counts anew what it sets aside from now on.
    pub fn take_depot(&self, class: SizeClass) -> *mut Magazine {
        // Before the exchange, which orders the two for the owner.
        self.held.at(class.index()).store(0, Ordering::Relaxed);
        self.low.at(class.index()).store(0, Ordering::Relaxed);
        self.depots.at(class.index()).take()
    }

    /// Turns a depot, and what others freed, into bits. Any thread; `by` has the slabs of the calling one, if it has any.
    #[inline(never)]
    pub fn empty<M: Machine>(&self, shared: &Shared<M>, by: Option<&Slabs>, class: SizeClass) {
        give_list(shared, by, self.arrivals.take(class), usize::MAX);
        let mut magazine = self.take_depot(class);
        while !magazine.is_null() {
            // SAFETY: `take` made all magazines ours; each is read before its blocks are given.
            let (next, len) =
                unsafe { (Magazine::take_next(magazine, shared.key()), (*magazine).len as usize) };
            give_list(shared, by, List { first: magazine.cast(), len }, usize::MAX);
            magazine = next;
        }
    }

    /// For the purger: whether more than half of a depot was not asked for since the last visit; and its bytes, if it is to
    /// stay.
    pub fn rests(&self, class: SizeClass) -> Result<(), usize> {
        let held = self.held.at(class.index()).load(Ordering::Relaxed);
        if held == 0 {
            // What the owner did not fetch may go at once.
            return if self.arrivals.holds(class) { Ok(()) } else { Err(0) };
        }
        let low = self.low.at(class.index()).swap(held, Ordering::Relaxed);
        let idle = low == u16::MAX || (low != 0 && low as usize * 2 >= held as usize);
        if idle { Ok(()) } else { Err(held as usize * class.size()) }
    }

    /// Whether any block of a class is in its depot, as far as is counted, or was freed by others.
    pub fn holds(&self, class: SizeClass) -> bool {
        self.held.at(class.index()).load(Ordering::Relaxed) != 0 || self.arrivals.holds(class)
    }

    /// The spare stack of a class, which is none afterwards.
    pub fn take_spare(&self, class: SizeClass) -> List {
        self.swap_spare(class, List::EMPTY)
    }

    /// Makes a stack the spare one; the one before.
    pub fn swap_spare(&self, class: SizeClass, stack: List) -> List {
        let first = self.spare.at(class.index()).replace(stack.first);
        let len = self.spare_len.at(class.index()).replace(stack.len as u16);
        List { first, len: len as usize }
    }

    /// Puts one free block onto the spare stack; how many it has then.
    #[inline(always)]
    pub fn push_spare(&self, class: SizeClass, block: *mut Block, key: usize) -> usize {
        let at = class.index();
        // SAFETY: classes are below CLASSES, the length of both.
        let (spare, len) =
            unsafe { (self.spare.get_unchecked(at), self.spare_len.get_unchecked(at)) };
        // SAFETY: the block is free, and the caller's.
        unsafe { Block::link(block, spare.get(), key) };
        spare.set(block);
        len.set(len.get() + 1);
        len.get() as usize
    }

    /// Whether there is a spare stack of a class.
    pub fn has_spare(&self, class: SizeClass) -> bool {
        !self.spare.at(class.index()).get().is_null()
    }

    /// Whether the depots hold `most` bytes, as much as they may. The purger may have taken what is still counted here, so
    /// now and then it is counted anew.
    pub fn is_full(&self, most: usize) -> bool {
        if self.stock.get() < most {
            return false;
        }
        let turn = self.recount.get().wrapping_add(1);
        self.recount.set(turn);
        if turn.is_multiple_of(16) {
            let bytes = |(class, held): (SizeClass, &AtomicU16)| {
                held.load(Ordering::Relaxed) as usize * weight(class)
            };
            self.stock.set(SizeClass::all().zip(&self.held).map(bytes).sum());
        }
        self.stock.get() >= most
    }

    /// Whether the depots hold `bytes`, as far as is counted.
    pub fn holds_at_least(&self, bytes: usize) -> bool {
        self.stock.get() >= bytes
    }

    /// A slab of `class` was cut: as many bytes of other classes shall go back, of what is set aside, or else of stacks at rest.
    /// The next class in turn that has but one stack set aside has to part with that, too.
    pub fn owe(&self, class: SizeClass, decisions: &Decisions) {
        let from = (self.turn.get() as usize).min(CLASSES);
        let others = (from..CLASSES).chain(0..from).filter(|other| *other != class.index());
        if let Some(other) = { others }.find(|&other| !self.depots.at(other).is_empty()) {
            self.stock_up(other);
        }
        self.debt.set((self.debt.get() + UNIT).min(decisions.reserve_debt));
    }

    /// Whether anything is owed.
    #[inline]
    pub fn owes(&self) -> bool {
        self.debt.get() != 0
    }

    /// The next of `classes` in turn, other than `class`, whose stack, if that keeps slabs at all, `rests`; the class keeps its turn.
    /// `None`: it does not, and so much is let off as is owed for a slab.
    pub fn next_resting(
        &self,
        class: SizeClass,
        classes: u64,
        rests: impl Fn(SizeClass) -> Option<bool>,
    ) -> Option<SizeClass> {
        let mut others = classes & !(1 << class.index());
        while let Some(other) = self.in_turn(others) {
            let Some(rests) = rests(other) else {
                others &= !(1 << other.index());
                continue;
            };
            self.turn.set((other.index() + usize::from(!rests)) as u8);
            if rests {
                return Some(other);
            }
            break;
        }
        self.debt.set(self.debt.get().saturating_sub(UNIT));
        None
    }

    /// Takes stacks of a class whose turn it is to go back, the last `kept` blocks only alone. All empty: the purger has them.
    pub fn take_owed(&self, class: SizeClass, kept: usize, key: usize) -> [List; ABREAST] {
        let held = || self.held.at(class.index()).load(Ordering::Relaxed) as usize;
        let mut stacks = [List::EMPTY; ABREAST];
        for (before, stack) in stacks.iter_mut().enumerate() {
            if before == 0 || held() > kept {
                *stack = self.take(class, key).unwrap_or(List::EMPTY);
            }
        }
        if stacks.iter().all(|stack| stack.is_empty()) {
            self.unstock(class);
        }
        stacks
    }

    /// `given` blocks of a class went back; `kept` blocks that are still set aside, at most, stay for their class until
    /// another cut.
    pub fn repaid(&self, class: SizeClass, given: usize, kept: usize) {
        if self.held.at(class.index()).load(Ordering::Relaxed) as usize <= kept {
            self.unstock(class);
        }
        self.debt.set(self.debt.get().saturating_sub(given * class.size()));
    }

    /// In a forked child: its blocks were put elsewhere.
    pub fn forget(&self) {
        self.stock.set(0);
        self.debt.set(0);
        self.stocked.set(0);
    }

    /// The next class in turn, other than `class`, of which stacks were set aside that go back when memory grows.
    pub fn next_stocked(&self, class: SizeClass) -> Option<SizeClass> {
        let other = self.in_turn(self.stocked.get() & !(1 << class.index()))?;
        self.turn.set((other.index() + 1) as u8);
        Some(other)
    }

    /// The lowest of `classes` from the turn on, else the lowest.
    fn in_turn(&self, classes: u64) -> Option<SizeClass> {
        let later = classes & (u64::MAX << (self.turn.get() % 64));
        let found = if later != 0 { later } else { classes };
        SizeClass::new(found.trailing_zeros() as usize)
    }

    /// What a class has set aside shall go back when memory grows.
    fn stock_up(&self, class: usize) {
        self.stocked.set(self.stocked.get() | 1 << class);
    }

    fn unstock(&self, class: SizeClass) {
        self.stocked.set(self.stocked.get() & !(1 << class.index()));
    }
}

/// What a block counts as in the stock: many small ones keep many slabs, and go back a word of bits at a time.
fn weight(class: SizeClass) -> usize {
    class.size().max(64)
}

/// A count as the census and the purger read it.
fn short(len: u32) -> u16 {
    len.min(u16::MAX as u32) as u16
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::mem::MaybeUninit;

    const KEY: usize = 0x0123_4567_89AB_CDEF;
    const SHIPPED: Decisions = Decisions::SHIPPED;

    fn class(at: usize) -> SizeClass {
        SizeClass::new(at).expect("there are so many")
    }

    /// Sets a stack of one block aside. (Only a stack's first block is touched.)
    fn put(reserve: &Reserve, class: SizeClass, block: &mut [usize; 4]) {
        reserve.put(class, List { first: block.as_mut_ptr().cast(), len: 1 }, KEY);
    }

    #[test]
    fn classes_repay_in_turn_until_nothing_is_owed() {
        // SAFETY: all-zero is empty.
        let reserve: Reserve = unsafe { MaybeUninit::zeroed().assume_init() };
        let (mut blocks, [low, high, grows]) = ([[0; 4]; 4], [3, CLASSES - 1, 10].map(class));
        for (block, class) in blocks.iter_mut().zip([low, low, high, high]) {
            put(&reserve, class, block);
        }
        reserve.owe(grows, &SHIPPED);
        assert!(reserve.owes());
        let next = || {
            let class = reserve.next_stocked(grows)?;
            let taken = reserve.take_owed(class, 1, KEY).map(|stack| stack.len);
            assert_eq!(taken[1..], [0, 0], "the last one goes alone");
            (taken[0] == 1).then_some(class)
        };
        assert_eq!([next(), next(), next(), next()].map(Option::unwrap), [low, high, low, high]);
        assert_eq!(next(), None, "a class without a stack is left out");
        assert_eq!(next(), None);
        assert_eq!(reserve.next_stocked(grows), None);
    }

    #[test]
    fn stacks_go_back_abreast_and_the_last_alone() {
        // SAFETY: all-zero is empty.
        let reserve: Reserve = unsafe { MaybeUninit::zeroed().assume_init() };
        let (mut blocks, class) = ([[0; 4]; 5], class(3));
        blocks.iter_mut().for_each(|block| put(&reserve, class, block));
        let next = || reserve.take_owed(class, 1, KEY).map(|stack| stack.len);
        assert_eq!([next(), next(), next(), next()], [[1, 1, 1], [1, 0, 0], [1, 0, 0], [0; 3]]);
    }

    #[test]
    fn a_stack_at_rest_keeps_its_turn_and_each_that_is_used_lets_off_a_slab() {
        // SAFETY: all-zero is empty.
        let reserve: Reserve = unsafe { MaybeUninit::zeroed().assume_init() };
        let [rests, used, grows] = [3, CLASSES - 1, 10].map(class);
        let next = || {
            let stacks = [(rests, true), (used, false), (grows, true)];
            let found = |class| stacks.iter().find(|stack| stack.0 == class).map(|stack| stack.1);
            reserve.next_resting(grows, (1 << CLASSES) - 1, found)
        };
        (0..3).for_each(|_| reserve.owe(grows, &SHIPPED));
        assert_eq!((next(), next()), (Some(rests), Some(rests)));
        reserve.repaid(rests, UNIT / rests.size(), 0);
        // Its stack is empty now.
        reserve.turn.set(rests.index() as u8 + 1);
        assert_eq!((next(), reserve.owes()), (None, true));
        assert_eq!(reserve.turn.get() as usize, CLASSES, "it has had its turn");
        assert_eq!(next(), Some(rests), "after the last class the first");
        reserve.turn.set(rests.index() as u8 + 1);
        assert_eq!((next(), reserve.owes()), (None, false));
    }

    #[test]
    fn a_debt_is_paid_by_the_bytes_given_and_has_a_most() {
        // SAFETY: all-zero is empty.
        let reserve: Reserve = unsafe { MaybeUninit::zeroed().assume_init() };
        let (mut block, [pays, grows]) = ([0; 4], [20, 10].map(class));
        put(&reserve, pays, &mut block);
        for _ in 0..100 {
            reserve.owe(grows, &SHIPPED);
        }
        assert_eq!(reserve.debt.get(), SHIPPED.reserve_debt);
        reserve.repaid(pays, 3, 0);
        assert_eq!(reserve.debt.get(), SHIPPED.reserve_debt - 3 * pays.size());
        reserve.repaid(pays, usize::MAX / pays.size(), 0);
        assert!(!reserve.owes());
    }
}
