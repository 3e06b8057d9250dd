//! A region: the memory that one policy was handed, and nothing outside of it.

use core::ptr::NonNull;

/// Bytes of a granule: every block begins and ends on one, every payload is aligned to one.
pub const GRANULE: u64 = 16;

/// The longest region in bytes: 64 GiB less one granule, so that a block is named by a `u32`.
pub const MAX_REGION: u64 = u32::MAX as u64 * GRANULE;

/// One stretch of memory, given away: whoever holds the `Region` alone reads and writes it.
///
/// Neither `Copy` nor `Clone`: handing it to a policy is what makes the policy its only user.
///
/// Choices are reproducible: they depend on the calls alone, except that alignments above 16 and
/// buddies look at addresses, of which only the bits below the alignment asked for and below the
/// region's length count. A simulator that wants the same answer on every run begins every region
/// at a multiple of the largest alignment it will ask for and of its length rounded up to a power
/// of two.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: u64,
}

impl Region {
    /// The region of `len` bytes at `base`; `None` unless `base` is 16-aligned. What is beyond
    /// [`MAX_REGION`] and what is left of the last granule stays unused.
    ///
    /// # Safety
    /// For as long as the region or a policy over it lives, the bytes `base .. base + len` are
    /// one allocation, readable and writable (fresh memory may fault in lazily), and nobody else
    /// touches them but through pointers that the policy gave out. `base`'s provenance covers them.
    pub unsafe fn new(base: NonNull<u8>, len: u64) -> Option<Region> {
        if !base.addr().get().is_multiple_of(GRANULE as usize) {
            return None;
        }
        let len = if len > MAX_REGION { MAX_REGION } else { len };
        Some(Region { base, len: len - len % GRANULE })
    }

    /// Its first byte.
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length in bytes: a multiple of [`GRANULE`], at most [`MAX_REGION`].
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds no byte.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Cuts it into `count` parts of one length, side by side; what the division leaves over stays
    /// unused. A `count` of 0 is one part.
    pub fn cut(self, count: u32) -> Parts {
        let count = count.max(1);
        let each = self.len / u64::from(count);
        Parts { base: self.base, each: each - each % GRANULE, next: 0, count }
    }

    /// Its length in granules.
    pub(super) const fn granules(&self) -> u32 {
        (self.len / GRANULE) as u32
    }
}

/// The parts of a region that was cut, in the order of addresses: [`Region::cut`].
#[derive(Debug)]
pub struct Parts {
    base: NonNull<u8>,
    each: u64,
    next: u32,
    count: u32,
}

impl Parts {
    /// Where the first one begins.
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How long each of them is, in bytes: a multiple of [`GRANULE`].
    pub const fn each(&self) -> u64 {
        self.each
    }
}

impl Iterator for Parts {
    type Item = Region;

    fn next(&mut self) -> Option<Region> {
        if self.next == self.count {
            return None;
        }
        let offset = u64::from(self.next) * self.each;
        self.next += 1;
        // SAFETY: `count` times `each` is at most the length of the region that was cut.
        let base = unsafe { self.base.add(offset as usize) };
        // SAFETY: the parts do not overlap, each is handed out once, and together they lie in a
        // region that is no more.
        unsafe { Region::new(base, self.each) }
    }
}
