//! A tree per size class: the shortest and the longest block in few steps.
//!
//! One tree of all free blocks in the order of sizes would do; cut at the borders of the classes
//! it is a forest of low trees, the bits of the classes being their common, always cached crown.
//! Invariant: a tree holds blocks of its class only. Neighbours: `tree`, `classes`; `best_fit` and
//! `worst_fit` are a [`Question`] each.

#![deny(unsafe_code)]

use super::classes::{Class, Occupied, PerClass};
use super::index::{Census, FreeIndex, LongestTwo};
use super::search::StillIndex;
use super::tags::{Block, Granules, Tags, View};
use super::tree::{Key, Treap};
use crate::check::Broken;
use crate::probe::Probe;

/// The forest; see the module. 4 KiB.
#[derive(Debug, Default)]
pub struct Forest<K> {
    occupied: Occupied,
    trees: PerClass<Treap<K>>,
}

impl<K: Key> Forest<K> {
    /// The first block, by the key, of those that hold `need`. Only for keys that begin with the
    /// size; `key` is the least that `need` can have.
    pub(super) fn at_or_after<P: Probe>(
        &self,
        view: &mut View<P>,
        need: Granules,
        key: u64,
    ) -> Option<Block> {
        let class = Class::of(need);
        let found = self.trees.get(class).at_or_after(view, key);
        found.or_else(|| {
            let above = self.occupied.above(view, class)?;
            self.trees.get(above).first(view)
        })
    }

    /// The last block by the key: the longest.
    pub(super) fn last<P: Probe>(&self, view: &mut View<P>) -> Option<Block> {
        self.trees.get(self.occupied.highest()?).last(view)
    }
}

/// Which block of a forest a fit takes.
pub trait Question: Default {
    /// The order of the trees.
    type Key: Key;

    /// The block to be used for `need`, if there is one.
    fn ask<P: Probe>(
        forest: &Forest<Self::Key>,
        view: &mut View<P>,
        need: Granules,
    ) -> Option<Block>;
}

/// The free blocks in a forest by size, and the question asked of it.
#[derive(Debug, Default)]
pub struct SizeForest<Q: Question>(Forest<Q::Key>);

// SAFETY: a tree links blocks inserted and not removed since, and both questions are answered with
// one.
#[expect(unsafe_code, reason = "a promise about links; no unsafe operation follows")]
unsafe impl<Q: Question> FreeIndex for SizeForest<Q> {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = Class::of(size);
        self.0.trees.get_mut(class).insert(view, block, size);
        self.0.occupied.set(view, class, true);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = Class::of(size);
        let tree = self.0.trees.get_mut(class);
        tree.remove(view, block);
        if tree.is_empty() {
            self.0.occupied.set(view, class, false);
        }
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        self.search(view, need)
    }

    #[inline]
    fn foresee_remove(&self, tags: &Tags, block: Block) {
        Treap::<Q::Key>::foresee_remove(tags, block);
    }

    /// O(log n).
    fn largest(&self, tags: &Tags) -> Granules {
        let mut view = tags.quiet();
        self.0.last(&mut view).map_or(Granules::default(), |block| view.size(block))
    }

    fn longest_two(&self, tags: &Tags) -> Option<LongestTwo> {
        Some(LongestTwo::of_classes(self.0.occupied.downwards(tags), |class, two| {
            self.0.trees.get(class).add_longest(tags, two);
        }))
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        for class in Class::all() {
            let tree = self.0.trees.get(class);
            self.0.occupied.check(class, !tree.is_empty())?;
            tree.check(tags, &mut census, |_, size| Class::of(size) == class)?;
        }
        Ok(census)
    }
}

// SAFETY: as above; asking changes nothing.
#[expect(unsafe_code, reason = "a promise about links; no unsafe operation follows")]
unsafe impl<Q: Question> StillIndex for SizeForest<Q> {
    fn search<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<Block> {
        Q::ask(&self.0, view, need)
    }
}
