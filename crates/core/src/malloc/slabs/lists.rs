//! [`Slabs`]: the slabs of a cache, in lists by class, and how the lists change when blocks are given back.

use super::inbox::Inbox;
use super::slab::Slab;
use crate::machine::Machine;
use crate::malloc::block::Chain;
use crate::malloc::shared::Shared;
use crate::malloc::tag::{self, Owner, Tag};
use crate::malloc::units::UnitCount;
use crate::malloc::units::region::{Left, Region, Run};
use crate::row::Row;
use crate::size_class::{CLASSES, SizeClass};
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

/// In `Slab::seen`: at this count there is nothing to purge.
pub const NOTHING_MORE: u16 = 0x8000;

/// Bytes given back that a thread adds to the heap's count at once, and bytes in use again that it sets against others, at most: all
/// threads write that count.
const STEP: isize = 256 << 10;

/// The slabs of a cache, with which its page begins: the address of both is the owner in a slab's tag. All-zero is none.
#[repr(C)]
pub struct Slabs {
    /// Slabs with free blocks; the first is the one being allocated from.
    lists: [Cell<*mut Slab>; CLASSES],
    /// Slabs to which others gave blocks back.
    inbox: Inbox<Slab>,
    /// Of which classes it ever had a slab.
    opened: Cell<u64>,
    /// Bytes given back and not yet added to the heap's count; below 0: in use again that were.
    pub given: Cell<isize>,
    /// Slabs it owns.
    pub owned: AtomicU32,
}

impl Slabs {
    /// The slabs of an owner.
    ///
    /// # Safety
    /// The owner is of a slab's tag: a cache, which lives as long as the heap and begins with its slabs.
    pub unsafe fn of<'a>(owner: Owner) -> &'a Slabs {
        // SAFETY: the caller's.
        unsafe { &*ptr::with_exposed_provenance(owner.0) }
    }

    /// These, as the owner in a tag.
    #[inline(always)]
    pub fn owner(&self) -> Owner {
        Owner(ptr::from_ref(self).expose_provenance())
    }

    /// Whether it owns no slab, and nobody gave it any.
    pub fn is_empty(&self) -> bool {
        self.owned.load(Ordering::Relaxed) == 0 && self.inbox.is_empty()
    }

    /// The slab of a class that is being allocated from.
    pub fn first(&self, class: SizeClass) -> Option<&Slab> {
        // SAFETY: listed slabs are alive and ours.
        unsafe { self.lists.at(class.index()).get().as_ref() }
    }

    /// Whether more than one slab of a class has free blocks.
    pub fn has_several(&self, class: SizeClass) -> bool {
        self.first(class).is_some_and(|slab| !slab.next.get().is_null())
    }

    /// Takes up to `want` blocks of a class from listed slabs onto `chain`, and from no new slab once there are half as many.
    /// What is found empty is not listed any more.
    pub fn take<M: Machine>(
        &self,
        shared: &Shared<M>,
        class: SizeClass,
        want: usize,
        chain: &mut Chain,
    ) {
        while let (true, Some(slab)) = (chain.len * 2 < want, self.first(class)) {
            let sparse = !slab.unmarked.get().is_empty();
            slab.take(want - chain.len, chain);
            if sparse {
                super::sparse::mark_touched(shared, slab);
            }
            if chain.len < want {
                self.forget(slab);
                self.prefer_fullest(class, shared.decisions().slabs_fullest);
            }
        }
    }

