//! First fit: the lowest free block that holds the request.
//!
//! Packs everything towards the low end of the region, which leaves long blocks at the high end.
//! Knuth, The Art of Computer Programming 1, section 2.5, algorithm A.
//!
//! In O(log n): the lowest block that fits is the lowest of those in higher size classes, which
//! all fit, or of those that fit in the request's own class. The first is kept in a tournament
//! over the classes, the second is found in that class's tree. (One tree over all blocks does
//! both, but its paths are three times as long: 110 words touched a call against 57, in the
//! crowd of `benches/calls.rs`.)

#![deny(unsafe_code)]

use super::classes::{Class, PerClass};
use super::heap::BlockHeap;
use super::index::{Census, FreeIndex, LongestTwo};
use super::list::AddressList;
use super::lowest::Lowest;
use super::tags::{Block, Granules, Tags, View};
use super::tree::{ByAddress, Treap};
use crate::check::Broken;
use crate::machine::Probe;

/// First fit in O(log n).
pub type FirstFit = BlockHeap<FirstTree>;

/// First fit, walking the list as the books do. Chooses what [`FirstFit`] chooses.
pub type FirstFitList = BlockHeap<FirstList>;

/// The free blocks in a tree by address per size class. 12 KiB.
#[derive(Debug, Default)]
pub struct FirstTree {
    trees: PerClass<Treap<ByAddress>>,
    lowest: Lowest,
}

/// The free blocks in a list by address.
#[derive(Debug, Default)]
pub struct FirstList(AddressList);

impl FreeIndex for FirstTree {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = Class::of(size);
        self.trees.get_mut(class).insert(view, block, size);
        if self.lowest.of(view, class).is_none_or(|lowest| block < lowest) {
            self.lowest.set(view, class, Some(block));
        }
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = Class::of(size);
        let tree = self.trees.get_mut(class);
        if self.lowest.of(view, class) == Some(block) {
            let next = tree.after(view, block);
            self.lowest.set(view, class, next);
        }
        tree.remove(view, block);
    }

    fn replace<P: Probe>(
        &mut self,
        view: &mut View<P>,
        old: (Block, Granules),
        new: (Block, Granules),
    ) {
        let class = Class::of(old.1);
        if class == Class::of(new.1) {
            if self.lowest.of(view, class) == Some(old.0) {
                self.lowest.set(view, class, Some(new.0));
            }
            self.trees.get_mut(class).replace(view, old, new);
        } else {
            self.remove(view, old.0, old.1);
            self.insert(view, new.0, new.1);
        }
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let class = Class::of(need);
        let above = self.lowest.above(view, class);
        let here = self.lowest.of(view, class);
        match (here, above) {
            (Some(here), Some(above)) if above < here => Some(above),
            (Some(_), _) if Class::covering(need) == Some(class) => here,
            (Some(_), _) => {
                let here = self.trees.get(class).first_fit(view, need);
                [here, above].into_iter().flatten().min()
            }
            (None, _) => above,
        }
    }

    #[inline]
    fn foresee_find(&self, need: Granules) -> Option<Block> {
        self.lowest.read(Class::of(need))
    }

    #[inline]
    fn foresee_remove(&self, tags: &Tags, block: Block) {
        Treap::<ByAddress>::foresee_remove(tags, block);
    }

    fn largest(&self, tags: &Tags) -> Granules {
        let highest = self.lowest.highest();
        highest.map_or(Granules::default(), |class| self.trees.get(class).largest(tags))
    }

    fn longest_two(&self, tags: &Tags) -> Option<LongestTwo> {
        Some(LongestTwo::of_classes(Class::all().rev(), |class, two| {
            self.trees.get(class).add_longest(tags, two);
        }))
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        for class in Class::all() {
            let tree = self.trees.get(class);
            tree.check(tags, &mut census, |size| Class::of(size) == class)?;
            let lowest = tree.first(&mut tags.quiet());
            let known = self.lowest.read(class) == lowest;
            Broken::unless(known, "the lowest block of a class is known", 0)?;
        }
        Broken::unless(self.lowest.is_whole(), "the tournament is played out", 0)?;
        Ok(census)
    }
}

impl FreeIndex for FirstList {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, _: Granules) {
        self.0.insert(view, block);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, _: Granules) {
        self.0.remove(view, block);
    }

    fn replace<P: Probe>(
        &mut self,
        view: &mut View<P>,
        old: (Block, Granules),
        new: (Block, Granules),
    ) {
        self.0.replace(view, old.0, new.0);
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let head = self.0.head(view);
        self.0.first_from(view, head, None, need)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        self.0.largest(tags)
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        self.0.check(tags)
    }
}
