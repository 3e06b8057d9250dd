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
use super::index::{Census, FreeIndex};
use super::tags::{Block, Granules, Tags, View};
use crate::check::Broken;
use crate::machine::{Probe, Step};

/// Good fit over boundary tags.
pub type GoodFit = BlockHeap<SizeLists>;

const NEXT: usize = 0;
const PREV: usize = 1;

/// The lists of good fit, by size class. 4 KiB.
#[derive(Debug, Default)]
pub struct SizeLists {
    occupied: Occupied,
    heads: PerClass<Option<Block>>,
}

impl SizeLists {
    /// Sets the head of a list and the bits that tell of it.
    fn set_head<P: Probe>(&mut self, view: &mut View<P>, class: Class, head: Option<Block>) {
        view.step(Step::Index);
        *self.heads.get_mut(class) = head;
        self.occupied.set(view, class, head.is_some());
    }
}

impl FreeIndex for SizeLists {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = Class::of(size);
        let old = *self.heads.get(class);
        view.set_link(block, NEXT, old);
        view.set_link(block, PREV, None);
        if let Some(old) = old {
            view.set_link(old, PREV, Some(block));
        }
        self.set_head(view, class, Some(block));
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let next = view.link(block, NEXT);
        let prev = view.link(block, PREV);
        if let Some(next) = next {
            view.set_link(next, PREV, prev);
        }
        match prev {
            Some(prev) => view.set_link(prev, NEXT, next),
            None => self.set_head(view, Class::of(size), next),
        }
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let class = self.occupied.at_or_above(view, Class::covering(need)?)?;
        view.step(Step::Inspect);
        *self.heads.get(class)
    }

    fn largest(&self, tags: &Tags) -> Granules {
        let mut view = tags.quiet();
        let mut largest = Granules::default();
        let mut at = self.occupied.highest().and_then(|class| *self.heads.get(class));
        while let Some(block) = at {
            largest = largest.max(view.size(block));
            at = view.link(block, NEXT);
        }
        largest
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        for class in Class::all() {
            let head = *self.heads.get(class);
            self.occupied.check(class, head.is_some())?;
            check_list(tags, class, head, &mut census)?;
        }
        Ok(census)
    }
}

fn check_list(
    tags: &Tags,
    class: Class,
    head: Option<Block>,
    census: &mut Census,
) -> Result<(), Broken> {
    let mut view = tags.quiet();
    let (mut at, mut prev) = (head, None);
    while let Some(block) = at {
        census.add_indexed(tags, block)?;
        let right = Class::of(view.size(block)) == class;
        Broken::unless(right, "a list holds blocks of its size class", block.tag_at())?;
        let linked = view.link(block, PREV) == prev;
        Broken::unless(linked, "a list links back where it came from", block.tag_at())?;
        prev = at;
        at = view.link(block, NEXT);
    }
    Ok(())
}
