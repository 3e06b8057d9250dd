//! Random programs for page-frame allocators, as data that shrinks.
//!
//! As with [`programs`](crate::programs): a call names a block by counting live ones round and round, and a set
//! likewise, so that whatever is left out while shrinking, the rest still means something.

use freehold_core::frames::{Frame, Interleave, Kind, Lifetime, Order, Request, Zone};
use proptest::collection::vec;
use proptest::prelude::*;
use std::fmt;

/// One call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameOp {
    /// A block of that order and kind (by number), short-lived or not.
    Alloc(u8, u8, bool),
    /// Frees the nth live block.
    Free(u32),
    /// A free that must be refused: which of the wrong ones, about the nth live block.
    Misuse(u8, u32),
    /// Isolates the nth set.
    Isolate(u16),
    /// Releases it.
    Release(u16),
    /// Switches it off.
    Off(u16),
    /// Switches it on.
    On(u16),
    /// Lets the policy put sets in order.
    Tidy,
    /// The migration task, that many milliseconds later; the owner refuses every nth copy (0: none).
    Poll(u16, u8),
    /// Takes a set back from the migration task.
    Relieve,
    /// Hot removal of the nth set.
    Remove(u16),
}

/// A list of calls and the zone it runs over.
#[derive(Clone, PartialEq, Eq)]
pub struct FrameProgram {
    /// Frames before the zone's first, below a bank.
    pub shift: u32,
    /// Frames of the zone.
    pub frames: u32,
    /// Banks in pairs, where the zone allows it.
    pub pairs: bool,
    /// A page block of CMA in the middle.
    pub cma: bool,
    /// The calls.
    pub ops: Vec<FrameOp>,
}

/// Frames of a bank: the least there may be, so that programs cross many.
pub const BANK_FRAMES: u32 = 1024;

impl FrameProgram {
    /// The zone.
    pub fn zone(&self) -> Zone {
        let first = Frame(7 * BANK_FRAMES * 4 + self.shift);
        let mut zone = Zone::new(first, self.frames, BANK_FRAMES);
        if self.pairs && zone.banks().is_multiple_of(4) {
            zone.interleave = Interleave::Pairs { stride_log2: 1 };
        }
        if self.cma && self.frames >= 4 * BANK_FRAMES {
            let middle = (first.0 + self.frames / 2).next_multiple_of(512);
            zone.cma = Some((Frame(middle), 512));
        }
        zone
    }
}

impl FrameOp {
    /// The request of an `Alloc`.
    pub fn request(order: u8, kind: u8, brief: bool) -> Request {
        let lifetime = if brief { Lifetime::Brief } else { Lifetime::Long };
        let order = Order::new(order).unwrap_or(Order::MAX);
        Request { order, kind: Kind::ALL[usize::from(kind) % 4], lifetime }
    }
}

/// As Rust: paste it into a test.
impl fmt::Debug for FrameProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FrameProgram { shift, frames, pairs, cma, ops } = self;
        write!(
            f,
            "FrameProgram {{ shift: {shift}, frames: {frames}, pairs: {pairs}, cma: {cma}, ops: vec!{ops:?} }}"
        )
    }
}

fn order() -> impl Strategy<Value = u8> {
    prop_oneof![6 => 0..3_u8, 3 => 3..11_u8, 1 => 9..11_u8]
}

fn alloc() -> impl Strategy<Value = FrameOp> {
    let kind = prop_oneof![2 => Just(0_u8), 1 => Just(1_u8), 6 => Just(2_u8), 1 => Just(3_u8)];
    (order(), kind, any::<bool>())
        .prop_map(|(order, kind, brief)| FrameOp::Alloc(order, kind, brief))
}

fn op() -> impl Strategy<Value = FrameOp> {
    prop_oneof![
        12 => alloc(),
        8 => any::<u32>().prop_map(FrameOp::Free),
        2 => (0..6_u8, any::<u32>()).prop_map(|(how, n)| FrameOp::Misuse(how, n)),
        1 => any::<u16>().prop_map(FrameOp::Isolate),
        1 => any::<u16>().prop_map(FrameOp::Release),
        1 => any::<u16>().prop_map(FrameOp::Off),
        1 => any::<u16>().prop_map(FrameOp::On),
        1 => Just(FrameOp::Tidy),
        3 => (0..5_000_u16, prop_oneof![3 => Just(0_u8), 1 => 1..4_u8])
            .prop_map(|(ms, refuse)| FrameOp::Poll(ms, refuse)),
        1 => Just(FrameOp::Relieve),
        1 => any::<u16>().prop_map(FrameOp::Remove),
    ]
}

/// Fills with one kind, frees every other block, asks for what may not be there.
fn comb() -> impl Strategy<Value = Vec<FrameOp>> {
    (0..8_u8, 0..4_u8, 1..80_u32, alloc()).prop_map(|(order, kind, teeth, after)| {
        let fill = (0..2 * teeth).map(|_| FrameOp::Alloc(order, kind, false));
        fill.chain((0..teeth).map(FrameOp::Free)).chain([after]).collect()
    })
}

/// Random programs.
pub fn frame_programs() -> impl Strategy<Value = FrameProgram> {
    let piece = prop_oneof![
        6 => vec(op(), 1..60),
        1 => vec(alloc(), 1..80),
        1 => vec(any::<u32>().prop_map(FrameOp::Free), 1..80),
        1 => comb(),
    ];
    let ops = vec(piece, 1..8).prop_map(|pieces| pieces.concat());
    let frames =
        prop_oneof![4 => (1..13_u32).prop_map(|banks| banks * BANK_FRAMES), 1 => 1..9_000_u32];
    let shift = prop_oneof![2 => Just(0_u32), 1 => 0..BANK_FRAMES];
    (shift, frames, any::<bool>(), any::<bool>(), ops).prop_map(
        |(shift, frames, pairs, cma, ops)| FrameProgram { shift, frames, pairs, cma, ops },
    )
}
