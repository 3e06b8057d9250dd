//! Full stacks, and every other way by which blocks leave a cache.
//!
//! ```text
//! full:     goes to the depot as it is, or becomes the spare stack if its blocks are too small for that     O(1)
//!           or, when depots hold enough, goes back to bits
//! growing:  for each new slab, as much of other classes' depots goes back to bits
//! foreign:  a block of another cache's slab goes back to its bits: `outbox`
//! idle:     the purger turns depots into bits, and stacks of caches without a thread into depots
//! ```
//!
//! A program that swings around the edge of one stack does not pay for it: a full stack comes back from the depot
//! unchanged (Bonwick and Adams, "Magazines and Vmem" (2001), 3.1, keep a second stack instead; but no other thread can take
//! that from an idle thread). Blocks go back to bits in steps of a few words, so the longest call is short.
//! The rest of a stack after a step stays at the bottom, under the blocks freed next.

use super::cache::{Block, Cache};
use super::depot::{HEADER, Magazine};
use super::node_heap::{Misuse, NodeHeap};
use super::purge::Purged;
use super::refill::{Busy, STEP, grant, limit};
use super::slab::Slab;
use crate::machine::Machine;
use crate::malloc::units::UNIT;
use crate::place::Home;
use crate::row::Row;
use crate::size_class::{CLASSES, SizeClass};
use core::ptr;
use core::sync::atomic::{AtomicU16, Ordering};

/// Bytes that a cache gives back before it adds them to the heap's count.
const GIVEN_BYTES: usize = 256 * 1024;
/// Words of bits that one call gives blocks back to, at most: up to two hundred instructions each, and lines of cache that
/// another thread may have.
pub(super) const WORDS: usize = 8;
/// The same of a call that repays, which waits for memory anyway: with fewer, memory grows for another size before what
/// was freed can go back (docs/decisions/stock-and-random-frees.md).
const REPAID_WORDS: usize = 16;
/// Blocks on the average, where they lie so close that fewer words would do.
const BLOCKS_A_WORD: usize = 4;
/// Most that a cache owes: what one new slab after the other adds while nothing can be given.
const MOST_DEBT: u32 = 4 * UNIT as u32;
/// Bytes that a cache's depots hold together at most. More goes back to bits while it is in the
/// processor's caches: later, each block would have to be fetched from memory.
const STOCK_BYTES: usize = 32 << 20;

impl<M: Machine> NodeHeap<M> {
    /// Makes room in a stack that is full.
    #[cold]
    pub fn overflow(&self, cache: &Cache, class: usize) {
        let _busy = Busy::new(cache);
        let (last, key) = (cache.stack(class), cache.key.get());
        // All but the block that did not fit any more, with which a new stack begins.
        let len = stack_len(cache, class).saturating_sub(1);
        // SAFETY: the stack is this cache's, and not empty: a block was just pushed.
        let full = unsafe { Block::next(last, key) };
        let stocked = is_stocked(cache);
        let (rest, left) = if stocked {
            self.part_with(cache, class, full, len)
        } else if size_of_class(class) >= HEADER {
            self.set_aside(cache, class, full, len);
            (ptr::null_mut(), 0)
        } else {
            let spare = cache.spare.at(class).replace(full);
            let spare_len = cache.spare_len.at(class).replace(len as u16);
            self.give_step(cache, spare, spare_len as usize, WORDS)
        };
        // SAFETY: as above; the rest is this cache's as well.
        unsafe { Block::link(last, rest, key) };
        grant(cache, class, if stocked { short_limit(class) } else { limit(class) }, left + 1);
    }

    /// A stack goes back to bits because depots hold enough: one step of it at least, unless it is long. What is left of it.
    fn part_with(
        &self,
        cache: &Cache,
        class: usize,
        stack: *mut Block,
        len: usize,
    ) -> (*mut Block, usize) {
        if len <= STEP {
            return self.give_step(cache, stack, len, WORDS);
        }
        self.set_aside(cache, class, stack, len);
        (ptr::null_mut(), 0)
    }

    /// Gives the first of a list of `len` blocks back to bits, to at most `words` of them. What is left of it.
    pub(super) fn give_step(
        &self,
        cache: &Cache,
        list: *mut Block,
        len: usize,
        words: usize,
    ) -> (*mut Block, usize) {
        let (rest, given) = self.give_or_note(Some(cache), list, words);
        // After misuse nothing is left, and nobody knows how many were given.
        if rest.is_null() { (rest, 0) } else { (rest, len.saturating_sub(given)) }
    }

