//! What one node has heard of other heaps: the longest block each had free, and when.
//!
//! Every answer carries that length, so that hearing costs no message. A hint only puts a heap last: it
//! may be old, and the search still asks the heap itself before it gives up. Times are the driver's,
//! in any unit that only grows.

use super::HeapId;

/// What was last heard of one heap. All zero is "nothing yet".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hint {
    /// Longest free block in granules of 16 bytes, and one; 0 when nothing was heard.
    room: u32,
    at: u64,
}

/// The hints of one node, one for every heap, in memory that the caller brings.
#[derive(Debug)]
pub struct Hints<'a>(&'a mut [Hint]);

impl<'a> Hints<'a> {
    /// The hints that this memory is.
    pub const fn over(hints: &'a mut [Hint]) -> Hints<'a> {
        Hints(hints)
    }

    /// `heap` said at `at` that its longest free block has `bytes`. O(1).
    pub fn heard(&mut self, heap: HeapId, bytes: u64, at: u64) {
        if let Some(hint) = self.0.get_mut(heap.index()) {
            let room = u32::try_from(bytes / 16).unwrap_or(u32::MAX - 1) + 1;
            *hint = Hint { room, at };
        }
    }

    /// Whether a block of `bytes`, its header included, may be free in `heap`: unless it said otherwise
    /// less than `trusted_for` ago. O(1).
    pub fn expects(&self, heap: HeapId, bytes: u64, now: u64, trusted_for: u64) -> bool {
        let Some(hint) = self.0.get(heap.index()).filter(|hint| hint.room > 0) else { return true };
        u64::from(hint.room - 1) * 16 >= bytes || now.saturating_sub(hint.at) >= trusted_for
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_believed_until_it_is_old() {
        let (mut memory, heap) = ([Hint::default(); 2], HeapId::new(1).unwrap());
        let mut hints = Hints::over(&mut memory);
        assert!(hints.expects(heap, 1 << 40, 0, 100), "nothing heard");
        hints.heard(heap, 64, 1000);
        assert!(hints.expects(heap, 64, 1001, 100) && !hints.expects(heap, 65, 1001, 100));
        assert!(!hints.expects(heap, 80, 1099, 100) && hints.expects(heap, 80, 1100, 100));
        hints.heard(heap, u64::MAX, 1200);
        assert!(hints.expects(heap, 1 << 30, 1200, 100));
        hints.heard(HeapId::new(7).unwrap(), 0, 0);
        assert!(
            hints.expects(HeapId::new(7).unwrap(), 1, 0, 100),
            "beyond the memory nothing is known"
        );
    }
}
