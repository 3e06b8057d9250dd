//! The hot path: a thread's stacks of free blocks, one per class.
//!
//! ```text
//! heads[class] -> block -> block -> 0      room[class]: frees that still fit the stack
//!                 | link | mark | ...      mark = address ^ key,  link = the next one's mark, or 0
//! ```
//!
//! A head is a mark or 0, too, so links are neither encoded nor decoded: an allocation after a free waits for two words
//! to pass through memory, and for nothing else.
//!
//! The key is odd. An empty stack has the head 0, which therefore decodes to an odd address, where no block of any class
//! starts. So an allocation makes one check: does a block of the class start there? The check refuses empty stacks,
//! invalid frees inside a block, and links overwritten by an attacker who does not know the key.
//!
//! Every function here is meant to be inlined into the exported one and to compile to a straight
//! line; for each rare case it returns a value (null, [`Freed::Full`], [`Freed::Slow`]) on which the caller
//! jumps to a cold function of [`NodeHeap`](super::NodeHeap). A cache that is zero except for an odd key is valid: it owns
//! nothing, refuses every allocation, and every free is [`Freed::Slow`].
//!
//! Invariant: a stack holds free blocks of slabs that this cache owns, or that others adopted while it had no thread. Every
//! block in a stack carries its mark. Malloc wipes link and mark when it hands the block out. So a double free before
//! reuse finds the mark, a read of uninitialised memory reveals nothing of the key, and a copy of such memory
//! does not make a block in use look free (malloc wipes the first two words of large blocks, too). Only the owning thread
//! touches a cache, except its inbox and its depots; the holder of the registry's lock owns a cache without a thread.

use super::depot::Depot;
use super::inbox::Inbox;
use super::outbox::{PARCELS, Parcel};
use super::slab::Slab;
use crate::malloc::units::{UNIT, UNIT_SHIFT};
use crate::place::Home;
use crate::row::Row;
use crate::size_class::{CLASSES, SMALL_MAX, SizeClass, class_of_small};
use core::cell::Cell;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence};

/// A free block, as its holder sees it. Sixteen bytes: the smallest class.
#[repr(C)]
pub struct Block {
    link: usize,
    mark: usize,
}

impl Block {
    /// A block of no slab.
    pub(super) const fn new() -> Block {
        Block { link: 0, mark: 0 }
    }

    /// The block that a link or a head leads to.
    #[inline(always)]
    fn behind(link: usize, key: usize) -> *mut Block {
        if link == 0 { ptr::null_mut() } else { ptr::with_exposed_provenance_mut(link ^ key) }
    }

    /// What leads to a block.
    #[inline(always)]
    fn link_to(block: *mut Block, key: usize) -> usize {
        if block.is_null() { 0 } else { Block::mark_of(block, key) }
    }

    /// What marks the block at `block` as free.
    #[inline(always)]
    pub fn mark_of(block: *mut Block, key: usize) -> usize {
        block.addr() ^ key
    }

    /// Whether the block carries the mark.
    ///
    /// # Safety
    /// Sixteen bytes at `block` can be read.
    #[inline(always)]
    pub unsafe fn is_marked(block: *mut Block, key: usize) -> bool {
        // SAFETY: the caller's.
        unsafe { (*block).mark == Block::mark_of(block, key) }
    }

    /// Marks the block and links it before `next`.
    ///
    /// # Safety
    /// The block is free and the caller's.
    #[inline(always)]
    pub unsafe fn link(block: *mut Block, next: *mut Block, key: usize) {
        // SAFETY: the caller's.
        unsafe { Block::write(block, Block::link_to(next, key), Block::mark_of(block, key)) };
    }

    /// The same, encoded already: `link` is the next one's mark, or 0.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    pub unsafe fn write(block: *mut Block, link: usize, mark: usize) {
        // SAFETY: the caller's.
        unsafe { *block = Block { link, mark } };
    }

    /// Takes link and mark away: before the program gets the block.
    ///
    /// # Safety
    /// The block is free and the caller's.
    #[inline(always)]
    pub unsafe fn wipe(block: *mut Block) {
        // Two stores: a load of one word behind a store of both takes longer to get it.
        // SAFETY: the caller's.
        unsafe {
            (&raw mut (*block).link).write_volatile(0);
            (&raw mut (*block).mark).write_volatile(0);
        }
    }

    /// The block after this one.
    ///
    /// # Safety
    /// The block was linked with the same key and not touched since.
    #[inline(always)]
    pub unsafe fn next(block: *mut Block, key: usize) -> *mut Block {
        // SAFETY: the caller's.
        Block::behind(unsafe { (*block).link }, key)
    }
}

