//! A search tree inside the free blocks: the list algorithms' choices in O(log n).
//!
//! A treap (Seidel and Aragon, "Randomized search trees", Algorithmica 16, 1996): in the order of
//! a key from left to right, in the order of a priority from the root down. The priority is a hash
//! of the place where the block *ends*, so nothing is drawn at random and nothing is stored for
//! it, and the shape follows from the set of free blocks alone. (Ends, because what is left of a
//! block after its lower part was used ends where the block did, and so does a free block merged
//! with one below: both then keep their place in the tree, and no rotation is needed.) The links
//! of a free block are
//!
//! ```text
//!   | LEFT | RIGHT | UP | MAX: the longest block of this subtree, in granules |
//! ```
//!
//! `MAX` is kept for trees keyed by address ([`ByAddress`]): it lets a search for the *first*
//! block that fits skip whole subtrees. Trees keyed by size ([`BySize`], [`BySizeDown`]) need no
//! such help. `UP` saves the search for a block that is leaving and lets an update of `MAX` stop
//! where nothing changes any more.
//!
//! Depth: O(log n) expected, for the hash is fixed: whoever knows it *and* rules over every
//! address can build a deep tree. No operation recurses, so that costs time and never stack.
//!
//! What costs time is not instructions but the blocks touched, each a line of cache of its own:
//! so `MAX` is recomputed from children only where it may have fallen.
//!
//! Neighbours: the fits choose a key and ask the question; see there.

#![deny(unsafe_code)]

use super::index::{Census, LongestTwo};
use super::tags::{Block, Granules, Tags, View};
use crate::check::Broken;
use crate::policy::Distance;
use crate::probe::{Probe, Step};
use core::marker::PhantomData;

const LEFT: usize = 0;
const RIGHT: usize = 1;
const UP: usize = 2;
const MAX: usize = 3;

/// The order of a tree.
pub trait Key: Default {
    /// Whether `MAX` is kept.
    const MAXIMA: bool;

    /// The key of a free block of this size. Different for different blocks.
    fn of(block: Block, size: Granules) -> u64;

    /// The key of a free block in the tree.
    fn read<P: Probe>(view: &mut View<P>, block: Block) -> u64;
}

/// From the lowest address to the highest, knowing the longest block of every subtree.
#[derive(Debug, Default)]
pub struct ByAddress;

/// From the shortest block to the longest, the lower address first.
#[derive(Debug, Default)]
pub struct BySize;

/// From the shortest block to the longest, the higher address first: the last one is the longest
/// and, of several, the lowest.
#[derive(Debug, Default)]
pub struct BySizeDown;

impl Key for ByAddress {
    const MAXIMA: bool = true;

    fn of(block: Block, _: Granules) -> u64 {
        block.granule().into()
    }

    fn read<P: Probe>(_: &mut View<P>, block: Block) -> u64 {
        block.granule().into()
    }
}

impl Key for BySize {
    const MAXIMA: bool = false;

    fn of(block: Block, size: Granules) -> u64 {
        u64::from(size.count()) << 32 | u64::from(block.granule())
    }

    fn read<P: Probe>(view: &mut View<P>, block: Block) -> u64 {
        Self::of(block, view.size(block))
    }
}

impl Key for BySizeDown {
    const MAXIMA: bool = false;

    fn of(block: Block, size: Granules) -> u64 {
        u64::from(size.count()) << 32 | u64::from(!block.granule())
    }

    fn read<P: Probe>(view: &mut View<P>, block: Block) -> u64 {
        Self::of(block, view.size(block))
    }
}

