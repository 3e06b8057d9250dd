//! The hot path: a thread's stacks of free blocks, one per class.
//!
//! ```text
//! heads[class] -> block -> block -> 0      room[class]: frees that still fit the stack
//! ```
//!
//! An empty stack has the head 0, which leads to an odd address (`block`), where no block of any class starts. So an
//! allocation makes one check: does a block of the class start there? The check refuses empty stacks, invalid frees inside
//! a block, and links overwritten by an attacker who does not know the key.
//!
//! An allocation after a free waits for two words to pass through memory, and for nothing else.
//!
//! Invariant: every block in a stack is free and carries its mark. Malloc wipes link and mark when it hands the block out.
//! So a double free before reuse finds the mark, a read of uninitialised memory reveals nothing of the key, and a copy of
//! such memory does not make a block in use look free (malloc wipes the first two words of large blocks, too).

use super::block::{Block, List};
use super::decisions::Decisions;
use super::units::UNIT;
use crate::row::Row;
use crate::size_class::{CLASSES, SizeClass};
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};

/// See the module. Zero but for an odd key is valid: no blocks.
#[repr(C)]
pub struct Magazines {
    /// How many blocks the last refill from bits took; 0: there was none.
    batch: [Cell<u8>; CLASSES],
    /// How many the stack in use may hold now: `room` counts down from here. 0 until it is filled for the first time.
    pub(super) granted: [Cell<u16>; CLASSES],
    /// Where the stack began when it was [looked at](Magazines::look) last, as far as eight bits say so; 0: it never was.
    seen: [Cell<u8>; CLASSES],
    // From here on, what every call touches.
    heads: [Cell<usize>; CLASSES],
    pub(super) room: [Cell<i32>; CLASSES],
    /// What marks and links are encoded with; the same in every cache of a heap.
    pub(super) key: Cell<usize>,
}

impl Magazines {
    /// Where the stacks begin, in bytes.
    pub(super) const HEADS_AT: usize = core::mem::offset_of!(Magazines, heads);

    /// A block of `class`; null when the stack is empty, or does not lead to a block.
    #[inline(always)]
    pub(super) fn pop(&self, class: SizeClass) -> *mut u8 {
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
            head.set(Block::written_link(block));
            // A fork may stop the thread between any two stores: a block that is wiped is in no stack.
            compiler_fence(Ordering::Release);
            Block::wipe(block);
        }
        room.set(room.get() + 1);
        block.cast()
    }

    /// Puts a free block of `class` onto its stack; `false` when that is too full now.
    #[inline(always)]
    pub(super) fn push(&self, block: *mut Block, class: SizeClass) -> bool {
        let index = class.index();
        // SAFETY: classes are below CLASSES, the length of both.
        let (head, room) =
            unsafe { (self.heads.get_unchecked(index), self.room.get_unchecked(index)) };
        let mark = Block::mark_of(block, self.key.get());
        // SAFETY: the block is free now, and ours.
        unsafe { Block::write(block, head.get(), mark) };
        // As in `pop`: what is in a stack is marked.
        compiler_fence(Ordering::Release);
        head.set(mark);
        let left = room.get() - 1;
        room.set(left);
        left >= 0
    }

    /// The first block of a stack, null for none.
    pub(super) fn first(&self, class: SizeClass) -> *mut Block {
        Block::behind(self.heads.at(class.index()).get(), self.key.get())
    }

    /// How many blocks a stack holds.
    pub(super) fn len(&self, class: SizeClass) -> usize {
        let (granted, room) = (self.granted.at(class.index()), self.room.at(class.index()));
        // In a forked child a stack may have a block more than was counted, of a thread that was just about to.
        (granted.get() as i32 - room.get()).max(0) as usize
    }

    /// Whether a stack may hold fewer than `most` blocks now.
    pub(super) fn is_short(&self, class: SizeClass, most: usize) -> bool {
        (1..most).contains(&(self.granted.at(class.index()).get() as usize))
    }

    /// Makes a list the stack of a class, which may grow to `granted` blocks, or is longer already: its length is what is
    /// granted less the room that is left.
    pub(super) fn set(&self, class: SizeClass, stack: List, granted: usize) {
        self.heads.at(class.index()).set(Block::link_to(stack.first, self.key.get()));
        self.grant(class, granted.max(stack.len), stack.len);
    }

    /// Takes all of the stack of a class, which may grow to `granted` blocks from now on.
    pub(super) fn take(&self, class: SizeClass, granted: usize) -> List {
        let stack = List { first: self.first(class), len: self.len(class) };
        self.set(class, List::EMPTY, granted);
        stack
    }

    /// Whether a stack begins with the block with which it began at the last look: probably nobody used it meanwhile.
    pub(super) fn rests(&self, class: SizeClass) -> bool {
        self.seen.at(class.index()).get() == self.place(class)
    }

    /// Looks where a stack begins.
    pub(super) fn look(&self, class: SizeClass) {
        self.seen.at(class.index()).set(self.place(class));
    }

    /// The number of a stack's first block in its slab: answers must not depend on where the heap lies.
    fn place(&self, class: SizeClass) -> u8 {
        0x80 | class.divide(self.first(class).addr() % UNIT) as u8
    }

    /// How many blocks a stack may hold now.
    pub(super) fn granted(&self, class: SizeClass) -> usize {
        self.granted.at(class.index()).get() as usize
    }

    /// Cuts a stack, which is longer, behind its first `len` blocks; the others. None if a link among them leads astray: the stack is
    /// as it was, and tells when it gets there.
    pub(super) fn cut(&self, class: SizeClass, len: usize) -> List {
        let (key, have) = (self.key.get(), self.len(class));
        if len == 0 {
            return self.take(class, 0);
        }
        let leads = |at: *mut Block| !at.is_null() && class.starts_at(at.addr() & (UNIT - 1));
        let (mut last, mut rest) = (ptr::null_mut(), self.first(class));
        for _ in 0..len {
            if !leads(rest) {
                return List::EMPTY;
            }
            // SAFETY: the stack is ours, and its links lead to blocks so far.
            (last, rest) = (rest, unsafe { Block::next(rest, key) });
        }
        if !leads(rest) {
            return List::EMPTY;
        }
        // SAFETY: the last one that stays.
        unsafe { Block::link(last, ptr::null_mut(), key) };
        self.grant(class, len, len);
        List { first: rest, len: have - len }
    }

    /// The address that a stack leads to, if no block of the class starts there: the middle of a block was
    /// freed, or a link was overwritten.
    #[inline]
    pub(super) fn astray(&self, class: SizeClass) -> Option<usize> {
        let at = self.first(class).addr();
        (at != 0 && !class.starts_at(at & (UNIT - 1))).then_some(at)
    }

    /// How many blocks the next refill of a class from bits takes: each time twice as many, to `most`.
    pub(super) fn next_batch(&self, class: SizeClass, most: usize, decisions: &Decisions) -> usize {
        let batch = self.batch.at(class.index());
        let most = most.min(u8::MAX as usize);
        let want = match batch.get() {
            0 => decisions.first_batch(class).min(most),
            last => (last as usize * 2).min(most),
        };
        batch.set(want as u8);
        want
    }

    fn grant(&self, class: SizeClass, granted: usize, len: usize) {
        self.granted.at(class.index()).set(granted as u16);
        self.room.at(class.index()).set(granted as i32 - len as i32);
    }
}
