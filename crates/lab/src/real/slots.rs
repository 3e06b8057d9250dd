//! Which slot of the replayer's table an object gets.
//!
//! Slots are handed to threads in groups of 64 (1 KiB of the table), so that two threads share a
//! cache line only where the program shares an object. A slot that its own thread emptied is used
//! again at once, while it is in the cache; one that another thread emptied waits behind others,
//! because taking it at once would make the owner wait for that thread, as the program never did.

use std::collections::VecDeque;

use super::stream::At;

const GROUP: u32 = 64;

/// How many slots emptied by others a thread lets lie before it uses the oldest.
const RESTING: usize = 256;

/// A place in the table of objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(pub(super) u32);

/// Who did the last operation on a slot.
#[derive(Clone, Copy)]
pub(super) struct Last {
    /// The stream it is in; `None` before the first and for what is done before the clock starts.
    pub(super) by: Option<(u32, At)>,
    /// The next turn.
    pub(super) turn: u32,
}

/// All slots of a process.
#[derive(Default)]
pub(super) struct Slots {
    last: Vec<Last>,
    /// The thread of each group.
    homes: Vec<u32>,
}

/// The empty slots of one thread.
#[derive(Default)]
pub(super) struct Pockets {
    own: Vec<Slot>,
    returned: VecDeque<Slot>,
    fresh: std::ops::Range<u32>,
}

impl Slots {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.last.len()
    }

    pub(super) fn last(&mut self, slot: Slot) -> &mut Last {
        &mut self.last[slot.0 as usize]
    }

    /// An empty slot for an object that `thread` makes.
    pub(super) fn take(&mut self, thread: u32, pockets: &mut Pockets) -> Slot {
        if let Some(slot) = pockets.own.pop() {
            return slot;
        }
        if pockets.returned.len() > RESTING
            && let Some(slot) = pockets.returned.pop_front()
        {
            return slot;
        }
        self.take_fresh(thread, pockets)
    }

    /// A slot that never held anything: for what is there from the start.
    pub(super) fn take_fresh(&mut self, thread: u32, pockets: &mut Pockets) -> Slot {
        if pockets.fresh.is_empty() {
            let first = self.last.len() as u32;
            self.last.resize(self.last.len() + GROUP as usize, Last { by: None, turn: 0 });
            self.homes.push(thread);
            pockets.fresh = first..first + GROUP;
        }
        // Not empty: filled just above.
        Slot(pockets.fresh.next().unwrap_or_default())
    }

    /// The thread to whose pockets an emptied slot goes.
    pub(super) fn home(&self, slot: Slot) -> u32 {
        self.homes[(slot.0 / GROUP) as usize]
    }
}

impl Pockets {
    /// Takes a slot back that `emptied_here` or by another thread.
    pub(super) fn put(&mut self, slot: Slot, emptied_here: bool) {
        if emptied_here {
            self.own.push(slot);
        } else {
            self.returned.push_back(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_get_groups_of_their_own_and_their_own_slots_back_first() {
        let mut slots = Slots::default();
        let (mut a, mut b) = (Pockets::default(), Pockets::default());
        assert_eq!(slots.take(0, &mut a), Slot(0));
        assert_eq!(slots.take(1, &mut b), Slot(64));
        assert_eq!(slots.take(0, &mut a), Slot(1));
        a.put(Slot(0), true);
        assert_eq!(slots.take(0, &mut a), Slot(0));
        assert_eq!((slots.home(Slot(1)), slots.home(Slot(64)), slots.len()), (0, 1, 128));
    }

    #[test]
    fn what_others_emptied_rests() {
        let mut slots = Slots::default();
        let mut pockets = Pockets::default();
        let taken: Vec<Slot> = (0..=RESTING).map(|_| slots.take(0, &mut pockets)).collect();
        for &slot in &taken[..RESTING] {
            pockets.put(slot, false);
        }
        assert_eq!(slots.take(0, &mut pockets), Slot(RESTING as u32 + 1));
        pockets.put(taken[RESTING], false);
        assert_eq!(slots.take(0, &mut pockets), taken[0]);
    }
}
