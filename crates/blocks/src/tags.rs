//! Boundary tags: the one place of header arithmetic.
//!
//! A region is cut into blocks without gaps; each begins with a tag, the last is a sentinel.
//!
//! ```text
//!  granule   0        1                        p                                        end
//!  bytes     |  | tag |  payload ...     | tag |  payload ...                  | sentinel |
//!            0  8     16             16p-8     16p                        16end-8     16end
//!
//!  used      | size|00 |  payload: size - 8 bytes, the last 8 of them where a footer would be |
//!  free      | size|01 |  link 0 | link 1 | link 2 | link 3 |   untouched   |      footer     |
//!              8 B        4 B      4 B      4 B      4 B                            8 B
//! ```
//!
//! A block is named by the granule of its *payload* ([`Block`]), so that zero is free to mean
//! "none", and payloads, not tags, are 16-aligned. The tag is one word, `size | bits`:
//!
//! - `size`: the whole block in bytes, tag included: a multiple of 16, at least 32 (0: sentinel);
//! - bit 0, `FREE`: nobody owns the payload; it holds four links and, in its last word, the footer;
//! - bit 1, `PREV_FREE`: the block before this one is free, so the word before this tag is its
//!   footer and says how far back that block begins. While clear, that word is payload;
//! - bits 2 and 3: always zero.
//!
//! What the links mean is the index's affair (`list`, `tree`, `good_fit`, `buddy`).
//!
//! Invariant: every [`Block`] in the hands of an index names a tag of the region, because only
//! this file makes them, from tags and from payload pointers that `free`'s caller vouches for.
//! That, and the region being ours alone, is why the reads and writes below are sound.
//!
//! **Why [`View`]'s accessors are safe functions without checks.** Given a block that has left the
//! index, they would touch memory that belongs to somebody else. Only an index can come to hold a
//! view and a block at once, and [`FreeIndex`](super::FreeIndex) is an unsafe trait: its implementer
//! vouches for the blocks. Unsafe accessors would ask for the same promise at every step of every
//! list and tree, where nobody can look at it any more; checks would cost a comparison for each word
//! touched, and could keep an index inside its region, but not out of payloads. (Debug builds
//! check the bounds all the same.)

use super::region::{GRANULE, Region};
use crate::probe::{Probe, Step};
use core::fmt;
use core::num::NonZeroU32;
use core::ptr::NonNull;

/// Bytes of a tag; also of a footer.
pub const TAG: u64 = 8;

/// The smallest block: a tag, four links and a footer.
pub const MIN_BLOCK: Granules = Granules(2);

const FREE: u64 = 1 << 0;
const PREV_FREE: u64 = 1 << 1;
const BITS: u64 = GRANULE - 1;

const _: () = assert!(MIN_BLOCK.0 as u64 * GRANULE == TAG + 4 * 4 + TAG);
const _: () = assert!((FREE | PREV_FREE) & !BITS == 0, "the bits live below the size");
const _: () = assert!(size_of::<Option<Block>>() == 4, "a link is one u32");

/// A block, named by the granule at which its payload begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(NonZeroU32);

/// A length in granules of 16 B.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Granules(u32);

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl fmt::Debug for Granules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}g", self.0)
    }
}

impl Granules {
    /// So many granules.
    pub const fn new(count: u32) -> Granules {
        Granules(count)
    }

    /// The block that a request of `size` bytes needs: `max(32, round_up(size + 8, 16))`.
    /// `None` when that is longer than any region.
    #[inline]
    pub const fn for_request(size: u64) -> Option<Granules> {
        let Some(sum) = size.checked_add(TAG + BITS) else { return None };
        let granules = sum / GRANULE;
        if granules > u32::MAX as u64 {
            return None;
        }
        let granules = granules as u32;
        Some(Granules(if granules < MIN_BLOCK.0 { MIN_BLOCK.0 } else { granules }))
    }

    /// How many.
    pub const fn count(self) -> u32 {
        self.0
    }

    /// In bytes.
    pub const fn bytes(self) -> u64 {
        self.0 as u64 * GRANULE
    }

