//! Which aligned slots are free: a tree of 64-way nodes, at most four levels.
//!
//! ```text
//!   level 3   1 node           64 slots of 2^18 units
//!   level 2   64 nodes         64 slots of 2^12 units each
//!   level 1   4,096 nodes      64 slots of 2^6 units each
//!   level 0   262,144 nodes    64 units each
//!
//!   a node    slots | large | zeros | members of class 6 l - 1, .. 1, 0
//! ```
//!
//! Six orders belong to a level: order 6 l + r is an aligned run of 2^r slots of level l, which `slots` finds in
//! one step. A slot that is entirely free, or entirely part of a used block, is not looked into: all of it says
//! "free" inside, and is true again as soon as it is looked into. A node that is looked into is *open*: not all
//! of its slots are free, and it is no part of a used block. The *class* of an open node is the order of its longest
//! free run, if it has one.
//!
//! Each node above knows its open descendants by class: a mask for every class, in which a child's bit is set
//! when some open node in that child has that class. So the *lowest* free block of order k is found by
//! going, level by level, to the lowest child that is free or in any mask of k or more. And a change of a node's
//! slots moves one class to another: a bit cleared and a bit set on each level above, with nothing to be
//! compared or computed again there. (Masks by the longest block of each child, as they were before, need that
//! length again on every level: 377 instructions where this takes 189.)
//!
//! A block takes its slots from the node of its level. If that was closed and free, it opens (its class is 5
//! then: the other half is free), and takes one slot from the node above; and so on. Freeing goes
//! the same way back. So one node changes its class, and those below it appear or go.
//!
//! Invariant: a mask's bit is set exactly if such a node is open in that child. Levels are written out,
//! not looped over: there is no loop here.

mod members;

use super::slots::{SLOTS_LOG2, Slots};
use crate::check::Broken;
use core::hint::unreachable_unchecked;
use core::num::NonZeroU64;
use core::ptr::NonNull;
use members::mask;

/// The most levels.
const LEVELS: usize = 4;
/// The most units: one less than the slots of all levels, so that the highest node is always open.
pub(super) const MAX_UNITS: u32 = (1 << (SLOTS_LOG2 * LEVELS as u32)) - 1;

/// Classes of a level.
const CLASSES: usize = SLOTS_LOG2 as usize;
/// How often a node's slots are halved, for the class of one that was just opened or is about to be closed.
const HALF: u32 = 1;
/// Where the mask of large children is in a node: those in which an open node of level 1 or above has a free
/// slot. It stands for all masks of the higher levels, in a search for units.
const LARGE: usize = 2;
/// Where the masks begin in a node: behind zeros, so that "this class of its level or a higher one" is always
/// as many words.
const MASKS: usize = LARGE + CLASSES;

/// Words of a node of each level. (16 where 14 would do, because a shift is short.)
const NODE_WORDS: [usize; LEVELS] = [2, 16, MASKS + 2 * CLASSES, MASKS + 3 * CLASSES];

/// The tree over memory that somebody gave it; see the module.
#[derive(Debug)]
pub(super) struct Tree {
    levels: [Level; LEVELS],
    top: usize,
}

/// Where the nodes of a level are.
#[derive(Clone, Copy, Debug)]
struct Level {
    words: NonNull<u64>,
    nodes: usize,
}

/// Some slots of a node: those of a block.
#[derive(Clone, Copy)]
struct Run {
    node: usize,
    slot: u32,
    log2: u32,
}

impl Run {
    /// 2^`log2` slots of that level, at `unit`.
    #[inline(always)]
    fn of(level: usize, log2: u32, unit: u32) -> Run {
        let slot = unit >> (SLOTS_LOG2 * level as u32);
        Run { node: (slot >> SLOTS_LOG2) as usize, slot: slot % 64, log2 }
    }

    /// The one slot above that is the whole node.
    #[inline(always)]
    fn above(self) -> Run {
        Run { node: self.node >> SLOTS_LOG2, slot: (self.node % 64) as u32, log2: 0 }
    }
}