    /// Puts a stack of `len` blocks, if there is one, into the depot.
    pub(super) fn set_aside(&self, cache: &Cache, class: usize, stack: *mut Block, len: usize) {
        if stack.is_null() {
            return;
        }
        let bytes = len * size_of_class(class);
        if size_of_class(class) < HEADER {
            self.give_or_note(Some(cache), stack, usize::MAX);
            return;
        }
        // SAFETY: the cache is the caller's, and so are the stack's blocks, which are large enough.
        let total =
            unsafe { cache.depots.at(class).put(stack.cast(), len as u32, cache.key.get()) };
        cache.held.at(class).store(short(total), Ordering::Relaxed);
        if total as usize != len {
            stock_up(cache, class);
        }
        cache.stock.set(cache.stock.get() + bytes);
        self.account(cache, bytes);
    }

    /// A stack from the depot and its length, if there is one.
    pub(super) fn fetch(&self, cache: &Cache, class: usize) -> Option<(*mut Block, usize)> {
        if cache.depots.at(class).is_empty() {
            return None;
        }
        // SAFETY: the cache is the caller's.
        let (magazine, left) = unsafe { cache.depots.at(class).pop(cache.key.get()) };
        if magazine.is_null() {
            return None;
        }
        let left = short(left);
        cache.held.at(class).store(left, Ordering::Relaxed);
        if left < cache.low.at(class).load(Ordering::Relaxed) {
            cache.low.at(class).store(left, Ordering::Relaxed);
        }
        // SAFETY: `pop` made the magazine ours.
        let len = unsafe { (*magazine).len } as usize;
        // What comes and goes is no news to the purger.
        let given = cache.given.get();
        let bytes = len * size_of_class(class);
        cache.given.set(given.saturating_sub(bytes));
        cache.stock.set(cache.stock.get().saturating_sub(bytes));
        Some((magazine.cast(), len))
    }

    /// A slab of `class` was cut: as many bytes of other classes shall go back. The next class in turn that has
    /// but one stack set aside has to part with that, too.
    pub(super) fn borrow(&self, cache: &Cache, class: usize) {
        let from = cache.next_shed.get() as usize;
        let others = (from..CLASSES).chain(0..from.min(CLASSES)).filter(|other| *other != class);
        if let Some(other) = { others }.find(|&other| !cache.depots.at(other).is_empty()) {
            stock_up(cache, other);
        }
        if cache.stocked.iter().any(|word| word.get() != 0) {
            cache.debt.set((cache.debt.get() + UNIT as u32).min(MOST_DEBT));
        }
    }

    /// Before memory grows for one class, what others hold goes back, each class in turn, a step
    /// at a time: blocks of a class that nobody asks for any more would keep many slabs in use.
    #[cold]
    pub(super) fn repay(&self, cache: &Cache, class: usize) {
        let Some(other) = next_stocked(cache, class) else { return cache.debt.set(0) };
        let Some((stack, len)) = self.fetch(cache, other) else {
            return unstock(cache, other);
        };
        let (rest, left) = self.give_step(cache, stack, len, REPAID_WORDS);
        if !rest.is_null() {
            self.set_aside(cache, other, rest, left);
        } else if cache.held.at(other).load(Ordering::Relaxed) as usize <= limit(other) {
            // The last stack is kept for its class until another cut.
            unstock(cache, other);
        }
        let bytes = ((len - left) * size_of_class(other)) as u32;
        cache.debt.set(cache.debt.get().saturating_sub(bytes));
    }

    /// Gives everything that the cache holds for itself back to bits, and frees slabs that are empty.
    #[cold]
    pub fn give_all(&self, cache: &Cache) {
        let _busy = Busy::new(cache);
        cache.told.set(0);
        for class in 0..CLASSES {
            self.stow(cache, class);
            self.give_depot(Some(cache), cache, class);
        }
        self.drain(cache);
        self.retire_free(cache);
    }

    /// Puts the stacks of an ended thread into depots; their bytes stay counted for the purger.
    fn stow_all(&self, cache: &Cache) {
        (0..CLASSES).for_each(|class| self.stow(cache, class));
        if cache.told.get() != 0 {
            cache.told.set(0);
            cache.given.set(0);
        }
    }

    /// Puts both stacks of a class into the depot.
    pub(super) fn stow(&self, cache: &Cache, class: usize) {
        let len = stack_len(cache, class);
        let stack = cache.take_stack(class);
        if !stack.is_null() {
            grant(cache, class, limit(class), 0);
            self.set_aside(cache, class, stack, len);
        }
        let spare = cache.spare.at(class).replace(ptr::null_mut());
        if !spare.is_null() {
            let len = cache.spare_len.at(class).replace(0) as usize;
            self.set_aside(cache, class, spare, len);
        }
    }

