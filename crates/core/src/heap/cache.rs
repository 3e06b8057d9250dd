//! The hot path: a thread's stacks of free blocks, two a class.
//!
//! ```text
//! heads[class] -> block -> block -> 0      what the next allocations get
//! freed[class] -> block -> block -> 0      what was freed since; room[class]: frees that still fit
//!                 | link | mark | ...      mark = address ^ key,  link = the next one's mark, or 0
//! ```
//!
//! When the first is empty, the second takes its place ([`Cache::take_freed`]). So an allocation counts nothing and does
//! not wait for what a free has just written, nor a free for an allocation: a pair that follows another needs neither its
//! head nor its count. (Free lists of their own for allocations and for frees: Leijen, Zorn and de Moura, "Mimalloc" (2019),
//! 2.4, there one pair a page.) A head is a mark or 0, too, so that links are neither encoded nor decoded.
//!
//! Every function here is meant to be inlined into the exported one and to compile to a straight
//! line; whatever is rare is an answer (null, [`Freed::Full`], [`Freed::Slow`]) on which the caller
//! jumps to a cold function of [`NodeHeap`](super::NodeHeap). An all-zero cache is valid: it owns
//! nothing, every allocation is refused and every free is [`Freed::Slow`].
//!
//! Invariant: a stack holds free blocks of slabs that this cache owns. The mark is present in every
//! block that a stack holds and is wiped when the program gets the block, so a block freed twice
//! before its reuse shows its mark. Only the owning thread touches a cache, except its inbox and its
//! depots.

use super::depot::Depot;
use super::inbox::Inbox;
use super::outbox::{PARCELS, Parcel};
use super::slab::Slab;
use crate::place::Home;
use crate::row::Row;
use crate::size_class::{CLASSES, SMALL_CLASS, SMALL_MAX, SizeClass};
use core::cell::Cell;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence};

/// A free block, as seen by who holds it. Sixteen bytes: the smallest class.
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
        if link == 0 {
            return ptr::null_mut();
        }
        // SAFETY: a link that is not 0 leads to a block, and no block is 0. Said, because callers ask, too.
        unsafe { core::hint::assert_unchecked(link != key) };
        ptr::with_exposed_provenance_mut(link ^ key)
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
    /// Done, but what was freed of this class is a full stack: call `NodeHeap::overflow`.
    Full(usize),
    /// Nothing was done: call `NodeHeap::free_slow`.
    Slow,
}

/// A thread's part of the malloc: as long as a page, from the middle of one to the middle of the next.
///
/// What every call touches comes first: the nearest offsets make the shortest instructions, and the first half of a page is
/// where the first blocks of slabs lie, and a small program in them. A load of a word whose lower twelve address bits are
/// those of a store under way may wait for it (4 KiB aliasing): no such word lies at such a place.
#[repr(C, align(2048))]
pub struct Cache {
    /// The primary region: where its tags are, and how far it reaches.
    pub(super) base: Cell<usize>,
    pub(super) reach: Cell<usize>,
    /// What marks and links are encoded with; the same in every cache of a heap.
    pub(super) key: Cell<usize>,
    heads: [Cell<usize>; CLASSES],
    freed: [Cell<usize>; CLASSES],
    pub(super) room: [Cell<i32>; CLASSES],

    // Cold from here on.
    /// How many blocks the stack that allocations take from had when it became that.
    pub(super) loaded: [Cell<u16>; CLASSES],
    /// How many blocks the next refill takes; grows with use.
    pub(super) batch: [Cell<u8>; CLASSES],
    /// How many blocks `freed` may hold now: `room` counts down from here.
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
    /// Freed blocks of other caches' slabs, and how many they are.
    pub(super) outbox: [Parcel; PARCELS],
    pub(super) outbox_len: [Cell<u16>; CLASSES],

