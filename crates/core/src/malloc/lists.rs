//! The slabs of a cache: lists by class, and how they change when blocks are given back.
//!
//! Invariant: a slab with set bits is in its owner's list of its class, or on its way there through
//! the owner's inbox (`vacancy` proves it). Only the owner links, unlinks and retires (but see `forgotten`); the holder
//! of the registry's lock owns idle caches.

use super::cache::Cache;
use super::huge::count_slab;
use super::node_heap::NodeHeap;
use super::slab::Slab;
use super::tag::{self, Tag};
use crate::machine::Machine;
use crate::row::Row;
use crate::size_class::SizeClass;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

/// Idle caches asked for a slab before a new one is cut.
const ADOPT_TRIES: usize = 8;
/// Listed slabs looked at to find a full one.
const FULLEST_OF: usize = 8;

impl<M: Machine> NodeHeap<M> {
    pub(super) fn tag_of<R>(&self, slab: &Slab, work: impl FnOnce(&AtomicU64) -> R) -> Option<R> {
        let region = self.runs.region_of(slab.base())?;
        // SAFETY: the region contains the slab.
        Some(work(unsafe { region.tag(slab.base()) }))
    }

    /// Takes over a slab of `class` from an idle cache.
    pub(super) fn adopt(&self, cache: &Cache, class: SizeClass) -> bool {
        if self.idle_len.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.with_registry(|threads| {
            let mut idle = threads.waiting(cache.home.get()).idle;
            for _ in 0..ADOPT_TRIES {
                if idle.is_null() {
                    return false;
                }
                // SAFETY: caches live for ever; idle ones are touched under this lock only.
                let from = unsafe { &*idle };
                self.drain(from);
                if from.slabs.at(class.index()).get().is_null() {
                    // Its blocks become bits, and this lists the slabs with these bits.
                    self.stow(from, class.index());
                    self.give_depot(Some(from), from, class.index());
                }
                let slab = from.slabs.at(class.index()).get();
                if !slab.is_null() {
                    // SAFETY: listed slabs are alive, and the idle cache's owner is this lock.
                    let it = unsafe { &*slab };
                    unlink(from, it);
                    // One operation: the purger may be tagging the slab just now.
                    let owners = tag::of_slab(from, class) ^ tag::of_slab(cache, class);
                    self.tag_of(it, |tag| tag.fetch_xor(owners, Ordering::Relaxed));
                    link(cache, slab, class);
                    count_slab(cache, class.index());
                    from.owned.fetch_sub(1, Ordering::Relaxed);
                    return true;
                }
                idle = from.next_idle.get();
            }
            false
        })
    }

    /// Drops a listed slab in which no block was found.
    pub(super) fn forget(&self, cache: &Cache, slab: &Slab) {
        let class = slab.class();
        unlink(cache, slab);
        if slab.vacancy.unlist() {
            // SAFETY: `unlist` made it ours to queue; slabs' descriptors live for ever.
            unsafe { cache.inbox.push(ptr::from_ref(slab).cast_mut()) };
        }
        prefer_fullest(cache, class);
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
        let Some(owner) = self.owner_of(it) else { return };
        if !ptr::eq(owner, cache) {
            // It was adopted while on its way.
            // SAFETY: the slab is in no inbox now.
            unsafe { owner.inbox.push(slab) };
            return;
        }
        let found = it.vacancy.dequeue();
        if !found.listed {
            link(cache, slab, it.class());
        }
        if found.free == it.blocks() {
            self.retire(cache, it);
        }
    }

    /// The owner of a slab that is queued, hence cannot be retired. A live slab always has one; were it
    /// not so, it would be kept for ever.
    pub(super) fn owner_of(&self, slab: &Slab) -> Option<&Cache> {
        match self.tag_of(slab, |tag| Tag::decode(tag.load(Ordering::Acquire)))? {
            // SAFETY: owners are caches, which live for ever.
            Tag::Slab(owner, _) => Some(unsafe { &*owner }),
            _ => None,
        }
    }

    /// Gives a slab back to the runs if all its blocks are free; keeps the last one of its class.
    fn retire(&self, cache: &Cache, slab: &Slab) {
        let first = cache.slabs.at(slab.class().index()).get();
        if !ptr::eq(first, slab) || !slab.next.get().is_null() {
            self.retire_any(cache, slab);
        }
    }

    /// The same of any listed slab.
    fn retire_any(&self, cache: &Cache, slab: &Slab) {
        if !slab.claim_all() {
            return;
        }
        if !slab.vacancy.retire() {
            return slab.unclaim(slab.word_count());
        }
        unlink(cache, slab);
        self.tag_of(slab, |tag| tag.store(0, Ordering::Relaxed));
        self.runs.give(&self.machine, slab.base(), 1, false);
        cache.owned.fetch_sub(1, Ordering::Relaxed);
    }

    /// Retires every listed slab that holds no block.
    pub(super) fn retire_free(&self, cache: &Cache) {
        for first in &cache.slabs {
            let mut slab = first.get();
            while !slab.is_null() {
                // SAFETY: listed slabs are alive and ours.
                let it = unsafe { &*slab };
                slab = it.next.get();
                if it.vacancy.free() == it.blocks() {
                    self.retire_any(cache, it);
                }
            }
        }
    }

    /// Queues a slab whose announcement asked for it: with its owner, or, if that is `by`, the cache
    /// of the calling thread, here and now.
    pub(super) fn tell(&self, by: Option<&Cache>, slab: &Slab) {
        let Some(owner) = self.owner_of(slab) else { return };
        let slab = ptr::from_ref(slab).cast_mut();
        match by {
            Some(cache) if ptr::eq(owner, cache) => self.hear(cache, slab),
            // SAFETY: the announcement made it ours.
            _ => unsafe { owner.inbox.push(slab) },
        }
    }
}

/// Puts a slab first in its owner's list.
pub(super) fn link(cache: &Cache, slab: *mut Slab, class: SizeClass) {
    let head = &cache.slabs.at(class.index());
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
            cache.slabs.at(slab.class().index()).set(next);
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
    let first = cache.slabs.at(class.index()).get();
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
