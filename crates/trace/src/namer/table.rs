//! Address to object: an open-addressing table, which is where a finisher spends its time.
//!
//! Entries are 16 bytes, four to a cache line, found by linear probing from a home slot; removal
//! closes the gap, so there are no tombstones. Eight neighbouring 16-byte units share a stretch of
//! the table: objects that are neighbours in memory, and tend to live and die together, share
//! cache lines here too.
//!
//! Invariants: at most half the slots are full; between an entry's home and its slot no slot is
//! empty.

use super::paged::Paged;

/// Bits of an address; the rest of the key holds the depth. 57-bit addressing gives a process the
/// lower half.
const ADDRESS_BITS: u32 = 56;
const MIN_BITS: u32 = 8;

/// A live object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) id: u32,
    /// The thread that made it or last changed its size.
    pub(super) owner: u32,
    /// How many forks lie between the root and the process that named it.
    pub(super) depth: u8,
}

/// Stored form; key 0 is an empty slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    key: u64,
    id: u32,
    owner: u32,
}

const _: () = assert!(size_of::<Slot>() == 16);

pub(super) struct Table {
    slots: Paged<Slot>,
    /// log2 of the number of slots.
    bits: u32,
    len: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self { slots: Paged::with_len(1 << MIN_BITS), bits: MIN_BITS, len: 0 }
    }
}

/// Whether a process of Linux can have an object at `address`.
#[inline]
pub(super) fn is_possible(address: u64) -> bool {
    address != 0 && address >> ADDRESS_BITS == 0
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts an object at `address`, which must be possible; gives the one that stood there.
    #[inline]
    pub(super) fn insert(&mut self, address: u64, entry: Entry) -> Option<Entry> {
        if self.len * 2 >= 1 << self.bits {
            self.grow();
        }
        let (at, slot) = self.find(address);
        let new = Slot {
            key: address | u64::from(entry.depth) << ADDRESS_BITS,
            id: entry.id,
            owner: entry.owner,
        };
        self.slots.set(at, new);
        if slot.key == 0 {
            self.len += 1;
            return None;
        }
        Some(slot.entry())
    }

    /// Whether an object is at `address`.
    #[inline]
    pub(super) fn contains(&self, address: u64) -> bool {
        self.find(address).1.key != 0
    }

    /// Takes the object at `address` out.
    #[inline]
    pub(super) fn remove(&mut self, address: u64) -> Option<Entry> {
        let (at, slot) = self.find(address);
        if slot.key == 0 {
            return None;
        }
        self.len -= 1;
        self.close_gap(at);
        Some(slot.entry())
    }

    /// All objects with their addresses, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Entry)> {
        let slots = (0..1 << self.bits).map(|at| *self.slots.get(at));
        slots.filter(|slot| slot.key != 0).map(|slot| (slot.address(), slot.entry()))
    }

    /// A second table with the same objects.
    pub(super) fn share(&mut self) -> Table {
        Table { slots: self.slots.share(), bits: self.bits, len: self.len }
    }

    /// The id that stands where `address` is looked for first, which is most often its own. Only
    /// good for bringing memory nearer.
    #[inline]
    pub(super) fn guess(&self, address: u64) -> u32 {
        self.slots.get(self.home(address)).id
    }

    /// The slot that holds `address`, or the empty one where it belongs.
    #[inline]
    fn find(&self, address: u64) -> (usize, Slot) {
        let mut start = self.home(address);
        loop {
            let page = self.slots.rest_of_page(start);
            for (step, slot) in page.iter().enumerate() {
                if slot.key == 0 || slot.address() == address {
                    return (start + step, *slot);
                }
            }
            start = self.after(start + page.len() - 1);
        }
    }

    #[inline]
    fn home(&self, address: u64) -> usize {
        let unit = address >> 4;
        let stretch = (unit >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - (self.bits - 3));
        (stretch << 3 | unit & 7) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & ((1 << self.bits) - 1)
    }

    /// Empties the slot `gap`, moving later entries of the same run back where they may go.
    #[inline]
    fn close_gap(&mut self, mut gap: usize) {
        if self.slots.get(self.after(gap)).key == 0 {
            return self.slots.set(gap, Slot::default());
        }
        let mask = (1usize << self.bits) - 1;
        let mut at = gap;
        loop {
            at = self.after(at);
            let slot = *self.slots.get(at);
            if slot.key == 0 {
                break;
            }
            let from_home = at.wrapping_sub(self.home(slot.address())) & mask;
            if from_home >= at.wrapping_sub(gap) & mask {
                self.slots.set(gap, slot);
                gap = at;
            }
        }
        self.slots.set(gap, Slot::default());
    }

    #[cold]
    fn grow(&mut self) {
        let bits = self.bits + 1;
        let mut grown = Table { slots: Paged::with_len(1 << bits), bits, len: 0 };
        for (address, entry) in self.iter() {
            grown.insert(address, entry);
        }
        *self = grown;
    }
}

impl Slot {
    #[inline]
    fn address(&self) -> u64 {
        self.key & ((1 << ADDRESS_BITS) - 1)
    }

    #[inline]
    fn entry(&self) -> Entry {
        Entry { id: self.id, owner: self.owner, depth: (self.key >> ADDRESS_BITS) as u8 }
    }
}
