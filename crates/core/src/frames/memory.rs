//! What a caller hands in: plain slices, for instance statics of a kernel. All-zero is valid.

use super::group::Group;
use super::order::{ORDERS, Orders};

/// The neighbours of an entry (a free block by its first frame, or a group) in its list.
///
/// `next` is its number + 1, 0 at the end. `prev` likewise, or, of the first, [`Link::FIRST`] and the
/// number of the list: so an entry leaves its list without anybody knowing which that is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    pub(super) next: u32,
    pub(super) prev: u32,
}

impl Link {
    /// Says that the rest is the number of a list.
    pub(super) const FIRST: u32 = 1 << 31;
    /// For statics.
    pub const EMPTY: Link = Link { next: 0, prev: 0 };
}

/// Free blocks that are searched together: a list for each order, and which of them hold any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Area {
    /// The first of each list, as its number + 1; 0 when empty.
    pub(super) heads: [u32; ORDERS],
    /// Which of them are not empty.
    pub(super) orders: Orders,
}

impl Area {
    /// For statics.
    pub const EMPTY: Area = Area { heads: [0; ORDERS], orders: Orders::NONE };
}

/// What is known of a bank set.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetRecord {
    /// Frames that are there, holes left out.
    pub(super) frames: u32,
    /// Free ones.
    pub(super) free: u32,
    /// Frames in blocks of the kernel class.
    pub(super) unmovable: u32,
    /// Frames that the running evacuation has moved out.
    pub(super) moved: u32,
    /// Passes of the migration task that leave it alone.
    pub(super) skip: u8,
    /// `NOMIG`, `ISOLATED`, `OFFLINE`, `CMA`, `LEAVING`.
    pub(super) flags: u8,
    /// The pool it belongs to, by the policy's numbers.
    pub(super) pool: u8,
    /// The bucket of free counts it is linked into, + 1; 0 in none.
    pub(super) bucket: u8,
    /// The least number of free frames in that bucket.
    pub(super) from: u32,
    /// The order of the list of sets it is linked into, + 1; 0 in none.
    pub(super) linked: u8,
    /// Neighbours in that bucket or in the policy's one list of sets, as set + 1.
    pub(super) beside: Beside,
    /// Neighbours in the pool's list of sets by their largest block.
    pub(super) by_largest: Beside,
}

/// Neighbours in a list of sets, as set + 1; 0 is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beside {
    pub(super) next: u16,
    pub(super) prev: u16,
}

impl SetRecord {
    /// For statics.
    pub const EMPTY: SetRecord = SetRecord {
        frames: 0,
        free: 0,
        unmovable: 0,
        moved: 0,
        skip: 0,
        flags: 0,
        pool: 0,
        bucket: 0,
        from: 0,
        linked: 0,
        beside: Beside { next: 0, prev: 0 },
        by_largest: Beside { next: 0, prev: 0 },
    };
    /// Shared with a neighbouring zone or a hole: never evacuated, never off.
    pub(super) const NOMIG: u8 = 1;
    /// Nothing is handed out of it.
    pub(super) const ISOLATED: u8 = 2;
    /// Switched off: wholly free.
    pub(super) const OFFLINE: u8 = 4;
    /// Holds page blocks of CMA, so it never serves the kernel.
    pub(super) const CMA: u8 = 8;
    /// Isolated by the migration task, which is emptying it.
    pub(super) const LEAVING: u8 = 16;

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Neither isolated nor off.
    pub(super) const fn usable(&self) -> bool {
        !self.has(Self::ISOLATED | Self::OFFLINE)
    }

    /// Nothing in it is used, and it may be switched off.
    pub(super) const fn is_vacant(&self) -> bool {
        self.free == self.frames && !self.has(Self::NOMIG)
    }
}

/// Metadata of one zone, with the lengths that [`Needs`](super::Needs) says (longer ones will do):
/// 9 bytes a frame, or 64 a group of 64 frames or of 64 groups, 1 a page block, 48 an area or bank set. Of tags, links and groups a
/// policy wants either the first two or the last; what it does not want may be empty.
pub struct Memory<'m> {
    /// State, kind and order of every frame.
    pub tags: &'m mut [u8],
    /// Links of every frame.
    pub links: &'m mut [Link],
    /// Groups of frames, and behind them groups of groups.
    pub groups: &'m mut [Group],
    /// The kind of every page block.
    pub page_blocks: &'m mut [u8],
    /// Lists.
    pub areas: &'m mut [Area],
    /// Bank sets.
    pub sets: &'m mut [SetRecord],
}
