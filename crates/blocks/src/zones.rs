//! All free blocks in the order of addresses: the region in zones, a tree per zone, and over the
//! zones a tournament of the longest.
//!
//! One tree of all free blocks answers the same questions, but its paths are long and every step of
//! one is a line of cache somewhere in the region. Here the upper levels are one array, which says
//! in which zone the lowest block that fits lies without touching a block; the trees are low, and
//! what they touch is near the place in question.
//!
//! ```text
//!   1: the longest of all
//!   2: lower half of the zones            3: upper half
//!   ...
//!   8192 + zone: the longest block that begins in that zone, 0 if none does
//!          |
//!        tree of the zone, by address
//! ```
//!
//! (A tree per size class and a tournament of the lowest did the same before. A block that was cut
//! or merged nearly always changes its class, which is a removal and an insertion by way of twelve
//! blocks all over the region; but it hardly ever changes its zone.)
//!
//! Zones are of equal length, 8,192 at most, the shortest power of two that does; nothing is stored
//! for that. Depth: thirteen places of the array, and O(log n) expected in a tree. (More zones make
//! lower trees and a faster replay, but an index that is moved through several frames of a debug
//! build must fit a thread's stack of 2 MiB. Matches of sixteen, each a line of cache, were no faster than
//! two: without AVX it takes 50 instructions to find the first of sixteen, and 20 to go down four levels.)
//!
//! Invariant: a tree holds blocks of its zone only, and every place the longest below it.
//! Neighbours: `tree`; `first_fit` and `next_fit` ask the questions, through `order`.

#![deny(unsafe_code)]

use super::index::{Census, LongestTwo};
use super::order::AddressOrder;
use super::tags::{Block, Granules, Tags, View};
use super::tree::{ByAddress, Treap};
use crate::check::Broken;
use crate::policy::Distance;
use crate::probe::{Probe, Step};

const ZONES_LOG2: u32 = 13;
const ZONES: usize = 1 << ZONES_LOG2;

/// The zones; see the module. 96 KiB.
#[derive(Debug)]
pub struct Zones {
    /// By place; see the module.
    longest: [Granules; 2 * ZONES],
    trees: [Treap<ByAddress>; ZONES],
}

impl Default for Zones {
    fn default() -> Self {
        let trees = [const { Treap::EMPTY }; ZONES];
        Zones { longest: [Granules::default(); 2 * ZONES], trees }
    }
}

/// The zone in which `block` begins.
#[inline]
fn zone_of(tags: &Tags, block: Block) -> usize {
    let bits = tags.end().granule().ilog2() + 1;
    (block.granule() >> bits.saturating_sub(ZONES_LOG2)) as usize
}

/// The tournament.
impl Zones {
    /// The longest block of `zone` is `size` long now; it was no longer before.
    fn raise<P: Probe>(&mut self, view: &mut View<P>, zone: usize, size: Granules) {
        let mut place = ZONES + zone;
        while place > 0 && self.longest[place] < size {
            view.step(Step::Index);
            self.longest[place] = size;
            place /= 2;
        }
    }

    /// The longest block of `zone`, which was `was` long, may have gone.
    fn lower<P: Probe>(&mut self, view: &mut View<P>, zone: usize, was: Granules) {
        let mut place = ZONES + zone;
        view.step(Step::Index);
        if self.longest[place] > was {
            return;
        }
        let mut longest = self.trees[zone].longest(view);
        while self.longest[place] != longest {
            view.step(Step::Index);
            self.longest[place] = longest;
            if place == 1 {
                break;
            }
            longest = longest.max(self.longest[place ^ 1]);
            place /= 2;
        }
    }

    /// The lowest zone under `place` that has a block of `need`, which some have.
    #[inline]
    fn lowest_zone<P: Probe>(&self, view: &mut View<P>, place: usize, need: Granules) -> usize {
        let mut place = place;
        while place < ZONES {
            view.step(Step::Index);
            place = 2 * place + usize::from(self.longest[2 * place] < need);
        }
        place - ZONES
    }

    /// The lowest zone that has a block of `need`.
    #[inline]
    fn first_zone<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<usize> {
        view.step(Step::Index);
        (self.longest[1] >= need).then(|| self.lowest_zone(view, 1, need))
    }