    /// Turns a depot into bits; how many bytes. `by` is the cache of the calling thread, if it has one.
    pub(super) fn give_depot(&self, by: Option<&Cache>, cache: &Cache, class: usize) -> usize {
        // Before: what the owner sets aside from now on is counted anew. (The exchange orders the two for the owner.)
        cache.held.at(class).store(0, Ordering::Relaxed);
        cache.low.at(class).store(0, Ordering::Relaxed);
        let mut magazine = cache.depots.at(class).take();
        if magazine.is_null() {
            return 0;
        }
        // SAFETY: `take` made all magazines ours; each is read before its blocks are given.
        let bytes = unsafe { (*magazine).total } as usize * size_of_class(class);
        while !magazine.is_null() {
            // SAFETY: as above.
            let next = unsafe { Magazine::next(magazine, self.key()) };
            self.give_or_note(by, magazine.cast(), usize::MAX);
            magazine = next;
        }
        bytes
    }

    /// Turns those depots into bits of which more than half was not asked for since the last visit
    /// (`at_once`: all of them), of every cache. Stacks of idle caches become depots before.
    pub(super) fn empty_depots(&self, at_once: bool, done: &mut Purged) {
        self.each_idle(|cache| self.stow_all(cache));
        let mut left = 0;
        for it in self.caches().take_while(|_| at_once || !self.is_hurried()) {
            for class in 0..CLASSES {
                let held = it.held.at(class).load(Ordering::Relaxed);
                if held == 0 {
                    continue;
                }
                let low = it.low.at(class).swap(held, Ordering::Relaxed);
                if at_once || low == u16::MAX || (low != 0 && low as usize * 2 >= held as usize) {
                    self.purging.with(&self.machine, || self.give_depot(None, it, class));
                } else {
                    left += held as usize * size_of_class(class);
                }
            }
        }
        done.unsettled += left;
    }

    /// As [`NodeHeap::give_up_to`]. Misuse found here was caused long ago, not by the
    /// caller: it is noted, and the rest of the list lost.
    pub(super) fn give_or_note(
        &self,
        by: Option<&Cache>,
        list: *mut Block,
        most: usize,
    ) -> (*mut Block, usize) {
        self.give_up_to(by, list, most).unwrap_or_else(|(misuse, block)| {
            self.note(misuse, block.addr());
            (ptr::null_mut(), 0)
        })
    }

    /// Gives the first blocks of a linked list back to their slabs, neighbours in the list that lie
    /// in one word of bits together: to `most` words, at most, and [`BLOCKS_A_WORD`] for each or a few more. Answers
    /// the rest of the list and how many blocks were given. `by` is the cache of the calling thread, if it has one.
    fn give_up_to(
        &self,
        by: Option<&Cache>,
        mut block: *mut Block,
        most: usize,
    ) -> Result<(*mut Block, usize), (Misuse, *mut Block)> {
        let key = self.key();
        let mut region = self.runs.primary(by.map_or(Home::ANYWHERE, |cache| cache.home.get()));
        let (mut given, mut bytes, mut words) = (0, 0, 0);
        let blocks = most.saturating_mul(BLOCKS_A_WORD);
        while !block.is_null() && words < most && given < blocks {
            if !region.contains(block.addr()) {
                region = self.runs.region_of(block.addr()).ok_or((Misuse::NotABlock, block))?;
            }
            let slab: *mut Slab = region.descriptor(block.addr()).cast();
            // SAFETY: the list's blocks lie in slabs, which cannot be retired while we hold them.
            let it = unsafe { &*slab };
            let size = it.class().size();
            let first = block;
            let some = self.give_some(by, it, key, &mut block).map_err(|why| (why, first))?;
            words += 1;
            given += some;
            bytes += some * size;
        }
        match by {
            Some(cache) => self.account(cache, bytes),
            None => _ = self.pressure.fetch_add(bytes, Ordering::Relaxed),
        }
        Ok((block, given))
    }

    /// Gives the first blocks of the list back, as far as they lie in one word of `slab`.
    #[inline]
    fn give_some(
        &self,
        by: Option<&Cache>,
        slab: &Slab,
        key: usize,
        list: &mut *mut Block,
    ) -> Result<usize, Misuse> {
        let mut block = *list;
        let first = slab.number(block.addr()).ok_or(Misuse::NotABlock)?;
        let mut bits = 0u64;
        let (mut number, mut len) = (first, 0);
        loop {
            if bits >> (number % 64) & 1 != 0 {
                return Err(Misuse::DoubleFree);
            }
            bits |= 1 << (number % 64);
            len += 1;
            // SAFETY: the list's blocks were linked with this key.
            block = unsafe { Block::next(block, key) };
            if block.is_null() || (block.addr() ^ slab.base()) >= UNIT {
                break;
            }
            match slab.number(block.addr()) {
                Some(next) if next / 64 == first / 64 => number = next,
                _ => break,
            }
        }
        *list = block;
        self.give_word(by, slab, first / 64, bits, len)?;
        Ok(len as usize)
    }

