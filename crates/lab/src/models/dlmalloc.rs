//! dlmalloc 2.8 (Doug Lea): which free block it would take.
//!
//! Its boundary tags, its 16 B alignment, its 32 B smallest block and its immediate merging are
//! those of [`BlockHeap`], so the model is a choice and nothing else:
//!
//! ```text
//!   small  < 256 B:   exact bin; else the designated victim if long enough; else the next bin,
//!                     else the least block of the tries (what is left becomes the victim)
//!   large:            best fit of the tries, unless the victim fits better; what is left is binned
//!   last:             top, the block that ends where the region ends
//! ```
//!
//! The victim is what was left of the last block split for a small request: small requests that
//! follow each other lie side by side. A free neighbour that merges with it becomes part of it.
//!
//! Left out: mapping large requests (the region is all there is) and the footer of top (top may
//! be used up to its last byte).

mod trie;

use freehold_blocks::check::Broken;
use freehold_blocks::probe::{Probe, Step};
use freehold_blocks::{Block, BlockHeap, Census, FreeIndex, Granules, Tags, View};
use trie::{TREES, Trie, tree_of};

/// Blocks below this many granules (256 B) have exact bins.
const SMALL_BELOW: u32 = 16;

const DOWN: usize = 0;
const UP: usize = 1;

/// The model of dlmalloc.
pub type Dlmalloc = BlockHeap<Bins>;

/// A free block and its length.
type Free = (Block, Granules);

/// What the last search chose.
#[derive(Clone, Copy, Debug)]
struct Found {
    block: Block,
    /// Whether what is left over becomes the victim.
    rest_to_victim: bool,
}

/// dlmalloc's free blocks. Each is the victim, or top, or in the bin or trie of its size.
#[derive(Debug, Default)]
pub struct Bins {
    small_map: u32,
    small: [Option<Block>; SMALL_BELOW as usize],
    tree_map: u32,
    trees: [Trie; TREES],
    victim: Option<Free>,
    top: Option<Free>,
    found: Option<Found>,
    /// The victim was removed, though not to be used: it is being merged or resized.
    moving: Option<Free>,
}

fn end((block, size): Free) -> u32 {
    block.granule() + size.count()
}

fn overlap(a: Free, b: Free) -> bool {
    a.0.granule() < end(b) && b.0.granule() < end(a)
}

fn is_small(size: Granules) -> bool {
    size.count() < SMALL_BELOW
}

// SAFETY: bins and tries link blocks inserted and not removed since, and `find` gives one of them.
unsafe impl FreeIndex for Bins {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let free = (block, size);
        let to_victim = self.moving.take().is_some_and(|moving| overlap(moving, free));
        self.put(view, free, to_victim);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let taken = self.found.take_if(|found| found.block == block).is_some();
        let was_victim = self.detach(view, (block, size));
        self.moving = (was_victim && !taken).then_some((block, size));
    }

    fn replace<P: Probe>(&mut self, view: &mut View<P>, old: Free, new: Free) {
        let split = self.found.take_if(|found| found.block == old.0 && new.0 > old.0);
        let was_victim = self.detach(view, old);
        let merged = self.moving.take().is_some_and(|moving| overlap(moving, new));
        let to_victim = match split {
            Some(found) => found.rest_to_victim,
            None => was_victim || merged,
        };
        self.put(view, new, to_victim);
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        self.moving = None;
        view.step(Step::Index);
        let found =
            if is_small(need) { self.find_small(view, need) } else { self.find_large(view, need) };
        self.found = found.or_else(|| {
            let (top, _) = self.top.filter(|top| top.1 >= need)?;
            Some(Found { block: top, rest_to_victim: false })
        });
        self.found.map(|found| found.block)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        let lone = self.victim.into_iter().chain(self.top).map(|free| free.1);
        let tree =
            self.tree_map.checked_ilog2().map(|tree| self.trees[tree as usize].largest(tags));
        let small = self.small_map.checked_ilog2().map(Granules::new);
        lone.chain(tree).chain(small).max().unwrap_or_default()
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        for (bin, &head) in self.small.iter().enumerate() {
            let told = self.small_map >> bin & 1 == 1;
            Broken::unless(
                told == head.is_some(),
                "a bin's bit tells whether it holds a block",
                0,
            )?;
            check_bin(tags, &mut census, head, bin as u32)?;
        }
        for (tree, trie) in self.trees.iter().enumerate() {
            let told = self.tree_map >> tree & 1 == 1;
            Broken::unless(
                told != trie.is_empty(),
                "a trie's bit tells whether it holds a block",
                0,
            )?;
            trie.check(tags, &mut census, tree)?;
        }
        for (block, size) in self.victim.into_iter().chain(self.top) {
            census.add_indexed(tags, block)?;
            let is = u64::from(tags.quiet().size(block).count());
            let said = u64::from(size.count());
            Broken::unless_equal("the length of victim and top is kept", block.tag_at(), is, said)?;
        }
        let at_end = self.top.is_none_or(|top| end(top) == tags.end().granule());
        Broken::unless(at_end, "top ends where the region ends", 0)?;
        Ok(census)
    }
}