/// The rank of a block: a bijection of its end, so that no two tie. The constants are those of
/// the finalizer of MurmurHash3 (Appleby).
fn rank(block: Block, size: Granules) -> u32 {
    let mut x = block.granule().wrapping_add(size.count());
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// The rank of a free block in the tree.
fn read_rank<P: Probe>(view: &mut View<P>, block: Block) -> u32 {
    rank(block, view.size(block))
}

fn other(side: usize) -> usize {
    LEFT + RIGHT - side
}

/// The tree; see the module.
#[derive(Debug, Default)]
pub struct Treap<K> {
    root: Option<Block>,
    key: PhantomData<K>,
}

/// The shape: who is above whom.
impl<K: Key> Treap<K> {
    /// The tree without blocks.
    pub(super) const EMPTY: Self = Treap { root: None, key: PhantomData };

    fn root<P: Probe>(&self, view: &mut View<P>) -> Option<Block> {
        view.step(Step::Index);
        self.root
    }

    /// Hangs `child` under `parent` (or makes it the root).
    fn hang<P: Probe>(
        &mut self,
        view: &mut View<P>,
        parent: Option<(Block, usize)>,
        child: Option<Block>,
    ) {
        match parent {
            Some((parent, side)) => view.set_link(parent, side, child),
            None => {
                view.step(Step::Index);
                self.root = child;
            }
        }
        if let Some(child) = child {
            view.set_link(child, UP, parent.map(|(parent, _)| parent));
        }
    }

    /// What `block` hangs under, and on which side.
    fn parent<P: Probe>(&self, view: &mut View<P>, block: Block) -> Option<(Block, usize)> {
        let parent = view.link(block, UP)?;
        let side = if view.link(parent, LEFT) == Some(block) { LEFT } else { RIGHT };
        Some((parent, side))
    }

    /// Turns the edge between `block` and its parent, which hangs under `block` afterwards.
    fn rotate_up<P: Probe>(&mut self, view: &mut View<P>, block: Block, parent: (Block, usize)) {
        let (parent, side) = parent;
        let above = self.parent(view, parent);
        let middle = view.link(block, other(side));
        self.hang(view, Some((parent, side)), middle);
        self.hang(view, above, Some(block));
        self.hang(view, Some((block, other(side))), Some(parent));
        if K::MAXIMA {
            let whole = view.length(parent, MAX);
            view.set_length(block, MAX, whole);
            self.pull(view, parent, whole);
        }
    }

    /// Rotates `block` up while it outranks what it hangs under.
    fn sift_up<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let rank = rank(block, size);
        while let Some(parent) = self.parent(view, block) {
            if read_rank(view, parent.0) > rank {
                break;
            }
            self.rotate_up(view, block, parent);
        }
    }

    /// Rotates children over `block` while one outranks it.
    fn sift_down<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        loop {
            let mut highest = (rank(block, size), None);
            for side in [LEFT, RIGHT] {
                if let Some(child) = view.link(block, side) {
                    highest = highest.max((read_rank(view, child), Some((child, side))));
                }
            }
            let Some((child, side)) = highest.1 else { break };
            self.rotate_up(view, child, (block, side));
        }
    }
}

/// `MAX`, where it is kept.
impl<K: Key> Treap<K> {
    fn max<P: Probe>(&self, view: &mut View<P>, tree: Option<Block>) -> Granules {
        tree.map_or(Granules::default(), |block| view.length(block, MAX))
    }

    /// Computes `MAX` of `block`, which is `bound` at most. The children are asked only if the
    /// block itself is shorter than that.
    fn pull<P: Probe>(&self, view: &mut View<P>, block: Block, bound: Granules) -> Granules {
        let mut max = view.size(block);
        if max < bound {
            for side in [LEFT, RIGHT] {
                let child = view.link(block, side);
                max = max.max(self.max(view, child));
            }
        }
        view.set_length(block, MAX, max);
        max
    }

    /// Makes `MAX` at least `size` from `from` upwards.
    fn raise<P: Probe>(&self, view: &mut View<P>, from: Option<Block>, size: Granules) {
        let mut at = from;
        while let Some(block) = at {
            if view.length(block, MAX) >= size {
                break;
            }
            view.set_length(block, MAX, size);
            at = view.link(block, UP);
        }
    }

