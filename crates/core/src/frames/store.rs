//! Where free blocks are kept: the part of the table that there are two of.
//!
//! ```text
//!   listed   a tag and two links for every frame, every free block in a list, last freed first     Linux's
//!   grouped  a cache line for 64 frames: bits of the free ones, on two levels, groups in lists      ours
//! ```

use super::memory::SetRecord;
use super::order::Order;
use super::request::{Class, Frame, Kind, SetId};
use super::table::Table;
use super::zone::Zone;
use freehold_blocks::check::Broken;
use freehold_blocks::probe::Probe;

/// What begins at a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begins {
    /// Nothing: the frame lies inside a block.
    Tail,
    /// A free block of that order.
    Free(Order),
    /// A used block.
    Used(Order, Kind),
    /// Not a frame of this zone.
    Hole,
}

/// A byte that says what begins somewhere: state 2 bits, kind 2 bits, order 4 bits; 0 is nothing.
pub struct Tag;

impl Tag {
    const FREE: u8 = 1 << 6;
    const USED: u8 = 2 << 6;
    const STATE: u8 = 3 << 6;

    /// A free block.
    #[inline]
    pub const fn free(order: Order) -> u8 {
        Self::FREE | order.log2()
    }

    /// A used one.
    #[inline]
    pub const fn used(order: Order, kind: Kind) -> u8 {
        Self::USED | (kind as u8) << 4 | order.log2()
    }

    /// Read back.
    #[inline]
    pub const fn read(tag: u8) -> Begins {
        match tag & Self::STATE {
            Self::FREE => Begins::Free(Order::of(tag & 15)),
            Self::USED => Begins::Used(Order::of(tag & 15), Kind::from_bits(tag >> 4)),
            _ => Begins::Tail,
        }
    }
}

/// How many entries a store wants of what is handed in.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Of tags and of links.
    pub frames: usize,
    /// Groups of frames.
    pub low: usize,
    /// Groups of groups.
    pub high: usize,
}

/// A block that was taken back.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Whose it was.
    pub class: Class,
    /// The set that it lies in.
    pub set: SetId,
    /// Whether other lists of its area may hold any now.
    pub relisted: bool,
}

/// A set's counts have changed: what they are.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// Which set.
    pub set: SetId,
    /// Whether other lists of its area may hold any now.
    pub relisted: bool,
    /// Its free frames, and the least of its bucket.
    pub free: u32,
    /// See `free`.
    pub from: u32,
    /// The pool that it belongs to.
    pub pool: u8,
}

impl Changed {
    /// Of that set.
    #[inline(always)]
    pub(super) fn of(set: SetId, bank: &SetRecord, relisted: bool) -> Changed {
        Changed { set, relisted, free: bank.free, from: bank.from, pool: bank.pool }
    }
}

/// Knows where blocks begin, and keeps the free ones in the lists of areas. Called by [`Table`] and by nobody else,
/// with frames that the zone has, and only as that says.
///
/// The blocks of an area can be found by order, whatever the store: bit `o` of its mask is set when there is a free block of
/// order `o` that is as long as any beside it that is kept together with it.
pub trait Store: Sized + Send + 'static {
    /// What a policy picks to be taken from.
    type Picked: Copy;

    /// How much it wants for that zone.
    fn needs(zone: &Zone) -> Lengths;

    /// Before there is any block: all slices are zero.
    fn lay_out(table: &mut Table<'_, Self>);

    /// What begins there.
    fn begins(table: &Table<'_, Self>, at: u32) -> Begins;

    /// A free block that was never used and has no free twin.
    fn put(table: &mut Table<'_, Self>, at: u32, order: Order, area: usize);

    /// The set of what was picked.
    fn set_of(table: &Table<'_, Self>, picked: Self::Picked) -> SetId;

    /// Hands out a block of what was picked, which has one. Says which, and whether other lists of its area may hold any now.
    fn take<Q: Probe>(
        table: &mut Table<'_, Self>,
        picked: Self::Picked,
        wanted: (Order, Kind),
        probe: &mut Q,
    ) -> (u32, bool);

    /// Takes the used block of that order that begins at `at` back, merged, into the lists of the area that `area` says for the
    /// free block's first frame; changes nothing and is `None` when there is no such block.
    fn give<Q: Probe>(
        table: &mut Table<'_, Self>,
        at: u32,
        order: Order,
        area: impl FnOnce(&Table<'_, Self>, u32) -> usize,
        probe: &mut Q,
    ) -> Option<Given>;

    /// Compares its lists with where blocks begin, and asks `keeps` of every free block whether that area may hold it. Says how
    /// many free blocks are in lists.
    ///
    /// # Errors
    /// What does not agree.
    fn check(table: &Table<'_, Self>, keeps: impl Fn(u32, usize) -> bool) -> Result<u64, Broken>;
}

/// The part of `from..to`, counted from the zone's first bank, that the zone has.
pub fn present(zone: &Zone, from: u32, to: u32) -> (u32, u32) {
    let Frame(first) = zone.first;
    let (first, end) = (first - zone.base(), zone.end() - zone.base());
    (from.max(first).min(to), to.min(end).max(from))
}
