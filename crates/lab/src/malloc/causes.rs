//! Finds where resident memory is that no object has, by cause.
//!
//! Invariant: the sum of the [`Causes`] found is what is resident, exactly. Live bytes are all resident, because the program has
//! touched them and no page of a block in use is given back.

use super::machine::{Simulated, Use};
use super::objects::Object;
use super::resident::UnitPages;
use crate::results::Causes;
use freehold_core::malloc::units::{BANK, UNIT};
use freehold_core::malloc::{Kind, NodeHeap};
use freehold_core::size_class::{CLASSES, MAX_CLASS_SIZE, SizeClass, class_of};
use rustc_hash::FxHashSet;
use std::ptr;

/// What the program has, by what its blocks are cut from.
#[derive(Debug)]
pub struct Owned {
    asked: [u64; CLASSES],
    blocks: [u64; CLASSES],
    large: u64,
}

impl Default for Owned {
    fn default() -> Owned {
        Owned { asked: [0; CLASSES], blocks: [0; CLASSES], large: 0 }
    }
}

impl Owned {
    /// The program got an object.
    pub fn add(&mut self, object: &Object) {
        match class_index(object.usable) {
            Some(class) => {
                self.asked[class] += object.size;
                self.blocks[class] += 1;
            }
            None => self.large += object.size,
        }
    }

    /// The program has given it back.
    pub fn remove(&mut self, object: &Object) {
        match class_index(object.usable) {
            Some(class) => {
                self.asked[class] -= object.size;
                self.blocks[class] -= 1;
            }
            None => self.large -= object.size,
        }
    }
}

fn class_index(usable: u64) -> Option<usize> {
    (usable <= MAX_CLASS_SIZE as u64)
        .then_some(usable as usize)
        .and_then(class_of)
        .map(|c| c.index())
}

/// What is resident, and how many banks have a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// By cause.
    pub causes: Causes,
    /// Banks with a resident page.
    pub banks: u64,
}

/// Pages by what they are used for, before it is known who has them.
struct Pages {
    slabs: [u64; CLASSES],
    large: u64,
    metadata: u64,
    free: u64,
    lent: u64,
    banks: u64,
}

/// Looks at every page of a heap at rest. `cache_units`: the 64 KiB in which threads' caches lie.
pub fn find(heap: &NodeHeap<Simulated>, owned: &Owned, cache_units: &FxHashSet<usize>) -> Found {
    let pages = Pages::of(heap, cache_units);
    let live = owned.asked.iter().sum::<u64>() + owned.large;
    let mut causes = Causes {
        live,
        partly_used: pages.large.saturating_sub(owned.large),
        metadata: pages.metadata,
        not_due: pages.free,
        huge_pages: pages.lent,
        ..Causes::default()
    };
    let census = heap.census();
    for (class, counted) in census.classes.iter().enumerate().filter(|(_, class)| class.slabs > 0) {
        let size = size_of_class(class);
        let rest = pages.slabs[class].saturating_sub(owned.asked[class]);
        let inside = (owned.blocks[class] * size - owned.asked[class]).min(rest);
        let cached = (counted.cached * size).min(rest - inside);
        causes.inside_blocks += inside;
        causes.caches += cached;
        causes.slabs += rest - inside - cached;
    }
    Found { causes, banks: pages.banks }
}

fn size_of_class(class: usize) -> u64 {
    SizeClass::new(class).map_or(0, |class| class.size() as u64)
}

impl Pages {
    fn of(heap: &NodeHeap<Simulated>, cache_units: &FxHashSet<usize>) -> Pages {
        let mut pages =
            Pages { slabs: [0; CLASSES], large: 0, metadata: 0, free: 0, lent: 0, banks: 0 };
        let (mut large_end, mut bank) = (0, 0);
        heap.machine().each_unit(|what, at, UnitPages { touched, lent }| {
            pages.lent += lent;
            if what == Use::Records {
                pages.metadata += touched;
                return;
            }
            pages.banks += u64::from(at / BANK != bank);
            bank = at / BANK;
            if at < large_end {
                pages.large += touched;
                return;
            }
            match heap.find(ptr::with_exposed_provenance_mut(at)) {
                Ok(block) if block.kind == Kind::Large => {
                    pages.large += touched;
                    large_end = at + block.size.next_multiple_of(UNIT);
                }
                Ok(block) => match class_index(block.size as u64) {
                    Some(class) => pages.slabs[class] += touched,
                    None => pages.free += touched,
                },
                Err(_) if cache_units.contains(&at) => pages.metadata += touched,
                Err(_) => pages.free += touched,
            }
        });
        pages
    }
}
