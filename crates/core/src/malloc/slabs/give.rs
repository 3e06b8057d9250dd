//! Gives blocks back to the bits of their slab, by any thread: one atomic operation for all blocks of one word.

use super::lists::Slabs;
use super::slab::Slab;
use crate::machine::Machine;
use crate::malloc::block::{Block, List};
use crate::malloc::misuse::Misuse;
use crate::malloc::shared::Shared;
use crate::malloc::units::UNIT;
use crate::malloc::units::region::Region;
use crate::size_class::SizeClass;
use core::slice;
use core::sync::atomic::Ordering;

/// Blocks for each word of bits, on the average, where they lie so close that fewer words would do.
const BLOCKS_A_WORD: usize = 4;

/// Blocks for each word of bits, on the average, in a list whose blocks lie close: it costs little to give them back, and
/// they get their order back.
pub const CLOSE: usize = 2;

/// How many blocks of a list are looked at for that.
pub const SAMPLE: usize = 64;

/// Gives the first blocks of a linked list back to their slabs, neighbours in the list that lie in one word of bits
/// together: to `words` words, at most, and [`BLOCKS_A_WORD`] for each or a few more. The rest of the list. `by` has the
/// slabs of the calling thread, if it has any.
///
/// Misuse found here was caused long ago, not by the caller: it is noted, and the rest of the list lost.
pub fn give_list<M: Machine>(
    shared: &Shared<M>,
    by: Option<&Slabs>,
    mut list: List,
    words: usize,
) -> List {
    give_lists(shared, by, slice::from_mut(&mut list), (words, usize::MAX));
    list
}

/// The same of several lists in turn, so many words and blocks of all together: while one list's link comes from memory, the others
/// go on. What is left of each stays there.
#[inline(never)]
pub fn give_lists<M: Machine>(
    shared: &Shared<M>,
    by: Option<&Slabs>,
    lists: &mut [List],
    (words, blocks): (usize, usize),
) {
    let most = blocks.min(words.saturating_mul(BLOCKS_A_WORD));
    let (mut given, mut bytes, mut had) = (0, 0, 0);
    'all: while lists.iter().any(|list| !list.is_empty()) {
        for list in lists.iter_mut().filter(|list| !list.is_empty()) {
            if had == words || given >= most {
                break 'all;
            }
            let first = list.first;
            match give_neighbours(shared, by, &mut list.first) {
                Ok((len, size)) => {
                    had += 1;
                    given += len;
                    bytes += len * size;
                    // In a forked child the count may be wrong.
                    list.len = if list.is_empty() { 0 } else { list.len.saturating_sub(len) };
                }
                Err(misuse) => {
                    shared.late.note(misuse, first.addr());
                    *list = List::EMPTY;
                }
            }
        }
    }
    match by {
        Some(slabs) => slabs.account(shared, bytes),
        None => shared.note_freed(bytes),
    }
}

/// Whether the first [`SAMPLE`] blocks of a list of `class`, which has as many, lie close, all of them in `region`. (What the
/// program may have written into a free block leads nowhere else.)
pub fn lie_close(region: &Region, class: SizeClass, list: List, key: usize) -> bool {
    let (mut block, mut word, mut words) = (list.first, 0, 0);
    for _ in 0..SAMPLE {
        if !region.contains(block.addr()) {
            return false;
        }
        // A unit's address leaves room for the numbers of its words.
        let (unit, offset) = (block.addr() & !(UNIT - 1), block.addr() & (UNIT - 1));
        let its = unit | (class.divide(offset) / 64);
        words += usize::from(its != word);
        if words > SAMPLE / CLOSE {
            return false;
        }
        word = its;
        // SAFETY: the list's blocks were linked with this key.
        block = unsafe { Block::next(block, key) };
    }
    true
}

/// Gives the first blocks of the list back, as far as they lie in one word; how many, of which size.
#[inline]
fn give_neighbours<M: Machine>(
    shared: &Shared<M>,
    by: Option<&Slabs>,
    list: &mut *mut Block,
) -> Result<(usize, usize), Misuse> {
    let mut block = *list;
    let region = shared.units.region_of(block.addr()).ok_or(Misuse::NotABlock)?;
    // The list's blocks lie in slabs, which cannot be retired while we hold them.
    let slab = Slab::of(region, block.addr());
    let (key, class, base) = (shared.key(), slab.class(), block.addr() & !(UNIT - 1));
    let first = slab.number(block.addr()).ok_or(Misuse::NotABlock)?;
    let (mut bits, mut number, mut len) = (0_u64, first, 0);
    loop {
        if bits >> (number % 64) & 1 != 0 {
            return Err(Misuse::DoubleFree);
        }
        bits |= 1 << (number % 64);
        len += 1;
        // SAFETY: the list's blocks were linked with this key.
        block = unsafe { Block::next(block, key) };
        if block.is_null() || block.addr() ^ base >= UNIT {
            break;
        }
        match slab.number(block.addr()) {
            Some(next) if next / 64 == first / 64 => number = next,
            _ => break,
        }
    }
    *list = block;
    Block::send_for(block);
    give_word(shared, by, slab, first / 64, bits, len)?;
    Ok((len as usize, class.size()))
}

/// Gives `len` blocks of `slab` back, those whose bits are set in `bits` of word `at`.
pub fn give_word<M: Machine>(
    shared: &Shared<M>,
    by: Option<&Slabs>,
    slab: &Slab,
    at: usize,
    bits: u64,
    len: u32,
) -> Result<(), Misuse> {
    if by.is_none() {
        // The purger waited already: no need to wait for the slab to rest.
        slab.seen.store((slab.vacancy.free() + len) as u16, Ordering::Relaxed);
    }
    if slab.give(at, bits, len)? {
        Slabs::queue(shared, by, slab);
    }
    Ok(())
}