    /// From `from` upwards: something below (or the block itself) that was `was` long, the
    /// longest perhaps, is so no more. Stops where something else is, or still is as long.
    fn lower<P: Probe>(&self, view: &mut View<P>, from: Option<Block>, was: Granules) {
        let mut at = from;
        while let Some(block) = at {
            if view.length(block, MAX) > was || self.pull(view, block, was) == was {
                break;
            }
            at = view.link(block, UP);
        }
    }
}

/// What an index does.
impl<K: Key> Treap<K> {
    /// Whether it holds no block.
    pub(super) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Takes in `block`: hangs it under a leaf, then lifts it to its rank.
    pub(super) fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let key = K::of(block, size);
        let mut place = None;
        let mut at = self.root(view);
        while let Some(here) = at {
            if K::MAXIMA && view.length(here, MAX) < size {
                view.set_length(here, MAX, size);
            }
            let side = if key < K::read(view, here) { LEFT } else { RIGHT };
            place = Some((here, side));
            at = view.link(here, side);
        }
        view.set_link(block, LEFT, None);
        view.set_link(block, RIGHT, None);
        if K::MAXIMA {
            view.set_length(block, MAX, size);
        }
        self.hang(view, place, Some(block));
        self.sift_up(view, block, size);
    }

    /// Forgets `block`; its two subtrees become one in its place.
    pub(super) fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block) {
        let above = self.parent(view, block);
        let (left, right) = (view.link(block, LEFT), view.link(block, RIGHT));
        self.hang_merged(view, above, left, right);
        if K::MAXIMA {
            let was = view.length(block, MAX);
            self.lower(view, above.map(|(parent, _)| parent), was);
        }
    }

    /// Hangs two trees, one wholly before the other, as one.
    fn hang_merged<P: Probe>(
        &mut self,
        view: &mut View<P>,
        parent: Option<(Block, usize)>,
        mut left: Option<Block>,
        mut right: Option<Block>,
    ) {
        let mut place = parent;
        while let (Some(l), Some(r)) = (left, right) {
            let left_wins = read_rank(view, l) > read_rank(view, r);
            let (winner, loser, side) = if left_wins { (l, r, RIGHT) } else { (r, l, LEFT) };
            if K::MAXIMA {
                let max = view.length(loser, MAX);
                if view.length(winner, MAX) < max {
                    view.set_length(winner, MAX, max);
                }
            }
            self.hang(view, place, Some(winner));
            place = Some((winner, side));
            let rest = view.link(winner, side);
            if left_wins {
                left = rest;
            } else {
                right = rest;
            }
        }
        self.hang(view, place, left.or(right));
    }

    /// Puts `new` where `old` was. Only for keys whose order that keeps: [`ByAddress`].
    pub(super) fn replace<P: Probe>(
        &mut self,
        view: &mut View<P>,
        old: (Block, Granules),
        new: (Block, Granules),
    ) {
        let ((old, was), (new, is)) = (old, new);
        if old != new {
            let above = self.parent(view, old);
            let (left, right) = (view.link(old, LEFT), view.link(old, RIGHT));
            let max = view.length(old, MAX);
            self.hang(view, above, Some(new));
            self.hang(view, Some((new, LEFT)), left);
            self.hang(view, Some((new, RIGHT)), right);
            view.set_length(new, MAX, max);
        }
        if is > was {
            self.raise(view, Some(new), is);
        } else {
            self.lower(view, Some(new), was);
        }
        if rank(old, was) != rank(new, is) {
            self.sift_up(view, new, is);
            self.sift_down(view, new, is);
        }
    }

    /// Fetches what [`remove`](Self::remove) of `block` will touch first.
    #[inline]
    pub(super) fn foresee_remove(tags: &Tags, block: Block) {
        let mut view = tags.quiet();
        for slot in [LEFT, RIGHT, UP] {
            if let Some(neighbour) = view.link(block, slot) {
                tags.fetch(neighbour);
            }
        }
    }

    /// The block with the least key that is at least `key`.
    pub(super) fn at_or_after<P: Probe>(&self, view: &mut View<P>, key: u64) -> Option<Block> {
        let mut found = None;
        let mut at = self.root(view);
        while let Some(block) = at {
            view.step(Step::Inspect);
            let side = if key <= K::read(view, block) {
                found = at;
                LEFT
            } else {
                RIGHT
            };
            at = view.link(block, side);
        }
        found
    }

    /// The block with the least key.
    pub(super) fn first<P: Probe>(&self, view: &mut View<P>) -> Option<Block> {
        let root = self.root(view)?;
        Some(self.leftmost(view, root))
    }

    /// The block with the greatest key.
    pub(super) fn last<P: Probe>(&self, view: &mut View<P>) -> Option<Block> {
        let mut last = self.root(view)?;
        while let Some(right) = view.link(last, RIGHT) {
            last = right;
        }
        Some(last)
    }

    /// The block whose key follows that of `block`.
    pub(super) fn after<P: Probe>(&self, view: &mut View<P>, block: Block) -> Option<Block> {
        if let Some(right) = view.link(block, RIGHT) {
            return Some(self.leftmost(view, right));
        }
        let mut at = block;
        while let Some((parent, side)) = self.parent(view, at) {
            if side == LEFT {
                return Some(parent);
            }
            at = parent;
        }
        None
    }

    /// Adds every block. O(blocks of the tree).
    pub(super) fn add_longest(&self, tags: &Tags, two: &mut LongestTwo) {
        let mut view = tags.quiet();
        let mut at = self.first(&mut view);
        while let Some(block) = at {
            two.add(view.size(block));
            at = self.after(&mut view, block);
        }
    }

    fn leftmost<P: Probe>(&self, view: &mut View<P>, tree: Block) -> Block {
        let mut first = tree;
        while let Some(left) = view.link(first, LEFT) {
            first = left;
        }
        first
    }

    /// Walks the tree in order, by its own links; counts its blocks, which all `belong`.
    pub(super) fn check(
        &self,
        tags: &Tags,
        census: &mut Census,
        belongs: impl Fn(Block, Granules) -> bool,
    ) -> Result<(), Broken> {
        let mut view = tags.quiet();
        let Some(root) = self.root else { return Ok(()) };
        check_member(tags, root)?;
        let above = view.link(root, UP);
        Broken::unless(above.is_none(), "nothing is above the root", root.tag_at())?;
        let mut at = Some(leftmost_checked(tags, root)?);
        let mut prev_key = None;
        while let Some(block) = at {
            census.add_indexed(tags, block)?;
            let right = belongs(block, view.size(block));
            Broken::unless(right, "a tree holds blocks of its kind", block.tag_at())?;
            let key = K::read(&mut view, block);
            let rising = prev_key.is_none_or(|prev| prev < key);
            Broken::unless(rising, "a tree is in the order of its key", block.tag_at())?;
            prev_key = Some(key);
            at = match child_checked(tags, block, RIGHT)? {
                Some(right) => Some(leftmost_checked(tags, right)?),
                None => self.after(&mut view, block),
            };
            self.check_max(tags, block)?;
        }
        Ok(())
    }

    /// `MAX` of a block whose children have been checked.
    fn check_max(&self, tags: &Tags, block: Block) -> Result<(), Broken> {
        if !K::MAXIMA {
            return Ok(());
        }
        let mut view = tags.quiet();
        let said = view.length(block, MAX);
        let (left, right) = (view.link(block, LEFT), view.link(block, RIGHT));
        let below = self.max(&mut view, left).max(self.max(&mut view, right));
        let max = view.size(block).max(below);
        let what = "a subtree knows its longest block";
        Broken::unless_equal(what, block.tag_at(), max.bytes(), said.bytes())
    }
}

