//! What happens when a stack runs empty or full: blocks move between stacks and slabs.
//!
//! ```text
//! empty:  the spare stack, else bits of listed slabs, else an idle cache's slab, else a new one
//! full:   becomes the spare stack; if there is one already, a few of its blocks go back to bits
//! ```
//!
//! Two stacks a class, after Bonwick and Adams, "Magazines and Vmem" (2001), 3.1: a program that
//! swings around the edge of one stack does not pay for it. Unlike there, a spare stack goes back in
//! steps of at most [`STEP`] blocks: the worst call is short.

use super::cache::{Block, Cache};
use super::node_heap::{Misuse, NodeHeap};
use super::slab::{Chain, Slab};
use super::tag::{self, SPARSE, Tag};
use crate::frames::UNIT;
use crate::machine::Machine;
use crate::size_class::{CLASSES, SizeClass};
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::Ordering;

/// Bytes a full stack holds at first.
const STACK_BYTES: usize = 16 * 1024;
/// Blocks a full stack holds at first, at most.
const STACK_LEN: usize = 256;
/// Bytes a full stack holds once its limit has grown.
const GROWN_BYTES: usize = 64 * 1024;
/// Blocks it then holds at most.
const GROWN_LEN: usize = 2048;
/// Bytes the first refill of a class takes: few pages are touched before the program does.
const FIRST_BATCH_BYTES: usize = 512;
/// Blocks that one call moves between a stack and slabs, at most.
const STEP: usize = 64;
/// Bytes a refill takes at most.
const BATCH_BYTES: usize = 8 * 1024;
/// Bytes of other caches' blocks of one class that wait in the outbox at most. By class, because
/// blocks of one class that are freed together often lie together, and then go back together.
const OUTBOX_BYTES: usize = 4 * 1024;
/// Bytes given back before the heap is told.
const GIVEN_BYTES: usize = 256 * 1024;
/// Idle caches asked for a slab before a new one is cut.
const ADOPT_TRIES: usize = 8;
/// Listed slabs looked at to find a full one.
const FULLEST_OF: usize = 8;

/// How many blocks of `class` a stack holds at first.
pub(super) const fn first_limit(class: SizeClass) -> usize {
    fitting(class, STACK_BYTES, STACK_LEN)
}

/// How many blocks of `class` make up `bytes`, from one to `most`.
const fn fitting(class: SizeClass, bytes: usize, most: usize) -> usize {
    match bytes / class.size() {
        0 => 1,
        len if len > most => most,
        len => len,
    }
}

/// How many blocks of `class` the first refill takes.
pub(super) const fn first_batch(class: SizeClass) -> usize {
    let len = FIRST_BATCH_BYTES / class.size();
    if len == 0 { 1 } else { len }
}

/// Marks a cache's lists as being changed, for as long as it lives; see `Cache::busy`.
struct Busy<'a>(&'a Cell<bool>, bool);

