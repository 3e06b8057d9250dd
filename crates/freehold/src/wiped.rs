//! Blocks that are made zero when they are freed, and looked through before they are used again.
//!
//! ```text
//! up to 64 bytes   four steps, the last ones of which may meet     ├16┤  ├16┤
//!                                                                      ├16┤ ├16┤
//! longer           a loop
//! ```

use core::ptr;

/// What a processor looks at in one step, of which blocks are made.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Pair(u64, u64);

/// Blocks up to here are wiped and looked through in four steps, however long they are: which block leaves the quarantine is
/// chance, and a processor guesses wrong how often a loop over it turns.
pub(crate) const SHORT: usize = 4 * size_of::<Pair>();

/// Four pairs that cover a block of at most [`SHORT`] bytes.
#[inline(always)]
fn four_of(block: *mut u8, size: usize) -> [*mut Pair; 4] {
    let last = size - size_of::<Pair>();
    [0, 16, 32, 48].map(|at: usize| block.wrapping_add(at.min(last)).cast())
}

/// Makes a block zero.
///
/// # Safety
/// The block has `size` bytes, a multiple of 16, and is the caller's.
#[inline(always)]
pub(crate) unsafe fn wipe(block: *mut u8, size: usize) {
    if size <= SHORT {
        // SAFETY: the caller's; blocks are aligned to 16.
        four_of(block, size).into_iter().for_each(|pair| unsafe { pair.write(Pair(0, 0)) });
    } else {
        // SAFETY: the caller's.
        unsafe { ptr::write_bytes(block, 0, size) };
    }
}

/// Whether a block is zero. (Its first bytes were the mark, and are.)
///
/// # Safety
/// The block has `size` bytes, a multiple of 16, and nobody writes to it.
#[inline(always)]
pub(crate) unsafe fn is_zero(block: *mut u8, size: usize) -> bool {
    if size > SHORT {
        // SAFETY: the caller's.
        return unsafe { is_zero_throughout(block, size) };
    }
    // SAFETY: the caller's; blocks are aligned to 16.
    let pairs = four_of(block, size).map(|pair| unsafe { pair.read() });
    all_of(&pairs) == (0, 0)
}

/// The bits that any of them has.
#[inline(always)]
fn all_of(pairs: &[Pair]) -> (u64, u64) {
    pairs.iter().fold((0, 0), |or, pair| (or.0 | pair.0, or.1 | pair.1))
}

/// The same of a block of any length.
///
/// # Safety
/// As for [`is_zero`].
unsafe fn is_zero_throughout(block: *mut u8, size: usize) -> bool {
    // SAFETY: the caller's; blocks are aligned to 16.
    let pairs = unsafe { core::slice::from_raw_parts(block.cast::<Pair>(), size / 16) };
    let (fours, rest) = pairs.as_chunks::<4>();
    let or = |a: (u64, u64), b: (u64, u64)| (a.0 | b.0, a.1 | b.1);
    let all = fours.iter().fold(all_of(rest), |so_far, four| or(so_far, all_of(four)));
    all == (0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C, align(16))]
    struct Room([u8; 1024]);

    #[test]
    fn a_byte_anywhere_is_found_and_wiped_and_none_beside_it() {
        for size in (16..=512).step_by(16) {
            let mut room = Room([0; 1024]);
            for at in 0..size {
                let block = room.0.as_mut_ptr();
                // SAFETY: the room is that long, and aligned.
                unsafe {
                    assert!(is_zero(block, size), "{size} bytes");
                    block.add(at).write(1);
                    block.add(size).write(1);
                    assert!(!is_zero(block, size), "byte {at} of {size}");
                    wipe(block, size);
                    assert_eq!(block.add(size).replace(0), 1, "behind {size} bytes");
                }
            }
        }
    }
}