    /// The sum, or `None` when it is longer than any region.
    pub const fn checked_add(self, more: Granules) -> Option<Granules> {
        match self.0.checked_add(more.0) {
            Some(sum) => Some(Granules(sum)),
            None => None,
        }
    }

    /// What is left of `self` after `part`, which must not be longer.
    pub const fn minus(self, part: Granules) -> Granules {
        Granules(self.0 - part.0)
    }

    /// The sum of two neighbours in a region: always the length of something in that region.
    pub const fn plus(self, more: Granules) -> Granules {
        Granules(self.0 + more.0)
    }
}

impl Block {
    /// The block whose payload is at `granule`, which an index once had from such a block.
    pub(super) fn at(granule: u32) -> Option<Block> {
        NonZeroU32::new(granule).map(Block)
    }

    /// The granule of the payload.
    pub const fn granule(self) -> u32 {
        self.0.get()
    }

    /// Where the tag lies, in bytes from the start of the region.
    pub const fn tag_at(self) -> u64 {
        self.0.get() as u64 * GRANULE - TAG
    }

    fn footer_at(self, size: Granules) -> u64 {
        self.tag_at() + size.bytes() - TAG
    }

    fn link_at(self, slot: usize) -> u64 {
        debug_assert!(slot < 4);
        self.tag_at() + TAG + slot as u64 * 4
    }

    /// Where the payload is, in bytes from the start of the region.
    #[inline(always)]
    pub(super) const fn payload_at(self) -> u64 {
        self.0.get() as u64 * GRANULE
    }

    /// The block that begins `size` further up. Only for tags that exist or are about to.
    pub(super) fn after(self, size: Granules) -> Block {
        Block(self.0.checked_add(size.0).unwrap_or(NonZeroU32::MAX))
    }

    /// The block that begins `size` further down. Only for tags that exist.
    pub(super) fn before(self, size: Granules) -> Block {
        Block(NonZeroU32::new(self.0.get() - size.0).unwrap_or(NonZeroU32::MIN))
    }
}

fn bit_if(set: bool, bit: u64) -> u64 {
    if set { bit } else { 0 }
}

/// The tag of a block, read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tag(u64);

impl Tag {
    /// The whole block's length; zero in the sentinel.
    pub const fn size(self) -> Granules {
        Granules((self.0 / GRANULE) as u32)
    }

    /// The whole block's length in bytes.
    pub(super) const fn bytes(self) -> u64 {
        self.0 & !BITS
    }

    /// Whether the block is at least `bytes` long, a multiple of [`GRANULE`]. (Which the bits do not change.)
    #[inline(always)]
    pub(super) const fn holds(self, bytes: u64) -> bool {
        debug_assert!(bytes & BITS == 0);
        self.0 >= bytes
    }

    /// Whether the block is free.
    pub const fn is_free(self) -> bool {
        self.0 & FREE != 0
    }

    /// Whether the block before it is free.
    pub const fn is_prev_free(self) -> bool {
        self.0 & PREV_FREE != 0
    }

    /// As [`bytes`](Self::bytes), of a free block behind a used one: the subtraction goes into addresses.
    #[inline(always)]
    pub(super) const fn free_bytes(self) -> u64 {
        debug_assert!(self.0 & BITS == FREE);
        self.0 - FREE
    }

    /// The tag of what is left of a free block behind its first `bytes`.
    #[inline(always)]
    pub(super) const fn behind(self, bytes: u64) -> Tag {
        debug_assert!(bytes & BITS == 0 && bytes <= self.0);
        Tag(self.0 - bytes)
    }

    /// Whether the two bits without a meaning are clear.
    pub(super) const fn is_plain(self) -> bool {
        self.0 & BITS & !(FREE | PREV_FREE) == 0
    }

    fn new(size: Granules, free: bool, prev_free: bool) -> Tag {
        Tag(size.bytes() | bit_if(free, FREE) | bit_if(prev_free, PREV_FREE))
    }
}

/// A region laid out in blocks: where they begin and end.
#[derive(Clone, Copy, Debug)]
pub struct Tags {
    base: NonNull<u8>,
    first: Block,
    end: Block,
}

