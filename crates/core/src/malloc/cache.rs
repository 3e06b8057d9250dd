//! A thread's part of the malloc: one page with its slabs, its reserve and its magazines.
//!
//! The functions of the hot path are inlined into the exported ones and compile to a straight line; for each rare case they
//! return a value (null, [`Freed::Full`], [`Freed::Slow`]) on which the caller jumps to a cold function of
//! [`NodeHeap`](super::NodeHeap). A cache that is zero except for an odd key is valid: it owns nothing, refuses every
//! allocation, and every free is [`Freed::Slow`].
//!
//! Invariant: a stack holds free blocks of slabs that this cache owns, that threads share, or that others adopted while it
//! had no thread. Only the owning thread touches a cache, except its inbox and its depots. A cache without a thread is owned
//! by the holder of the registry's lock; one whose slabs threads share, by the holder of its own.

use super::block::Block;
use super::magazines::Magazines;
use super::reserve::Reserve;
use super::slabs::Slabs;
use super::tag::Owner;
use super::units::region::Run;
use super::units::{UNIT, UNIT_SHIFT};
use crate::place::Home;
use crate::size_class::{SMALL_MAX, SizeClass, class_of_small};
use crate::sync::Lock;
use core::cell::Cell;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering, compiler_fence};

/// What became of a free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freed {
    /// All is done.
    Done,
    /// Done, but the stack of this class is full: call `NodeHeap::overflow`.
    Full(SizeClass),
    /// Nothing was done: call `NodeHeap::free_slow`.
    Slow,
}

/// See the module.
#[repr(C, align(4096))]
pub struct Cache {
    /// First: the owner in a tag is the address of both.
    pub(super) slabs: Slabs,
    pub(super) reserve: Reserve,
    // What every call touches lies at the end of this, and behind it, in the middle of the page; see the assertion below.
    pub(super) magazines: Magazines,
    /// The primary region: where its tags are, and how far it reaches.
    pub(super) base: Cell<usize>,
    pub(super) reach: Cell<usize>,
    /// What `reach` would be, were it not 0 in a cache that is metered; and whether it is.
    pub(super) known: Cell<usize>,
    pub(super) metered: Cell<bool>,

    // Cold again.
    /// Where its slabs' memory comes from; constant once set.
    pub(super) home: Cell<Home>,
    /// How often in a row its thread was seen elsewhere, and slabs cut; see `NodeHeap::is_stray`.
    pub(super) strays: Cell<u8>,
    pub(super) cuts: Cell<u8>,
    /// How often, lately, its thread waited for slabs that threads share; see `Registry::with_common`.
    pub(super) waits: Cell<u8>,
    /// The last block that reads as zero, for its slab, which has no other, was cut from pages that nobody ever touched.
    pub(super) zero: Cell<usize>,
    /// Set while a cold path is changing lists: a forked child must not touch such a cache.
    pub(super) busy: Cell<bool>,
    /// Whether a thread has it.
    pub(super) attached: Cell<bool>,
    /// It holds nothing, and its page is about to go; under the registry's lock.
    pub(super) given_up: Cell<bool>,
    /// Of the first cache of a unit: which pages of the unit were given up; under the registry's lock. See `registry`.
    pub(super) gaps: Cell<u16>,
    /// Of a cache without a thread: bytes added to the heap's count when the thread ended; see `NodeHeap::detach`.
    pub(super) told: Cell<usize>,
    /// The next cache without a thread; under the registry's lock.
    pub(super) next_idle: Cell<*mut Cache>,
    /// Of the first cache of a unit: the next unit, constant once set; and the next unit with gaps, under the registry's lock.
    pub(super) next_unit: Cell<*mut Cache>,
    pub(super) next_gaps: Cell<*mut Cache>,
    /// Of the first cache of a unit: the cache whose slabs the threads of the unit's caches share; written under the registry's
    /// lock.
    pub(super) common: AtomicPtr<Cache>,
    /// Of a cache whose slabs threads share.
    pub(super) lock: Lock,
}

const _: () = assert!(size_of::<Cache>() == 4096, "a cache is one page");
const _: () = assert!(offset_of!(Cache, slabs) == 0, "an owner is the address of both");
// The first blocks of a slab lie where a page begins, and a small program lives in them. A load of a word whose lower
// twelve address bits are those of a store under way may wait for it (4 KiB aliasing): no hot word lies at such a place.
const _: () = assert!(
    offset_of!(Cache, magazines) + Magazines::HEADS_AT >= FIRST_BLOCKS,
    "a hot word looks like a block"
);
/// Bytes at the beginning of a page that hold no hot word: twice what a stack of the smallest class has.
const FIRST_BLOCKS: usize = 2048;

// SAFETY: shared is only the cache of threads that have none yet, and nothing ever writes to it: it has
// no blocks to pop and its reach of 0 refuses every free.
unsafe impl Sync for Cache {}

impl Cache {
    /// Where the key lies, in bytes: all that is not zero in a cache that owns nothing, of which the process has one.
    pub const KEY_AT: usize = offset_of!(Cache, magazines.key);
    /// The key of a cache that owns nothing: odd, as every key.
    pub const NO_KEY: usize = 1;

    /// What marks and links of its blocks are encoded with.
    pub(super) fn key(&self) -> usize {
        self.magazines.key.get()
    }

    /// A block of at least `size` bytes; null when `size` is above [`SMALL_MAX`] or the stack is
    /// empty.
    #[inline(always)]
    pub fn take_small(&self, size: usize) -> *mut u8 {
        if size > SMALL_MAX {
            return ptr::null_mut();
        }
        self.magazines.pop(class_of_small(size))
    }