/// What became of a free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freed {
    /// All is done.
    Done,
    /// Done, but the stack of this class is full: call `NodeHeap::overflow`.
    Full(usize),
    /// Nothing was done: call `NodeHeap::free_slow`.
    Slow,
}

/// A thread's part of the malloc; one page. See the module.
#[repr(C, align(4096))]
pub struct Cache {
    /// A full stack held back, and its length: of blocks too small for a depot, and in metered caches.
    pub(super) spare: [Cell<*mut Block>; CLASSES],
    pub(super) spare_len: [Cell<u16>; CLASSES],
    /// How many blocks the next refill takes; grows with use.
    pub(super) batch: [Cell<u8>; CLASSES],
    /// How many the stack in use may hold now: `room` counts down from here.
    pub(super) granted: [Cell<u16>; CLASSES],
    /// Stacks set aside, how many blocks they have (of which more than a u16 says are that), and
    /// how few they had since the purger looked last.
    pub(super) depots: [Depot; CLASSES],
    pub(super) held: [AtomicU16; CLASSES],
    pub(super) low: [AtomicU16; CLASSES],
    /// Bit `class % 64` of word `class / 64`: stacks of the class were set aside that go back when memory grows.
    pub(super) stocked: [Cell<u64>; CLASSES.div_ceil(64)],
    /// Slabs with free blocks; the first is the one being allocated from.
    pub(super) slabs: [Cell<*mut Slab>; CLASSES],

    // What every call touches lies here, in the middle of the page, and only here; see the assertion below.
    heads: [Cell<usize>; CLASSES],
    pub(super) room: [Cell<i32>; CLASSES],
    /// The primary region: where its tags are, and how far it reaches.
    pub(super) base: Cell<usize>,
    pub(super) reach: Cell<usize>,
    /// What marks and links are encoded with; the same in every cache of a heap.
    pub(super) key: Cell<usize>,
    /// What `reach` would be, were it not 0 in a cache that is metered; and whether it is.
    pub(super) known: Cell<usize>,
    pub(super) metered: Cell<bool>,

    // Cold again; bytes first, so that they fill a word with the one before.
    /// Where its slabs' memory comes from; constant once set.
    pub(super) home: Cell<Home>,
    /// How often in a row its thread was seen elsewhere, and slabs cut; see `look_around`.
    pub(super) strays: Cell<u8>,
    pub(super) cuts: Cell<u8>,
    /// How often the depots held too much; see `give::is_stocked`.
    pub(super) recount: Cell<u8>,
    /// The class whose turn it is to go back; see `repay`.
    pub(super) next_shed: Cell<u8>,
    /// Set while a cold path is changing lists: a forked child must not touch such a cache.
    pub(super) busy: Cell<bool>,
    /// Whether a thread has it.
    pub(super) attached: Cell<bool>,
    /// Freed blocks of other caches' slabs, and how many they are.
    pub(super) outbox: [Parcel; PARCELS],
    pub(super) outbox_len: [Cell<u8>; CLASSES],
    /// Bytes given back to slabs and not yet added to the heap's count.
    pub(super) given: Cell<usize>,
    /// Of a cache without a thread: bytes added to the heap's count when the thread ended; see `detach`.
    pub(super) told: Cell<usize>,
    /// Bytes in the depots, at most; see `give::is_stocked`.
    pub(super) stock: Cell<usize>,
    /// Bytes that shall go back for slabs that were cut; see `repay`.
    pub(super) debt: Cell<u32>,
    /// Slabs it owns, and of which classes it ever had one; see `huge`.
    pub(super) owned: AtomicU32,
    pub(super) opened: [Cell<u64>; CLASSES.div_ceil(64)],
    /// The next cache without a thread; under the registry's lock.
    pub(super) next_idle: Cell<*mut Cache>,
    /// It holds nothing, and its page is about to go; under the registry's lock.
    pub(super) given_up: Cell<bool>,
    /// Of the first cache of a unit: the next unit, constant once set; which pages of it were given up, and the next unit of
    /// which any was, under the registry's lock. See `caches`.
    pub(super) gaps: Cell<u16>,
    pub(super) next_unit: Cell<*mut Cache>,
    pub(super) next_gaps: Cell<*mut Cache>,
    pub(super) inbox: Inbox<Slab>,
}

