//! dlmalloc's trees: digital tries of the blocks of half a doubling of sizes, inside the blocks.
//!
//! From the root down, the bits of a block's size below the trie's own prefix say left or right, the
//! highest first. Unlike in a search tree a node may be shorter or longer than what hangs under it;
//! but all under its right child are longer than all under its left. Blocks of one size hang in a
//! list on the one of them that is in the trie:
//!
//! ```text
//!   in the trie    | left child | right child | up            | first of the same size |
//!   in a list      | itself     | -           | up or before  | next                   |
//! ```
//!
//! The depth is at most the number of bits, 64, whatever the blocks.

use freehold_blocks::check::Broken;
use freehold_blocks::probe::{Probe, Step};
use freehold_blocks::{Block, Census, Granules, Tags, View};

/// Two tries a doubling from 256 B on; the last holds all above.
pub const TREES: usize = 32;

const LEFT: usize = 0;
const RIGHT: usize = 1;
const UP: usize = 2;
const SAME: usize = 3;

/// log2 of the least size that is in a trie.
const FIRST_LOG2: u32 = 8;

/// The trie for blocks of `size`, which must be at least 256 B.
pub fn tree_of(size: Granules) -> usize {
    let bytes = size.bytes();
    let doubling = (bytes >> FIRST_LOG2).checked_ilog2().unwrap_or(0);
    let half = (bytes >> (doubling + FIRST_LOG2 - 1)) as usize & 1;
    (2 * doubling as usize + half).min(TREES - 1)
}

/// The size with the first bit that tries of `tree` branch on as its highest.
fn ways(tree: usize, size: Granules) -> u64 {
    if tree == TREES - 1 {
        return size.bytes();
    }
    size.bytes() << (63 - (tree as u32 / 2 + FIRST_LOG2 - 2))
}

fn side(ways: u64) -> usize {
    (ways >> 63) as usize
}

/// One trie; see the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trie {
    root: Option<Block>,
}

impl Trie {
    /// Whether it holds no block.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Takes in `block`; this is the trie `tree`.
    pub fn insert<P: Probe>(
        &mut self,
        view: &mut View<P>,
        tree: usize,
        block: Block,
        size: Granules,
    ) {
        (LEFT..=SAME).for_each(|link| view.set_link(block, link, None));
        let Some(mut at) = self.root else {
            view.step(Step::Index);
            self.root = Some(block);
            return;
        };
        let mut ways = ways(tree, size);
        loop {
            view.step(Step::Inspect);
            if view.size(at) == size {
                return join(view, at, block);
            }
            match view.link(at, side(ways)) {
                Some(child) => at = child,
                None => {
                    view.set_link(at, side(ways), Some(block));
                    view.set_link(block, UP, Some(at));
                    return;
                }
            }
            ways <<= 1;
        }
    }

    /// Forgets `block`.
    pub fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block) {
        let (up, same) = (view.link(block, UP), view.link(block, SAME));
        if view.link(block, LEFT) == Some(block) {
            link_same(view, up, same);
            return;
        }
        let heir = match same {
            Some(same) => Some(same),
            None => detach_leaf(view, block),
        };
        let children = [LEFT, RIGHT].map(|side| view.link(block, side));
        if let Some(heir) = heir {
            for (side, child) in children.into_iter().enumerate() {
                view.set_link(heir, side, child);
                if let Some(child) = child {
                    view.set_link(child, UP, Some(heir));
                }
            }
            view.set_link(heir, UP, up);
        }
        match up {
            Some(up) => replace_child(view, up, block, heir),
            None => {
                view.step(Step::Index);
                self.root = heir;
            }
        }
    }

    /// The shortest block that holds `need`; this is the trie `tree`, and `need` belongs to it.
    pub fn best<P: Probe>(&self, view: &mut View<P>, tree: usize, need: Granules) -> Option<Block> {
        let mut best = Best { need, block: None, size: None };
        let (mut at, mut longer) = (self.root, None);
        let mut ways = ways(tree, need);
        while let Some(block) = at {
            if best.judge(view, block) {
                return best.block;
            }
            if side(ways) == LEFT {
                longer = view.link(block, RIGHT).or(longer);
            }
            at = view.link(block, side(ways));
            ways <<= 1;
        }
        best.descend(view, longer);
        best.block
    }

    /// The shortest block.
    pub fn least<P: Probe>(&self, view: &mut View<P>) -> Option<Block> {
        let mut best = Best { need: Granules::default(), block: None, size: None };
        best.descend(view, self.root);
        best.block
    }

    /// The length of the longest block.
    pub fn largest(&self, tags: &Tags) -> Granules {
        let mut view = tags.quiet();
        let (mut at, mut largest) = (self.root, Granules::default());
        while let Some(block) = at {
            largest = largest.max(view.size(block));
            at = view.link(block, RIGHT).or_else(|| view.link(block, LEFT));
        }
        largest
    }

    /// Walks it all. No call recurses: the path is as long as a size has bits.
    pub fn check(&self, tags: &Tags, census: &mut Census, tree: usize) -> Result<(), Broken> {
        let mut view = tags.quiet();
        let mut open: Vec<(Block, Option<Block>, u64, u32)> = Vec::new();
        open.extend(self.root.map(|root| (root, None, 0, 0)));
        while let Some((block, up, prefix, depth)) = open.pop() {
            census.add_indexed(tags, block)?;
            let (at, size) = (block.tag_at(), view.size(block));
            Broken::unless(view.link(block, UP) == up, "a child knows what it hangs under", at)?;
            Broken::unless(tree_of(size) == tree, "a trie holds sizes of its own", at)?;
            let way = ways(tree, size).checked_shr(64 - depth).unwrap_or(0);
            Broken::unless_equal("a size's bits are its way from the root", at, prefix, way)?;
            check_same(tags, census, block)?;
            for side in [LEFT, RIGHT] {
                let child = view.link(block, side);
                let way = prefix << 1 | side as u64;
                open.extend(child.map(|child| (child, Some(block), way, depth + 1)));
            }
        }
        Ok(())
    }
}