    /// Bytes given back to slabs since the heap was last told.
    pub(super) given: Cell<usize>,
    /// Bytes in the depots, at most, and how often that was too much; see `give::is_stocked`.
    pub(super) stock: Cell<usize>,
    pub(super) recount: Cell<u8>,
    /// Bytes that shall go back for slabs that were cut, and the class whose turn it is; see `repay`.
    pub(super) debt: Cell<u32>,
    pub(super) next_shed: Cell<u8>,
    /// Where its slabs' memory comes from; constant once set.
    pub(super) home: Cell<Home>,
    /// How often in a row its thread was seen elsewhere, and slabs cut; see `look_around`.
    pub(super) strays: Cell<u8>,
    pub(super) cuts: Cell<u8>,
    /// Slabs it owns, and of which classes it ever had one; see `huge`.
    pub(super) owned: AtomicU32,
    pub(super) opened: [Cell<u64>; CLASSES.div_ceil(64)],
    /// The next cache without a thread; under the registry's lock.
    pub(super) next_idle: Cell<*mut Cache>,
    /// The next of all caches; constant once set.
    pub(super) next_of_all: Cell<*mut Cache>,
    /// Set while a cold path is changing lists: a forked child must not touch such a cache.
    pub(super) busy: Cell<bool>,
    /// Whether a thread has it, and whether its allocations are counted.
    pub(super) attached: Cell<bool>,
    pub(super) metered: Cell<bool>,
    pub(super) inbox: Inbox<Slab>,
}

const _: () = assert!(size_of::<Cache>() == PAGE && align_of::<Cache>() == Cache::FIRST_AT);
const _: () =
    assert!(offset_of!(Cache, batch) <= PAGE - Cache::FIRST_AT, "hot words reach another page");
/// Bytes of a page.
const PAGE: usize = 4096;

// SAFETY: shared is only the cache of threads that have none yet, and nothing ever writes to it: it has
// no blocks to pop and its reach of 0 refuses every free.
unsafe impl Sync for Cache {}

impl Default for Cache {
    fn default() -> Cache {
        Cache::new()
    }
}

impl Cache {
    /// Where the first cache of a unit begins, in bytes; the others follow.
    pub(super) const FIRST_AT: usize = PAGE / 2;
    /// Where the heads of stacks are, in bytes, for who reads them from outside.
    pub(super) const HEADS_AT: usize = offset_of!(Cache, heads);