    /// A block of `class`; null when the stack is empty.
    #[inline(always)]
    pub fn take_class(&self, class: SizeClass) -> *mut u8 {
        self.magazines.pop(class)
    }

    /// Frees a block of one of this cache's slabs.
    ///
    /// # Safety
    /// `address` is anything but a block that someone else still uses. (Pointers into the middle of
    /// a block of our own are caught when they come out of the stack, before anybody gets them.)
    #[inline(always)]
    pub unsafe fn give(&self, address: *mut u8) -> Freed {
        match self.own_block(address, self.reach.get()) {
            Some((block, class)) if self.magazines.push(block, class) => Freed::Done,
            Some((_, class)) => Freed::Full(class),
            None => Freed::Slow,
        }
    }

    /// Whether the slabs of an owner, which is of a slab's tag, are of this cache's home.
    #[inline]
    pub(super) fn is_at_home_of(&self, owner: Owner) -> bool {
        let cache = ptr::with_exposed_provenance::<Cache>(owner.0);
        // SAFETY: a cache, or its page of zeros if it gave the slab to another just now and was given up.
        self.home.get() == Home::ANYWHERE || unsafe { (*cache).home.get() } == self.home.get()
    }

    /// The tag of the unit that `address` lies in, if that is in the region that this cache knows. No tag (0) may also be said of a
    /// unit of a later region that lies between the parts of that one (`Region::shrink`).
    #[inline(always)]
    pub fn tag_of(&self, address: *mut u8) -> Option<u64> {
        self.tag_within(address, self.known.get())
    }

    /// The same within `reach`: at most `known`.
    #[inline(always)]
    fn tag_within(&self, address: *mut u8, reach: usize) -> Option<u64> {
        let base = self.base.get();
        let offset = address.addr().wrapping_sub(base);
        if offset >= reach {
            return None;
        }
        let tags = ptr::with_exposed_provenance::<AtomicU64>(base);
        // SAFETY: the base is the region's tags, readable for every unit within its reach.
        Some(unsafe { (*tags.add(offset >> UNIT_SHIFT)).load(Ordering::Relaxed) })
    }

    /// The block at `address` and its class, if it lies in a slab of this cache within `reach` and is not marked as
    /// free.
    #[inline(always)]
    pub(super) fn own_block(
        &self,
        address: *mut u8,
        reach: usize,
    ) -> Option<(*mut Block, SizeClass)> {
        let tag = self.tag_within(address, reach)?;
        let class = SizeClass::new(tag as usize ^ ptr::from_ref(self).addr())?;
        let block: *mut Block = address.cast();
        // SAFETY: the tag says that the unit is a slab of ours, hence mapped; units end at blocks'
        // or waste's ends, so sixteen bytes at a block can be read.
        let marked = unsafe { Block::is_marked(block, self.key()) };
        (!marked).then_some((block, class))
    }

    /// The class of the block that starts at `address`, in use or not, if it lies in a slab of this cache's; `None` for every
    /// other address.
    #[inline(always)]
    pub fn class_at(&self, address: *mut u8) -> Option<SizeClass> {
        let class = SizeClass::new(self.tag_of(address)? as usize ^ ptr::from_ref(self).addr())?;
        class.starts_at(address.addr() & (UNIT - 1)).then_some(class)
    }

    /// Whether an address lies in a slab of this cache's that has blocks of `class`.
    #[inline(always)]
    pub fn has_at(&self, address: *mut u8, class: SizeClass) -> bool {
        self.tag_of(address).map(|tag| tag as usize)
            == Some(class.index() ^ ptr::from_ref(self).addr())
    }

    /// The size of a block in use of one of this cache's slabs; `None` for every other address.
    #[inline(always)]
    pub fn size_of(&self, address: *mut u8) -> Option<usize> {
        let (_, class) = self.own_block(address, self.known.get())?;
        class.starts_at(address.addr() & (UNIT - 1)).then_some(class.size())
    }

    /// Whether it has neither slabs nor blocks.
    pub(super) fn is_empty(&self) -> bool {
        self.slabs.is_empty()
            && self.reserve.is_empty()
            && SizeClass::all().all(|class| self.has_none(class))
    }

    /// Whether it has no blocks of a class, nor a slab with some.
    #[inline(never)]
    fn has_none(&self, class: SizeClass) -> bool {
        self.slabs.first(class).is_none()
            && !self.reserve.has_any(class)
            && self.magazines.first(class).is_null()
    }

    /// Notes that a block of `class` will read as zero, if the run for its slab does and it is the only one there: link and
    /// mark, which come first, are wiped when it is handed out.
    pub(super) fn note_zero(&self, run: Run, class: SizeClass) {
        self.zero.set(if run.zero && class.size() == UNIT { run.address } else { 0 });
    }

    /// Bytes in both stacks of every class.
    pub(super) fn stacked(&self) -> usize {
        let spare = |class: SizeClass| self.reserve.spare_len[class.index()].get() as usize;
        SizeClass::all().map(|it| (self.magazines.len(it) + spare(it)) * it.size()).sum()
    }

    /// Marks its lists as being changed, for as long as the answer lives.
    pub(super) fn changing(&self) -> Changing<'_> {
        let before = self.busy.replace(true);
        // The mark comes before the changes, and goes after them: a fork may stop the thread between any two stores.
        compiler_fence(Ordering::SeqCst);
        Changing { busy: &self.busy, before }
    }
}

/// See [`Cache::changing`].
pub(super) struct Changing<'a> {
    busy: &'a Cell<bool>,
    before: bool,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.busy.set(self.before);
    }
}