fn check_member(tags: &Tags, block: Block) -> Result<(), Broken> {
    let at = block.tag_at();
    Broken::unless(tags.contains(block), "an index holds blocks of its region", at)?;
    Broken::unless(tags.quiet().tag(block).is_free(), "an index holds free blocks only", at)
}

/// The child of `block` on `side`: there, linked back, and outranked.
fn child_checked(tags: &Tags, block: Block, side: usize) -> Result<Option<Block>, Broken> {
    let mut view = tags.quiet();
    let Some(child) = view.link(block, side) else { return Ok(None) };
    check_member(tags, child)?;
    let at = child.tag_at();
    let linked = view.link(child, UP) == Some(block);
    Broken::unless(linked, "a child links back to what it hangs under", at)?;
    let ranked = read_rank(&mut view, block) > read_rank(&mut view, child);
    Broken::unless(ranked, "a parent outranks its children", at)?;
    Ok(Some(child))
}

/// The leftmost block of a subtree. Ends, because ranks fall at every step.
fn leftmost_checked(tags: &Tags, tree: Block) -> Result<Block, Broken> {
    let mut first = tree;
    while let Some(left) = child_checked(tags, first, LEFT)? {
        first = left;
    }
    Ok(first)
}

/// Searches that `MAX` makes possible.
impl Treap<ByAddress> {
    /// The length of the longest block, unwatched. O(1).
    pub(super) fn largest(&self, tags: &Tags) -> Granules {
        self.max(&mut tags.quiet(), self.root)
    }

