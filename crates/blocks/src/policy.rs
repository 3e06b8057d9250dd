//! Policies: what they promise, and the registry of all there are.
//!
//! A [`Policy`] answers one question, *which block of a region?*, and owns the region it answers
//! for. Whoever drives one (a heap, a replay, a test) is generic over it; the only place where a
//! name becomes a type is [`dispatch`], so every driver is compiled once per policy and no call is
//! virtual.
//!
//! # Add a policy
//!
//! One file and one line: write the file beside this one, add the line to the registry at the end of
//! this file. The command line, the reports and the tests (every registered policy runs under the
//! same oracle) find it there. Most policies are a choice among free blocks and nothing else;
//! such a file holds one [`FreeIndex`](crate::FreeIndex), and
//! [`BlockHeap`](crate::BlockHeap) does the rest. This one keeps a stack and takes the
//! youngest free block that fits:
//!
//! ```
#![doc = include_str!("../examples/add_a_policy.rs")]
//! ```

use crate::Region;
use crate::align::Align;
use crate::check::Broken;
use crate::probe::Probe;
use crate::registry;
use core::fmt;
use core::ptr::NonNull;

pub use crate::registry::PolicyInfo;

/// Chooses blocks of one region.
///
/// Called by one thread at a time. Every operation reports its steps to the probe given with it.
/// A policy touches only memory that its algorithm touches: handing it a long, lazily committed
/// region costs nothing, and the region's length is its limit.
pub trait Policy: Inspect + Sized {
    /// Takes over `region`; `None` when it is too short for a single block.
    fn new(region: Region) -> Option<Self>;

    /// A payload of at least `size` bytes at a multiple of `align` (and of 16), owned by the
    /// caller until freed. `size` 0 gives a payload of its own, too. `None` when the policy finds
    /// no block; then nothing has changed but what the policy remembers of the search.
    fn alloc<P: Probe>(&mut self, size: u64, align: Align, probe: &mut P) -> Option<NonNull<u8>>;

    /// Takes the payload back.
    ///
    /// # Safety
    /// `payload` came from this policy's `alloc` and has not been freed since; nobody uses it
    /// any more.
    unsafe fn free<P: Probe>(&mut self, payload: NonNull<u8>, probe: &mut P);

    /// Makes the payload hold `size` bytes without moving it, giving back or taking what lies
    /// behind it. `false` when that is not possible; then nothing has changed. Never changes the
    /// first `min(usable, size)` bytes.
    ///
    /// # Safety
    /// `payload` came from this policy's `alloc` and has not been freed since.
    unsafe fn resize_in_place<P: Probe>(
        &mut self,
        payload: NonNull<u8>,
        size: u64,
        probe: &mut P,
    ) -> bool;

    /// How many bytes the payload holds: at least the size last asked for. Constant until the
    /// next `resize_in_place`. O(1).
    ///
    /// # Safety
    /// `payload` came from this policy's `alloc` and has not been freed since.
    unsafe fn usable(&self, payload: NonNull<u8>) -> u64;

    /// A hint: `alloc` of `size` comes soon. Brings words that it will touch nearer to the
    /// processor; changes nothing, reports no step, and may do nothing (the default).
    fn foresee_alloc(&self, _size: u64, _distance: Distance) {}

    /// A hint: `free` or `resize_in_place` of `payload` comes soon. As
    /// [`foresee_alloc`](Self::foresee_alloc).
    ///
    /// # Safety
    /// `payload` came from this policy's `alloc` and has not been freed since.
    unsafe fn foresee_free(&self, _payload: NonNull<u8>, _distance: Distance) {}
}

/// How soon a foreseen call comes. Whoever foresees says all three in this order, best with other
/// foreseen calls in between: each looks only at words that the one before has fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distance {
    /// Fetches the block itself, and reads nothing of the region.
    Far,
    /// Reads the block's tag, and fetches its neighbours.
    Middle,
    /// Reads the neighbours' tags and links, and fetches what an index must touch.
    Near,
}

