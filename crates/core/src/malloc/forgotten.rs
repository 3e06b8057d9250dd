//! Slabs that hold no block, while their owner does not know it yet.
//!
//! An owner unlists a slab when it has handed out the slab's last block, and finds the slab again, through its inbox, when
//! it next needs memory. An idle thread never does: blocks that others, or the purger, turn into bits would keep units, and
//! with them banks, huge pages and bookkeeping, for as long as the thread lives. So the purger walks the
//! inboxes and retires the slabs that their owner would retire; it puts the others back.
//!
//! Hysteresis: it retires only slabs that an earlier visit found wholly free, or that the purger itself emptied.

use super::cache::Cache;
use super::node_heap::NodeHeap;
use super::purge::NOTHING_MORE;
use super::slab::Slab;
use crate::machine::Machine;
use core::sync::atomic::Ordering;

impl<M: Machine> NodeHeap<M> {
    /// Retires slabs that wait in any cache's inbox and are free since the last round (`at_once`: or since a moment).
    pub(super) fn retire_forgotten(&self, at_once: bool) {
        for it in self.caches() {
            if !it.inbox.is_empty() {
                // Under the lock, for a fork must not see slabs that are in no inbox.
                self.purging.with(&self.machine, || {
                    it.inbox.take(|slab| {
                        // SAFETY: queued slabs live, and only who took one from its inbox can retire it.
                        let owner = self.owner_of(unsafe { &*slab }).unwrap_or(it);
                        // SAFETY: as above.
                        if !self.retire_in_place_of(owner, unsafe { &*slab }, at_once) {
                            // SAFETY: it was just taken out of an inbox.
                            unsafe { owner.inbox.push(slab) };
                        }
                    });
                });
            }
        }
    }

    /// Retires a slab that was just taken from its owner's inbox, if that has forgotten it and all is free.
    fn retire_in_place_of(&self, owner: &Cache, slab: &Slab, at_once: bool) -> bool {
        let free = slab.vacancy.free();
        let rested = at_once || slab.seen.load(Ordering::Relaxed) & !NOTHING_MORE == free as u16;
        if !rested || free != slab.blocks() || slab.vacancy.is_listed() || !slab.claim_all() {
            return false;
        }
        slab.vacancy.retire_queued();
        self.tag_of(slab, |tag| tag.store(0, Ordering::Relaxed));
        self.runs.give_rested(&self.machine, slab.base(), 1);
        owner.owned.fetch_sub(1, Ordering::Relaxed);
        true
    }
}
