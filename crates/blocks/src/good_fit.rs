//! Good fit: two-level segregated lists.
//!
//! Every size class has a list of its free blocks, youngest first. A request is rounded up to the
//! next class, so that *any* block of that class or a higher one fits: the head of the first list
//! that is not empty is taken, unseen. Every operation is a few instructions, whatever the region
//! holds. The price: of the class that `need` itself falls in, blocks are not considered, although
//! some may fit, such as one of just that length that was freed a moment ago.
//! [`GoodFitParams::second_look`] lets a request that would fail look at a few of them, and
//! [`GoodFitParams::first_look`] every request, before it takes a longer one.
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
use crate::probe::{Probe, Step};

/// Good fit over boundary tags.
pub type GoodFit = BlockHeap<SizeLists>;

/// How good fit divides sizes, and what it does when it finds nothing. The default is TLSF's: 32
/// lists a doubling, no looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GoodFitParams {
    /// log2 of how many of the 32 classes of a doubling share a list.
    merged_log2: u8,
    first_look: u32,
    second_look: u32,
    low_tops: bool,
}

impl GoodFitParams {
    /// `sublists` lists a doubling: 1, 2, 4, 8, 16 or 32, else `None`. At most `second_look` blocks
    /// of the list that `need` itself falls in are looked at before a request fails.
    pub const fn new(sublists: u32, second_look: u32) -> Option<GoodFitParams> {
        if !sublists.is_power_of_two() || sublists > 32 {
            return None;
        }
        let merged_log2 = 5 - sublists.trailing_zeros() as u8;
        Some(GoodFitParams { merged_log2, first_look: 0, second_look, low_tops: false })
    }

    /// At most `blocks` of the list that `need` itself falls in are looked at before any longer one is taken.
    pub const fn with_first_look(self, blocks: u32) -> GoodFitParams {
        GoodFitParams { first_look: blocks, ..self }
    }

    /// Of the two blocks first in a list the lower one comes first, not the younger.
    pub const fn with_low_tops(self, low_tops: bool) -> GoodFitParams {
        GoodFitParams { low_tops, ..self }
    }

    /// Lists a doubling.
    pub const fn sublists(self) -> u32 {
        32 >> self.merged_log2
    }

    /// Whether the lower of the two blocks first in a list comes first.
    pub const fn has_low_tops(self) -> bool {
        self.low_tops
    }

    /// Blocks looked at before a longer one is taken.
    pub const fn first_look(self) -> u32 {
        self.first_look
    }

    /// Blocks looked at before a request fails.
    pub const fn second_look(self) -> u32 {
        self.second_look
    }

    /// The class whose list holds blocks of `size`.
    #[inline]
    fn class_of(self, size: Granules) -> Class {
        Class::from_index(Class::of(size).index() >> self.merged_log2 << self.merged_log2)
    }

    /// The lowest list all of whose blocks hold `need`; `None` when that is beyond all lists.
    #[inline]
    fn covering(self, need: Granules) -> Option<Class> {
        if self.merged_log2 == 0 {
            return Class::covering(need);
        }
        let bytes = need.bytes();
        let width_log2 = bytes.ilog2() - 5 + u32::from(self.merged_log2);
        let is_least = bytes.trailing_zeros() >= width_log2;
        let above = if is_least { 0 } else { 1 << self.merged_log2 };
        let index = self.class_of(need).index() + above;
        (index < Class::COUNT).then(|| Class::from_index(index))
    }
}

/// The lists of good fit, by size class. 4 KiB.
#[derive(Debug, Default)]
pub struct SizeLists {
    params: GoodFitParams,
    occupied: Occupied,
    lists: PerClass<Stack>,
}

impl SizeLists {
    /// No blocks yet. Give it to [`BlockHeap::with_index`].
    pub fn with(params: GoodFitParams) -> SizeLists {
        SizeLists { params, ..SizeLists::default() }
    }