    /// Takes over a slab of `class` that `from`, whose thread has ended, has in its list; `false` if there is none.
    pub fn adopt<M: Machine>(&self, shared: &Shared<M>, from: &Slabs, class: SizeClass) -> bool {
        let Some(slab) = from.first(class) else { return false };
        from.unlink(slab);
        // One operation: the purger may be tagging the slab just now.
        let owners = tag::of_slab(from.owner(), class) ^ tag::of_slab(self.owner(), class);
        shared.tag_of(slab, |tag| tag.fetch_xor(owners, Ordering::Relaxed));
        self.list(slab);
        self.count(class);
        from.owned.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Makes a unit, which is ours alone, a slab of `class`. `mark`: [`SHARED`](tag::SHARED), or nothing.
    pub fn cut(&self, region: &Region, run: Run, class: SizeClass, mark: u64) {
        let slab = Slab::of(region, run.address);
        slab.cut(run.address, class, region.bitmap(run.address));
        let tag = tag::of_slab(self.owner(), class) | mark;
        // SAFETY: the region contains the unit. Release: who reads the tag finds a whole slab.
        unsafe { region.tag(run.address) }.store(tag, Ordering::Release);
        slab.vacancy.start(slab.blocks());
        self.list(slab);
        self.count(class);
    }

    fn count(&self, class: SizeClass) {
        self.owned.fetch_add(1, Ordering::Relaxed);
        self.opened.set(self.opened.get() | 1 << class.index());
    }

    /// How many slabs it owns, and of how many classes it ever had one.
    pub fn counts(&self) -> (usize, usize) {
        (self.owned.load(Ordering::Relaxed) as usize, self.opened().count_ones() as usize)
    }

    /// Those classes, a bit each.
    pub fn opened(&self) -> u64 {
        self.opened.get()
    }

    /// Drops a listed slab in which no block was found.
    fn forget(&self, slab: &Slab) {
        self.unlink(slab);
        if slab.vacancy.unlist() {
            // SAFETY: `unlist` made it ours to queue; slabs' descriptors live for ever.
            unsafe { self.inbox.push(ptr::from_ref(slab).cast_mut()) };
        }
    }

    /// Lists slabs to which others gave blocks, and retires those that hold no block.
    pub fn receive<M: Machine>(&self, shared: &Shared<M>) {
        if !self.inbox.is_empty() {
            self.inbox.take(|slab| self.receive_one(shared, slab));
        }
    }

    /// Acts on one slab that was queued and is in no inbox now.
    #[inline(never)]
    fn receive_one<M: Machine>(&self, shared: &Shared<M>, slab: *mut Slab) {
        // SAFETY: queued slabs cannot be retired, so it is alive.
        let it = unsafe { &*slab };
        let Some(owner) = owner_of(shared, it) else { return };
        if !ptr::eq(owner, self) {
            // It was adopted while on its way.
            // SAFETY: the slab is in no inbox now.
            unsafe { owner.inbox.push(slab) };
            return;
        }
        let found = it.vacancy.dequeue();
        if !found.listed {
            self.list(it);
        }
        // The last slab of its class may be kept.
        let last =
            it.next.get().is_null() && self.first(it.class()).is_some_and(|s| ptr::eq(s, it));
        if found.free == it.blocks() && !(last && shared.decisions().slabs_kept != 0) {
            self.retire(shared, it);
        }
    }

    /// Queues a slab whose announcement asked for it: with its owner, or, if that is `by`, the caller, here and now.
    pub fn queue<M: Machine>(shared: &Shared<M>, by: Option<&Slabs>, slab: &Slab) {
        let Some(owner) = owner_of(shared, slab) else { return };
        let slab = ptr::from_ref(slab).cast_mut();
        match by {
            Some(by) if ptr::eq(owner, by) => by.receive_one(shared, slab),
            // SAFETY: the announcement made it ours.
            _ => unsafe { owner.inbox.push(slab) },
        }
    }

    /// Makes a unit of a listed slab again if all its blocks are free.
    #[inline(never)]
    fn retire<M: Machine>(&self, shared: &Shared<M>, slab: &Slab) {
        if !slab.end() {
            return;
        }
        self.unlink(slab);
        shared.tag_of(slab, |tag| tag.store(0, Ordering::Relaxed));
        shared.units.give(&shared.machine, slab.base(), UnitCount::ONE);
        self.owned.fetch_sub(1, Ordering::Relaxed);
    }

    /// Retires every listed slab that holds no block.
    pub fn retire_free<M: Machine>(&self, shared: &Shared<M>) {
        for first in &self.lists {
            let mut slab = first.get();
            while !slab.is_null() {
                // SAFETY: listed slabs are alive and ours.
                let it = unsafe { &*slab };
                slab = it.next.get();
                if it.vacancy.free() == it.blocks() {
                    self.retire(shared, it);
                }
            }
        }
    }

    /// Whether others gave blocks back of which the owner does not know yet.
    pub fn has_news(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// By the purger, under its lock: retires slabs that wait in the inbox and were free already when it last looked
    /// (`at_once`: or became so a moment ago).
    ///
    /// An owner unlists a slab when it has handed out the slab's last block, and finds the slab again, through its inbox,
    /// when it next needs memory. An idle thread never does: blocks that others, or the purger, turn into bits would keep
    /// units, banks, huge pages and bookkeeping for as long as the thread lives.
    #[inline(never)]
    pub fn retire_forgotten<M: Machine>(&self, shared: &Shared<M>, at_once: bool) {
        self.inbox.take(|slab| {
            // SAFETY: queued slabs live, and only who took one from its inbox can retire it.
            let it = unsafe { &*slab };
            let owner = owner_of(shared, it).unwrap_or(self);
            if !owner.retire_unlisted(shared, it, at_once) {
                // SAFETY: it was just taken out of an inbox.
                unsafe { owner.inbox.push(slab) };
            }
        });
    }

    fn retire_unlisted<M: Machine>(&self, shared: &Shared<M>, slab: &Slab, at_once: bool) -> bool {
        let free = slab.vacancy.free();
        let rested = at_once || slab.seen.load(Ordering::Relaxed) & !NOTHING_MORE == free as u16;
        if !rested || !slab.end_unlisted() {
            return false;
        }
        shared.tag_of(slab, |tag| tag.store(0, Ordering::Relaxed));
        shared.units.give_as(&shared.machine, slab.base(), UnitCount::ONE, Left::Rested);
        self.owned.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// In a forked child: its slabs are about to be listed anew.
    pub fn forget_all(&self) {
        self.lists.iter().for_each(|first| first.set(ptr::null_mut()));
        self.inbox.take(|_| {});
        self.owned.store(0, Ordering::Relaxed);
    }

    /// In a forked child: lists a slab of this owner's again, its free blocks counted.
    pub fn list_anew(&self, slab: &Slab, free: u32) {
        slab.vacancy.mend(free);
        self.owned.fetch_add(1, Ordering::Relaxed);
        if free != 0 {
            self.list(slab);
        }
    }

    /// Puts a slab first in its list.
    fn list(&self, slab: &Slab) {
        let it = ptr::from_ref(slab).cast_mut();
        let next = self.lists.at(slab.class().index()).replace(it);
        slab.next.set(next);
        slab.prev.set(ptr::null_mut());
        // SAFETY: listed slabs are alive and their links the owner's.
        if let Some(next) = unsafe { next.as_ref() } {
            next.prev.set(it);
        }
    }

    /// Takes a slab out of its list.
    fn unlink(&self, slab: &Slab) {
        let (prev, next) = (slab.prev.get(), slab.next.get());
        // SAFETY: listed slabs are alive and their links the owner's.
        let (before, after) = unsafe { (prev.as_ref(), next.as_ref()) };
        match before {
            Some(before) => before.next.set(next),
            None => self.lists.at(slab.class().index()).set(next),
        }
        if let Some(after) = after {
            after.prev.set(prev);
        }
    }

    /// Brings the fullest of the first `among` listed slabs to the front, so that the emptier ones can become free.
    fn prefer_fullest(&self, class: SizeClass, among: usize) {
        let first = self.lists.at(class.index()).get();
        let (mut slab, mut best, mut least) = (first, first, u32::MAX);
        for _ in 0..among {
            // SAFETY: listed slabs are alive.
            let Some(it) = (unsafe { slab.as_ref() }) else { break };
            if it.vacancy.free() < least {
                (best, least) = (slab, it.vacancy.free());
            }
            slab = it.next.get();
        }
        if !ptr::eq(best, first) {
            // SAFETY: as above.
            let best = unsafe { &*best };
            self.unlink(best);
            self.list(best);
        }
    }

    /// The fullest of the first listed slabs of a class that has a free block; it is first in its list then.
    pub fn fullest<M: Machine>(&self, shared: &Shared<M>, class: SizeClass) -> Option<&Slab> {
        loop {
            self.prefer_fullest(class, shared.decisions().slabs_fullest);
            let first = self.first(class)?;
            if first.vacancy.free() != 0 {
                return Some(first);
            }
            self.forget(first);
        }
    }

    /// Counts bytes that were given back, in steps.
    pub fn account<M: Machine>(&self, shared: &Shared<M>, bytes: usize) {
        let given = self.given.get() + bytes as isize;
        if given < STEP {
            self.given.set(given);
        } else {
            self.given.set(0);
            shared.note_freed(given as usize);
        }
    }

    /// Bytes that were given back are in use again: what comes and goes does not concern the purger.
    pub fn reuse(&self, bytes: usize) {
        self.given.set((self.given.get() - bytes as isize).max(-STEP));
    }

    /// Asks for a huge page if one pays for the bank that a run, just taken for a slab, has opened.
    pub fn ask_for_huge<M: Machine>(&self, shared: &Shared<M>, run: Run) {
        let (slabs, classes) = self.counts();
        if run.fresh && shared.decisions().is_huge(run.used, slabs, classes) {
            shared.units.make_huge(&shared.machine, run.address);
        }
    }
}

/// The owner of a slab that is queued, hence cannot be retired. A live slab always has one; were it
/// not so, it would be kept for ever.
fn owner_of<'a, M: Machine>(shared: &'a Shared<M>, slab: &Slab) -> Option<&'a Slabs> {
    match shared.tag_of(slab, |tag| Tag::decode(tag.load(Ordering::Acquire)))? {
        // SAFETY: just read from the tag.
        Tag::Slab(owner, _) => Some(unsafe { Slabs::of(owner) }),
        _ => None,
    }
}
