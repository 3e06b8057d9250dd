//! Caches whose allocations are counted by class, although the hot path counts nothing.
//!
//! Between two refills of a stack, a program allocates exactly the stack's blocks, unless frees return some to it
//! meanwhile. So the frees of a metered cache go to the spare stack instead: its `reach` is 0, which sends every free
//! to the cold call, and that call checks `known`. Allocations stay hot. The caller that meters pays for a whole stack
//! when it installs it; to end the count within a stack, it cuts the stack there.
//!
//! The heap profile uses this: an allocation to be sampled finds its stack empty.

use super::cache::{Block, Cache};
use super::depot::HEADER;
use super::give::{WORDS, is_stocked, size_of_class, stack_len};
use super::node_heap::NodeHeap;
use super::refill::{Busy, STEP, grant, limit_aside};
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

    /// From now on, until its thread leaves it: before the thread's first allocation. What an earlier thread left in
    /// stacks is to be put away by [`NodeHeap::keep`].
    pub fn meter(&self) {
        self.metered.set(true);
        self.reach.set(0);
    }
}

impl<M: Machine> NodeHeap<M> {
    /// A block of `class` for a metered cache whose stack is empty, and a new stack, for which `left`, the allocations that
    /// may still pass (at least one), pays. Null when memory is short.
    pub fn allocate_metered(&self, cache: &Cache, class: SizeClass, left: &mut u32) -> *mut u8 {
        let block = self.allocate_class(cache, class);
        if !block.is_null() {
            *left = left.saturating_sub(1);
            let len = stack_len(cache, class.index()).min(*left as usize);
            self.keep(cache, class, len);
            *left -= len as u32;
        }
        block
    }

    /// Leaves `len` blocks in the stack of a metered cache; the rest waits in the spare stack.
    pub fn keep(&self, cache: &Cache, class: SizeClass, len: usize) {
        let _busy = Busy::new(cache);
        let (index, have) = (class.index(), stack_len(cache, class.index()));
        if have <= len || cache.stack(index).is_null() {
            return;
        }
        let rest = cut(cache, index, len);
        grant(cache, index, len, len);
        if cache.spare.at(index).get().is_null() {
            cache.spare.at(index).set(rest);
            cache.spare_len.at(index).set((have - len) as u16);
        } else {
            self.set_aside(cache, index, rest, have - len);
        }
    }

    /// Frees a block of a metered cache's own slabs; `false`, and nothing done, for every other address.
    ///
    /// # Safety
    /// As for [`Cache::give`].
    #[inline(always)]
    pub unsafe fn give_metered(&self, cache: &Cache, address: *mut u8) -> bool {
        let Some((block, class)) = cache.own_block(address, cache.known.get()) else {
            return false;
        };
        self.put_aside(cache, block, class);
        true
    }

    /// Puts a free block of the cache's own slabs onto the spare stack.
    #[inline(always)]
    pub(super) fn put_aside(&self, cache: &Cache, block: *mut Block, class: usize) {
        // SAFETY: classes are below CLASSES, the length of both.
        let (spare, len) =
            unsafe { (cache.spare.get_unchecked(class), cache.spare_len.get_unchecked(class)) };
        // SAFETY: the block is free, and the cache's.
        unsafe { Block::link(block, spare.get(), cache.key.get()) };
        spare.set(block);
        len.set(len.get() + 1);
        if len.get() as usize >= limit_aside(class) {
            self.put_off(cache, class);
        }
    }

    /// The spare stack is full: into the depot with it, or back to bits.
    #[cold]
    #[inline(never)]
    fn put_off(&self, cache: &Cache, class: usize) {
        let _busy = Busy::new(cache);
        let stack = cache.spare.at(class).replace(ptr::null_mut());
        let len = cache.spare_len.at(class).replace(0) as usize;
        if size_of_class(class) < HEADER || (is_stocked(cache) && len <= STEP) {
            let (rest, left) = self.give_step(cache, stack, len, WORDS);
            cache.spare.at(class).set(rest);
            cache.spare_len.at(class).set(left as u16);
        } else {
            self.set_aside(cache, class, stack, len);
        }
    }
}

/// Cuts the stack of a class, which is longer, behind its first `len` blocks; the first of the others.
fn cut(cache: &Cache, class: usize, len: usize) -> *mut Block {
    let key = cache.key.get();
    let Some(more) = len.checked_sub(1) else { return cache.take_stack(class) };
    let mut last = cache.stack(class);
    for _ in 0..more {
        // SAFETY: the stack is the cache's, and longer than that.
        last = unsafe { Block::next(last, key) };
    }
    // SAFETY: as above: the last one that stays, and the one behind it.
    unsafe {
        let rest = Block::next(last, key);
        Block::link(last, ptr::null_mut(), key);
        rest
    }
}
