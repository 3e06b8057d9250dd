//! Fills an empty stack: where the next blocks come from.
//!
//! ```text
//! 1 the spare stack   2 a magazine of the depot   3 bits of listed slabs
//! 4 an idle cache's slab   5 a new slab, in return for which other blocks go back: `give`
//! ```
//!
//! The first two are linked already and cost the same however long they are. Bits become a stack a few
//! blocks at a time, so that the heap touches few pages before the program does.

use super::cache::Cache;
use super::huge::{A_SLAB, count_slab};
use super::lists::link;
use super::node_heap::{Misuse, NodeHeap};
use super::slab::{Chain, Slab};
use super::tag;
use crate::machine::Machine;
use crate::place::Home;
use crate::row::Row;
use crate::size_class::{CLASSES, SizeClass};
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};

/// Bytes a full stack holds.
const STACK_BYTES: usize = 16 * 1024;
/// Blocks a full stack holds at most.
const STACK_LEN: usize = 256;
/// Bytes the first refill of a class takes: few pages are touched before the program does.
const FIRST_BATCH_BYTES: usize = 512;
/// Blocks that one call moves between a stack and slabs, at most.
pub(super) const STEP: usize = 64;
/// Bytes a refill takes at most.
const BATCH_BYTES: usize = 8 * 1024;

/// How many blocks a full stack holds, by class.
static LIMITS: [u16; CLASSES] = table(STACK_BYTES, STACK_LEN);
/// How many blocks a refill takes at most, by class.
static BATCHES: [u16; CLASSES] = table(BATCH_BYTES, STEP);
/// How many blocks the first refill takes, by class.
static FIRST_BATCHES: [u16; CLASSES] = table(FIRST_BATCH_BYTES, STEP);

/// How many blocks of each class make up `bytes`, from one to `most`.
const fn table(bytes: usize, most: usize) -> [u16; CLASSES] {
    let mut table = [1; CLASSES];
    let mut at = 0;
    while let Some(class) = SizeClass::new(at) {
        table[at] = match bytes / class.size() {
            0 => 1,
            len if len > most => most as u16,
            len => len as u16,
        };
        at += 1;
    }
    table
}

/// How many blocks of a class a full stack holds.
#[inline]
pub(super) fn limit(class: usize) -> usize {
    // Those of the smallest class cannot carry a magazine's header and go back to bits.
    if class == 0 { STEP } else { *LIMITS.at(class) as usize }
}

/// How many blocks of a class a metered cache sets aside: those of the smallest class as well, in one step.
#[inline(always)]
pub(super) fn limit_aside(class: usize) -> usize {
    // SAFETY: callers pass a class below CLASSES, the table's length.
    unsafe { *LIMITS.as_ptr().add(class) as usize }
}

/// How many blocks of a class a refill takes at most.
#[inline(always)]
pub(super) fn longest_batch(class: usize) -> usize {
    *BATCHES.at(class) as usize
}

/// How many blocks of a class the first refill takes.
pub(super) fn first_batch(class: usize) -> u8 {
    *FIRST_BATCHES.at(class) as u8
}

/// Marks a cache's lists as being changed, for as long as it lives; see `Cache::busy`.
pub(super) struct Busy<'a>(&'a Cell<bool>, bool);

impl<'a> Busy<'a> {
    pub(super) fn new(cache: &'a Cache) -> Busy<'a> {
        let before = cache.busy.replace(true);
        // The mark comes before the changes, and goes after them: a fork may stop the thread between any two stores.
        compiler_fence(Ordering::SeqCst);
        Busy(&cache.busy, before)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.set(self.1);
    }
}

impl<M: Machine> NodeHeap<M> {
    /// Puts blocks of `class` into the cache's empty stack, if there are any to be had.
    #[cold]
    pub(super) fn refill(&self, cache: &Cache, class: SizeClass) {
        let _busy = Busy::new(cache);
        self.look_around(cache);
        let index = class.index();
        if let Some(at) = cache.astray(class) {
            // Whatever the rest of the stack is, nobody gets it.
            self.note(Misuse::Astray, at);
            cache.take_stack(index);
        }
        if (!cache.is_metered() || is_long(cache, index)) && take_spare(cache, index) {
            return;
        }
        self.drain(cache);
        if let Some((magazine, len)) = self.fetch(cache, index) {
            cache.set_stack(index, magazine);
            return grant(cache, index, len.max(limit(index)), len);
        }
        self.refill_from_bits(cache, class);
        if cache.stack(index).is_null() {
            take_spare(cache, index);
        }
    }

