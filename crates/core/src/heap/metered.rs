//! Caches whose allocations are counted, one by one and by class, though the hot path counts nothing.
//!
//! What is freed goes to another stack than the one that allocations take from, so what a program allocates between two
//! refills is what the stack held when it was installed. Whoever meters pays for a whole stack then; where the count
//! shall end within a stack, the stack is cut there.
//!
//! The heap's profile is made of this: an allocation that it wants to see is one that finds its stack empty.

use super::cache::{Block, Cache};
use super::node_heap::NodeHeap;
use super::refill::{Busy, limit};
use crate::machine::Machine;
use crate::row::Row;
use crate::size_class::SizeClass;
use core::ptr;

impl Cache {
    /// Whether its allocations are counted.
    #[inline(always)]
    pub fn is_metered(&self) -> bool {
        self.metered.get()
    }

    /// From now on, until its thread leaves it: before its first allocation.
    pub fn meter(&self) {
        self.metered.set(true);
    }
}

impl<M: Machine> NodeHeap<M> {
    /// A block of `class` for a metered cache whose stack is empty, and a new stack, for which `left`, the allocations that
    /// may still pass (at least one), pays. Null when memory is short.
    pub fn allocate_metered(&self, cache: &Cache, class: SizeClass, left: &mut u32) -> *mut u8 {
        let block = self.allocate_class(cache, class);
        if !block.is_null() {
            *left = left.saturating_sub(1);
            let have = (cache.loaded.at(class.index()).get() as usize).saturating_sub(1);
            let len = have.min(*left as usize);
            if have > len {
                self.cut(cache, class.index(), len, have - len);
            }
            *left -= len as u32;
        }
        block
    }

    /// Takes all of the stack of a class from a cache that is metered from now on.
    pub fn keep_none(&self, cache: &Cache, class: SizeClass) {
        let (stack, len) = self.take_stack(cache, class.index());
        if !stack.is_null() {
            self.put_off(cache, class.index(), stack, len);
        }
    }

    /// Leaves `len` blocks in the stack of a class, which has `more` than that.
    fn cut(&self, cache: &Cache, class: usize, len: usize, more: usize) {
        let _busy = Busy::new(cache);
        let key = cache.key.get();
        let first = cache.stack(class);
        let mut last = ptr::null_mut();
        let mut rest = first;
        for _ in 0..len {
            last = rest;
            // SAFETY: the stack is the cache's, and longer than that.
            rest = unsafe { Block::next(rest, key) };
        }
        if last.is_null() {
            cache.set_stack(class, last, 0);
        } else {
            // SAFETY: as above: the last one that stays.
            unsafe { Block::link(last, ptr::null_mut(), key) };
            cache.set_stack(class, first, len);
        }
        self.put_off(cache, class, rest, more);
    }

    /// What was not paid for waits with what was freed.
    fn put_off(&self, cache: &Cache, class: usize, stack: *mut Block, len: usize) {
        let (freed, freed_len) = cache.take_all_freed(class);
        cache.grant(class, limit(class), stack, len);
        if !freed.is_null() {
            self.set_aside(cache, class, freed, freed_len);
        }
    }
}
