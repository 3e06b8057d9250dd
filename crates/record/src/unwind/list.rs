//! The loads of a walk: which word stood where, and which of them are return addresses.
//!
//! ```text
//!   place   63    53 52   48 47                 0      word   what stood there
//!          │        │ flags │ address            │
//! ```
//!
//! A list lies in memory with the outermost load first, so that the inner frames, which change most, are at its end.
//! It has all that decides about a stack: if the top's registers are the same and each word still stands in its
//! place, a walk would find the same. Saved frame pointers are in it only where an outer frame needs them.

/// A load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Load {
    /// Where, and flags.
    pub place: u64,
    /// What stood there.
    pub word: u64,
}

const FLAGS_SHIFT: u32 = 48;
/// The word is a frame's address: where a call returns to, or where a signal came.
pub const FRAME: u64 = 1 << 48;
/// The address is exact: a signal came there.
pub const EXACT: u64 = 1 << 49;
/// The word is the frame pointer of the frame before it in the list.
pub const RBP: u64 = 1 << 50;
/// On a frame: its frame pointer decides about what is further out.
pub const NEEDS_RBP: u64 = 1 << 51;
/// On a frame: the frame pointer of the frame further in was needed to find this one.
pub const BY_RBP: u64 = 1 << 52;

const ADDRESS: u64 = (1 << 48) - 1;

impl Load {
    /// Where the word stands.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        self.place & ADDRESS
    }

    /// Whether it has all of these flags.
    #[inline(always)]
    pub fn is(&self, flags: u64) -> bool {
        self.place & flags == flags
    }

    /// Without flags, and these.
    pub fn split(self) -> (Load, u8) {
        (Load { place: self.address(), word: self.word }, (self.place >> FLAGS_SHIFT) as u8)
    }

    /// What was [`split`](Self::split).
    pub fn join(self, flags: u8) -> Load {
        Load { place: self.place | u64::from(flags) << FLAGS_SHIFT, word: self.word }
    }

    /// The frame as it is told.
    pub fn told(&self) -> u64 {
        self.word & (TOLD_EXACT - 1) | if self.is(EXACT) { TOLD_EXACT } else { 0 }
    }

    /// Whether the word still stands there.
    ///
    /// # Safety
    /// The address is readable: this load and all further in of its list were found the same.
    #[inline(always)]
    pub unsafe fn holds(&self) -> bool {
        // SAFETY: as the caller promises; volatile, because the stack is not Rust's.
        unsafe { (self.address() as *const u64).read_volatile() == self.word }
    }
}

/// How many loads, from the innermost on, still hold: all of them, or those up to the first that does not.
///
/// # Safety
/// The innermost is readable.
#[inline(always)]
pub unsafe fn holding(list: &[Load]) -> usize {
    let holds = |at: usize| {
        // SAFETY: below the list's length; in the order of the walk, each word leads to the next.
        unsafe { list.get_unchecked(at).holds() }
    };
    held(list.len(), holds)
}

/// Whether all loads of a list without flags hold.
///
/// # Safety
/// The innermost is readable, and `list` has `count` loads.
#[inline(always)]
pub unsafe fn all_hold(list: *const Load, count: usize) -> bool {
    let holds = |at: usize| {
        // SAFETY: within the list; in the order of the walk, each word leads to the next.
        unsafe {
            let load = &*list.add(at);
            (load.place as *const u64).read_volatile() == load.word
        }
    };
    held(count, holds) == count
}

/// How many of `count` loads hold, from the last on. Four at a time, each still looked at before the next is read, so that
/// the loop's own work is small beside: it is most of what a known stack costs.
#[inline(always)]
fn held(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let mut left = count;
    while left >= 4 && holds(left - 1) && holds(left - 2) && holds(left - 3) && holds(left - 4) {
        left -= 4;
    }
    while left > 0 && holds(left - 1) {
        left -= 1;
    }
    count - left
}

/// Bit 47 of a frame as it is told: the address is exact.
pub const TOLD_EXACT: u64 = 1 << 47;

/// The frames of a list, in its order, as they are told.
pub fn frames(list: &[Load]) -> impl Iterator<Item = u64> + '_ {
    frames_of(list.iter().copied())
}

/// The same of loads in any order.
pub fn frames_of(loads: impl Iterator<Item = Load>) -> impl Iterator<Item = u64> {
    loads.filter(|load| load.is(FRAME)).map(|load| load.told())
}
