//! malloc and free of the fast mode, instruction by instruction.
//!
//! What [`BlockHeap`] does for any index, done once more for [`Rings`], because it is counted. The
//! generic mechanism took 150 instructions for a free that merges with two neighbours: it thinks
//! in granules and optional neighbours, and calls `remove` and `insert` of an index that it does not
//! know. Here places are bytes, and what an empty neighbour would add is not added. The layout is the
//! same, since `tags` reads and writes every word of it; what blocks result is the same, since a test
//! holds this against the policy `dmrt`. Resizing and alignments are left to the generic mechanism.

#![deny(unsafe_code)]

use super::rings::{LARGE, Rings};
use crate::heap::BlockHeap;
use crate::probe::{Probe, Step};
use crate::tags::{Granules, MIN_BLOCK, TAG, View};
use crate::walk::Tally;

const GRANULE: u64 = super::GRANULE;
const LEAST: u64 = MIN_BLOCK.bytes();

impl<T: Tally> BlockHeap<Rings, T> {
    /// As `alloc` without an alignment of less than [`LARGE`] bytes, for which a block of the length of all
    /// together would do: where the payload is, in bytes from the start of the region.
    #[inline(always)]
    pub(super) fn take_hot<P: Probe>(&mut self, requested: u64, probe: P) -> Option<u64> {
        debug_assert!(requested < LARGE);
        let mut view = self.tags.watched(probe);
        let need = ((requested + TAG + GRANULE - 1) & !(GRANULE - 1)).max(LEAST);
        let at = self.index.take_good(&mut view, need)?;
        Some(self.carve(&mut view, at, need))
    }

    /// As [`take_hot`](Self::take_hot), of [`LARGE`] bytes and more, or more than there are.
    #[inline(always)]
    pub(super) fn take_large<P: Probe>(&mut self, requested: u64, probe: P) -> Option<u64> {
        if requested < LARGE {
            return None;
        }
        let mut view = self.tags.watched(probe);
        let need = Granules::for_request(requested)?.bytes();
        let at = self.index.find_long(&mut view, need)?;
        self.index.unlink(&mut view, at);
        Some(self.carve(&mut view, at, need))
    }

    /// Uses the first `need` bytes of the free block at `at`, which is in no ring any more.
    #[inline(always)]
    fn carve<P: Probe>(&mut self, view: &mut View<P>, at: u64, need: u64) -> u64 {
        let tag = view.tag_at(at);
        self.counts.free_out(granules(tag.bytes()));
        // What is left is free and behind a used block, as the whole was: its tag differs in the length only.
        let rest = tag.behind(need);
        let taken = if rest.holds(LEAST) {
            view.step(Step::Split);
            let tail = at + need;
            view.write_free_tag(tail, rest);
            self.index.link(view, tail, rest.free_bytes());
            self.counts.free_in(granules(rest.free_bytes()));
            need
        } else {
            view.mark_prev_free_at(at + tag.bytes(), false);
            tag.bytes()
        };
        view.write_used_at(at, taken);
        self.counts.used_in(at + taken - self.tags.first().payload_at());
        at
    }

    /// As `free`, of the used block whose payload is at `at`.
    #[inline(always)]
    pub(super) fn release_hot<P: Probe>(&mut self, at: u64, probe: P) {
        let mut view = self.tags.watched(probe);
        let tag = view.tag_at(at);
        let (mut whole, mut size) = (at, tag.bytes());
        let next = at + size;
        let next_tag = view.tag_at(next);
        self.counts.used_out();
        if next_tag.is_free() {
            self.merged(&mut view, next, next_tag.bytes());
            size += next_tag.bytes();
        } else {
            view.mark_prev_free_at(next, true);
        }
        if tag.is_prev_free() {
            let below = view.bytes_before(at);
            whole = at - below;
            self.merged(&mut view, whole, below);
            size += below;
        }
        view.write_free_at(whole, size);
        self.index.link(&mut view, whole, size);
        self.counts.free_in(granules(size));
    }

    #[inline(always)]
    fn merged<P: Probe>(&mut self, view: &mut View<P>, at: u64, bytes: u64) {
        view.step(Step::Merge);
        self.index.unlink(view, at);
        self.counts.free_out(granules(bytes));
    }
}

fn granules(bytes: u64) -> Granules {
    Granules::new((bytes / GRANULE) as u32)
}
