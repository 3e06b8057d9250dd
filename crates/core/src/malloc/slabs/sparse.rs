//! Slabs with purged pages: their free blocks lost their marks, and get them back.
//!
//! A purged page reads as zero when it is touched again, so its free blocks have lost the marks by which the hot path
//! detects a double free. Until they have marks again the slab is tagged `SPARSE`: each free in it
//! comes here and checks the bits.
//!
//! The check makes a free some five nanoseconds longer; bringing a page back costs a page fault, as much as a few
//! hundred checks. So a slab pays as it goes: `sparse.frees` careful frees for each page. A slab in frequent use is whole
//! again after as many careful frees as restoring it at once would have cost; a slab in rare use stays small. Pages that the
//! program itself has touched come first, and one with each refill.
//!
//! Marks are written only into free blocks that no thread holds. No other thread takes blocks of the slab meanwhile: only its
//! owner, which runs this code, and the purger, whose lock is held. Blocks that others give back carry marks already.

use super::pages::Pages;
use super::slab::Slab;
use crate::machine::Machine;
use crate::malloc::block::Block;
use crate::malloc::misuse::Misuse;
use crate::malloc::shared::Shared;
use crate::malloc::tag::SPARSE;
use core::ptr;
use core::sync::atomic::Ordering;

/// Whether a block of a sparse slab, which carries no mark, may be freed; `own`: by the slab's owner.
pub fn check_free<M: Machine>(
    shared: &Shared<M>,
    slab: &Slab,
    address: usize,
    own: bool,
) -> Result<(), Misuse> {
    let number = slab.number(address).ok_or(Misuse::NotABlock)?;
    if slab.is_free(number) {
        return Err(Misuse::DoubleFree);
    }
    if own {
        let worth = shared.decisions().sparse_frees as u16;
        let paid = slab.careful.get() + 1;
        let marked = paid >= worth && mark_some(shared, slab, Pages::ALL);
        slab.careful.set(if marked { 0 } else { paid.min(worth) });
    }
    Ok(())
}

/// The owner took blocks: marks come back where that brought a page back.
pub fn mark_touched<M: Machine>(shared: &Shared<M>, slab: &Slab) {
    let touched = slab.unmarked.get().without(slab.purged.get());
    if !touched.is_empty() {
        mark_some(shared, slab, touched);
    }
}

/// Marks the free blocks of the first of `pages` that has any, those in memory before the others; `false` if the
/// purger is at work.
fn mark_some<M: Machine>(shared: &Shared<M>, slab: &Slab, pages: Pages) -> bool {
    let marked = shared.purging.try_with(&shared.machine, || {
        let purged = slab.purged.get();
        if !mark_first(shared.key(), slab, pages.without(purged)) {
            mark_first(shared.key(), slab, pages.within(purged));
        }
        if slab.unmarked.get().is_empty() {
            shared.tag_of(slab, |tag| tag.fetch_and(!SPARSE, Ordering::Relaxed));
        }
    });
    marked.is_some()
}

/// The same of these pages alone; whether there was such a page. Under the purger's lock, by the owner.
fn mark_first(key: usize, slab: &Slab, pages: Pages) -> bool {
    let mut rest = pages.within(slab.unmarked.get());
    while !rest.is_empty() {
        let page = rest.lowest();
        rest = rest.without(page);
        let mut any = false;
        slab.each_free_in(page.place(), |block| {
            any = true;
            // SAFETY: the block is free, and nobody but us could take it; see the module.
            unsafe { Block::link(block, ptr::null_mut(), key) };
        });
        slab.unmarked.remove(page);
        if any {
            slab.purged.remove(page);
            return true;
        }
    }
    false
}
