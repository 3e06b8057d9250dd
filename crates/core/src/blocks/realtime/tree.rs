//! Which aligned slots are free: a tree of 64-way words, at most four levels.
//!
//! ```text
//!   level 3   1 node           64 slots of 2^18 units
//!   level 2   64 nodes         64 slots of 2^12 units each
//!   level 1   4,096 nodes      64 slots of 2^6 units each
//!   level 0   262,144 words    64 units each, a bit for each that is free
//! ```
//!
//! A node's *best* is 1 + the order of the longest aligned block that is free in it, 0 when none is.
//! Six orders belong to a level: order 6 l + i is a run of 2^i slots of level l at a multiple of 2^i, which
//! shifts and ands find in one word. A node above level 0 keeps its 64 children sorted by their bests: a
//! mask for each best, and a bit for each mask that is not zero. So the *lowest* block of order k is found by
//! taking, level by level, the lowest child in any mask of best k + 1 or more; and a change of one
//! word moves one child from mask to mask on each level above, no more.
//!
//! A slot that is entirely free or entirely part of a used block is not looked into: its subtree says
//! "all free" inside, and is true again as soon as it is looked into. So neither cutting nor merging
//! touches more than one path.
//!
//! Invariant: the mask in which a child is, is that of its best, unless the child is part of a used
//! block: then it is in mask 0. Levels are written out, not looped over: there is no loop here.

use crate::check::Broken;
use core::ptr::NonNull;

/// log2 of the slots of a node.
const WAYS_LOG2: u32 = 6;
/// The most levels.
const LEVELS: usize = 4;
/// The most units: one less than the slots of all levels, so that every block is a part of a node.
pub(super) const MAX_UNITS: u32 = (1 << (WAYS_LOG2 * LEVELS as u32)) - 1;

/// Words of a node: which masks are not zero; a mask for each best of a child, 0 to 6 l + 1; and zeros, so
/// that "this best or more" is always as many masks.
const fn node_words(level: usize) -> u32 {
    if level == 0 { 1 } else { 1 + 2 * masks(level) }
}

/// How many bests a child of a node of that level can have.
const fn masks(level: usize) -> u32 {
    WAYS_LOG2 * level as u32 + 2
}

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
    /// The best of each node.
    bests: NonNull<u8>,
    /// How many nodes; for assertions.
    nodes: u32,
}