    /// At most `most` blocks of the list that `need` falls in, youngest first: the first that fits.
    fn look_into<P: Probe>(&self, view: &mut View<P>, need: Granules, most: u32) -> Option<Block> {
        self.lists.get(self.params.class_of(need)).first_fit(view, need, most)
    }

    /// Worst fit as far as lists know it: the head of the highest list, which falls short of the
    /// longest block by less than a class's width; when that is too short, at most `most` more.
    pub(super) fn find_long<P: Probe>(
        &self,
        view: &mut View<P>,
        need: Granules,
        most: u32,
    ) -> Option<Block> {
        view.step(Step::Index);
        let list = self.lists.get(self.occupied.highest()?);
        list.first_fit(view, need, most.saturating_add(1))
    }

    /// As [`find_long`](Self::find_long), but the block that ends where the region does is cut only where no other of the
    /// next list down is long enough.
    pub(super) fn find_long_inside<P: Probe>(
        &self,
        view: &mut View<P>,
        need: Granules,
        most: u32,
    ) -> Option<Block> {
        let highest = self.occupied.highest()?;
        if self.lists.get(highest).is_the_end_alone(view)
            && let Some(below) = self.occupied.below(view, highest)
        {
            let found = self.lists.get(below).first_fit(view, need, most.saturating_add(1));
            if found.is_some() {
                return found;
            }
        }
        self.find_long(view, need, most)
    }

    /// Worst fit to the byte, by walking the highest list. O(blocks of one list).
    pub(super) fn find_longest<P: Probe>(
        &self,
        view: &mut View<P>,
        need: Granules,
    ) -> Option<Block> {
        view.step(Step::Index);
        let (longest, size) = self.lists.get(self.occupied.highest()?).longest(view)?;
        (size >= need).then_some(longest)
    }

    /// Walks every list and counts its blocks.
    pub(super) fn check_into(&self, tags: &Tags, census: &mut Census) -> Result<(), Broken> {
        for class in Class::all() {
            let list = self.lists.get(class);
            self.occupied.check(class, list.top().is_some())?;
            list.check(tags, census, |block, size| {
                let right = self.params.class_of(size) == class;
                Broken::unless(right, "a list holds blocks of its size class", block.tag_at())
            })?;
        }
        Ok(())
    }
}

// SAFETY: a list links blocks that were inserted and not removed since, and `find` gives one of
// them.
#[expect(unsafe_code, reason = "a promise about links; no unsafe operation follows")]
unsafe impl FreeIndex for SizeLists {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = self.params.class_of(size);
        self.lists.get_mut(class).push_as(view, block, self.params.low_tops);
        self.occupied.set(view, class, true);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let class = self.params.class_of(size);
        let list = self.lists.get_mut(class);
        list.remove(view, block);
        if list.top().is_none() {
            self.occupied.set(view, class, false);
        }
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let GoodFitParams { first_look, second_look, .. } = self.params;
        let covering = self.params.covering(need);
        // Where all blocks of its own list fit, the covering list is that.
        if covering != Some(self.params.class_of(need)) {
            let found = self.look_into(view, need, first_look);
            if found.is_some() {
                return found;
            }
        }
        let Some(class) = covering.and_then(|class| self.occupied.at_or_above(view, class)) else {
            // The first look was at the same blocks.
            let most = if second_look > first_look { second_look } else { 0 };
            return self.look_into(view, need, most);
        };
        view.step(Step::Inspect);
        self.lists.get(class).top()
    }

    #[inline]
    fn foresee_find(&self, need: Granules) -> Option<Block> {
        let class = self.occupied.read_at_or_above(self.params.covering(need)?)?;
        self.lists.get(class).top()
    }

    #[inline]
    fn foresee_insert(&self, tags: &Tags, size: Granules) {
        if let Some(top) = self.lists.get(self.params.class_of(size)).top() {
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
        Some(LongestTwo::of_classes(self.occupied.downwards(tags), |class, two| {
            self.lists.get(class).add_longest(tags, two);
        }))
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        self.check_into(tags, &mut census)?;
        Ok(census)
    }
}