/// Calls a method `<highest level, level of the order>` with how many slots of that level the order is, and
/// more arguments; `None` where there is no such level. Four levels are asked for first and by themselves: they
/// take longest, and a table of jumps would be five instructions more.
macro_rules! at_home {
    ($self:ident, $order:expr, $method:ident $(, $more:expr)*) => {
        if $self.levels[3].nodes != 0 {
            match $order {
                order @ 0..=5 => Some($self.$method::<3, 0>(order $(, $more)*)),
                order @ 6..=11 => Some($self.$method::<3, 1>(order - 6 $(, $more)*)),
                order @ 12..=17 => Some($self.$method::<3, 2>(order - 12 $(, $more)*)),
                order @ 18..=23 => Some($self.$method::<3, 3>(order - 18 $(, $more)*)),
                _ => None,
            }
        } else {
            match ($self.top, $order) {
                (2, order @ 0..=5) => Some($self.$method::<2, 0>(order $(, $more)*)),
                (2, order @ 6..=11) => Some($self.$method::<2, 1>(order - 6 $(, $more)*)),
                (2, order @ 12..=17) => Some($self.$method::<2, 2>(order - 12 $(, $more)*)),
                (1, order @ 0..=5) => Some($self.$method::<1, 0>(order $(, $more)*)),
                (1, order @ 6..=11) => Some($self.$method::<1, 1>(order - 6 $(, $more)*)),
                (0, order @ 0..=5) => Some($self.$method::<0, 0>(order $(, $more)*)),
                _ => None,
            }
        }
    };
}

/// How many nodes each level has for so many units, and how many levels there are.
const fn nodes(units: u32) -> ([usize; LEVELS], usize) {
    assert!(units <= MAX_UNITS);
    let (mut counts, mut level, mut count) = ([0; LEVELS], 0, units);
    loop {
        count = count.div_ceil(1 << SLOTS_LOG2);
        counts[level] = count as usize;
        level += 1;
        if units >> (SLOTS_LOG2 * level as u32) == 0 {
            return (counts, level);
        }
    }
}

impl Tree {
    /// How many bytes the tree over so many units, at most [`MAX_UNITS`], takes.
    pub(super) const fn bytes(units: u32) -> u64 {
        let (counts, levels) = nodes(units);
        let (mut sum, mut level) = (0, 0);
        while level < levels {
            sum += counts[level] * NODE_WORDS[level];
            level += 1;
        }
        sum as u64 * 8
    }

    /// All `units` free.
    ///
    /// # Safety
    /// The [`Tree::bytes`] at `at`, 8-aligned, are nobody else's for as long as the tree lives;
    /// `units` is 1 to [`MAX_UNITS`].
    pub(super) unsafe fn new(at: NonNull<u8>, units: u32) -> Tree {
        let (counts, count) = nodes(units);
        let mut words: NonNull<u64> = at.cast();
        let mut levels = [Level { words, nodes: 0 }; LEVELS];
        for level in 0..count {
            levels[level] = Level { words, nodes: counts[level] };
            // SAFETY: each level's nodes follow those of the level below, inside the caller's bytes.
            words = unsafe { words.add(counts[level] * NODE_WORDS[level]) };
        }
        let mut tree = Tree { levels, top: count - 1 };
        for level in 0..count {
            for node in 0..counts[level] {
                for word in 2..NODE_WORDS[level] {
                    tree.set(level, node, word, 0);
                }
                tree.set_slots(level, node, Slots::WHOLE);
            }
        }
        tree.withhold(units);
        tree
    }

    /// Makes what lies behind the last unit, up to where the tree ends, used for good.
    fn withhold(&mut self, units: u32) {
        let end = 1_u64 << (SLOTS_LOG2 * (self.top as u32 + 1));
        let mut unit = u64::from(units);
        while unit < end {
            let order = unit.trailing_zeros();
            self.take_at(unit as u32, order);
            unit += 1 << order;
        }
    }

    /// Takes the lowest aligned block of that order: its first unit.
    #[inline(always)]
    pub(super) fn take(&mut self, order: u32) -> Option<u32> {
        at_home!(self, order, take_from).flatten()
    }