// SAFETY: a `Tags` is a place, not an access: what its views read and write is the policy's, who is
// alone with them (`&mut`), or reads with others while nobody writes (`&`); see above.
unsafe impl Send for Tags {}
// SAFETY: as above.
unsafe impl Sync for Tags {}

impl Tags {
    /// Takes all of `region`: blocks from granule 1 to the sentinel in the last granule.
    /// `None` when not one block fits (less than 48 B). Writes nothing but the sentinel.
    pub(super) fn new(region: &Region) -> Option<Tags> {
        Tags::between(region, 1, region.granules())
    }

    /// As [`Tags::new`], with payload granules `first .. end` only.
    pub(super) fn between(region: &Region, first: u32, end: u32) -> Option<Tags> {
        debug_assert!(end <= region.granules());
        let first = Block(NonZeroU32::new(first)?);
        let end = Block(NonZeroU32::new(end)?);
        if end.granule() < first.granule().checked_add(MIN_BLOCK.0)? {
            return None;
        }
        let tags = Tags { base: region.base(), first, end };
        tags.quiet().write_used(end, Granules(0), false);
        Some(tags)
    }

    /// The first block.
    pub fn first(&self) -> Block {
        self.first
    }

    /// The sentinel: a used block without length where the last block ends.
    pub fn end(&self) -> Block {
        self.end
    }

    /// The length of all blocks together.
    pub fn total(&self) -> Granules {
        Granules(self.end.granule() - self.first.granule())
    }

    /// Where `block`'s tag lies, in bytes from the first block's.
    #[inline]
    pub fn extent(&self, block: Block) -> u64 {
        block.tag_at() - self.first.tag_at()
    }

    /// The granule of the machine's address space at which `block`'s payload lies.
    pub(super) fn address_granule(&self, block: Block) -> u64 {
        self.base.addr().get() as u64 / GRANULE + u64::from(block.granule())
    }

    /// The payload of `block`, with the provenance of the region.
    #[inline]
    pub(super) fn payload(&self, block: Block) -> NonNull<u8> {
        debug_assert!(self.first <= block && block < self.end);
        // SAFETY: a block's payload lies inside the region (module invariant), which is one
        // allocation that `base` covers (Region::new).
        unsafe { self.base.add(block.granule() as usize * GRANULE as usize) }
    }

    /// What is `at` bytes into the region, where a block's payload or an index's word is.
    #[inline(always)]
    pub(super) fn pointer(&self, at: u64) -> NonNull<u8> {
        self.word(at)
    }

    /// How many bytes the payload of the used `block` holds.
    pub(super) fn usable(&self, block: Block) -> u64 {
        self.quiet().size(block).bytes() - TAG
    }

    /// The block whose payload begins at `ptr`.
    ///
    /// # Safety
    /// `ptr` came from [`Tags::payload`] of these tags, and that block is still in use.
    #[inline]
    pub(super) unsafe fn block_of(&self, ptr: NonNull<u8>) -> Block {
        let offset = ptr.addr().get() - self.base.addr().get();
        debug_assert!(offset.is_multiple_of(GRANULE as usize), "not a payload: {ptr:p}");
        let granule = (offset / GRANULE as usize) as u32;
        debug_assert!(self.first.granule() <= granule && granule < self.end.granule());
        // SAFETY: payloads lie at granule 1 or above, by the caller's promise.
        Block(unsafe { NonZeroU32::new_unchecked(granule) })
    }

    /// Whether a tag could lie at `block`.
    pub(super) fn contains(&self, block: Block) -> bool {
        self.first <= block && block < self.end
    }

    /// The block at payload granule `granule`, if one could begin there.
    pub(super) fn block_at(&self, granule: u64) -> Option<Block> {
        let block = Block(NonZeroU32::new(u32::try_from(granule).ok()?)?);
        self.contains(block).then_some(block)
    }

    /// A view that nobody watches.
    #[inline]
    pub fn quiet(&self) -> View<()> {
        self.watched(())
    }

    /// A view that tells `probe` of every word touched.
    #[inline]
    pub fn watched<P: Probe>(&self, probe: P) -> View<P> {
        View { tags: *self, probe }
    }