impl<'a> Busy<'a> {
    fn new(cache: &'a Cache) -> Busy<'a> {
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
        let index = class.index();
        let spare = cache.spare[index].replace(ptr::null_mut());
        if !spare.is_null() {
            cache.heads[index].set(spare);
            let len = cache.spare_len[index].replace(0) as usize;
            return grant(cache, index, len.max(cache.limit[index].get() as usize), len);
        }
        if cache.gave[index].replace(false) {
            // Blocks went back only to be fetched again: hold more of them.
            let limit = cache.limit[index].get() as usize * 2;
            cache.limit[index].set(limit.min(fitting(class, GROWN_BYTES, GROWN_LEN)) as u16);
        }
        self.drain(cache);
        let want = cache.batch[index].get() as usize;
        cache.batch[index].set((want * 2).min(fitting(class, BATCH_BYTES, STEP)) as u16);
        let mut chain = Chain::new(cache.key.get());
        while chain.len * 2 < want {
            let slab = cache.slabs[index].get();
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
        grant(cache, index, cache.limit[index].get() as usize, chain.len);
        cache.heads[index].set(chain.close());
    }

    fn take_from(&self, slab: &Slab, want: usize, chain: &mut Chain) {
        let sparse = slab.purged.load(Ordering::Relaxed) != 0;
        slab.take(want, chain);
        if sparse && slab.purged.load(Ordering::Relaxed) == 0 {
            self.tag_of(slab, |tag| tag.fetch_and(!SPARSE, Ordering::Relaxed));
        }
    }

    pub(super) fn tag_of<R>(
        &self,
        slab: &Slab,
        work: impl FnOnce(&core::sync::atomic::AtomicU64) -> R,
    ) -> Option<R> {
        let region = self.runs.region_of(slab.base())?;
        // SAFETY: the region contains the slab.
        Some(work(unsafe { region.tag(slab.base()) }))
    }

    /// Lists a slab of `class` with free blocks: one that an idle cache has, else a new one.
    fn find_slab(&self, cache: &Cache, class: SizeClass) -> bool {
        if self.adopt(cache, class) {
            return true;
        }
        self.shed(cache, class);
        self.cut_slab(cache, class)
    }

    /// Before memory is taken for one class, another one's spare stack goes back, each class in
    /// turn, at most [`STEP`] blocks: the few that are held for a class nobody asks for any more
    /// would keep many slabs in use.
    fn shed(&self, cache: &Cache, class: SizeClass) {
        let other = cache.next_shed.get() as usize;
        cache.next_shed.set(((other + 1) % CLASSES) as u8);
        if other != class.index() {
            // Misuse found here was caused long ago; see `detach`.
            let spare = cache.spare[other].replace(ptr::null_mut());
            let given = self.give_up_to(cache, spare, STEP);
            let (rest, len) = given.unwrap_or((ptr::null_mut(), 0));
            let left = if rest.is_null() { 0 } else { cache.spare_len[other].get() - len as u16 };
            cache.spare[other].set(rest);
            cache.spare_len[other].set(left);
        }
    }

    fn cut_slab(&self, cache: &Cache, class: SizeClass) -> bool {
        let Some(run) = self.take_run(1, 1) else { return false };
        let Some(region) = self.runs.region_of(run.address) else { return false };
        let slab: *mut Slab = region.descriptor(run.address).cast();
        // SAFETY: descriptors of committed units are readable and valid when zero; the unit is ours.
        unsafe { (*slab).start(run.address, class, region.bitmap(run.address)) };
        // SAFETY: the region contains the unit. Release: who reads the tag finds a whole slab.
        unsafe { region.tag(run.address) }.store(tag::of_slab(cache, class), Ordering::Release);
        link(cache, slab, class);
        if run.address - region.base() >= cache.reach.get() {
            self.refresh(cache);
        }
        true
    }

    /// Takes over a slab of `class` from an idle cache.
    fn adopt(&self, cache: &Cache, class: SizeClass) -> bool {
        if self.idle_len.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.with_registry(|registry| {
            let mut idle = registry.idle;
            for _ in 0..ADOPT_TRIES {
                if idle.is_null() {
                    return false;
                }
                // SAFETY: caches live for ever; idle ones are touched under this lock only.
                let from = unsafe { &*idle };
                self.drain(from);
                let slab = from.slabs[class.index()].get();
                if !slab.is_null() {
                    // SAFETY: listed slabs are alive, and the idle cache's owner is this lock.
                    let it = unsafe { &*slab };
                    unlink(from, it);
                    let owner = tag::of_slab(cache, class);
                    self.tag_of(it, |tag| {
                        let sparse = tag.load(Ordering::Relaxed) & SPARSE;
                        tag.store(owner | sparse, Ordering::Relaxed);
                    });
                    link(cache, slab, class);
                    return true;
                }
                idle = from.next_idle.get();
            }
            false
        })
    }

    /// Drops a listed slab in which no block was found.
    fn forget(&self, cache: &Cache, slab: &Slab) {
        unlink(cache, slab);
        if slab.vacancy.unlist() {
            // SAFETY: `unlist` made it ours to queue; slabs' descriptors live for ever.
            unsafe { cache.inbox.push(ptr::from_ref(slab).cast_mut()) };
        }
        prefer_fullest(cache, slab.class());
    }

    /// Hears the news: lists slabs that have free blocks again, frees those that hold no block.
    pub(super) fn drain(&self, cache: &Cache) {
        if !cache.inbox.is_empty() {
            cache.inbox.take(|slab| self.hear(cache, slab));
        }
    }

    /// Acts on one slab that was queued and is in no inbox now.
    fn hear(&self, cache: &Cache, slab: *mut Slab) {
        // SAFETY: queued slabs cannot be retired, so it is alive.
        let it = unsafe { &*slab };
        let owner = self.owner_of(it);
        if !ptr::eq(owner, cache) {
            // It was adopted while on its way.
            // SAFETY: owners are caches, which live for ever; the slab is in no inbox now.
            unsafe { (*owner).inbox.push(slab) };
            return;
        }
        let found = it.vacancy.dequeue();
        if found.free == it.blocks() && self.retire(cache, it, found.listed) {
            return;
        }
        if !found.listed && found.free != 0 {
            it.vacancy.list();
            link(cache, slab, it.class());
        }
    }

    /// The owner of a slab that is queued, hence cannot be retired.
    fn owner_of(&self, slab: &Slab) -> *const Cache {
        let tag = self.tag_of(slab, |tag| Tag::decode(tag.load(Ordering::Acquire)));
        match tag {
            Some(Tag::Slab(owner, _)) => owner,
            // A live slab always has an owner. Were it not so, it would be kept for ever.
            _ => ptr::from_ref(&self.lost),
        }
    }

    /// Gives a slab back to the runs if all its blocks are free; keeps the last one of its class.
    fn retire(&self, cache: &Cache, slab: &Slab, listed: bool) -> bool {
        let first = cache.slabs[slab.class().index()].get();
        let last = match listed {
            true => ptr::eq(first, slab) && slab.next.get().is_null(),
            false => first.is_null(),
        };
        !last && self.retire_any(cache, slab, listed)
    }

    fn retire_any(&self, cache: &Cache, slab: &Slab, listed: bool) -> bool {
        if !slab.claim_all() {
            return false;
        }
        if !slab.vacancy.retire() {
            slab.unclaim(slab.word_count());
            return false;
        }
        if listed {
            unlink(cache, slab);
        }
        self.tag_of(slab, |tag| tag.store(0, Ordering::Relaxed));
        self.runs.give(&self.machine, slab.base(), 1, false);
        true
    }

    /// Retires every listed slab of a class that holds no block.
    pub(super) fn retire_free(&self, cache: &Cache, class: usize) {
        let mut slab = cache.slabs[class].get();
        while !slab.is_null() {
            // SAFETY: listed slabs are alive and ours.
            let it = unsafe { &*slab };
            slab = it.next.get();
            if it.vacancy.free() == it.blocks() {
                self.retire_any(cache, it, true);
            }
        }
    }

    /// Makes room in a stack that is full.
    #[cold]
    pub fn overflow(&self, cache: &Cache, class: usize) -> Result<(), Misuse> {
        let _busy = Busy::new(cache);
        let limit = cache.limit[class].get() as usize;
        let step = STEP.min(limit);
        let mut len = (cache.granted[class].get() as i32 - cache.room[class].get()) as usize;
        if cache.spare[class].get().is_null() {
            cache.spare[class].set(cache.heads[class].replace(ptr::null_mut()));
            cache.spare_len[class].set(len as u16);
            len = 0;
        }
        let spare_len = cache.spare_len[class].get() as usize;
        // Both stacks together hold twice the limit; what comes before the next call goes now.
        if len + spare_len + step > 2 * limit {
            cache.gave[class].set(true);
            let (rest, given) = self.give_up_to(cache, cache.spare[class].get(), step)?;
            cache.spare[class].set(rest);
            cache.spare_len[class].set((spare_len - given) as u16);
        }
        grant(cache, class, len + step, len);
        Ok(())
    }

    /// Gives both stacks of a class back to their slabs.
    pub(super) fn empty_class(&self, cache: &Cache, class: usize) {
        for stack in [&cache.heads[class], &cache.spare[class]] {
            // Misuse found here was caused long ago; see `detach`.
            let _ = self.give_up_to(cache, stack.replace(ptr::null_mut()), usize::MAX);
        }
        cache.spare_len[class].set(0);
        grant(cache, class, cache.limit[class].get() as usize, 0);
    }

    /// Frees a block of another cache's slab.
    pub(super) fn free_foreign(
        &self,
        cache: &Cache,
        block: *mut Block,
        class: SizeClass,
    ) -> Result<(), Misuse> {
        let outbox = &cache.outbox[class.index()];
        // SAFETY: the block is free now, and ours until its bit is set.
        unsafe { Block::link(block, outbox.get(), cache.key.get()) };
        outbox.set(block);
        let len = cache.outbox_len[class.index()].get() + 1;
        cache.outbox_len[class.index()].set(len);
        if len as usize * class.size() < OUTBOX_BYTES {
            Ok(())
        } else {
            self.flush_outbox(cache, class.index())
        }
    }

    /// Sends the outbox's blocks of a class to where they belong.
    pub(super) fn flush_outbox(&self, cache: &Cache, class: usize) -> Result<(), Misuse> {
        let _busy = Busy::new(cache);
        cache.outbox_len[class].set(0);
        let outbox = cache.outbox[class].replace(ptr::null_mut());
        self.give_up_to(cache, outbox, usize::MAX).map(|_| ())
    }

    /// Gives the first blocks of a linked list back to their slabs, neighbours in the list that lie
    /// in one word of bits together, until `most` or a few more are given. Answers the rest of the
    /// list and how many were given.
    fn give_up_to(
        &self,
        cache: &Cache,
        mut block: *mut Block,
        most: usize,
    ) -> Result<(*mut Block, usize), Misuse> {
        let mut region = self.runs.primary();
        let (mut given, mut bytes) = (0, 0);
        while !block.is_null() && given < most {
            if !region.contains(block.addr()) {
                region = self.runs.region_of(block.addr()).ok_or(Misuse::NotABlock)?;
            }
            let slab: *mut Slab = region.descriptor(block.addr()).cast();
            // SAFETY: the list's blocks lie in slabs, which cannot be retired while we hold them.
            let it = unsafe { &*slab };
            let size = it.class().size();
            let some = self.give_some(cache, it, &mut block)?;
            given += some;
            bytes += some * size;
        }
        self.account(cache, bytes);
        Ok((block, given))
    }

    /// Gives the first blocks of the list back, as far as they lie in one word of `slab`.
    #[inline]
    fn give_some(
        &self,
        cache: &Cache,
        slab: &Slab,
        list: &mut *mut Block,
    ) -> Result<usize, Misuse> {
        let key = cache.key.get();
        let mut block = *list;
        let first = slab.number(block.addr()).ok_or(Misuse::NotABlock)?;
        let mut bits = 0u64;
        let mut number = first;
        loop {
            if bits >> (number % 64) & 1 != 0 {
                return Err(Misuse::DoubleFree);
            }
            bits |= 1 << (number % 64);
            // SAFETY: the list's blocks were linked with this key.
            block = unsafe { Block::next(block, key) };
            if block.is_null() || (block.addr() ^ slab.base()) >= UNIT {
                break;
            }
            number = slab.number(block.addr()).ok_or(Misuse::NotABlock)?;
            if number / 64 != first / 64 {
                break;
            }
        }
        *list = block;
        let len = bits.count_ones();
        // Once its bits are set the slab may be retired and its unit reused: ask before.
        let (ticket, blocks) = (slab.vacancy.ticket(), slab.blocks());
        slab.vacancy.add(len);
        if slab.give_word(first / 64, bits) != 0 {
            return Err(Misuse::DoubleFree);
        }
        if slab.vacancy.announce(ticket, blocks) {
            self.tell(cache, slab);
        }
        Ok(len as usize)
    }

    /// Queues a slab whose announcement asked for it: with its owner, or here and now.
    fn tell(&self, cache: &Cache, slab: &Slab) {
        let owner = self.owner_of(slab);
        let slab = ptr::from_ref(slab).cast_mut();
        if ptr::eq(owner, cache) {
            self.hear(cache, slab);
        } else {
            // SAFETY: owners are caches, which live for ever; the announcement made it ours.
            unsafe { (*owner).inbox.push(slab) };
        }
    }

    /// As [`NodeHeap::tell`], from one who is no cache: the purger.
    pub(super) fn tell_owner(&self, slab: &Slab) {
        // SAFETY: as in `tell`.
        unsafe { (*self.owner_of(slab)).inbox.push(ptr::from_ref(slab).cast_mut()) };
    }

    fn account(&self, cache: &Cache, given: usize) {
        let given = cache.given.get() + given;
        if given < GIVEN_BYTES {
            cache.given.set(given);
        } else {
            cache.given.set(0);
            self.pressure.fetch_add(given, Ordering::Relaxed);
        }
    }
}

/// Lets the stack of a class, which holds `len` blocks, grow to `granted`.
pub(super) fn grant(cache: &Cache, class: usize, granted: usize, len: usize) {
    cache.granted[class].set(granted as u16);
    cache.room[class].set(granted as i32 - len as i32);
}

/// Puts a slab first in its owner's list.
fn link(cache: &Cache, slab: *mut Slab, class: SizeClass) {
    let head = &cache.slabs[class.index()];
    let next = head.replace(slab);
    // SAFETY: listed slabs are alive and their links the owner's.
    unsafe {
        (*slab).next.set(next);
        (*slab).prev.set(ptr::null_mut());
        if !next.is_null() {
            (*next).prev.set(slab);
        }
    }
}

/// Takes a slab out of its owner's list.
fn unlink(cache: &Cache, slab: &Slab) {
    let (prev, next) = (slab.prev.get(), slab.next.get());
    // SAFETY: listed slabs are alive and their links the owner's.
    unsafe {
        if prev.is_null() {
            cache.slabs[slab.class().index()].set(next);
        } else {
            (*prev).next.set(next);
        }
        if !next.is_null() {
            (*next).prev.set(prev);
        }
    }
}

/// Brings the fullest of the first few listed slabs to the front, so that the emptier ones drain.
fn prefer_fullest(cache: &Cache, class: SizeClass) {
    let first = cache.slabs[class.index()].get();
    let (mut slab, mut best, mut least) = (first, first, u32::MAX);
    for _ in 0..FULLEST_OF {
        if slab.is_null() {
            break;
        }
        // SAFETY: listed slabs are alive.
        let it = unsafe { &*slab };
        if it.vacancy.free() < least {
            (best, least) = (slab, it.vacancy.free());
        }
        slab = it.next.get();
    }
    if !ptr::eq(best, first) {
        // SAFETY: listed slabs are alive.
        unlink(cache, unsafe { &*best });
        link(cache, best, class);
    }
}