    /// As [`take`](Self::take), of 2^`log2` slots of level `HOME`.
    #[inline(always)]
    fn take_from<const TOP: usize, const HOME: usize>(&mut self, log2: u32) -> Option<u32> {
        let mut node = 0;
        if HOME < 3 && TOP >= 3 {
            node = self.descend::<TOP, HOME, 3>(node, log2)?;
        }
        if HOME < 2 && TOP >= 2 {
            node = self.descend::<TOP, HOME, 2>(node, log2)?;
        }
        if HOME < 1 && TOP >= 1 {
            node = self.descend::<TOP, HOME, 1>(node, log2)?;
        }
        let slot = self.slots(HOME, node).lowest(log2);
        if HOME == TOP && slot >= 64 {
            return None;
        }
        self.cut::<TOP, HOME>(Run { node, slot, log2 });
        Some(((node as u32) << SLOTS_LOG2 | slot) << (SLOTS_LOG2 * HOME as u32))
    }

    /// The lowest child of the node in which 2^`log2` slots of level `HOME` are free. `None` only from the
    /// highest node.
    #[inline(always)]
    fn descend<const TOP: usize, const HOME: usize, const LEVEL: usize>(
        &self,
        node: usize,
        log2: u32,
    ) -> Option<usize> {
        let mut children = self.slots(LEVEL, node).free();
        if HOME == 0 {
            children |= self.any(LEVEL, node, mask(LEVEL, 0, 1) - log2 as usize);
            if LEVEL > 1 {
                children |= self.word(LEVEL, node, LARGE);
            }
        } else {
            // The masks of all higher classes, and zeros in front of them.
            children |= self.any(LEVEL, node, MASKS - log2 as usize);
            if LEVEL > HOME + 1 {
                children |= self.any(LEVEL, node, MASKS + CLASSES - log2 as usize);
            }
        }
        let children = match NonZeroU64::new(children) {
            None if LEVEL == TOP => return None,
            // SAFETY: the node is in a mask, of the node above, that says there is one.
            None => unsafe { unreachable_unchecked() },
            Some(children) => children,
        };
        Some(node << SLOTS_LOG2 | children.trailing_zeros() as usize)
    }

    /// The union of as many masks as a level has classes.
    #[inline(always)]
    fn any(&self, level: usize, node: usize, first: usize) -> u64 {
        debug_assert!(first + CLASSES <= NODE_WORDS[level]);
        let from = self.at(level, node, first).as_ptr();
        // Volatile, so that it is six instructions: of vectors of two words it would be ten.
        // SAFETY: words of one node, written by `new`.
        let word = |i: usize| unsafe { from.add(i).read_volatile() };
        word(0) | word(1) | word(2) | word(3) | word(4) | word(5)
    }

    /// Takes the block of that order at `unit`, which is free.
    #[inline(never)]
    pub(super) fn take_at(&mut self, unit: u32, order: u32) {
        at_home!(self, order, cut_block, unit);
    }

    /// Makes the block of that order at `unit` free, which is used.
    #[inline(always)]
    pub(super) fn give(&mut self, unit: u32, order: u32) {
        at_home!(self, order, join_block, unit);
    }

    /// [`give`](Self::give), one copy for all who are not the hot path.
    #[inline(never)]
    pub(super) fn give_at(&mut self, unit: u32, order: u32) {
        self.give(unit, order);
    }

    #[inline(always)]
    fn cut_block<const TOP: usize, const HOME: usize>(&mut self, log2: u32, unit: u32) {
        self.cut::<TOP, HOME>(Run::of(HOME, log2, unit));
    }

    #[inline(always)]
    fn join_block<const TOP: usize, const HOME: usize>(&mut self, log2: u32, unit: u32) {
        self.join::<TOP, HOME>(Run::of(HOME, log2, unit));
    }

    /// Whether the block of that order at `unit` is entirely free.
    pub(super) fn is_free(&self, unit: u32, order: u32) -> bool {
        let home = (order / SLOTS_LOG2) as usize;
        let told = self.tells(home, Run::of(home, order % SLOTS_LOG2, unit));
        let told = told.or_else(|node| self.tells(home + 1, node));
        let told = told.or_else(|node| self.tells(home + 2, node));
        told.or_else(|node| self.tells(home + 3, node)).unwrap_or(false)
    }

    /// Whether slots of an open node are free. In a closed one they are if the node is: the slot to ask about.
    #[inline(always)]
    fn tells(&self, level: usize, run: Run) -> Result<bool, Run> {
        let slots = self.slots(level % LEVELS, run.node);
        if slots.is_whole() { Err(run.above()) } else { Ok(slots.has(run.log2, run.slot)) }
    }