    /// Brings the tag and the links of `block` into the nearest cache, when they come. Any value
    /// will do: a fetch never faults.
    #[inline(always)]
    pub(super) fn fetch(&self, block: Block) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for at in [block.tag_at(), block.tag_at() + TAG] {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let word = self.base.as_ptr().wrapping_add(at as usize);
            // SAFETY: a hint, which reads and writes nothing, and every x86-64 has it (SSE).
            unsafe { _mm_prefetch::<_MM_HINT_T0>(word.cast_const().cast()) }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = (self, block);
    }

    #[inline]
    fn word(&self, at: u64) -> NonNull<u8> {
        debug_assert!(at < u64::from(self.end.granule()) * GRANULE);
        // SAFETY: tags, links and footers of existing blocks lie inside the region.
        unsafe { self.base.add(at as usize) }
    }
}

/// The tags and links of a region under the eyes of a probe.
#[derive(Debug)]
pub struct View<P> {
    tags: Tags,
    probe: P,
}

impl<P: Probe> View<P> {
    /// The layout being looked at.
    pub fn tags(&self) -> &Tags {
        &self.tags
    }

    /// Reports a step that is not a touch of the region's memory.
    #[inline(always)]
    pub fn step(&mut self, step: Step) {
        self.probe.step(step);
    }

    /// The tag of `block`.
    #[inline(always)]
    pub fn tag(&mut self, block: Block) -> Tag {
        Tag(self.load(block.tag_at()))
    }

    /// The length of `block`.
    #[inline(always)]
    pub fn size(&mut self, block: Block) -> Granules {
        self.tag(block).size()
    }

    /// The block before `block`, which must be free (`is_prev_free`), and its length.
    #[inline(always)]
    pub(super) fn prev_free(&mut self, block: Block) -> (Block, Granules) {
        let size = Granules((self.load(block.tag_at() - TAG) / GRANULE) as u32);
        (block.before(size), size)
    }

    /// Writes the tag of a used block.
    #[inline(always)]
    pub(super) fn write_used(&mut self, block: Block, size: Granules, prev_free: bool) {
        self.store(block.tag_at(), Tag::new(size, false, prev_free).0);
    }

    /// Writes the tag and the footer of a free block; `PREV_FREE` of the next is the caller's.
    #[inline(always)]
    pub(super) fn write_free(&mut self, block: Block, size: Granules, prev_free: bool) {
        self.store(block.tag_at(), Tag::new(size, true, prev_free).0);
        self.store(block.footer_at(size), size.bytes());
    }

    /// Says in the tag of `block` whether the block before it is free.
    #[inline(always)]
    pub(super) fn mark_prev_free(&mut self, block: Block, prev_free: bool) {
        let tag = self.load(block.tag_at());
        self.store(block.tag_at(), tag & !PREV_FREE | bit_if(prev_free, PREV_FREE));
    }

    /// The footer of a free block.
    pub(super) fn footer(&mut self, block: Block, size: Granules) -> u64 {
        self.load(block.footer_at(size))
    }

    /// Link `slot` (0 to 3) of a free block, as a block.
    #[inline(always)]
    pub fn link(&mut self, block: Block, slot: usize) -> Option<Block> {
        NonZeroU32::new(self.link_word(block, slot)).map(Block)
    }

    /// Sets link `slot` (0 to 3) of a free block.
    #[inline(always)]
    pub fn set_link(&mut self, block: Block, slot: usize, to: Option<Block>) {
        self.set_link_word(block, slot, to.map_or(0, Block::granule));
    }

    /// Link `slot` (0 to 3) of a free block, as a length.
    #[inline(always)]
    pub fn length(&mut self, block: Block, slot: usize) -> Granules {
        Granules(self.link_word(block, slot))
    }

    /// Sets link `slot` (0 to 3) of a free block to a length.
    #[inline(always)]
    pub fn set_length(&mut self, block: Block, slot: usize, length: Granules) {
        self.set_link_word(block, slot, length.0);
    }

    /// As [`tag`](Self::tag), of the block whose payload is `at` bytes into the region. This and
    /// its like are for `realtime`, where every instruction counts: a place in bytes is an address.
    #[inline(always)]
    pub(super) fn tag_at(&mut self, at: u64) -> Tag {
        Tag(self.load(at - TAG))
    }

