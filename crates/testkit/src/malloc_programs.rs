//! Random programs for the malloc, as data: by proptest, where they shrink, and by a plain generator, where there are
//! millions of calls.

use crate::failing_machine::FailingMachine;
use crate::shadow_malloc::{ShadowMalloc, World};
use proptest::collection::vec;
use proptest::prelude::*;

/// One call. Objects are named by counting live ones round and round, so that any list of calls is a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// `allocate(size)`.
    Alloc(usize),
    /// `allocate_zeroed(size)`.
    Zeroed(usize),
    /// `allocate_aligned(size, 2^log2)`.
    Aligned(usize, u8),
    /// Frees the nth live object.
    Free(u32),
    /// `reallocate` of the nth live object.
    Resize(u32, usize),
    /// The next calls are made with the nth of the caller's caches.
    Switch(u8),
    /// The cache is given up, as when a thread ends; the next call attaches anew.
    Leave,
    /// The nth live object becomes nobody's: whoever receives it next frees it.
    Send(u32),
    /// Frees an object that was sent.
    Receive,
    /// A round of the purger; at once or with hysteresis.
    Purge(bool),
    /// Addresses that are reserved and not used go back.
    Shrink,
}

/// Runs a program on a machine with pages of `page` bytes that refuses one call in `one_in` (0: none), and walks the heap now
/// and then and at the end.
pub fn run_calls(calls: &[Call], one_in: u32, page: usize) -> Result<(), String> {
    /// Calls between two walks.
    const WALK_EVERY: usize = 32;
    let machine =
        if one_in == 0 { FailingMachine::new(None) } else { FailingMachine::at_times(one_in) };
    let world = World::new(machine.with_pages(page));
    let mut shadow = ShadowMalloc::new(&world, 0, true);
    for (number, &call) in calls.iter().enumerate() {
        let after = |why: String| format!("call {number}, {call:?}: {why}");
        shadow.call(call).map_err(after)?;
        if number % WALK_EVERY == 0 {
            world.verify().map_err(after)?;
        }
    }
    shadow.end().map_err(|why| format!("freeing all: {why}"))?;
    world.verify().map_err(|why| format!("after freeing all: {why}"))
}

/// Sizes about the edges of classes, slabs, units and banks; small ones most often.
fn sizes() -> impl Strategy<Value = usize> {
    let edge = (0..23_u32, 0..=32_usize)
        .prop_map(|(log2, less)| ((1 << log2) + 16_usize).saturating_sub(less));
    prop_oneof![
        8 => 0..600_usize,
        4 => 0..40_000_usize,
        2 => 0..400_000_usize,
        4 => edge,
        1 => (0..20_u32).prop_map(|log2| usize::MAX >> log2),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        10 => sizes().prop_map(Call::Alloc),
        3 => sizes().prop_map(Call::Zeroed),
        3 => (sizes(), 0..23_u8).prop_map(|(size, log2)| Call::Aligned(size, log2)),
        12 => any::<u32>().prop_map(Call::Free),
        4 => (any::<u32>(), sizes()).prop_map(|(n, size)| Call::Resize(n, size)),
        3 => any::<u8>().prop_map(Call::Switch),
        1 => Just(Call::Leave),
        1 => any::<u32>().prop_map(Call::Send),
        1 => Just(Call::Receive),
        1 => any::<bool>().prop_map(Call::Purge),
        1 => Just(Call::Shrink),
    ]
}

/// Fills whole slabs with one size and empties some of them again: what single calls seldom do.
fn tide() -> impl Strategy<Value = Vec<Call>> {
    (0..5_000_usize, 1..500_usize, any::<u8>()).prop_map(|(size, len, switch)| {
        let up = std::iter::repeat_n(Call::Alloc(size), len);
        let down = (0..len as u32 * 3 / 4).map(|n| Call::Free(n.wrapping_mul(7)));
        up.chain([Call::Switch(switch)]).chain(down).collect()
    })
}

/// Programs.
pub fn calls() -> impl Strategy<Value = Vec<Call>> {
    let piece = prop_oneof![4 => vec(call(), 1..120), 1 => tide()];
    vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

/// Calls without end, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Stream {
    state: u64,
    /// Frees outweigh allocations from here on.
    most_live: usize,
}

impl Stream {
    /// A stream that keeps about `most_live` objects alive.
    pub fn new(seed: u64, most_live: usize) -> Stream {
        Stream { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, most_live }
    }

    /// xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators" (2016).
    fn below(&mut self, end: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    fn size(&mut self) -> usize {
        match self.below(1000) {
            0..800 => self.below(300),
            800..960 => self.below(4_000),
            960..995 => self.below(50_000),
            995..999 => self.below(500_000),
            _ => self.below(5 << 20),
        }
    }

    /// The next call of a caller that has `live` objects.
    pub fn next(&mut self, live: usize) -> Call {
        let n = self.below(u32::MAX as usize) as u32;
        if live > self.most_live {
            return if self.below(8) == 0 { Call::Send(n) } else { Call::Free(n) };
        }
        match self.below(1000) {
            0..380 => Call::Alloc(self.size()),
            380..430 => Call::Zeroed(self.size()),
            430..480 => Call::Aligned(self.size(), self.below(15) as u8),
            480..780 => Call::Free(n),
            780..860 => Call::Resize(n, self.size()),
            860..910 => Call::Send(n),
            910..988 => Call::Receive,
            988..997 => Call::Switch(n as u8),
            997 => Call::Purge(n.is_multiple_of(4)),
            998 if n.is_multiple_of(8) => Call::Shrink,
            _ => Call::Leave,
        }
    }
}
