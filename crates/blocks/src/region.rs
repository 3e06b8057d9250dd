//! A region: the memory that one policy was handed, and nothing outside of it.

use core::ptr::NonNull;

/// Bytes of a granule: every block begins and ends on one, every payload is aligned to one.
pub const GRANULE: u64 = 16;

/// Parts of a region begin at its multiples, so that heaps of two threads share no cache line, nor a pair of
/// lines that are fetched together. Two heaps that met within a line had 0.45 of the speed-up of two that do not
/// (`bench/results/2026-11-22-threads-placement.jsonl`).
const LINES: u64 = 128;

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

    /// Cuts it into `count` parts of one length, side by side, each on cache lines of its own unless it is
    /// shorter than two; what the division leaves over stays unused. A `count` of 0 is one part.
    pub fn cut(self, count: u32) -> Parts {
        let (base, next) = (self.base, 0);
        if count <= 1 {
            return Parts { base, each: self.len, next, count: 1 };
        }
        let skip = base.align_offset(LINES as usize) as u64;
        let each = self.len.saturating_sub(skip) / u64::from(count);
        if each < LINES {
            let each = self.len / u64::from(count);
            return Parts { base, each: each - each % GRANULE, next, count };
        }
        // SAFETY: `skip` is less than the length, or there would not be a part.
        let base = unsafe { base.add(skip as usize) };
        Parts { base, each: each - each % LINES, next, count }
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
        // SAFETY: `count` times `each` is at most the length of the region that was cut, from `base` on.
        let base = unsafe { self.base.add(offset as usize) };
        // SAFETY: the parts do not overlap, each is handed out once, and together they lie in a
        // region that is no more.
        unsafe { Region::new(base, self.each) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(128))]
    struct Bytes([u8; 1 << 12]);

    /// Where the parts begin, counted from `bytes`, and how long they are.
    fn cut<const N: usize>(bytes: &mut Bytes, from: usize, len: u64) -> [(usize, u64); N] {
        let start = NonNull::from(&mut bytes.0).cast::<u8>();
        // SAFETY: within the bytes, which are nobody else's.
        let region = unsafe { Region::new(start.add(from), len) }.unwrap();
        let mut parts = region.cut(N as u32);
        let found = core::array::from_fn(|_| {
            let part = parts.next().unwrap();
            (part.base().addr().get() - start.addr().get(), part.len())
        });
        assert!(parts.next().is_none());
        found
    }

    #[test]
    fn parts_are_on_lines_of_their_own() {
        let bytes = &mut Bytes([0; 1 << 12]);
        assert_eq!(cut(bytes, 0, 4096), [(0, 2048), (2048, 2048)]);
        // 1,365 bytes each, and the first 112 lie before a line begins.
        assert_eq!(cut(bytes, 0, 4096), [(0, 1280), (1280, 1280), (2560, 1280)]);
        assert_eq!(cut(bytes, 16, 4080), [(128, 1280), (1408, 1280), (2688, 1280)]);
    }

    #[test]
    fn one_part_is_all_of_it_and_short_ones_meet_within_a_line() {
        let bytes = &mut Bytes([0; 1 << 12]);
        assert_eq!(cut(bytes, 16, 1008), [(16, 1008)]);
        assert_eq!(cut(bytes, 16, 208), [(16, 96), (112, 96)], "104 bytes each, less 8");
        assert_eq!(cut(bytes, 16, 16), [(16, 0), (16, 0), (16, 0)], "nothing to share");
    }
}