    /// The lowest zone above `zone` that has a block of `need`.
    fn zone_after<P: Probe>(
        &self,
        view: &mut View<P>,
        zone: usize,
        need: Granules,
    ) -> Option<usize> {
        let mut place = ZONES + zone;
        while place > 1 {
            view.step(Step::Index);
            // Above a left place lie the zones of its right neighbour; above a right one, none.
            let right = place | 1;
            if right != place && self.longest[right] >= need {
                return Some(self.lowest_zone(view, right, need));
            }
            place /= 2;
        }
        None
    }

    fn check_tournament(&self) -> Result<(), Broken> {
        let places = &self.longest;
        let is_played_out = |i: usize| places[i] == places[2 * i].max(places[2 * i + 1]);
        Broken::unless((1..ZONES).all(is_played_out), "the tournament is played out", 0)
    }
}

impl AddressOrder for Zones {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let zone = zone_of(view.tags(), block);
        self.trees[zone].insert(view, block, size);
        self.raise(view, zone, size);
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        let zone = zone_of(view.tags(), block);
        self.trees[zone].remove(view, block);
        self.lower(view, zone, size);
    }

    fn replace<P: Probe>(
        &mut self,
        view: &mut View<P>,
        old: (Block, Granules),
        new: (Block, Granules),
    ) {
        let zone = zone_of(view.tags(), old.0);
        if zone != zone_of(view.tags(), new.0) {
            self.remove(view, old.0, old.1);
            return self.insert(view, new.0, new.1);
        }
        self.trees[zone].replace(view, old, new);
        if new.1 > old.1 {
            self.raise(view, zone, new.1);
        } else {
            self.lower(view, zone, old.1);
        }
    }

    fn after<P: Probe>(&self, view: &mut View<P>, block: Block) -> Option<Block> {
        let zone = zone_of(view.tags(), block);
        if let Some(next) = self.trees[zone].after(view, block) {
            return Some(next);
        }
        let zone = self.zone_after(view, zone, super::MIN_BLOCK)?;
        self.trees[zone].first(view)
    }

    fn first_fit<P: Probe>(&self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let zone = self.first_zone(view, need)?;
        self.trees[zone].first_fit(view, need)
    }

    fn first_fit_from<P: Probe>(
        &self,
        view: &mut View<P>,
        from: Block,
        need: Granules,
    ) -> Option<Block> {
        let zone = zone_of(view.tags(), from);
        if let Some(found) = self.trees[zone].first_fit_from(view, from, need) {
            return Some(found);
        }
        let zone = self.zone_after(view, zone, need)?;
        self.trees[zone].first_fit(view, need)
    }

    #[inline]
    fn foresee_insert(&self, tags: &Tags, block: Block, distance: Distance) {
        self.trees[zone_of(tags, block)].foresee_insert(tags, block, distance);
    }

    #[inline]
    fn foresee_remove(&self, tags: &Tags, block: Block) {
        Treap::<ByAddress>::foresee_remove(tags, block);
    }

    fn largest(&self, _: &Tags) -> Granules {
        self.longest[1]
    }

    /// The longest of the zones beside the way to the longest of all, and all blocks of its zone.
    fn longest_two(&self, tags: &Tags) -> Option<LongestTwo> {
        let mut two = LongestTwo::default();
        let mut place = 1;
        while place < ZONES {
            let (left, right) = (2 * place, 2 * place + 1);
            let is_left = self.longest[left] == self.longest[place];
            let (on, beside) = if is_left { (left, right) } else { (right, left) };
            two.add(self.longest[beside]);
            place = on;
        }
        self.trees[place - ZONES].add_longest(tags, &mut two);
        Some(two)
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        for (zone, tree) in self.trees.iter().enumerate() {
            tree.check(tags, &mut census, |block, _| zone_of(tags, block) == zone)?;
            let (longest, said) = (tree.largest(tags), self.longest[ZONES + zone]);
            let what = "the longest block of a zone is known";
            Broken::unless_equal(what, 0, longest.bytes(), said.bytes())?;
        }
        self.check_tournament()?;
        Ok(census)
    }
}