    /// The length of the longest block. O(1).
    pub(super) fn longest<P: Probe>(&self, view: &mut View<P>) -> Granules {
        let root = self.root(view);
        self.max(view, root)
    }

    /// Fetches the first blocks on the way from the root to the place of `block`: with every step
    /// nearer in time one more.
    #[inline]
    pub(super) fn foresee_insert(&self, tags: &Tags, block: Block, distance: Distance) {
        let steps = match distance {
            Distance::Far => 0,
            Distance::Middle => 1,
            Distance::Near => 2,
        };
        let mut view = tags.quiet();
        let mut at = self.root;
        for _ in 0..steps {
            let Some(here) = at else { return };
            at = view.link(here, if block < here { LEFT } else { RIGHT });
        }
        if let Some(here) = at {
            tags.fetch(here);
        }
    }

    /// The lowest block that holds `need`.
    pub(super) fn first_fit<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let root = self.root(view);
        self.first_fit_in(view, root, need)
    }

    /// The lowest block that holds `need`, at `from` or above.
    pub(super) fn first_fit_from<P: Probe>(
        &self,
        view: &mut View<P>,
        from: Block,
        need: Granules,
    ) -> Option<Block> {
        let mut at = from;
        let mut inside = true; // `at` and its right subtree lie at `from` or above
        loop {
            if inside {
                view.step(Step::Inspect);
                if view.size(at) >= need {
                    return Some(at);
                }
                let right = view.link(at, RIGHT);
                if let Some(found) = self.first_fit_in(view, right, need) {
                    return Some(found);
                }
            }
            let (parent, side) = self.parent(view, at)?;
            inside = side == LEFT;
            at = parent;
        }
    }

    /// The lowest block of a subtree that holds `need`: down the left edge of what is promised.
    fn first_fit_in<P: Probe>(
        &self,
        view: &mut View<P>,
        tree: Option<Block>,
        need: Granules,
    ) -> Option<Block> {
        if self.max(view, tree) < need {
            return None;
        }
        let mut at = tree?;
        loop {
            view.step(Step::Inspect);
            let left = view.link(at, LEFT);
            if self.max(view, left) >= need {
                at = left?;
            } else if view.size(at) >= need {
                return Some(at);
            } else {
                at = view.link(at, RIGHT)?;
            }
        }
    }
}