/// How many nodes each level has for so many units, and how many levels there are.
const fn nodes(units: u32) -> ([u32; LEVELS], usize) {
    assert!(units <= MAX_UNITS);
    let (mut counts, mut level, mut count) = ([0; LEVELS], 0, units);
    loop {
        count = count.div_ceil(1 << WAYS_LOG2);
        counts[level] = count;
        level += 1;
        if units >> (WAYS_LOG2 * level as u32) == 0 {
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
            sum += counts[level] as u64 * (node_words(level) as u64 * 8 + 1);
            level += 1;
        }
        sum.next_multiple_of(8)
    }

    /// All `units` free.
    ///
    /// # Safety
    /// The [`Tree::bytes`] at `at`, 8-aligned, are nobody else's for as long as the tree lives;
    /// `units` is 1 to [`MAX_UNITS`].
    pub(super) unsafe fn new(at: NonNull<u8>, units: u32) -> Tree {
        let (counts, count) = nodes(units);
        let words: NonNull<u64> = at.cast();
        let total: u32 = (0..count).map(|level| counts[level] * node_words(level)).sum();
        // SAFETY: the bests follow the words, inside the caller's bytes.
        let bests: NonNull<u8> = unsafe { words.add(total as usize) }.cast();
        let (mut levels, mut word, mut best) = ([Level { words, bests, nodes: 0 }; LEVELS], 0, 0);
        for level in 0..count {
            // SAFETY: each level's nodes follow those of the level below.
            let (words, bests) = unsafe { (words.add(word as usize), bests.add(best as usize)) };
            levels[level] = Level { words, bests, nodes: counts[level] };
            word += counts[level] * node_words(level);
            best += counts[level];
        }
        let mut tree = Tree { levels, top: count - 1 };
        for (level, &nodes) in counts.iter().enumerate().take(count) {
            for node in 0..nodes {
                tree.fill(level, node);
            }
        }
        tree.withhold(units);
        tree
    }

    /// A node all of whose slots are free.
    fn fill(&mut self, level: usize, node: u32) {
        for word in 0..node_words(level) {
            self.set(level, node, word, 0);
        }
        if level > 0 {
            self.set(level, node, 0, 1 << best_of_slot(level));
        }
        self.set(level, node, whole_word(level), !0);
        self.set_best(level, node, best_of_slot(level + 1));
    }

    /// Makes what lies behind the last unit, up to where the tree ends, used for good.
    fn withhold(&mut self, units: u32) {
        let end = 1_u64 << (WAYS_LOG2 * (self.top as u32 + 1));
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
        let best = order + 1;
        if self.best(self.top, 0) < best {
            return None;
        }
        let (home, run) = (order / WAYS_LOG2, order % WAYS_LOG2);
        match home {
            0 => Some(self.take_from::<0>(best, run)),
            1 => Some(self.take_from::<1>(best, run)),
            2 => Some(self.take_from::<2>(best, run)),
            _ => Some(self.take_from::<3>(best, run)),
        }
    }

    /// As [`take`](Self::take), of an order of that level, when there is such a block.
    #[inline(always)]
    fn take_from<const HOME: usize>(&mut self, best: u32, run: u32) -> u32 {
        let mut node = 0;
        if HOME < 3 && self.top >= 3 {
            node = self.descend::<3, { masks(3) as usize }>(node, best);
        }
        if HOME < 2 && self.top >= 2 {
            node = self.descend::<2, { masks(2) as usize }>(node, best);
        }
        if HOME < 1 && self.top >= 1 {
            node = self.descend::<1, { masks(1) as usize }>(node, best);
        }
        let whole = self.word(HOME, node, whole_word(HOME));
        let slot = lowest_run(whole, run);
        self.change::<HOME>(node, whole, whole & !(run_of(run) << slot));
        (node << WAYS_LOG2 | slot) << (WAYS_LOG2 * HOME as u32)
    }

    /// The lowest child of the node whose best is `best` or more. There is one.
    #[inline(always)]
    fn descend<const LEVEL: usize, const MASKS: usize>(&self, node: u32, best: u32) -> u32 {
        debug_assert!(best < masks(LEVEL));
        let from = self.at(LEVEL, node, 1 + best).cast::<[u64; MASKS]>();
        // SAFETY: words of one node, and the zeros behind its masks (`node_words`).
        let masks = unsafe { from.as_ref() };
        let children = masks.iter().fold(0, |any, mask| any | mask);
        node << WAYS_LOG2 | children.trailing_zeros()
    }

    /// Takes the block of that order at `unit`, which is free.
    pub(super) fn take_at(&mut self, unit: u32, order: u32) {
        let (home, node, slots) = place(unit, order);
        let whole = self.word(home, node, whole_word(home));
        debug_assert!(whole & slots == slots, "unit {unit} of order {order} is not free");
        self.change_at(home, node, whole, whole & !slots);
    }

    /// Makes the block of that order at `unit` free, which is used.
    #[inline(always)]
    pub(super) fn give(&mut self, unit: u32, order: u32) {
        let (home, node, slots) = place(unit, order);
        let whole = self.word(home, node, whole_word(home));
        debug_assert!(whole & slots == 0, "unit {unit} of order {order} is not used");
        self.change_at(home, node, whole, whole | slots);
    }

    /// Whether the block of that order at `unit` is entirely free. At most four levels.
    pub(super) fn is_free(&self, unit: u32, order: u32) -> bool {
        let (home, mut node, slots) = place(unit, order);
        if self.word(home, node, whole_word(home)) & slots != slots {
            return false;
        }
        for level in home + 1..=self.top {
            let child = 1 << (node % 64);
            node >>= WAYS_LOG2;
            // A child that is part of a used block says "all free" inside.
            if self.mask(level, node, 0) & child != 0 {
                return false;
            }
        }
        true
    }

    /// The order of the longest free block, and one more; 0 when there is none.
    pub(super) fn best_of_all(&self) -> u32 {
        self.best(self.top, 0)
    }

    #[inline(always)]
    fn change_at(&mut self, home: usize, node: u32, old: u64, new: u64) {
        match home {
            0 => self.change::<0>(node, old, new),
            1 => self.change::<1>(node, old, new),
            2 => self.change::<2>(node, old, new),
            _ => self.change::<3>(node, old, new),
        }
    }

    /// The slots of the node that are entirely free became `new`, from `old`: tells the nodes above.
    #[inline(always)]
    fn change<const HOME: usize>(&mut self, node: u32, old: u64, new: u64) {
        self.set(HOME, node, whole_word(HOME), new);
        let mut occupied = 0;
        if HOME > 0 {
            // What is used as a part of something longer is in mask 0.
            let none = self.word(HOME, node, 1) ^ old ^ new;
            self.set(HOME, node, 1, none);
            let whole = best_of_slot(HOME);
            let kept = self.word(HOME, node, 0) & !(1 << whole | 1);
            occupied = kept | u64::from(new != 0) << whole | u64::from(none != 0);
            self.set(HOME, node, 0, occupied);
        }
        let best = best_from(HOME, occupied, new);
        let mut moved = self.became(HOME, node, best);
        if HOME < 1 && self.top >= 1 {
            moved = moved.and_then(|moved| self.tell::<1>(moved));
        }
        if HOME < 2 && self.top >= 2 {
            moved = moved.and_then(|moved| self.tell::<2>(moved));
        }
        if HOME < 3 && self.top >= 3 {
            moved.and_then(|moved| self.tell::<3>(moved));
        }
    }

    /// The node's best is `best` now; what that means for the node above, if anything.
    #[inline(always)]
    fn became(&mut self, level: usize, node: u32, best: u32) -> Option<Moved> {
        let old = self.best(level, node);
        if old == best {
            return None;
        }
        self.set_best(level, node, best);
        Some(Moved { child: node, from: old, to: best })
    }

    /// Moves a child of a node of that level from mask to mask.
    #[inline(always)]
    fn tell<const LEVEL: usize>(&mut self, moved: Moved) -> Option<Moved> {
        let Moved { child, from, to } = moved;
        let (node, bit) = (child >> WAYS_LOG2, 1 << (child % 64));
        let left = self.mask(LEVEL, node, from) & !bit;
        self.set(LEVEL, node, 1 + from, left);
        let joined = self.mask(LEVEL, node, to) | bit;
        self.set(LEVEL, node, 1 + to, joined);
        let gone = u64::from(left == 0) << from;
        let occupied = self.word(LEVEL, node, 0) & !gone | 1 << to;
        self.set(LEVEL, node, 0, occupied);
        let slot = best_of_slot(LEVEL);
        let whole = self.mask(LEVEL, node, slot);
        if whole != 0 && from != slot && to != slot {
            return None;
        }
        self.became(LEVEL, node, best_from(LEVEL, occupied, whole))
    }

    #[inline(always)]
    fn mask(&self, level: usize, node: u32, best: u32) -> u64 {
        self.word(level, node, 1 + best)
    }

    #[inline(always)]
    fn at(&self, level: usize, node: u32, word: u32) -> NonNull<u64> {
        let Level { words, nodes, .. } = self.levels[level % LEVELS];
        debug_assert!(node < nodes && word < node_words(level));
        // SAFETY: nodes of units of the tree have their words in the memory of `new`.
        unsafe { words.add(node as usize * node_words(level) as usize + word as usize) }
    }

    #[inline(always)]
    fn word(&self, level: usize, node: u32, word: u32) -> u64 {
        // SAFETY: a word of the tree, written by `fill`.
        unsafe { self.at(level, node, word).read() }
    }

    #[inline(always)]
    fn set(&mut self, level: usize, node: u32, word: u32, to: u64) {
        // SAFETY: a word of the tree; `&mut self` is the only user.
        unsafe { self.at(level, node, word).write(to) }
    }

    #[inline(always)]
    fn best(&self, level: usize, node: u32) -> u32 {
        // SAFETY: a byte for each node of the tree.
        u32::from(unsafe { self.levels[level % LEVELS].bests.add(node as usize).read() })
    }

    #[inline(always)]
    fn set_best(&mut self, level: usize, node: u32, best: u32) {
        // SAFETY: as in `best`; `&mut self` is the only user.
        unsafe { self.levels[level % LEVELS].bests.add(node as usize).write(best as u8) }
    }

    /// Walks what is not part of a used block, comparing every node with its children.
    pub(super) fn check(&self) -> Result<(), Broken> {
        self.check_node(self.top, 0)
    }

    fn check_node(&self, level: usize, node: u32) -> Result<(), Broken> {
        let at = u64::from(node) << (WAYS_LOG2 * (level as u32 + 1));
        let whole = self.word(level, node, whole_word(level));
        let occupied = if level == 0 { 0 } else { self.word(level, node, 0) };
        let best = best_from(level, occupied, whole);
        let what = "a node's best is that of its longest free block";
        Broken::unless_equal(what, at, best.into(), self.best(level, node).into())?;
        if level == 0 {
            return Ok(());
        }
        let mut seen = 0;
        for best in 0..masks(level) {
            let mask = self.mask(level, node, best);
            Broken::unless(mask & seen == 0, "a child is in one mask", at)?;
            seen |= mask;
            let said = occupied >> best & 1;
            let what = "a bit tells whether a mask is zero";
            Broken::unless_equal(what, at, u64::from(mask != 0), said)?;
            if best == 0 || best == best_of_slot(level) {
                continue;
            }
            let mut children = mask;
            while children != 0 {
                let child = node << WAYS_LOG2 | children.trailing_zeros();
                let found = self.best(level - 1, child);
                let what = "a child is in the mask of its best";
                Broken::unless_equal(what, at, best.into(), found.into())?;
                self.check_node(level - 1, child)?;
                children &= children - 1;
            }
        }
        Broken::unless_equal("every child is in a mask", at, !0, seen)
    }
}

