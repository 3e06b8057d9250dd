//! What is asked for: how much, kinds, classes, how long.

use super::order::Order;
use core::fmt;

/// A page frame by its number: address / 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(pub u32);

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "F{}", self.0)
    }
}

/// A bank set of one zone by its number: one bank, or the banks that interleaving ties together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(pub u16);

impl SetId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S{}", self.0)
    }
}

/// What can be done with the pages of a block, in Linux's words. (`ISOLATE` is no kind that can be
/// asked for: it is a flag of a bank set.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The kernel's own, for ever where it is.
    Unmovable = 0,
    /// The kernel's, which it could give up but not move: caches of inodes.
    Reclaimable = 1,
    /// Reached through page tables or the page cache only: can be copied elsewhere.
    Movable = 2,
    /// Movable, in page blocks set aside for contiguous requests of devices.
    Cma = 3,
}

impl Kind {
    /// All kinds, by their numbers.
    pub const ALL: [Kind; 4] = [Kind::Unmovable, Kind::Reclaimable, Kind::Movable, Kind::Cma];

    /// Who asks.
    pub const fn class(self) -> Class {
        match self {
            Kind::Unmovable | Kind::Reclaimable => Class::Kernel,
            Kind::Movable | Kind::Cma => Class::User,
        }
    }

    pub(super) const fn from_bits(bits: u8) -> Kind {
        Kind::ALL[(bits & 3) as usize]
    }
}

/// Who asks: what keeps a bank on for good, and what can be moved out of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Pages that cannot be moved.
    Kernel,
    /// Pages that can.
    User,
}

/// How long a block is expected to live, as far as whoever asks can tell. A hint: it moves a block to
/// other banks, never decides whether there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lifetime {
    /// Long, or nobody knows.
    #[default]
    Long,
    /// Short: pages of a process that just started, of a file about to be deleted.
    Brief,
}

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// How much.
    pub order: Order,
    /// Of what kind.
    pub kind: Kind,
    /// For how long.
    pub lifetime: Lifetime,
}

impl Request {
    /// A block of `order` and `kind` for nobody knows how long.
    pub const fn new(order: Order, kind: Kind) -> Request {
        Request { order, kind, lifetime: Lifetime::Long }
    }
}
