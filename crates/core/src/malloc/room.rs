//! How much memory is left for the heap: by a limit of its own, and by that of the container it runs in.
//!
//! After runs of an eighth of what was left, it looks again, and then keeps less for itself:
//!
//! ```text
//! free and resident   a quarter of what is left           `Units::keep_at_most`
//! reserves            a sixteenth of that                 `NodeHeap::is_stocked`
//! below an eighth     everything free goes back at once   `NodeHeap::purge`
//! ```
//!
//! A limit of its own is kept by refusing requests. A container's is kept by its system, which ends the process: that request
//! is not refused, for it may be memory that the program never touches.

use super::heap::NodeHeap;
use super::units::{UNIT, UnitCount};
use crate::machine::{Machine, Room};
use core::sync::atomic::Ordering;

impl<M: Machine> NodeHeap<M> {
    /// Limits what the heap may hold of the machine to `bytes`, at least one unit: beyond, requests
    /// are refused. Before the first allocation. Several threads that ask at the same moment may pass it by what they ask for.
    pub fn set_limit(&self, bytes: usize) {
        self.shared.limits.own.store(bytes.max(UNIT), Ordering::Relaxed);
        self.shared.limits.step.store((bytes / 2 / UNIT).max(1), Ordering::Relaxed);
    }

    /// From now on keeps little for itself while the machine has little left; see [`Machine::room`].
    pub fn follow_machine(&self) {
        self.shared.limits.asks.store(true, Ordering::Relaxed);
        let first = self.shared.decisions().room_from / UNIT;
        self.shared.limits.step.store(first, Ordering::Relaxed);
    }

    /// Whether `more` units, of which the last has a tail of so many bytes, are within the heap's own limit; gives dirty ones
    /// back if that helps.
    pub(super) fn allows(&self, more: UnitCount, tail: usize) -> bool {
        let limit = self.shared.limits.own.load(Ordering::Relaxed);
        if limit == 0 {
            return true;
        }
        let usage = self.usage();
        let tails = self.shared.limits.tails.load(Ordering::Relaxed) + tail;
        let used = (usage.used + more).bytes().saturating_sub(tails);
        if used + usage.dirty.bytes() > limit && used <= limit {
            self.purge_units(true);
        }
        used <= limit
    }

    /// Looks at what is left, now and then: so many units were taken.
    #[inline]
    pub(super) fn look_at_room(&self, UnitCount(taken): UnitCount) {
        let limits = &self.shared.limits;
        let step = limits.step.load(Ordering::Relaxed);
        if step != 0 && limits.taken.fetch_add(taken, Ordering::Relaxed) + taken >= step {
            self.look_closely_at_room();
        }
    }

    #[cold]
    fn look_closely_at_room(&self) {
        let (limits, low) = (&self.shared.limits, self.shared.decisions().room_low as u64);
        limits.taken.store(0, Ordering::Relaxed);
        let mut room = self.room();
        if room.free <= room.capacity / low {
            self.purge(true);
            room = self.room();
        }
        let left = usize::try_from(room.free).unwrap_or(usize::MAX) / UNIT;
        self.shared.units.keep_at_most(UnitCount(left / 4));
        // A look where little is left visits all units in use, and one at plenty of room is not worth much.
        let UnitCount(used) = self.usage().used;
        let step = (left / 8).clamp(used / 64, used.max(1)).max(BETWEEN / UNIT);
        limits.step.store(step, Ordering::Relaxed);
    }

    /// What is left of the heap's own limit, or of the machine's, whichever is less.
    fn room(&self) -> Room {
        let asks = self.shared.limits.asks.load(Ordering::Relaxed);
        let unlimited = Room { free: u64::MAX, capacity: u64::MAX };
        let machine = if asks { self.machine().room() } else { None }.unwrap_or(unlimited);
        let limit = self.shared.limits.own.load(Ordering::Relaxed);
        if limit == 0 {
            return machine;
        }
        let usage = self.usage();
        let tails = self.shared.limits.tails.load(Ordering::Relaxed);
        let held = (usage.used + usage.dirty).bytes().saturating_sub(tails);
        let own = Room { free: limit.saturating_sub(held) as u64, capacity: limit as u64 };
        if own.free < machine.free { own } else { machine }
    }
}

/// Bytes that are taken between two looks, at least.
const BETWEEN: usize = 1 << 20;