    /// The length in bytes of the block before the one at `at`, which must be free.
    #[inline(always)]
    pub(super) fn bytes_before(&mut self, at: u64) -> u64 {
        self.load(at - TAG - TAG)
    }

    /// Writes the tag of a used block of `bytes` behind a used one.
    #[inline(always)]
    pub(super) fn write_used_at(&mut self, at: u64, bytes: u64) {
        self.store(at - TAG, bytes);
    }

    /// As [`write_free`](Self::write_free), behind a used block.
    #[inline(always)]
    pub(super) fn write_free_at(&mut self, at: u64, bytes: u64) {
        self.store(at - TAG, bytes | FREE);
        self.store(at - TAG + bytes - TAG, bytes);
    }

    /// Writes `tag`, of a free block behind a used one, and its footer.
    #[inline(always)]
    pub(super) fn write_free_tag(&mut self, at: u64, tag: Tag) {
        self.store(at - TAG, tag.0);
        let bytes = tag.free_bytes();
        self.store(at - TAG + bytes - TAG, bytes);
    }

    /// As [`mark_prev_free`](Self::mark_prev_free), of the block at `at`.
    #[inline(always)]
    pub(super) fn mark_prev_free_at(&mut self, at: u64, prev_free: bool) {
        let tag = self.load(at - TAG);
        self.store(at - TAG, tag & !PREV_FREE | bit_if(prev_free, PREV_FREE));
    }

    /// Link `slot` of the free block, or of the head of a ring, that is `at` bytes into the region.
    #[inline(always)]
    pub(super) fn link_in(&mut self, at: u64, slot: usize) -> u32 {
        self.read_link(at + slot as u64 * 4)
    }

    /// Sets link `slot` of the free block, or of the head of a ring, that is `at` bytes into the region.
    #[inline(always)]
    pub(super) fn set_link_in(&mut self, at: u64, slot: usize, value: u32) {
        self.write_link(at + slot as u64 * 4, value);
    }

    /// The word `at` bytes into the region: one of an index that lies in front of the first block.
    #[inline(always)]
    pub(super) fn index_word(&mut self, at: u64) -> u64 {
        debug_assert!(at + 8 <= self.tags.first.tag_at());
        self.load(at)
    }

    /// Sets what [`index_word`](Self::index_word) reads.
    #[inline(always)]
    pub(super) fn set_index_word(&mut self, at: u64, value: u64) {
        debug_assert!(at + 8 <= self.tags.first.tag_at());
        self.store(at, value);
    }

    #[inline(always)]
    fn link_word(&mut self, block: Block, slot: usize) -> u32 {
        self.read_link(block.link_at(slot))
    }

    #[inline(always)]
    fn set_link_word(&mut self, block: Block, slot: usize, value: u32) {
        self.write_link(block.link_at(slot), value);
    }

    #[inline(always)]
    fn read_link(&mut self, at: u64) -> u32 {
        self.probe.step(Step::Touch { at });
        // SAFETY: a link of a free block is four aligned bytes of the region (module invariant),
        // which nobody but its policy touches.
        unsafe { self.tags.word(at).cast::<u32>().read() }
    }

    #[inline(always)]
    fn write_link(&mut self, at: u64, value: u32) {
        self.probe.step(Step::Touch { at });
        // SAFETY: as in `read_link`; `&mut self` of the policy is held by whoever holds the view.
        unsafe { self.tags.word(at).cast::<u32>().write(value) }
    }

    #[inline(always)]
    fn load(&mut self, at: u64) -> u64 {
        self.probe.step(Step::Touch { at });
        // SAFETY: a tag or footer is eight aligned bytes of the region (module invariant), which
        // nobody but its policy touches.
        unsafe { self.tags.word(at).cast::<u64>().read() }
    }

    #[inline(always)]
    fn store(&mut self, at: u64, value: u64) {
        self.probe.step(Step::Touch { at });
        // SAFETY: as in `load`.
        unsafe { self.tags.word(at).cast::<u64>().write(value) }
    }
}