/// The best of a node of which one slot of that level is free, and nothing longer.
#[inline(always)]
const fn best_of_slot(level: usize) -> u32 {
    WAYS_LOG2 * level as u32 + 1
}

/// Which word of a node is the mask of the slots that are entirely free.
#[inline(always)]
const fn whole_word(level: usize) -> u32 {
    if level == 0 { 0 } else { 1 + best_of_slot(level) }
}

/// The best of a node of that level whose masks of `occupied` are not zero, and whose entirely free slots
/// are `whole`.
#[inline(always)]
fn best_from(level: usize, occupied: u64, whole: u64) -> u32 {
    if whole != 0 {
        best_of_slot(level) + longest_run(whole)
    } else {
        // Some child is in some mask; units are in none.
        (occupied | 1).ilog2()
    }
}

/// A child whose best changed.
#[derive(Clone, Copy)]
struct Moved {
    child: u32,
    from: u32,
    to: u32,
}

/// Which slots of which node of which level a block is.
#[inline(always)]
fn place(unit: u32, order: u32) -> (usize, u32, u64) {
    let (home, run) = ((order / WAYS_LOG2) as usize, order % WAYS_LOG2);
    let slot = unit >> (WAYS_LOG2 * home as u32);
    (home, slot >> WAYS_LOG2, run_of(run) << (slot % 64))
}