    /// The order of the longest free block, and one more; 0 when there is none.
    pub(super) fn best_of_all(&self) -> u32 {
        let base = SLOTS_LOG2 * self.top as u32;
        let slots = self.slots(self.top, 0);
        if slots.free() != 0 {
            return base + SLOTS_LOG2 - slots.halvings() + 1;
        }
        let is_there = |class: &u32| self.word(self.top, 0, MASKS + *class as usize) != 0;
        (0..base).find(is_there).map_or(0, |class| base - class)
    }

    /// Takes slots of level `HOME`, which are free.
    #[inline(always)]
    fn cut<const TOP: usize, const HOME: usize>(&mut self, mut run: Run) {
        if HOME < 1 {
            let Some(above) = self.cut_at::<TOP, 0>(run) else { return };
            run = above;
        }
        if HOME < 2 {
            let Some(above) = self.cut_at::<TOP, 1>(run) else { return };
            run = above;
        }
        if HOME < 3 {
            let Some(above) = self.cut_at::<TOP, 2>(run) else { return };
            run = above;
        }
        self.cut_at::<TOP, 3>(run);
    }

    /// Takes slots of one node: the slot above that is to be taken, too, if the node was closed.
    #[inline(always)]
    fn cut_at<const TOP: usize, const LEVEL: usize>(&mut self, run: Run) -> Option<Run> {
        let old = self.slots(LEVEL, run.node);
        debug_assert!(old.has(run.log2, run.slot), "what is taken is free");
        let new = old.without(run.log2, run.slot);
        self.set_slots(LEVEL, run.node, new);
        if LEVEL == TOP {
            return None;
        }
        if old.is_whole() {
            self.enlist::<TOP, LEVEL>(run.node, HALF);
            return Some(run.above());
        }
        let (from, to) = (old.halvings(), new.halvings());
        if new.free() == 0 {
            self.delist::<TOP, LEVEL>(run.node, from);
        } else if from != to {
            self.reclass::<TOP, LEVEL>(run.node, from, to);
        }
        None
    }

    /// Makes slots of level `HOME` free.
    #[inline(always)]
    fn join<const TOP: usize, const HOME: usize>(&mut self, mut run: Run) {
        if HOME < 1 {
            let Some(above) = self.join_at::<TOP, 0>(run) else { return };
            run = above;
        }
        if HOME < 2 {
            let Some(above) = self.join_at::<TOP, 1>(run) else { return };
            run = above;
        }
        if HOME < 3 {
            let Some(above) = self.join_at::<TOP, 2>(run) else { return };
            run = above;
        }
        self.join_at::<TOP, 3>(run);
    }

    /// Makes slots of one node free: the slot above that is free, too, if the node is closed now.
    #[inline(always)]
    fn join_at<const TOP: usize, const LEVEL: usize>(&mut self, run: Run) -> Option<Run> {
        let old = self.slots(LEVEL, run.node);
        let Some((new, to)) = old.with(run.log2, run.slot) else {
            debug_assert!(LEVEL < TOP, "the highest node is open");
            self.set_slots(LEVEL, run.node, Slots::WHOLE);
            self.delist::<TOP, LEVEL>(run.node, HALF);
            return Some(run.above());
        };
        self.set_slots(LEVEL, run.node, new);
        if LEVEL == TOP {
            return None;
        }
        let from = old.halvings();
        if old.free() == 0 {
            self.enlist::<TOP, LEVEL>(run.node, to);
        } else if to < from {
            self.reclass::<TOP, LEVEL>(run.node, from, to);
        }
        None
    }

    #[inline(always)]
    fn slots(&self, level: usize, node: usize) -> Slots {
        Slots::of_words([self.word(level, node, 0), self.word(level, node, 1)])
    }

    #[inline(always)]
    fn set_slots(&mut self, level: usize, node: usize, slots: Slots) {
        let [free, runs] = slots.words();
        self.set(level, node, 0, free);
        self.set(level, node, 1, runs);
    }