    fn refill_from_bits(&self, cache: &Cache, class: SizeClass) {
        let index = class.index();
        let want = cache.batch.at(index).get() as usize;
        cache.batch.at(index).set((want * 2).min(*BATCHES.at(index) as usize) as u8);
        let mut chain = Chain::new(cache.key.get());
        while chain.len * 2 < want {
            let slab = cache.slabs.at(index).get();
            if slab.is_null() {
                if chain.len != 0 || !self.find_slab(cache, class) {
                    break;
                }
                continue;
            }
            // SAFETY: listed slabs are alive and ours.
            let slab = unsafe { &*slab };
            self.take_from(slab, want - chain.len, &mut chain);
            if chain.len < want {
                self.forget(cache, slab);
            }
        }
        grant(cache, index, limit(index), chain.len);
        cache.set_stack(index, chain.close());
        if cache.debt.get() != 0 {
            self.repay(cache, index);
        }
    }

    fn take_from(&self, slab: &Slab, want: usize, chain: &mut Chain) {
        let sparse = slab.unmarked.load(Ordering::Relaxed) != 0;
        slab.take(want, chain);
        if sparse {
            self.mark_touched(slab);
        }
    }

    /// Lists a slab of `class` with free blocks: one that an idle cache has, else a new one.
    fn find_slab(&self, cache: &Cache, class: SizeClass) -> bool {
        self.adopt(cache, class) || self.cut_slab(cache, class)
    }

    fn cut_slab(&self, cache: &Cache, class: SizeClass) -> bool {
        if cache.home.get() != Home::ANYWHERE {
            self.look_closely(cache);
        }
        let Some(run) = self.take_run(cache, cache.home.get(), 1, 1) else { return false };
        let Some(region) = self.runs.region_of(run.address) else { return false };
        let slab: *mut Slab = region.descriptor(run.address).cast();
        // SAFETY: descriptors of committed units are readable and valid when zero; the unit is ours.
        let it = unsafe { &*slab };
        it.cut(run.address, class, region.bitmap(run.address));
        // SAFETY: the region contains the unit. Release: who reads the tag finds a whole slab.
        unsafe { region.tag(run.address) }.store(tag::of_slab(cache, class), Ordering::Release);
        it.vacancy.start(it.blocks());
        link(cache, slab, class);
        if run.address - region.base() >= cache.known.get() {
            self.refresh(cache);
        }
        self.borrow(cache, class.index());
        count_slab(cache, class.index());
        self.ask_for_huge(cache, run, A_SLAB);
        true
    }
}

/// Makes the spare stack the one in use, which is empty; `false` if there is none.
fn take_spare(cache: &Cache, class: usize) -> bool {
    let spare = cache.spare.at(class).replace(ptr::null_mut());
    if spare.is_null() {
        return false;
    }
    cache.set_stack(class, spare);
    let len = cache.spare_len.at(class).replace(0) as usize;
    grant(cache, class, len.max(limit(class)), len);
    true
}

/// Whether a metered cache's spare stack, to which frees go, is worth changing places with the empty one: half as long
/// as what a refill from bits gives at most. A shorter one grows until it is, while bits fill the other.
fn is_long(cache: &Cache, class: usize) -> bool {
    cache.spare_len.at(class).get() * 2 >= *BATCHES.at(class)
}

/// Lets the stack of a class, which holds `len` blocks, grow to `granted`.
pub(super) fn grant(cache: &Cache, class: usize, granted: usize, len: usize) {
    cache.granted.at(class).set(granted as u16);
    cache.room.at(class).set(granted as i32 - len as i32);
}
