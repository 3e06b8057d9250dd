//! Free blocks as their holder sees them, and lists of them.
//!
//! ```text
//! head -> block -> block -> 0      mark = address ^ key,  link = the next one's mark, or 0
//!         | link | mark | ...
//! ```
//!
//! A head is a mark or 0, too, so links are neither encoded nor decoded on the hot path. The key is odd: the head 0
//! decodes to an odd address, where no block of any class starts.

use core::ptr;

/// A free block. Sixteen bytes: the smallest class.
#[repr(C)]
pub struct Block {
    link: usize,
    mark: usize,
}

impl Block {
    /// The block that a link or a head leads to.
    #[inline(always)]
    pub(super) fn behind(link: usize, key: usize) -> *mut Block {
        if link == 0 { ptr::null_mut() } else { ptr::with_exposed_provenance_mut(link ^ key) }
    }

    /// What leads to a block.
    #[inline(always)]
    pub(super) fn link_to(block: *mut Block, key: usize) -> usize {
        if block.is_null() { 0 } else { Block::mark_of(block, key) }
    }

    /// What marks the block at `block` as free.
    #[inline(always)]
    pub fn mark_of(block: *mut Block, key: usize) -> usize {
        block.addr() ^ key
    }

    /// Sends for the block's line of memory, where the processor takes such requests, without waiting for it. Any address will do.
    #[inline(always)]
    pub(super) fn send_for(block: *mut Block) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch of any address changes nothing, and faults nowhere.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(block.cast::<i8>());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = block;
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

    /// The link as it is written.
    ///
    /// # Safety
    /// The block is free, linked, and the caller's.
    #[inline(always)]
    pub(super) unsafe fn written_link(block: *mut Block) -> usize {
        // SAFETY: the caller's.
        unsafe { (*block).link }
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

/// A list of free blocks that is being made, lowest address first.
pub struct Chain {
    /// What the first block is linked behind: spares the loop a question per block. Links depend
    /// on addresses, so a chain with blocks must not be moved.
    anchor: Block,
    tail: *mut Block,
    /// How many blocks it has.
    pub len: usize,
    key: usize,
}

impl Chain {
    /// An empty list.
    pub fn new(key: usize) -> Chain {
        Chain { anchor: Block { link: 0, mark: 0 }, tail: ptr::null_mut(), len: 0, key }
    }

    /// Ends the list; its first block, null for none.
    pub fn close(&mut self) -> *mut Block {
        if self.len == 0 {
            return ptr::null_mut();
        }
        let anchor = &raw mut self.anchor;
        // SAFETY: the tail is the last block added, and the anchor was linked before the first.
        unsafe {
            Block::link(self.tail, ptr::null_mut(), self.key);
            Block::next(anchor, self.key)
        }
    }

    /// Adds the blocks of `size` bytes at `base` whose bits are set.
    ///
    /// # Safety
    /// The blocks are free and the caller's.
    #[inline]
    pub unsafe fn add(&mut self, base: usize, size: usize, mut bits: u64) {
        let key = self.key;
        let mut tail = if self.tail.is_null() { &raw mut self.anchor } else { self.tail };
        let (mut mark, mut at) = (Block::mark_of(tail, key), base);
        // Row by row of neighbours: in a slab that was just cut there is but one.
        while bits != 0 {
            let gap = bits.trailing_zeros();
            at += gap as usize * size;
            bits >>= gap;
            let row = bits.trailing_ones();
            let end = at + row as usize * size;
            while at != end {
                let block = ptr::with_exposed_provenance_mut(at);
                let link = Block::mark_of(block, key);
                // SAFETY: the tail is the anchor or a block of this chain, and the links of blocks are their marks.
                unsafe { Block::write(tail, link, mark) };
                (tail, mark) = (block, link);
                at += size;
            }
            self.len += row as usize;
            bits = bits.checked_shr(row).unwrap_or(0);
        }
        self.tail = tail;
    }
}

/// Linked free blocks of one class.
#[derive(Clone, Copy)]
pub struct List {
    /// Null for none.
    pub first: *mut Block,
    /// How many, as far as that is known: in a forked child a list may have a block more.
    pub len: usize,
}

impl List {
    /// No blocks.
    pub const EMPTY: List = List { first: ptr::null_mut(), len: 0 };

    /// How many blocks lists have together.
    pub fn len_of_all(lists: &[List]) -> usize {
        lists.iter().map(|list| list.len).sum()
    }

    /// Whether it has none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.first.is_null()
    }
}