const _: () = assert!(size_of::<Cache>() == 4096, "a cache is one page");
// The first blocks of a slab lie where a page begins, and a small program lives in them. A load of a word whose lower
// twelve address bits are those of a store under way may wait for it (4 KiB aliasing): no hot word lies at such a place.
const _: () = assert!(offset_of!(Cache, heads) >= FIRST_BLOCKS, "a hot word looks like a block");
/// Bytes at the beginning of a page that hold no hot word: twice what a stack of the smallest class has.
const FIRST_BLOCKS: usize = 2048;

// SAFETY: shared is only the cache of threads that have none yet, and nothing ever writes to it: it has
// no blocks to pop and its reach of 0 refuses every free.
unsafe impl Sync for Cache {}

impl Default for Cache {
    fn default() -> Cache {
        Cache::new()
    }
}

impl Cache {
    /// Where the key lies, in bytes: all that is not zero in a cache that owns nothing.
    pub const KEY_AT: usize = offset_of!(Cache, key);
    /// The key of a cache that owns nothing: odd, as every key.
    pub const NO_KEY: usize = 1;

    /// The cache that owns nothing; zero but for its key.
    pub const fn new() -> Cache {
        Cache {
            heads: [const { Cell::new(0) }; CLASSES],
            room: [const { Cell::new(0) }; CLASSES],
            base: Cell::new(0),
            reach: Cell::new(0),
            key: Cell::new(Cache::NO_KEY),
            known: Cell::new(0),
            metered: Cell::new(false),
            spare: [const { Cell::new(ptr::null_mut()) }; CLASSES],
            spare_len: [const { Cell::new(0) }; CLASSES],
            batch: [const { Cell::new(0) }; CLASSES],
            granted: [const { Cell::new(0) }; CLASSES],
            depots: [const { Depot::new() }; CLASSES],
            held: [const { AtomicU16::new(0) }; CLASSES],
            low: [const { AtomicU16::new(0) }; CLASSES],
            stocked: [const { Cell::new(0) }; CLASSES.div_ceil(64)],
            slabs: [const { Cell::new(ptr::null_mut()) }; CLASSES],
            outbox: [const { Parcel::none() }; PARCELS],
            outbox_len: [const { Cell::new(0) }; CLASSES],
            given: Cell::new(0),
            told: Cell::new(0),
            stock: Cell::new(0),
            recount: Cell::new(0),
            debt: Cell::new(0),
            next_shed: Cell::new(0),
            home: Cell::new(Home::ANYWHERE),
            strays: Cell::new(0),
            cuts: Cell::new(0),
            owned: AtomicU32::new(0),
            opened: [const { Cell::new(0) }; CLASSES.div_ceil(64)],
            next_idle: Cell::new(ptr::null_mut()),
            given_up: Cell::new(false),
            gaps: Cell::new(0),
            next_unit: Cell::new(ptr::null_mut()),
            next_gaps: Cell::new(ptr::null_mut()),
            busy: Cell::new(false),
            attached: Cell::new(false),
            inbox: Inbox::new(),
        }
    }

    /// A block of at least `size` bytes; null when `size` is above [`SMALL_MAX`] or the stack is
    /// empty.
    #[inline(always)]
    pub fn take_small(&self, size: usize) -> *mut u8 {
        if size > SMALL_MAX {
            return ptr::null_mut();
        }
        self.pop(class_of_small(size))
    }

    /// A block of `class`; null when the stack is empty.
    #[inline(always)]
    pub fn take_class(&self, class: SizeClass) -> *mut u8 {
        self.pop(class)
    }

    /// The first block of the stack of `class`, null for none.
    pub(super) fn stack(&self, class: usize) -> *mut Block {
        Block::behind(self.heads.at(class).get(), self.key.get())
    }

    /// Makes the blocks linked behind `first` the stack of `class`.
    pub(super) fn set_stack(&self, class: usize, first: *mut Block) {
        self.heads.at(class).set(Block::link_to(first, self.key.get()));
    }

    /// Takes all of the stack of `class`.
    pub(super) fn take_stack(&self, class: usize) -> *mut Block {
        let first = self.stack(class);
        self.set_stack(class, ptr::null_mut());
        first
    }