/// The choice.
impl Bins {
    fn find_small<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<Found> {
        let exact = self.small[need.count() as usize];
        if let Some(block) = exact {
            view.step(Step::Inspect);
            return Some(Found { block, rest_to_victim: false });
        }
        view.step(Step::Index);
        if let Some((block, _)) = self.victim.filter(|victim| victim.1 >= need) {
            return Some(Found { block, rest_to_victim: true });
        }
        view.step(Step::Index);
        let above = self.small_map & (!0 << need.count());
        let next = self.small.get(above.trailing_zeros() as usize).copied().flatten();
        let block = match next {
            Some(block) => {
                view.step(Step::Inspect);
                block
            }
            None => self.least_of_trees(view, self.tree_map)?,
        };
        Some(Found { block, rest_to_victim: true })
    }

    fn find_large<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<Found> {
        let best = self.best_of_trees(view, need);
        view.step(Step::Index);
        let victim = self.victim.filter(|victim| victim.1 >= need);
        match (best, victim) {
            (Some(best), Some(victim)) if view.size(best) >= victim.1 => {
                Some(Found { block: victim.0, rest_to_victim: true })
            }
            (Some(best), _) => Some(Found { block: best, rest_to_victim: false }),
            (None, victim) => victim.map(|(block, _)| Found { block, rest_to_victim: true }),
        }
    }

    /// The shortest block of the tries that holds `need`.
    fn best_of_trees<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let tree = tree_of(need);
        let here = self.trees[tree].best(view, tree, need);
        here.or_else(|| self.least_of_trees(view, self.tree_map & (!0 << tree << 1)))
    }

    /// The shortest block of the lowest trie of `map`.
    fn least_of_trees<P: Probe>(&self, view: &mut View<P>, map: u32) -> Option<Block> {
        view.step(Step::Index);
        self.trees.get(map.trailing_zeros() as usize)?.least(view)
    }
}

/// Where each block is.
impl Bins {
    fn put<P: Probe>(&mut self, view: &mut View<P>, free: Free, to_victim: bool) {
        if end(free) == view.tags().end().granule() {
            view.step(Step::Index);
            self.top = Some(free);
        } else if to_victim {
            view.step(Step::Index);
            if let Some(old) = self.victim.replace(free) {
                self.bin(view, old);
            }
        } else {
            self.bin(view, free);
        }
    }

    /// Takes the block out of wherever it is; whether that was the victim's place.
    fn detach<P: Probe>(&mut self, view: &mut View<P>, free: Free) -> bool {
        if self.victim.take_if(|victim| victim.0 == free.0).is_some() {
            view.step(Step::Index);
            return true;
        }
        if self.top.take_if(|top| top.0 == free.0).is_some() {
            view.step(Step::Index);
        } else {
            self.unbin(view, free);
        }
        false
    }

    fn bin<P: Probe>(&mut self, view: &mut View<P>, (block, size): Free) {
        view.step(Step::Index);
        if !is_small(size) {
            let tree = tree_of(size);
            self.trees[tree].insert(view, tree, block, size);
            self.tree_map |= 1 << tree;
            return;
        }
        let bin = size.count() as usize;
        let old = self.small[bin].replace(block);
        view.set_link(block, DOWN, old);
        view.set_link(block, UP, None);
        if let Some(old) = old {
            view.set_link(old, UP, Some(block));
        }
        self.small_map |= 1 << bin;
    }

    fn unbin<P: Probe>(&mut self, view: &mut View<P>, (block, size): Free) {
        if !is_small(size) {
            let tree = tree_of(size);
            self.trees[tree].remove(view, block);
            if self.trees[tree].is_empty() {
                view.step(Step::Index);
                self.tree_map &= !(1 << tree);
            }
            return;
        }
        let bin = size.count() as usize;
        let (down, up) = (view.link(block, DOWN), view.link(block, UP));
        if let Some(down) = down {
            view.set_link(down, UP, up);
        }
        match up {
            Some(up) => view.set_link(up, DOWN, down),
            None => {
                view.step(Step::Index);
                self.small[bin] = down;
            }
        }
        if self.small[bin].is_none() {
            self.small_map &= !(1 << bin);
        }
    }
}

fn check_bin(
    tags: &Tags,
    census: &mut Census,
    head: Option<Block>,
    bin: u32,
) -> Result<(), Broken> {
    let mut view = tags.quiet();
    let (mut at, mut above) = (head, None);
    while let Some(block) = at {
        census.add_indexed(tags, block)?;
        let size = u64::from(view.size(block).count());
        Broken::unless_equal("a bin holds one size", block.tag_at(), bin.into(), size)?;
        Broken::unless(view.link(block, UP) == above, "a bin is linked both ways", block.tag_at())?;
        (at, above) = (view.link(block, DOWN), at);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