    /// The cache that owns nothing; all-zero.
    pub const fn new() -> Cache {
        Cache {
            heads: [const { Cell::new(0) }; CLASSES],
            freed: [const { Cell::new(0) }; CLASSES],
            room: [const { Cell::new(0) }; CLASSES],
            base: Cell::new(0),
            reach: Cell::new(0),
            key: Cell::new(0),
            metered: Cell::new(false),
            loaded: [const { Cell::new(0) }; CLASSES],
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
            next_of_all: Cell::new(ptr::null_mut()),
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
        self.pop(SMALL_CLASS[size] as usize)
    }

    /// A block of `class`; null when the stack is empty.
    #[inline(always)]
    pub fn take_class(&self, class: SizeClass) -> *mut u8 {
        self.pop(class.index())
    }

    /// The same from what was freed, which becomes the stack that allocations take from; null if nothing was. That
    /// stack is empty.
    #[inline(always)]
    pub fn take_freed(&self, class: SizeClass) -> *mut u8 {
        if self.turn_over(class.index()) { self.take_class(class) } else { ptr::null_mut() }
    }

    /// Makes what was freed the stack that allocations take from, which is empty; `false` if nothing was freed.
    #[inline(always)]
    pub(super) fn turn_over(&self, class: usize) -> bool {
        let head = self.freed.at(class).get();
        if head != 0 {
            let len = self.reset_freed(class);
            // A child forked in between misses these blocks; in the other order it would have them twice.
            compiler_fence(Ordering::SeqCst);
            self.load(class, head, len);
        }
        head != 0
    }

    /// Forgets what was freed; how many blocks that were.
    #[inline(always)]
    fn reset_freed(&self, class: usize) -> usize {
        let (room, granted) = (self.room.at(class), self.granted.at(class).get() as i32);
        self.freed.at(class).set(0);
        (granted - room.replace(granted)) as usize
    }

    #[inline(always)]
    fn load(&self, class: usize, head: usize, len: usize) {
        self.loaded.at(class).set(len as u16);
        self.heads.at(class).set(head);
    }

    /// The first of the blocks that allocations of `class` take from, null for none.
    pub(super) fn stack(&self, class: usize) -> *mut Block {
        Block::behind(self.heads.at(class).get(), self.key.get())
    }

    /// Makes the `len` blocks linked behind `first` what allocations of `class` take from.
    pub(super) fn set_stack(&self, class: usize, first: *mut Block, len: usize) {
        self.load(class, Block::link_to(first, self.key.get()), len);
    }

    /// Takes all of that: the first block, null for none, and how many they are. O(answer). The first block is the error
    /// where they have no end: the program has freed one twice, which leads back to itself.
    pub(super) fn take_stack(&self, class: usize) -> Result<(*mut Block, usize), *mut Block> {
        let first = self.stack(class);
        // In a forked child it may have one more than it says.
        let most = self.loaded.at(class).get() as usize + 1;
        let (mut block, mut len) = (first, 0);
        while !block.is_null() && len <= most {
            // SAFETY: the blocks of a stack are linked with our key.
            block = unsafe { Block::next(block, self.key.get()) };
            len += 1;
        }
        self.load(class, 0, 0);
        if len > most { Err(first) } else { Ok((first, len)) }
    }

    /// Takes what was freed of `class`: the first block, null for none, and how many they are. O(1).
    pub(super) fn take_all_freed(&self, class: usize) -> (*mut Block, usize) {
        let first = Block::behind(self.freed.at(class).get(), self.key.get());
        (first, self.reset_freed(class))
    }

    /// Lets what is freed of `class` from now on grow to `granted` blocks, and makes the `len` blocks linked behind
    /// `first` the first of that.
    pub(super) fn grant(&self, class: usize, granted: usize, first: *mut Block, len: usize) {
        self.allow(class, granted);
        self.room.at(class).set(granted as i32 - len as i32);
        self.freed.at(class).set(Block::link_to(first, self.key.get()));
    }

    /// Lets `granted` blocks of `class` be freed, where none was so far.
    pub(super) fn allow(&self, class: usize, granted: usize) {
        self.granted.at(class).set(granted as u16);
        self.room.at(class).set(granted as i32);
    }

    #[inline(always)]
    fn pop(&self, class: usize) -> *mut u8 {
        // SAFETY: every class in the table and in a `SizeClass` is below CLASSES.
        let head = unsafe { self.heads.get_unchecked(class) };
        let block = Block::behind(head.get(), self.key.get());
        if block.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: blocks in a stack are free, ours, and linked with our key.
        unsafe {
            head.set((*block).link);
            (*block).mark = 0;
        }
        block.cast()
    }

    /// Frees a block of one of this cache's slabs.
    ///
    /// # Safety
    /// `address` is anything but a block that someone else still uses. (Pointers into the middle of
    /// a block of our own are caught only when the block leaves the stack.)
    #[inline(always)]
    pub unsafe fn give(&self, address: *mut u8) -> Freed {
        match self.own_block(address) {
            Some((block, class)) => self.push(block, class),
            None => Freed::Slow,
        }
    }

    /// The tag of the unit that `address` lies in, if that is within reach of the primary region.
    #[inline(always)]
    pub(super) fn tag_of(&self, address: *mut u8) -> Option<u64> {
        let base = self.base.get();
        let offset = address.addr().wrapping_sub(base);
        if offset >= self.reach.get() {
            return None;
        }
        let tags = ptr::with_exposed_provenance::<AtomicU64>(base);
        // SAFETY: the base is the region's tags, readable for every unit within its reach.
        Some(unsafe { (*tags.add(offset >> crate::frames::UNIT_SHIFT)).load(Ordering::Relaxed) })
    }

    /// The block at `address` and its class, if it lies in a slab of this cache within reach and is not marked as
    /// free.
    #[inline(always)]
    fn own_block(&self, address: *mut u8) -> Option<(*mut Block, usize)> {
        let class = self.tag_of(address)? as usize ^ ptr::from_ref(self).addr();
        if class >= CLASSES {
            return None;
        }
        let block: *mut Block = address.cast();
        // SAFETY: the tag says that the unit is a slab of ours, hence mapped; units end at blocks'
        // or waste's ends, so sixteen bytes at a block can be read.
        let marked = unsafe { Block::is_marked(block, self.key.get()) };
        (!marked).then_some((block, class))
    }

    /// The size of a block of one of this cache's slabs; `None` for every other address.
    #[inline(always)]
    pub fn size_of(&self, address: *mut u8) -> Option<usize> {
        let tag = self.tag_of(address)?;
        SizeClass::new(tag as usize ^ ptr::from_ref(self).addr()).map(SizeClass::size)
    }

    #[inline(always)]
    pub(super) fn push(&self, block: *mut Block, class: usize) -> Freed {
        // SAFETY: callers pass a class below CLASSES.
        let (freed, room) =
            unsafe { (self.freed.get_unchecked(class), self.room.get_unchecked(class)) };
        let mark = Block::mark_of(block, self.key.get());
        // SAFETY: the block is free now, and ours.
        unsafe { Block::write(block, freed.get(), mark) };
        freed.set(mark);
        let left = room.get() - 1;
        room.set(left);
        if left < 0 { Freed::Full(class) } else { Freed::Done }
    }
}