/// 2^`run` slots.
#[inline(always)]
fn run_of(run: u32) -> u64 {
    (1 << (1 << run)) - 1
}

/// Bits at the multiples of 2^`run`.
const ALIGNED: [u64; 6] = [
    !0,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
];

/// The lowest 2^`run` bits that are set and begin at a multiple of 2^`run`. There are some.
#[inline(always)]
fn lowest_run(bits: u64, run: u32) -> u32 {
    let pairs = bits & bits >> 1;
    let fours = pairs & pairs >> 2;
    let eights = fours & fours >> 4;
    match run {
        0 => bits.trailing_zeros(),
        1 => (pairs & ALIGNED[1]).trailing_zeros(),
        2 => (fours & ALIGNED[2]).trailing_zeros(),
        3 => (eights & ALIGNED[3]).trailing_zeros(),
        4 => (eights & eights >> 8 & ALIGNED[4]).trailing_zeros(),
        // The lower half, or else the upper one.
        _ => {
            if bits as u32 == !0 {
                0
            } else {
                32
            }
        }
    }
}

/// log2 of the longest aligned run of `bits`, which are not zero.
#[inline(always)]
fn longest_run(bits: u64) -> u32 {
    let (low, high) = (bits as u32, (bits >> 32) as u32);
    if low == !0 || high == !0 {
        return if low == high { 6 } else { 5 };
    }
    let pairs = bits & bits >> 1;
    let fours = pairs & pairs >> 2;
    if fours & ALIGNED[2] == 0 {
        return u32::from(pairs & ALIGNED[1] != 0);
    }
    let eights = fours & fours >> 4;
    if eights & ALIGNED[3] == 0 {
        return 2;
    }
    if eights & eights >> 8 & ALIGNED[4] == 0 { 3 } else { 4 }
}

#[cfg(test)]
mod tests {
    use super::{ALIGNED, longest_run, lowest_run, run_of};

    #[test]
    fn runs_are_found_where_a_search_finds_them() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..20_000_u32 {
            bits = bits.rotate_left(7).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ u64::from(round);
            let dense = bits | bits.rotate_left(round % 64) | bits.rotate_right(round / 64 % 64);
            let places = |run: u32| {
                (0..64_u32).step_by(1 << run).find(|&at| dense >> at & run_of(run) == run_of(run))
            };
            let longest = if dense == !0 {
                6
            } else {
                (0..6).rev().find(|&run| places(run).is_some()).unwrap_or(0)
            };
            if dense == 0 {
                continue;
            }
            assert_eq!(longest_run(dense), longest, "{dense:#x}");
            for run in 0..=longest.min(5) {
                assert_eq!(Some(lowest_run(dense, run)), places(run), "{dense:#x} {run}");
            }
        }
        assert!(ALIGNED.iter().enumerate().all(|(run, bits)| bits.count_ones() == 64 >> run));
    }
}
