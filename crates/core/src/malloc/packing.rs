//! Blocks that move to fuller slabs: for programs that can move what they have allocated, as databases in memory do.
//!
//! ```text
//! utilization       how full is the slab of this block, and the slab into which it would move?
//! allocate_packed   a block of that slab, past the thread's stacks
//! free_packed       back to its slab at once, past the thread's stacks
//! ```
//!
//! A block moves to a slab that is at least as full as its own, so the sum of the squares of what slabs hold grows with each move: a program that
//! moves what it should comes to an end. Stacks are passed over, because the block freed last would be the next one allocated.
//! O(1), but for listed slabs that turn out to be full, each of which is looked at once.

use super::block::{Block, Chain};
use super::cache::Cache;
use super::found::Kind;
use super::heap::NodeHeap;
use super::misuse::Misuse;
use super::slabs::{Slabs, give_word, slab::Slab};
use super::tag::{SHARED, Tag};
use crate::machine::Machine;
use crate::size_class::SizeClass;
use core::ptr;
use core::sync::atomic::Ordering;

/// How full the slab of a block is. Blocks that threads keep for their next requests count as used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Utilization {
    /// Bytes of the block.
    pub size: usize,
    /// Blocks of its slab, used or not; 1 for a large block.
    pub blocks: usize,
    /// How many of them are used.
    pub used: usize,
    /// How many are used in the slab from which [`NodeHeap::allocate_packed`] takes a block of this size; 0 where the block
    /// must stay: it is large, another thread's, or no other slab has room. The block is worth moving if this is `used`
    /// or more.
    pub target: usize,
}

impl<M: Machine> NodeHeap<M> {
    /// How full the slab of a block is, and the slab into which it would move.
    pub fn utilization(&self, cache: &Cache, address: *mut u8) -> Result<Utilization, Misuse> {
        let found = self.examine(address)?;
        let slab = self.shared.slab_at(found.address).filter(|_| found.kind == Kind::Small);
        let Some(slab) = slab else {
            return Ok(Utilization { size: found.size, blocks: 1, used: 1, target: 0 });
        };
        let _changing = cache.changing();
        let target = match self.may_move(cache, slab) {
            true => self.target(cache, slab.class()).filter(|target| !ptr::eq(target.slab, slab)),
            false => None,
        };
        let (blocks, used) = (slab.blocks() as usize, used(slab));
        Ok(Utilization { size: found.size, blocks, used, target: target.map_or(0, |it| it.used) })
    }

    /// A block of `class` from the slab that [`utilization`](Self::utilization) calls the target; if there is none, as
    /// [`allocate_class`](Self::allocate_class). Null when memory is short.
    pub fn allocate_packed(&self, cache: &Cache, class: SizeClass) -> *mut u8 {
        let changing = cache.changing();
        let mut chain = Chain::new(cache.key());
        if let Some(target) = self.target(cache, class) {
            self.with_slabs(cache, target.whose, |slabs| {
                slabs.take(&self.shared, class, 1, &mut chain);
            });
        }
        let block = chain.close();
        if block.is_null() {
            drop(changing);
            return self.allocate_class(cache, class);
        }
        // SAFETY: the block was free, and clearing its bit made it ours.
        unsafe { Block::wipe(block) };
        block.cast()
    }

    /// Frees a block, and gives it back to its slab at once.
    ///
    /// # Safety
    /// As for [`NodeHeap::free`].
    pub unsafe fn free_packed(&self, cache: &Cache, address: *mut u8) -> Result<(), Misuse> {
        let found = self.examine(address)?;
        let slab = self.shared.slab_at(found.address).filter(|_| found.kind == Kind::Small);
        let Some(slab) = slab.filter(|_| !cache.is_metered()) else {
            // SAFETY: the caller's.
            return unsafe { self.free(cache, address) };
        };
        let number = slab.number(found.address).ok_or(Misuse::NotABlock)?;
        let _changing = cache.changing();
        // SAFETY: the block is free now, and ours until its bit is set.
        unsafe { Block::link(address.cast(), ptr::null_mut(), cache.key()) };
        give_word(&self.shared, Some(&cache.slabs), slab, number / 64, 1 << (number % 64), 1)?;
        cache.slabs.account(&self.shared, found.size);
        Ok(())
    }

    /// Whether blocks of a slab may move for this thread: its own, and those of slabs that the threads of its home share.
    fn may_move(&self, cache: &Cache, slab: &Slab) -> bool {
        let tag = self.shared.tag_of(slab, |tag| tag.load(Ordering::Acquire));
        let Some((tag, Tag::Slab(owner, _))) = tag.map(|tag| (tag, Tag::decode(tag))) else {
            return false;
        };
        let shared = || tag & SHARED != 0 && cache.is_at_home_of(owner);
        !cache.is_metered() && (owner == cache.slabs.owner() || shared())
    }

    /// The fullest slab of `class`, of some that a thread may take blocks from, that has a free one.
    fn target(&self, cache: &Cache, class: SizeClass) -> Option<Target> {
        if cache.is_metered() {
            return None;
        }
        let shares = self.registry.shares(self.shared.decisions(), cache, class);
        let among = |whose| {
            self.with_slabs(cache, whose, |slabs| {
                slabs.receive(&self.shared);
                let slab = slabs.fullest(&self.shared, class)?;
                Some(Target { whose, slab: ptr::from_ref(slab), used: used(slab) })
            })
        };
        let own = among(Whose::Own).flatten();
        let common = if shares { among(Whose::Common).flatten() } else { None };
        own.into_iter().chain(common).max_by_key(|target| target.used)
    }

    fn with_slabs<R>(
        &self,
        cache: &Cache,
        whose: Whose,
        work: impl FnOnce(&Slabs) -> R,
    ) -> Option<R> {
        match whose {
            Whose::Own => Some(work(&cache.slabs)),
            Whose::Common => self.registry.with_common(&self.shared, cache, work),
        }
    }
}

/// Where a block of a class would be taken from.
struct Target {
    whose: Whose,
    slab: *const Slab,
    used: usize,
}

/// Whose slabs: the thread's own, or those that the threads of its home share.
#[derive(Clone, Copy)]
enum Whose {
    Own,
    Common,
}

fn used(slab: &Slab) -> usize {
    (slab.blocks() - slab.vacancy.free().min(slab.blocks())) as usize
}
