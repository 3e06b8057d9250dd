//! What a node's class is, told to the nodes above it: the masks of a [`Tree`].
//!
//! A node of a level above `l` has a mask for each class of level `l`, shortest blocks last. A child's bit is set in
//! it if that child is an open node of level `l` and of that class, or has such a node below it.
//!
//! Invariant: no mask but these changes, and each bit that is cleared was set.

#![deny(unsafe_code)]

use super::{CLASSES, LARGE, MASKS, SLOTS_LOG2, Tree};

/// Which word of a node of level `above` has the mask of a class of level `of`: that whose run is 64 slots
/// halved so often.
#[inline(always)]
pub(super) const fn mask(above: usize, of: usize, halvings: u32) -> usize {
    MASKS + CLASSES * (above - of - 1) + halvings as usize - 1
}

impl Tree {
    /// The class of the open node of level `LEVEL`, told in halvings, is `to` now: tells the nodes above.
    #[inline(always)]
    pub(super) fn reclass<const TOP: usize, const LEVEL: usize>(
        &mut self,
        node: usize,
        from: u32,
        to: u32,
    ) {
        let mut node = node;
        if LEVEL < 1 && TOP >= 1 {
            let was_last = self.clear(1, node, mask(1, LEVEL, from));
            self.mark(1, node, mask(1, LEVEL, to));
            node >>= SLOTS_LOG2;
            if !was_last {
                return self.enlist_above::<TOP, LEVEL, 1>(node, to);
            }
        }
        if LEVEL < 2 && TOP >= 2 {
            let was_last = self.clear(2, node, mask(2, LEVEL, from));
            self.mark(2, node, mask(2, LEVEL, to));
            node >>= SLOTS_LOG2;
            if !was_last {
                return self.enlist_above::<TOP, LEVEL, 2>(node, to);
            }
        }
        if LEVEL < 3 && TOP >= 3 {
            self.clear(3, node, mask(3, LEVEL, from));
            self.mark(3, node, mask(3, LEVEL, to));
        }
    }

    /// The node of level `LEVEL` is open now, and of that class.
    #[inline(always)]
    pub(super) fn enlist<const TOP: usize, const LEVEL: usize>(&mut self, node: usize, class: u32) {
        self.enlist_above::<TOP, LEVEL, LEVEL>(node, class);
        if LEVEL == 1 && TOP >= 2 {
            self.mark(2, node, LARGE);
        }
        if LEVEL == 1 && TOP >= 3 {
            self.mark(3, node >> SLOTS_LOG2, LARGE);
        }
        if LEVEL == 2 && TOP >= 3 {
            self.mark(3, node, LARGE);
        }
    }

    /// The node of level `BELOW` has such a node of level `LEVEL`.
    #[inline(always)]
    fn enlist_above<const TOP: usize, const LEVEL: usize, const BELOW: usize>(
        &mut self,
        node: usize,
        class: u32,
    ) {
        let mut node = node;
        if BELOW < 1 && TOP >= 1 {
            self.mark(1, node, mask(1, LEVEL, class));
            node >>= SLOTS_LOG2;
        }
        if BELOW < 2 && TOP >= 2 {
            self.mark(2, node, mask(2, LEVEL, class));
            node >>= SLOTS_LOG2;
        }
        if BELOW < 3 && TOP >= 3 {
            self.mark(3, node, mask(3, LEVEL, class));
        }
    }

    /// The node of level `LEVEL`, which was of that class, is closed now, or has no free slot.
    #[inline(always)]
    pub(super) fn delist<const TOP: usize, const LEVEL: usize>(&mut self, node: usize, class: u32) {
        if LEVEL == 1 && TOP >= 2 {
            let above = node >> SLOTS_LOG2;
            let was_last = self.clear(2, node, LARGE);
            if TOP >= 3 && was_last && self.slots(2, above).free() == 0 {
                self.clear(3, above, LARGE);
            }
        }
        if LEVEL == 2 && TOP >= 3 && self.word(2, node, LARGE) == 0 {
            self.clear(3, node, LARGE);
        }
        self.delist_above::<TOP, LEVEL>(node, class);
    }

    /// Clears the node's bit above, and so on as long as a mask becomes zero.
    #[inline(always)]
    fn delist_above<const TOP: usize, const LEVEL: usize>(&mut self, node: usize, class: u32) {
        let mut node = node;
        if LEVEL < 1 && TOP >= 1 {
            if !self.clear(1, node, mask(1, LEVEL, class)) {
                return;
            }
            node >>= SLOTS_LOG2;
        }
        if LEVEL < 2 && TOP >= 2 {
            if !self.clear(2, node, mask(2, LEVEL, class)) {
                return;
            }
            node >>= SLOTS_LOG2;
        }
        if LEVEL < 3 && TOP >= 3 {
            self.clear(3, node, mask(3, LEVEL, class));
        }
    }

    /// Sets the child's bit in a mask of the node above it, of that level.
    #[inline(always)]
    fn mark(&mut self, level: usize, child: usize, mask: usize) {
        let members = self.word(level, child >> SLOTS_LOG2, mask) | 1 << (child % 64);
        self.set(level, child >> SLOTS_LOG2, mask, members);
    }

    /// Clears the child's bit, which is set: whether that was the last of the mask.
    #[inline(always)]
    fn clear(&mut self, level: usize, child: usize, mask: usize) -> bool {
        let members = self.word(level, child >> SLOTS_LOG2, mask);
        debug_assert!(members >> (child % 64) & 1 == 1, "a class is known above");
        // One instruction, flags included; clearing what may be clear is three.
        let left = members.wrapping_sub(1 << (child % 64));
        self.set(level, child >> SLOTS_LOG2, mask, left);
        left == 0
    }
}
