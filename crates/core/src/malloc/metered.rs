//! Caches whose allocations are counted by class, although the hot path counts nothing.
//!
//! Between two refills of a stack, a program allocates exactly the stack's blocks, unless frees return some to it
//! meanwhile. So the frees of a metered cache go to the spare stack instead: its `reach` is 0, which sends every free
//! to the cold call, and that call checks `known`. Allocations stay hot. The caller that meters pays for a whole stack
//! when it installs it; to end the count within a stack, it cuts the stack there.
//!
//! The heap profile uses this: an allocation to be sampled finds its stack empty.

use super::block::{Block, List};
use super::cache::Cache;
use super::heap::NodeHeap;
use super::slabs::give_list;
use crate::machine::Machine;
use crate::size_class::SizeClass;

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
            let len = cache.magazines.len(class).min(*left as usize);
            self.keep(cache, class, len);
            *left -= len as u32;
        }
        block
    }

    /// Leaves `len` blocks in the stack of a metered cache; the rest waits in the spare stack.
    pub fn keep(&self, cache: &Cache, class: SizeClass, len: usize) {
        let _changing = cache.changing();
        if cache.magazines.len(class) <= len || cache.magazines.first(class).is_null() {
            return;
        }
        let rest = cache.magazines.cut(class, len);
        if cache.reserve.has_spare(class) {
            self.set_aside(cache, class, rest);
        } else {
            cache.reserve.swap_spare(class, rest);
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
    pub(super) fn put_aside(&self, cache: &Cache, block: *mut Block, class: SizeClass) {
        let len = cache.reserve.push_spare(class, block, cache.key());
        if len >= self.shared.decisions().stack_len(class) {
            self.put_off(cache, class);
        }
    }

    /// The spare stack is full: into the depot with it, or back to bits.
    #[cold]
    #[inline(never)]
    fn put_off(&self, cache: &Cache, class: SizeClass) {
        let _changing = cache.changing();
        let decisions = self.shared.decisions();
        let stack: List = cache.reserve.take_spare(class);
        let short = stack.len <= decisions.batch_blocks;
        let rest = if self.is_stocked(cache, class) && short {
            stack
        } else {
            self.try_set_aside(cache, class, stack)
        };
        let rest = give_list(&self.shared, Some(&cache.slabs), rest, decisions.reserve_words);
        cache.reserve.swap_spare(class, rest);
    }
}
