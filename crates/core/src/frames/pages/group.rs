//! 64 units in one line of cache: which are free, and where used blocks begin.
//!
//! A unit is a frame, or a group of 64 frames: the [store](super::grouped) has a level of each.

use super::bits::{self, UNITS};
use super::lists::Linked;
use super::memory::Link;
use super::request::{Class, Kind, SetId};
use super::store::Begins;

/// What is known of 64 units. All-zero is valid.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Group {
    pub(super) free: u64,
    pub(super) begins: u64,
    /// Units of which nothing is known here: holes, and groups that are cut into smaller blocks.
    pub(super) apart: u64,
    /// The low and the high bit of the kind, where a used block begins.
    kinds: [u64; 2],
    /// Where blocks of the largest order may begin.
    pub(super) fuse: u64,
    link: Link,
    /// The order, in units, of the list that it is in, + 1; 0: in none.
    pub(super) listed: u8,
    /// The bank set that it lies in.
    pub(super) set: u16,
}

const _: () = assert!(size_of::<Group>() == 64, "one line of cache");

const _: () = {
    let mut bits = 0;
    while bits < 4 {
        let user = matches!(Kind::ALL[bits].class(), Class::User);
        assert!(user == (bits >> 1 == 1), "the high bit of a kind says its class");
        bits += 1;
    }
};

impl Group {
    /// For statics.
    pub const EMPTY: Group = Group {
        free: 0,
        begins: 0,
        apart: 0,
        kinds: [0; 2],
        fuse: 0,
        link: Link::EMPTY,
        listed: 0,
        set: 0,
    };

    /// A used block begins at that unit.
    #[inline(always)]
    pub(super) fn mark(&mut self, at: u32, kind: Kind) {
        let (bit, kind) = (1 << at, kind as u64);
        self.begins |= bit;
        self.kinds[0] = self.kinds[0] & !bit | (kind & 1) << at;
        self.kinds[1] = self.kinds[1] & !bit | (kind >> 1) << at;
    }

    /// The class of the used block of that order that begins at that unit, if one does.
    #[inline(always)]
    pub(super) fn used(&self, at: u32, order: u8) -> Option<Class> {
        // What distinguishes the classes is the high bit of the kind.
        let user = self.kinds[1] >> at & 1 == 1;
        let class = if user { Class::User } else { Class::Kernel };
        (self.begins >> at & 1 == 1 && self.order_of(at) == order).then_some(class)
    }

    /// What begins at that unit, where free blocks are of an order `most` at most; orders are in units.
    pub(super) fn begins(&self, at: u32, most: u8) -> Begins {
        if self.begins >> at & 1 == 1 {
            return Begins::Used(self.order_of(at), self.kind(at));
        }
        if self.free >> at & 1 == 0 {
            return Begins::Tail;
        }
        let order = bits::around(self.free, at, 0, most);
        let first = at & ((1 << order) - 1) == 0;
        if first { Begins::Free(order) } else { Begins::Tail }
    }

    /// Whether nothing begins in it, and it is no hole: all of it is a block's, or a part of a larger one's.
    #[inline(always)]
    pub(super) fn is_whole(&self) -> bool {
        self.free | self.begins | self.apart == 0
    }

    /// The length of a used block: as far as to what is next.
    #[inline(always)]
    fn order_of(&self, at: u32) -> u8 {
        let stops = (self.begins | self.free | self.apart) >> at >> 1 | 1 << (UNITS - 1 - at);
        (stops.trailing_zeros() + 1).trailing_zeros() as u8
    }

    #[inline(always)]
    fn kind(&self, at: u32) -> Kind {
        let [low, high] = self.kinds.map(|bits| (bits >> at & 1) as u8);
        Kind::from_bits(high << 1 | low)
    }

    /// The set that it lies in.
    #[inline(always)]
    pub(super) fn set(&self) -> SetId {
        SetId(self.set)
    }
}

impl Linked for [Group] {
    const FRAMES_LOG2: u8 = bits::WHOLE;

    #[inline]
    fn link(&self, nth: u32) -> Link {
        self[nth as usize].link
    }

    #[inline]
    fn link_mut(&mut self, nth: u32) -> &mut Link {
        &mut self[nth as usize].link
    }
}
