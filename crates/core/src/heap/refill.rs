//! What happens when nothing is left to allocate: where the next blocks come from.
//!
//! ```text
//! 1 what was freed since   2 a magazine of the depot   3 bits of listed slabs
//! 4 an idle cache's slab   5 a new slab, for which something else is given back: `give`
//! ```
//!
//! The first two are linked already and cost the same however long they are. Bits become a stack a few
//! blocks at a time, so that few pages are touched before the program does.

use super::cache::Cache;
use super::give::freed_len;
use super::huge::{A_SLAB, count_slab};
use super::lists::link;
use super::node_heap::NodeHeap;
use super::slab::{Chain, Slab};
use super::tag;
use crate::machine::Machine;
use crate::place::Home;
use crate::row::Row;
use crate::size_class::{CLASSES, SizeClass};
use core::cell::Cell;
use core::sync::atomic::Ordering;

/// Bytes that may be freed before they count as a full stack; what is allocated meanwhile is not taken off.
const STACK_BYTES: usize = 16 * 1024;
/// Blocks that may be, at most: a full stack has one more.
const STACK_LEN: usize = 255;
/// Bytes the first refill of a class takes: few pages are touched before the program does, but a program that frees what it
/// has just allocated seldom comes to the end of it.
const FIRST_BATCH_BYTES: usize = 1024;
/// Bytes a refill from bits takes at most, and blocks.
const BATCH_BYTES: usize = 8 * 1024;
const BATCH_LEN: usize = 64;

/// How many blocks may be freed before a stack is full, by class.
static LIMITS: [u16; CLASSES] = table(STACK_BYTES, STACK_LEN);
/// How many blocks a refill takes at most, by class.
static BATCHES: [u16; CLASSES] = table(BATCH_BYTES, BATCH_LEN);
/// How many blocks the first refill takes, by class.
static FIRST_BATCHES: [u16; CLASSES] = table(FIRST_BATCH_BYTES, BATCH_LEN);

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

/// How many blocks of a class may be freed before they are a full stack.
#[inline]
pub(super) fn limit(class: usize) -> usize {
    *LIMITS.at(class) as usize
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
        Busy(&cache.busy, cache.busy.replace(true))
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
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
        if (!cache.is_metered() || is_long(cache, index)) && cache.turn_over(index) {
            return;
        }
        self.drain(cache);
        if let Some((magazine, len)) = self.fetch(cache, index) {
            return cache.set_stack(index, magazine, len);
        }
        self.refill_from_bits(cache, class);
        if cache.stack(index).is_null() {
            cache.turn_over(index);
        }
    }

    fn refill_from_bits(&self, cache: &Cache, class: SizeClass) {
        let index = class.index();
        let want = cache.batch.at(index).get() as usize;
        cache.batch.at(index).set((want * 2).min(*BATCHES.at(index) as usize) as u8);
        let (mut chain, mut searched) = (Chain::new(cache.key.get()), false);
        while chain.len * 2 < want {
            let slab = cache.slabs.at(index).get();
            if slab.is_null() {
                if chain.len != 0 || !self.find_slab(cache, class) {
                    break;
                }
                searched = true;
                continue;
            }
            // SAFETY: listed slabs are alive and ours.
            let slab = unsafe { &*slab };
            self.take_from(slab, want - chain.len, &mut chain);
            if chain.len < want {
                self.forget(cache, slab);
            }
        }
        cache.set_stack(index, chain.close(), chain.len);
        // A call that cut a slab has taken long enough: the next one pays.
        if !searched && cache.debt.get() != 0 {
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
        let is_listed = || !cache.slabs.at(class.index()).get().is_null();
        // Without memory for a new one, what this cache and idle ones had in stacks has become bits.
        self.adopt(cache, class)
            || self.cut_slab(cache, class)
            || is_listed()
            || self.adopt(cache, class)
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
        if run.address - region.base() >= cache.reach.get() {
            self.refresh(cache);
        }
        self.borrow(cache, class.index());
        count_slab(cache, class.index());
        self.ask_for_huge(cache, run, A_SLAB);
        true
    }
}

/// Whether what was freed is worth a refill of a metered cache, whose stacks must be paid for: half as long as what
/// bits give at most. A shorter one grows until it is, while bits fill the other.
fn is_long(cache: &Cache, class: usize) -> bool {
    freed_len(cache, class) * 2 >= longest_batch(class)
}
