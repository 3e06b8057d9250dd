//! The lowest block of every size class, and of all classes from one upwards.
//!
//! A tournament: the classes are the leaves of a complete binary tree, each inner place holds the
//! lower of the two below it. All of it is one array beside the heap, which stays in the nearest
//! cache; asking touches no block.
//!
//! ```text
//!   1: lowest of all
//!   2: lower half of the classes          3: upper half
//!   ...
//!   1024 + class: lowest block of that class, or NONE
//! ```

#![deny(unsafe_code)]

use super::classes::Class;
use super::tags::{Block, View};
use crate::machine::{Probe, Step};

const LEAVES: usize = Class::COUNT.next_power_of_two();
const NONE: u32 = u32::MAX;

/// The tournament; see the module. 8 KiB.
#[derive(Debug)]
pub(super) struct Lowest {
    /// By place: a block's granule, or `NONE`, which no free block's is (the last is a sentinel's).
    places: [u32; 2 * LEAVES],
}

impl Default for Lowest {
    fn default() -> Self {
        Lowest { places: [NONE; 2 * LEAVES] }
    }
}

fn block(granule: u32) -> Option<Block> {
    if granule == NONE { None } else { Block::at(granule) }
}

impl Lowest {
    /// The lowest block of `class`.
    pub(super) fn of<P: Probe>(&self, view: &mut View<P>, class: Class) -> Option<Block> {
        view.step(Step::Index);
        self.read(class)
    }

    /// The lowest block of `class`, unwatched.
    pub(super) fn read(&self, class: Class) -> Option<Block> {
        block(self.places[LEAVES + class.index()])
    }

    /// The lowest block of all classes above `class`. O(log classes): ten steps.
    pub(super) fn above<P: Probe>(&self, view: &mut View<P>, class: Class) -> Option<Block> {
        let mut place = LEAVES + class.index();
        let mut lowest = NONE;
        while place > 1 {
            view.step(Step::Index);
            // A left place has higher classes to its right; a right one has not.
            let right = place | 1;
            lowest = lowest.min(if right == place { NONE } else { self.places[right] });
            place /= 2;
        }
        block(lowest)
    }

    /// The highest class that has a block. Ten steps.
    pub(super) fn highest(&self) -> Option<Class> {
        let mut place = 1;
        if self.places[place] == NONE {
            return None;
        }
        while place < LEAVES {
            let right = 2 * place + 1;
            place = if self.places[right] == NONE { right - 1 } else { right };
        }
        Some(Class::from_index(place - LEAVES))
    }

    /// Says which block of `class` is the lowest. At most ten steps.
    pub(super) fn set<P: Probe>(&mut self, view: &mut View<P>, class: Class, to: Option<Block>) {
        let mut place = LEAVES + class.index();
        let mut lowest = to.map_or(NONE, Block::granule);
        while self.places[place] != lowest {
            view.step(Step::Index);
            self.places[place] = lowest;
            if place == 1 {
                break;
            }
            lowest = lowest.min(self.places[place ^ 1]);
            place /= 2;
        }
    }

    /// Whether every inner place holds the lower of the two below it.
    pub(super) fn is_whole(&self) -> bool {
        let places = &self.places;
        (1..LEAVES).all(|i| places[i] == places[2 * i].min(places[2 * i + 1]))
    }
}