    /// Gives `len` blocks of `slab` back, those whose bits are set in `bits` of word `at`.
    pub(super) fn give_word(
        &self,
        by: Option<&Cache>,
        slab: &Slab,
        at: usize,
        bits: u64,
        len: u32,
    ) -> Result<(), Misuse> {
        // Once its bits are set the slab may be retired and its unit reused: ask before.
        let ticket = slab.vacancy.add(len);
        let blocks = slab.blocks();
        if by.is_none() {
            // The purger waited already: no need to wait for the slab to rest.
            slab.seen.store(slab.vacancy.free() as u16, Ordering::Relaxed);
        }
        if slab.give_word(at, bits) != 0 {
            return Err(Misuse::DoubleFree);
        }
        if slab.vacancy.announce(ticket, blocks) {
            self.tell(by, slab);
        }
        Ok(())
    }

    pub(super) fn account(&self, cache: &Cache, given: usize) {
        let given = cache.given.get() + given;
        if given < GIVEN_BYTES {
            cache.given.set(given);
        } else {
            cache.given.set(0);
            self.pressure.fetch_add(given, Ordering::Relaxed);
        }
    }
}

/// Whether the cache's depots hold as much as they may. The purger may have taken what the cache still
/// counts, so now and then it counts again.
pub(super) fn is_stocked(cache: &Cache) -> bool {
    if cache.stock.get() < STOCK_BYTES {
        return false;
    }
    let turn = cache.recount.get().wrapping_add(1);
    cache.recount.set(turn);
    if turn.is_multiple_of(16) {
        let held = |(class, held): (usize, &AtomicU16)| {
            held.load(Ordering::Relaxed) as usize * size_of_class(class)
        };
        cache.stock.set(cache.held.iter().enumerate().map(held).sum());
    }
    cache.stock.get() >= STOCK_BYTES
}

/// How many blocks a full stack holds while what does not fit it goes back to bits at once.
fn short_limit(class: usize) -> usize {
    (limit(class) / 4).max(1)
}

/// How many blocks the stack in use holds.
pub(super) fn stack_len(cache: &Cache, class: usize) -> usize {
    // In a forked child a stack may have a block more than was counted, of a thread that was just about to.
    (cache.granted.at(class).get() as i32 - cache.room.at(class).get()).max(0) as usize
}

/// Bytes in both stacks of every class.
pub(super) fn stacked(cache: &Cache) -> usize {
    let len = |class| stack_len(cache, class) + cache.spare_len.at(class).get() as usize;
    (0..CLASSES).map(|class| len(class) * size_of_class(class)).sum()
}

pub(super) fn size_of_class(class: usize) -> usize {
    SizeClass::new(class).map_or(0, SizeClass::size)
}

/// A count as the census and the purger read it.
fn short(len: u32) -> u16 {
    len.min(u16::MAX as u32) as u16
}

/// The next class in turn, other than `class`, whose depot was stocked.
fn next_stocked(cache: &Cache, class: usize) -> Option<usize> {
    let words = [&cache.stocked[0], &cache.stocked[1]].map(|word| word.get());
    let all = (words[1] as u128) << 64 | words[0] as u128;
    let others = all & !(1 << class);
    let from = cache.next_shed.get() as u32 % 128;
    // The lowest from `from` on, else the lowest.
    let later = others & (u128::MAX << from);
    let found = if later != 0 { later } else { others };
    (found != 0).then(|| {
        let other = found.trailing_zeros() as usize;
        cache.next_shed.set((other + 1) as u8);
        other
    })
}

/// What a class has set aside shall go back when memory grows.
fn stock_up(cache: &Cache, class: usize) {
    let word = &cache.stocked.at(class / 64);
    word.set(word.get() | 1 << (class % 64));
}

fn unstock(cache: &Cache, class: usize) {
    let word = &cache.stocked.at(class / 64);
    word.set(word.get() & !(1 << (class % 64)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_has_no_less_than_no_block() {
        let cache = Cache::new();
        grant(&cache, 3, 10, 0);
        cache.room.at(3).set(11);
        assert_eq!(stack_len(&cache, 3), 0);
    }
}
