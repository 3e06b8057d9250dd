//! Random programs as data: lists of calls that shrink to the shortest one that still fails.
//!
//! A call names an object by counting live ones round and round, so that *any* list of calls is a
//! valid program: whatever proptest leaves out while shrinking, the rest still means something.

use proptest::collection::vec;
use proptest::prelude::*;
use std::fmt;

/// One call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// `alloc(size)`.
    Alloc(u64),
    /// `alloc(size)` aligned to 2^log2.
    Aligned(u64, u8),
    /// Frees the nth live object.
    Free(u32),
    /// Resizes the nth live object.
    Resize(u32, u64),
}

/// A list of calls and the region it runs over.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// The region's length in bytes.
    pub region: usize,
    /// How many granules the region begins behind where [`SimRegion::new`](crate::SimRegion::new) would put it.
    pub shift: usize,
    /// The calls.
    pub ops: Vec<Op>,
}

/// As Rust: paste it into a test.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program { region, shift, ops } = self;
        write!(f, "Program {{ region: {region}, shift: {shift}, ops: vec![")?;
        for (i, op) in ops.iter().enumerate() {
            write!(f, "{}{op:?}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("] }")
    }
}

/// Sizes like those of programs made of small nodes.
fn tiny() -> impl Strategy<Value = u64> {
    0..=64_u64
}

/// Sizes of which every doubling is equally likely.
fn mixed() -> impl Strategy<Value = u64> {
    (0..14_u32, any::<u64>()).prop_map(|(log2, bits)| (1 << log2) | bits & ((1 << log2) - 1))
}

/// Where classes begin and end, headers or not.
fn edges() -> impl Strategy<Value = u64> {
    (0..15_u32, 0..=2_u64, prop_oneof![Just(0_u64), Just(8), Just(16)])
        .prop_map(|(log2, step, header)| ((1 << log2) + step).saturating_sub(1 + header))
}

/// As long as the region, and much longer.
fn huge() -> impl Strategy<Value = u64> {
    prop_oneof![
        10_000..200_000_u64,
        (0..64_u32, 0..32_u64).prop_map(|(log2, less)| { (u64::MAX >> log2).saturating_sub(less) })
    ]
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![6 => tiny(), 6 => mixed(), 4 => edges(), 1 => huge()]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => sizes().prop_map(Op::Alloc),
        2 => (sizes(), 0..17_u8).prop_map(|(size, log2)| Op::Aligned(size, log2)),
        1 => (sizes(), 0..64_u8).prop_map(|(size, log2)| Op::Aligned(size, log2)),
        6 => any::<u32>().prop_map(Op::Free),
        3 => (any::<u32>(), sizes()).prop_map(|(n, size)| Op::Resize(n, size)),
    ]
}

/// Fills with teeth of one size, pulls every other one, and asks for what no gap may hold.
fn comb() -> impl Strategy<Value = Vec<Op>> {
    (prop_oneof![tiny(), edges()], 1..60_u32, sizes()).prop_map(|(size, teeth, after)| {
        let fill = (0..2 * teeth).map(|_| Op::Alloc(size));
        let pull = (0..teeth).map(Op::Free); // each pull moves the next tooth one place down
        fill.chain(pull).chain([Op::Alloc(after), Op::Alloc(2 * size.min(1 << 20))]).collect()
    })
}

/// Calls of every kind, in runs of their own kind and mixed.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    let piece = prop_oneof![
        6 => vec(op(), 1..40),
        1 => vec(sizes().prop_map(Op::Alloc), 1..60),
        1 => vec(any::<u32>().prop_map(Op::Free), 1..60),
        1 => comb(),
    ];
    vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

/// Regions from hopelessly short to long enough for everything but the huge, anywhere.
fn regions() -> impl Strategy<Value = (usize, usize)> {
    let len = prop_oneof![
        1 => 0..200_usize,
        3 => 200..4_096_usize,
        6 => 4_096..70_000_usize,
        1 => Just(65_536_usize),
    ];
    (len, prop_oneof![2 => Just(0_usize), 1 => 0..40_usize])
}

/// Random programs.
pub fn programs() -> impl Strategy<Value = Program> {
    (regions(), ops()).prop_map(|((region, shift), ops)| Program { region, shift, ops })
}