/// What can be seen of a policy from outside. Changes nothing, is not probed.
pub trait Inspect {
    /// The running totals. O(1) (buddy: O(log n)), cheap enough after every operation.
    fn totals(&self) -> Totals;

    /// The longest free block in bytes, tag included; 0 when none is free. O(1) for first fit,
    /// next fit and buddy, O(log n) for best and worst fit, the length of one list for good fit,
    /// O(free blocks) for the plain lists: a replayer samples it.
    fn largest_free(&self) -> u64;

    /// The longest free block in bytes that lies before the end of the last used one
    /// ([`Totals::extent`]): what is behind nobody has asked for yet. 0 when there is none;
    /// `None` (the default) when that takes a walk over all blocks.
    fn largest_free_inside(&self) -> Option<u64> {
        None
    }

    /// Every block in the order of addresses. O(blocks).
    fn for_each_block(&self, visit: impl FnMut(BlockInfo));

    /// Walks every structure and compares each with the others: tags with neighbours and footers,
    /// index with tags, totals with both. O(blocks).
    fn check(&self) -> Result<(), Broken>;
}

/// Running totals of a policy. Lengths are of whole blocks, tags included, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// All blocks together: the region less what no block can use. Constant.
    pub capacity: u64,
    /// Free blocks together.
    pub free: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Used blocks.
    pub used_blocks: u64,
    /// From the first block to the end of the last used one: a heap that gives back its free end
    /// would be this long. 0 when nothing is used.
    pub extent: u64,
    /// The most that `extent` has ever been.
    pub peak_extent: u64,
}

impl Totals {
    /// Used blocks together, tags and padding included: the gross of what is allocated.
    pub const fn used(&self) -> u64 {
        self.capacity - self.free
    }
}

/// A block as seen from outside.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BlockInfo {
    /// Where its tag lies, in bytes from the start of the region.
    pub offset: u64,
    /// Its length in bytes, tag included.
    pub size: u64,
    /// Whether it is free.
    pub free: bool,
}

impl fmt::Debug for BlockInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.free { "free" } else { "used" }, self.size)
    }
}

registry! {
    Policy;
    "first-fit" => crate::FirstFit, "the lowest block that fits, found in a tree in O(log n)";
    "next-fit" => crate::NextFit, "first fit that goes on where the last search ended, in O(log n)";
    "best-fit" => crate::BestFit, "the shortest block that fits, the lowest of several, in O(log n)";
    "worst-fit" => crate::WorstFit, "the longest block, the lowest of several, in O(log n)";
    "good-fit" => crate::GoodFit, "the head of the first of 32 size lists a doubling that surely fits, in O(1)";
    "exact-fit" => crate::ExactFit, "best fit by a list for every length up to 64 KiB, good fit above, in O(1)";
    "dmrt" => crate::Dmrt, "DmRT: exact fit below 512 B, good fit below 2 MiB, worst fit above; looks at four blocks before it cuts a longer one or gives up, cuts low blocks before high ones, and holes before the region's free end for large requests";
    "dmrt-looks" => crate::DmrtLooks, "DmRT that looks at four blocks before it cuts a longer one or gives up, else as published";
    "dmrt-paper" => crate::DmrtPaper, "DmRT as published: cuts a longer block, or gives up, without a look";
    "dmrt-fast" => crate::realtime::FastHeap<crate::Counts>, "the real-time heap's fast mode: DmRT with its lists inside the region; looks at one block before it cuts a longer one or gives up";
    "buddy" => crate::Buddy, "powers of two that are halved, and merge with their twin only, in O(log n)";
    "first-fit-list" => crate::FirstFitList, "first fit as in the textbooks: walks a list, chooses what first-fit does";
    "next-fit-list" => crate::NextFitList, "next fit as in the textbooks: walks a list, chooses what next-fit does";
    "best-fit-list" => crate::BestFitList, "best fit as in the textbooks: walks a list, chooses what best-fit does";
    "worst-fit-list" => crate::WorstFitList, "worst fit as in the textbooks: walks a list, chooses what worst-fit does";
}
