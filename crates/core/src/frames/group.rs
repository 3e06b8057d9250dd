//! 64 units in one line of cache: which are free, and where used blocks begin.
//!
//! A unit is a frame, or a group of 64 frames: the [store](super::grouped) has a level of each.

use super::bits::{self, Run};
use super::lists::Linked;
use super::memory::Link;
use super::order::Order;
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

    /// A free run is a used block.
    #[inline(always)]
    pub(super) fn hand_out(&mut self, Run { first, all }: Run, kind: Kind) {
        self.free ^= all;
        self.begins |= first;
        let with = |bits: u64, yes: bool| bits & !first | if yes { first } else { 0 };
        self.kinds[0] = with(self.kinds[0], kind as u8 & 1 == 1);
        self.kinds[1] = with(self.kinds[1], kind as u8 >> 1 == 1);
    }

    /// The used block of that order that begins at that unit is free, if one does. Says of which class it was.
    #[inline(always)]
    pub(super) fn take_back(&mut self, at: u32, order: u8) -> Option<Class> {
        let (first, others) = (self.begins >> at & 1, self.begins & !(1 << at));
        if first == 0 || self.length(others, at).trailing_zeros() != u32::from(order) {
            return None;
        }
        self.begins = others;
        self.free |= bits::run(at, order);
        // What distinguishes the classes is the high bit of the kind.
        let user = self.kinds[1] >> at & 1 == 1;
        Some(if user { Class::User } else { Class::Kernel })
    }

    /// What begins at that unit, where free blocks are of an order `most` at most; orders are in units.
    pub(super) fn begins(&self, at: u32, most: u8) -> Begins {
        if self.begins >> at & 1 == 1 {
            let length = self.length(self.begins & !(1 << at), at);
            return Begins::Used(Order::of(length.trailing_zeros() as u8), self.kind(at));
        }
        if self.free >> at & 1 == 0 {
            return Begins::Tail;
        }
        let order = bits::around(self.free, at, 0, most);
        let first = at & ((1 << order) - 1) == 0;
        if first { Begins::Free(Order::of(order)) } else { Begins::Tail }
    }

    /// Whether nothing begins in it, and it is no hole: all of it is a block's, or a part of a larger one's.
    #[inline(always)]
    pub(super) fn is_whole(&self) -> bool {
        self.free | self.begins | self.apart == 0
    }

    /// The length of a used block, `others` being where others begin: as far as to what is next. (Behind the last unit that is
    /// the first: no block reaches into the group from outside, so there is something.)
    #[inline(always)]
    fn length(&self, others: u64, at: u32) -> u32 {
        (others | self.free | self.apart).rotate_right(at).trailing_zeros()
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
