//! Good fit: two-level segregated lists.
//!
//! Every size class has a list of its free blocks, youngest first. A request is rounded up to the
//! next class, so that *any* block of that class or a higher one fits: the head of the first list
//! that is not empty is taken, unseen. Every operation is a few instructions, whatever the region
//! holds. The price: of the class that `need` itself falls in, blocks are not considered, although
//! some may fit.
//!
//! Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory allocator for real-time systems",
//! ECRTS 2004.

#![deny(unsafe_code)]

use super::classes::{Class, Occupied, PerClass};
use super::heap::BlockHeap;
use super::index::{Census, FreeIndex, LongestTwo};
use super::stack::Stack;
use super::tags::{Block, Granules, Tags, View};
use crate::check::Broken;
use crate::machine::{Probe, Step};

/// Good fit over boundary tags.
pub type GoodFit = BlockHeap<SizeLists>;

/// The lists of good fit, by size class. 4 KiB.
#[derive(Debug, Default)]
pub struct SizeLists {
    occupied: Occupied,
    lists: PerClass<Stack>,
}

impl FreeIndex for SizeLists {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = Class::of(size);
        self.lists.get_mut(class).push(view, block);
        self.occupied.set(view, class, true);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = Class::of(size);
        let list = self.lists.get_mut(class);
        list.remove(view, block);
        if list.top().is_none() {
            self.occupied.set(view, class, false);
        }
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let class = self.occupied.at_or_above(view, Class::covering(need)?)?;
        view.step(Step::Inspect);
        self.lists.get(class).top()
    }

    #[inline]
    fn foresee_find(&self, need: Granules) -> Option<Block> {
        let class = self.occupied.read_at_or_above(Class::covering(need)?)?;
        self.lists.get(class).top()
    }

    #[inline]
    fn foresee_insert(&self, tags: &Tags, size: Granules) {
        if let Some(top) = self.lists.get(Class::of(size)).top() {
            tags.fetch(top);
        }
    }

    #[inline]
    fn foresee_remove(&self, tags: &Tags, block: Block) {
        Stack::foresee_remove(tags, block);
    }

    fn largest(&self, tags: &Tags) -> Granules {
        let highest = self.occupied.highest();
        highest.map_or(Granules::default(), |class| self.lists.get(class).largest(tags))
    }

    fn longest_two(&self, tags: &Tags) -> Option<LongestTwo> {
        Some(LongestTwo::of_classes(Class::all().rev(), |class, two| {
            self.lists.get(class).add_longest(tags, two);
        }))
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        for class in Class::all() {
            let list = self.lists.get(class);
            self.occupied.check(class, list.top().is_some())?;
            list.check(tags, &mut census, |block, size| {
                let right = Class::of(size) == class;
                Broken::unless(right, "a list holds blocks of its size class", block.tag_at())
            })?;
        }
        Ok(census)
    }
}