    #[inline(always)]
    fn pop(&self, class: SizeClass) -> *mut u8 {
        let index = class.index();
        // SAFETY: classes are below CLASSES, the length of both.
        let (head, room) =
            unsafe { (self.heads.get_unchecked(index), self.room.get_unchecked(index)) };
        let block: *mut Block = ptr::with_exposed_provenance_mut(head.get() ^ self.key.get());
        if !class.starts_at(block.addr() & (UNIT - 1)) {
            return ptr::null_mut();
        }
        // SAFETY: blocks in a stack are free, ours, and linked with our key; an empty stack leads to an odd address.
        unsafe {
            head.set((*block).link);
            // A fork may stop the thread between any two stores: a block that is wiped is in no stack.
            compiler_fence(Ordering::Release);
            Block::wipe(block);
        }
        room.set(room.get() + 1);
        block.cast()
    }

    /// The address that the stack of a class leads to, if no block of the class starts there: the middle of a block was
    /// freed, or a link was overwritten.
    #[inline]
    pub(super) fn astray(&self, class: SizeClass) -> Option<usize> {
        let at = self.stack(class.index()).addr();
        (at != 0 && !class.starts_at(at & (UNIT - 1))).then_some(at)
    }

    /// In a forked child: its slabs are about to be listed anew.
    pub(super) fn forget_slabs(&self) {
        self.slabs.iter().for_each(|first| first.set(ptr::null_mut()));
        self.inbox.take(|_| {});
        self.owned.store(0, Ordering::Relaxed);
    }

    /// Frees a block of one of this cache's slabs.
    ///
    /// # Safety
    /// `address` is anything but a block that someone else still uses. (Pointers into the middle of
    /// a block of our own are caught when they come out of the stack, before anybody gets them.)
    #[inline(always)]
    pub unsafe fn give(&self, address: *mut u8) -> Freed {
        match self.own_block(address, self.reach.get()) {
            Some((block, class)) => self.push(block, class),
            None => Freed::Slow,
        }
    }

    /// The tag of the unit that `address` lies in, if that is within `reach` of the primary region: at most `known`.
    #[inline(always)]
    pub(super) fn tag_within(&self, address: *mut u8, reach: usize) -> Option<u64> {
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
    pub(super) fn own_block(&self, address: *mut u8, reach: usize) -> Option<(*mut Block, usize)> {
        let class = self.tag_within(address, reach)? as usize ^ ptr::from_ref(self).addr();
        if class >= CLASSES {
            return None;
        }
        let block: *mut Block = address.cast();
        // SAFETY: the tag says that the unit is a slab of ours, hence mapped; units end at blocks'
        // or waste's ends, so sixteen bytes at a block can be read.
        let marked = unsafe { Block::is_marked(block, self.key.get()) };
        (!marked).then_some((block, class))
    }

    /// The class of the block that starts at `address`, in use or not, if it lies in a slab of this cache's; `None` for every
    /// other address.
    #[inline(always)]
    pub fn class_at(&self, address: *mut u8) -> Option<SizeClass> {
        let tag = self.tag_within(address, self.known.get())?;
        let class = SizeClass::new(tag as usize ^ ptr::from_ref(self).addr())?;
        class.starts_at(address.addr() & (UNIT - 1)).then_some(class)
    }

    /// The size of a block in use of one of this cache's slabs; `None` for every other address.
    #[inline(always)]
    pub fn size_of(&self, address: *mut u8) -> Option<usize> {
        let (_, class) = self.own_block(address, self.known.get())?;
        let class = SizeClass::new(class)?;
        class.starts_at(address.addr() & (UNIT - 1)).then_some(class.size())
    }

    #[inline(always)]
    pub(super) fn push(&self, block: *mut Block, class: usize) -> Freed {
        // SAFETY: callers pass a class below CLASSES.
        let (head, room) =
            unsafe { (self.heads.get_unchecked(class), self.room.get_unchecked(class)) };
        let mark = Block::mark_of(block, self.key.get());
        // SAFETY: the block is free now, and ours.
        unsafe { Block::write(block, head.get(), mark) };
        // As in `pop`: what is in a stack is marked.
        compiler_fence(Ordering::Release);
        head.set(mark);
        let left = room.get() - 1;
        room.set(left);
        if left < 0 { Freed::Full(class) } else { Freed::Done }
    }
}