/// The shortest block seen that holds `need`.
struct Best {
    need: Granules,
    block: Option<Block>,
    size: Option<Granules>,
}

impl Best {
    /// Looks at one block; whether it fits exactly.
    fn judge<P: Probe>(&mut self, view: &mut View<P>, block: Block) -> bool {
        view.step(Step::Inspect);
        let size = view.size(block);
        if size >= self.need && self.size.is_none_or(|best| size < best) {
            (self.block, self.size) = (Some(block), Some(size));
        }
        size == self.need
    }

    /// Looks at the way to the shortest block under `at`.
    fn descend<P: Probe>(&mut self, view: &mut View<P>, at: Option<Block>) {
        let mut at = at;
        while let Some(block) = at {
            self.judge(view, block);
            at = match view.link(block, LEFT) {
                Some(left) => Some(left),
                None => view.link(block, RIGHT),
            };
        }
    }
}

/// Hangs `block` into the list of those as long as `at`.
fn join<P: Probe>(view: &mut View<P>, at: Block, block: Block) {
    let next = view.link(at, SAME);
    view.set_link(block, LEFT, Some(block));
    view.set_link(block, UP, Some(at));
    view.set_link(block, SAME, next);
    view.set_link(at, SAME, Some(block));
    if let Some(next) = next {
        view.set_link(next, UP, Some(block));
    }
}

/// Makes `before` and `next` neighbours in a list of one size.
fn link_same<P: Probe>(view: &mut View<P>, before: Option<Block>, next: Option<Block>) {
    if let Some(before) = before {
        view.set_link(before, SAME, next);
    }
    if let Some(next) = next {
        view.set_link(next, UP, before);
    }
}

/// Takes some leaf from under `block`, if anything hangs there.
fn detach_leaf<P: Probe>(view: &mut View<P>, block: Block) -> Option<Block> {
    let child = |view: &mut View<P>, of: Block| match view.link(of, RIGHT) {
        Some(right) => Some((RIGHT, right)),
        None => view.link(of, LEFT).map(|left| (LEFT, left)),
    };
    let mut parent = block;
    let (mut side, mut leaf) = child(view, block)?;
    while let Some((next_side, next)) = child(view, leaf) {
        (parent, side, leaf) = (leaf, next_side, next);
    }
    view.set_link(parent, side, None);
    Some(leaf)
}

fn replace_child<P: Probe>(view: &mut View<P>, parent: Block, old: Block, new: Option<Block>) {
    let side = if view.link(parent, LEFT) == Some(old) { LEFT } else { RIGHT };
    view.set_link(parent, side, new);
}

fn check_same(tags: &Tags, census: &mut Census, block: Block) -> Result<(), Broken> {
    let mut view = tags.quiet();
    let size = view.size(block);
    let mut before = block;
    while let Some(next) = view.link(before, SAME) {
        census.add_indexed(tags, next)?;
        let at = next.tag_at();
        Broken::unless(view.size(next) == size, "a list of one size holds one size", at)?;
        let marked = view.link(next, LEFT) == Some(next) && view.link(next, UP) == Some(before);
        Broken::unless(marked, "a list of one size is linked both ways", at)?;
        before = next;
    }
    Ok(())
}
