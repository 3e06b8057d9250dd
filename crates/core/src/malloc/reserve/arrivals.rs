//! Long blocks of the cache's own slabs that other threads freed: they wait here for the owner, whole, instead of becoming bits.
//!
//! ```text
//! lists[class]:  first block | how many        block -> block -> 0      linked and marked as in a stack
//! ```
//!
//! Such a slab has few blocks, so neighbours to share an operation with are rare (`parcels`), and a slab of one block would end
//! with each free and be cut again with each allocation. Whoever frees a block here writes to the block and to one word of
//! its owner's, and reads its slab's tag. rpmalloc and mimalloc keep such a list for each page ("deferred" or "thread free");
//! here it is the thread's, so that blocks of many slabs come by one exchange.
//!
//! Treiber's stack, always emptied as a whole, hence without the ABA problem: by the owner whose stack runs empty, or by the
//! purger. A list that is long enough refuses blocks, so that their slabs can serve other sizes.
//!
//! Invariant: blocks here belong to slabs that cannot be retired, because their bits are not set. A slab may be
//! adopted meanwhile, as those of a stack's blocks may. (Who stands still between its look at the tag and its push, until the
//! owner's thread has ended, all its slabs were adopted or retired, and its page was given up, loses the block.)

use crate::malloc::block::{Block, List};
use crate::malloc::decisions::Decisions;
use crate::size_class::{CLASSES, SizeClass, class_of};
use crate::sync::{AtomicUsize, Ordering};
use core::ptr;

/// The longest blocks that are collected in parcels.
const SHORT_MAX: usize = 4096;
/// How many classes have shorter blocks than a list is for.
pub const SHORT_CLASSES: usize = match class_of(SHORT_MAX) {
    Some(class) => class.index() + 1,
    None => unreachable!(),
};
/// How many classes have lists.
pub const LONG_CLASSES: usize = CLASSES - SHORT_CLASSES;

/// What the beginnings of long blocks are multiples of: below is room for their number.
const GRAIN: usize = 512;
const _: () = assert!(Decisions::SHIPPED.arrivals_blocks < GRAIN, "a length fits below an address");

/// See the module. All-zero is empty.
#[derive(Debug)]
#[repr(transparent)]
pub struct Arrivals {
    lists: [AtomicUsize; LONG_CLASSES],
}

impl Arrivals {
    /// No blocks.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Arrivals {
        Arrivals { lists: core::array::from_fn(|_| AtomicUsize::new(0)) }
    }

    fn of(&self, class: SizeClass) -> Option<&AtomicUsize> {
        self.lists.get(class.index().wrapping_sub(SHORT_CLASSES))
    }

    /// Whether blocks of a class were there a moment ago.
    pub fn holds(&self, class: SizeClass) -> bool {
        self.of(class).is_some_and(|list| list.load(Ordering::Relaxed) != 0)
    }

    /// The longest class of which blocks are there.
    pub fn longest(&self) -> Option<SizeClass> {
        let at = self.lists.iter().rposition(|list| list.load(Ordering::Relaxed) != 0)?;
        SizeClass::new(SHORT_CLASSES + at)
    }

    /// Puts a block into the list of its class, which holds `most`, by any thread. `false`: there is none, or no room.
    ///
    /// # Safety
    /// The block is of the class, free, and the caller's.
    pub unsafe fn push(
        &self,
        block: *mut Block,
        class: SizeClass,
        most: usize,
        key: usize,
    ) -> bool {
        let Some(list) = self.of(class) else { return false };
        let mut head = list.load(Ordering::Relaxed);
        loop {
            let before = list_of(head);
            if before.len >= most.min(GRAIN - 1) {
                return false;
            }
            // SAFETY: the caller's, until the exchange succeeds.
            unsafe { Block::link(block, before.first, key) };
            let now = block.expose_provenance() | (before.len + 1);
            // Release pairs with the Acquire in `take`: the taker sees the link and all before it.
            match list.compare_exchange_weak(head, now, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all blocks of a class. Any thread.
    pub fn take(&self, class: SizeClass) -> List {
        match self.of(class) {
            Some(list) if list.load(Ordering::Relaxed) != 0 => {
                list_of(list.swap(0, Ordering::Acquire))
            }
            _ => List::EMPTY,
        }
    }
}

/// The list that a word leads to.
fn list_of(word: usize) -> List {
    List { first: ptr::with_exposed_provenance_mut(word & !(GRAIN - 1)), len: len_of(word) }
}

/// How many blocks it has.
pub fn len_of(word: usize) -> usize {
    word % GRAIN
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn long_blocks_begin_at_multiples_of_the_grain() {
        for class in SizeClass::all().filter(|class| class.index() >= SHORT_CLASSES) {
            assert!(class.size().is_multiple_of(GRAIN), "{class:?}");
        }
    }
}
