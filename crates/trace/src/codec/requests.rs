//! The table of recent requests: programs ask for the same few sizes again and again, so an
//! allocation names a request by its slot, in the op byte itself.
//!
//! Invariant: after each event, the encoder's and the decoder's tables hold the same. The encoder
//! alone chooses slots and tells the decoder; how it chooses is no part of the format.

use super::OP_RECENT;
use crate::event::{Api, Request};

const SLOTS: usize = OP_RECENT as usize;
const BUCKETS: usize = 1024;

/// What stands in a slot that no definition went to.
static UNDEFINED: Request = Request { size: 0, align_log2: 0, api: Api::Malloc, usable: 0 };

/// The decoder's table, as long as its highest slot in use: thousands of threads may be read at once, and most
/// blocks have few requests.
#[derive(Default)]
pub(super) struct Recent {
    slots: Vec<Request>,
}

impl Recent {
    #[inline]
    pub(super) fn named(&self, slot: u8) -> Option<&Request> {
        match self.slots.get(usize::from(slot)) {
            None if usize::from(slot) < SLOTS => Some(&UNDEFINED),
            request => request,
        }
    }

    pub(super) fn set(&mut self, slot: u8, request: Request) -> Option<()> {
        let slot = usize::from(slot);
        if slot >= self.slots.len() {
            if slot >= SLOTS {
                return None;
            }
            // Slots are taken in order: room for twice as many at a time, never for more than there are.
            let room = (slot + 1).next_power_of_two().min(SLOTS);
            self.slots.reserve_exact(room - self.slots.len());
            self.slots.resize(slot + 1, UNDEFINED);
        }
        *self.slots.get_mut(slot)? = request;
        Some(())
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
    }
}

/// The encoder's table: finds the slot of a request, or makes room for it. Slots are given in order
/// of first appearance; when all are taken, the next one that was not used since the hand passed
/// (second chance) gives way.
pub(super) struct Slots {
    slots: [Request; SLOTS],
    used: [bool; SLOTS],
    taken: usize,
    hand: usize,
    buckets: [u8; BUCKETS],
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            slots: [Request::default(); SLOTS],
            used: [false; SLOTS],
            taken: 0,
            hand: 0,
            buckets: [0; BUCKETS],
        }
    }
}

impl Slots {
    #[inline]
    pub(super) fn find(&mut self, request: &Request) -> Option<u8> {
        let bucket = bucket(request);
        for bucket in [bucket, bucket ^ 1] {
            let slot = usize::from(self.buckets[bucket]);
            if slot < self.taken && self.slots[slot] == *request {
                self.used[slot] = true;
                return Some(slot as u8);
            }
        }
        None
    }

    /// Gives `request` a slot, which the decoder must be told.
    pub(super) fn insert(&mut self, request: &Request) -> u8 {
        let slot = if self.taken < SLOTS { self.taken } else { self.evict() };
        self.taken = self.taken.max(slot + 1);
        self.slots[slot] = *request;
        self.used[slot] = true;
        let bucket = bucket(request);
        self.buckets[bucket ^ 1] = self.buckets[bucket];
        self.buckets[bucket] = slot as u8;
        slot as u8
    }

    fn evict(&mut self) -> usize {
        loop {
            let slot = self.hand;
            self.hand = (self.hand + 1) % SLOTS;
            if !core::mem::take(&mut self.used[slot]) {
                return slot;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.taken = 0;
        self.hand = 0;
    }
}

fn bucket(request: &Request) -> usize {
    let kind = u64::from(request.align_log2) << 3 | request.api as u64;
    let mixed =
        (request.size ^ kind << 56 ^ request.usable << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 54) as usize
}

/// The family of a stored number.
pub(super) fn api(number: u8) -> Option<Api> {
    Some(match number {
        0 => Api::Malloc,
        1 => Api::Calloc,
        2 => Api::Aligned,
        3 => Api::New,
        4 => Api::NewArray,
        _ => return None,
    })
}