    #[inline(always)]
    fn at(&self, level: usize, node: usize, word: usize) -> NonNull<u64> {
        let Level { words, nodes } = self.levels[level % LEVELS];
        debug_assert!(node < nodes && word < NODE_WORDS[level]);
        // There is one node on the highest of all levels: nothing to multiply.
        let node = if level == LEVELS - 1 { 0 } else { node };
        // SAFETY: nodes of units of the tree have their words in the memory of `new`.
        unsafe { words.add(node * NODE_WORDS[level % LEVELS] + word) }
    }

    #[inline(always)]
    fn word(&self, level: usize, node: usize, word: usize) -> u64 {
        // SAFETY: a word of the tree, written by `new`.
        unsafe { self.at(level, node, word).read() }
    }

    #[inline(always)]
    fn set(&mut self, level: usize, node: usize, word: usize, to: u64) {
        // SAFETY: a word of the tree; `&mut self` is the only user.
        unsafe { self.at(level, node, word).write(to) }
    }

    /// Walks all nodes, comparing each with those below.
    pub(super) fn check(&self) -> Result<(), Broken> {
        let open = !self.slots(self.top, 0).is_whole();
        Broken::unless(open, "the highest node is open", 0)?;
        self.check_node(self.top, 0).map(|_| ())
    }

    /// A bit for each class that the node, and open ones below it, have.
    fn check_node(&self, level: usize, node: usize) -> Result<u32, Broken> {
        let at = (node as u64) << (SLOTS_LOG2 * (level as u32 + 1));
        let slots = self.slots(level, node);
        slots.check(at)?;
        let mut found = [0; LEVELS * CLASSES];
        let children = if level == 0 { 0 } else { 64 };
        for child in (0..children).map(|child| node << SLOTS_LOG2 | child) {
            if child >= self.levels[level - 1].nodes {
                break; // withheld
            }
            let classes = self.check_node(level - 1, child)?;
            let is_closed = self.slots(level - 1, child).is_whole();
            let what = "what is free or a part of a used block is closed, all through";
            let is_free = slots.has(0, (child % 64) as u32);
            Broken::unless(!is_free || is_closed, what, at)?;
            Broken::unless(!is_closed || classes == 0, what, at)?;
            for (class, members) in found.iter_mut().enumerate() {
                *members |= u64::from(classes >> class & 1) << (child % 64);
            }
        }
        for word in 2..NODE_WORDS[level] {
            let class = (MASKS + CLASSES * level).checked_sub(word + 1);
            let class = class.filter(|&class| class < CLASSES * level);
            let large = found.iter().skip(CLASSES).fold(0, |all, members| all | members);
            let other = if word == LARGE { large } else { 0 };
            let members = class.map_or(other, |class| found[class]);
            let what = "a mask has the children in which an open node has its class";
            Broken::unless_equal(what, at, members, self.word(level, node, word))?;
        }
        let bit = |(class, &members): (usize, &u64)| u32::from(members != 0) << class;
        let below = found.iter().enumerate().map(bit).fold(0, |all, bit| all | bit);
        if slots.is_whole() || slots.free() == 0 {
            return Ok(below);
        }
        Ok(below | 1 << (SLOTS_LOG2 * (level as u32 + 1) - slots.halvings()))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec;
    use std::vec::Vec;

    /// In a tree of all four levels: blocks of one slot of each, of two, and of half of a node.
    #[test]
    fn blocks_of_every_level_are_taken_in_the_order_of_their_addresses() {
        const UNITS: u32 = 3 << 18;
        let mut words = vec![0_u64; Tree::bytes(UNITS) as usize / 8];
        let at = NonNull::from(&mut words[..]).cast();
        // SAFETY: as many bytes, used by nothing else.
        let mut tree = unsafe { Tree::new(at, UNITS) };
        for order in [19, 18, 17, 12, 11, 6, 5, 0] {
            let most = (UNITS >> order).min(300);
            let taken: Vec<_> = (0..most).map(|_| tree.take(order).expect("free")).collect();
            assert!(
                taken.iter().enumerate().all(|(i, &unit)| unit == (i as u32) << order),
                "{order}"
            );
            assert_eq!(tree.take(order).is_some(), UNITS >> order > 300, "{order}");
            tree.check().expect("whole");
            taken.iter().for_each(|&unit| tree.give(unit, order));
            if UNITS >> order > 300 {
                tree.give(300 << order, order);
            }
            tree.check().expect("whole again");
        }
    }
}
