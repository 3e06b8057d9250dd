//! A tree per size class: the shortest and the longest block in few steps.
//!
//! One tree of all free blocks in the order of sizes would do; cut at the borders of the classes
//! it is a forest of low trees, the bits of the classes being their common, always cached crown.
//! Invariant: a tree holds blocks of its class only. Neighbours: `tree`, `classes`; `best_fit` and
//! `worst_fit` ask the questions.

#![deny(unsafe_code)]

use super::classes::{Class, Occupied, PerClass};
use super::index::{Census, LongestTwo};
use super::tags::{Block, Granules, Tags, View};
use super::tree::{Key, Treap};
use crate::check::Broken;
use crate::machine::Probe;

/// The forest; see the module. 4 KiB.
#[derive(Debug, Default)]
pub(super) struct Forest<K> {
    occupied: Occupied,
    trees: PerClass<Treap<K>>,
}

impl<K: Key> Forest<K> {
    /// Takes in `block`.
    pub(super) fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = Class::of(size);
        self.trees.get_mut(class).insert(view, block, size);
        self.occupied.set(view, class, true);
    }

    /// Forgets `block`, which came in with `size`.
    pub(super) fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = Class::of(size);
        let tree = self.trees.get_mut(class);
        tree.remove(view, block);
        if tree.is_empty() {
            self.occupied.set(view, class, false);
        }
    }

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

    /// The length of the longest block. O(log n).
    pub(super) fn largest(&self, tags: &Tags) -> Granules {
        let mut view = tags.quiet();
        self.last(&mut view).map_or(Granules::default(), |block| view.size(block))
    }

    /// The lengths of the two longest blocks.
    pub(super) fn longest_two(&self, tags: &Tags) -> LongestTwo {
        LongestTwo::of_classes(Class::all().rev(), |class, two| {
            self.trees.get(class).add_longest(tags, two);
        })
    }

    /// Walks every tree.
    pub(super) fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        for class in Class::all() {
            let tree = self.trees.get(class);
            self.occupied.check(class, !tree.is_empty())?;
            tree.check(tags, &mut census, |size| Class::of(size) == class)?;
        }
        Ok(census)
    }
}
