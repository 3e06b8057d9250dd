//! When the next sample of a class is due, for a thread whose cache is metered: its allocations stay hot.
//!
//! Each class has its own sample points: the gap between two is drawn from the exponential distribution, as in `sampler`,
//! and expressed in allocations. Blocks are counted when a stack is installed (`malloc/metered` in core), and a stack is
//! cut where the gap ends. So the allocation that contains the sample point finds no block: exactly that
//! one, whatever was freed in between. An allocation counts with its class's size: the size requested is not known before.
//!
//! Blocks above the largest class count byte by byte, as in `sampler`. When a request finds no memory, paid-for stacks go
//! back, and a sample may come early.

use super::sampler::{self, draw_gap, is_due};
use crate::ask::Ask;
use crate::main_heap::HEAP;
use crate::word;
use core::cell::Cell;
use core::ptr;
use freehold_core::malloc::Cache;
use freehold_core::size_class::{CLASSES, SizeClass, class_of_aligned};

/// See the module. Lives in a block of the cache that it meters.
pub(crate) struct Meter {
    /// Allocations of each class that pass before the next sample.
    left: [Cell<u32>; CLASSES],
    /// A sample is being taken: what that allocates is none.
    busy: Cell<bool>,
}

impl Meter {
    /// Meters a cache whose thread has not allocated yet; `None` when memory is short.
    pub fn new(cache: &Cache) -> Option<&'static Meter> {
        cache.meter();
        let block: *mut Meter = HEAP.allocate(cache, size_of::<Meter>()).cast();
        if block.is_null() {
            return None;
        }
        // SAFETY: the block is ours, aligned and long enough; all of it is written before it is read.
        let meter = unsafe {
            block.write_bytes(0, 1);
            &*block
        };
        meter.go_to(cache);
        Some(meter)
    }

    /// What meters the calling thread's cache, if anything does.
    #[inline]
    pub fn of_thread() -> Option<&'static Meter> {
        // SAFETY: null, or what `start` set, which lives until its thread has left it.
        unsafe { word::meter().cast::<Meter>().as_ref() }
    }

    /// Meters the cache of the calling thread; `false` when memory is short.
    pub fn start(cache: &'static Cache) -> bool {
        let meter = Meter::new(cache);
        if let Some(meter) = meter {
            word::set_meter(ptr::from_ref(meter).cast());
            word::set(Some(cache));
        }
        meter.is_some()
    }

    /// Starts anew with a cache: what it allocated so far was not counted.
    pub fn go_to(&self, cache: &Cache) {
        cache.meter();
        for (left, class) in self.left.iter().zip(SizeClass::all()) {
            HEAP.keep(cache, class, 0);
            left.set(gap(class));
        }
    }

    /// Gives its memory back to its cache, whose thread is leaving it.
    pub fn free(&self, cache: &Cache) {
        let block = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: `new` allocated it; its thread's word, by which alone it was known, has been cleared.
        let _ = unsafe { HEAP.free(cache, block) };
    }

    /// Allocates for the thread, and samples if it is time.
    pub fn allocate(&self, cache: &Cache, ask: Ask) -> *mut u8 {
        let class = class_of_aligned(ask.size, ask.align);
        let Some(class) = class.filter(|&class| HEAP.has_slabs(class)) else {
            return if is_due(ask.size) {
                self.sample(cache, ask, ask.size)
            } else {
                ask.of_heap(cache)
            };
        };
        let mut block = cache.take_class(class);
        if block.is_null() {
            let Some(left) = self.left.get(class.index()) else { return block };
            if left.get() == 0 && !self.busy.get() {
                left.set(gap(class));
                return self.sample(cache, ask, class.size());
            }
            // While a sample is taken, one at a time.
            let mut rest = left.get().max(1);
            block = HEAP.allocate_metered(cache, class, &mut rest);
            left.set(rest);
        }
        if ask.zero && !block.is_null() {
            // SAFETY: the block is ours and that long.
            unsafe { ptr::write_bytes(block, 0, ask.size) };
        }
        block
    }

    fn sample(&self, cache: &Cache, ask: Ask, passed: usize) -> *mut u8 {
        self.busy.set(true);
        let block = sampler::allocate(cache, ask, passed);
        self.busy.set(false);
        block
    }
}

/// Allocations of a class before the next that is sampled.
fn gap(class: SizeClass) -> u32 {
    (draw_gap() as u64 / class.size() as u64).min(u32::MAX as u64) as u32
}
