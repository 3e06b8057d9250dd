//! Frees of other heaps' blocks that wait to travel together.
//!
//! One message then carries several, and who frees does not wait for the answer. What waits is still
//! taken, so a batch leaves when it is full, when it is old, and when its node runs out of memory.

use super::HeapId;

/// The most frees of one message.
pub const MAX_BATCH: usize = 8;

/// The frees of one node that wait, all of the same owner: `T` names a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch<T> {
    owner: Option<HeapId>,
    blocks: [Option<T>; MAX_BATCH],
    since: u64,
}

impl<T: Copy> Batch<T> {
    /// Nothing waits.
    pub const fn new() -> Batch<T> {
        Batch { owner: None, blocks: [None; MAX_BATCH], since: 0 }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.blocks.iter().flatten().count()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whose they are.
    pub const fn owner(&self) -> Option<HeapId> {
        self.owner
    }

    /// Since when the first waits; `None` when none does.
    pub fn since(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.since)
    }

    /// `block` of `owner` waits, too. Whether it may: not when those that wait are another's, or
    /// `most` (at most [`MAX_BATCH`]) wait already; then they must [`leave`](Self::leave) first.
    pub fn add(&mut self, owner: HeapId, block: T, most: usize, now: u64) -> bool {
        let waiting = self.len();
        if waiting >= most.min(MAX_BATCH) || waiting > 0 && self.owner != Some(owner) {
            return false;
        }
        if waiting == 0 {
            (self.owner, self.since) = (Some(owner), now);
        }
        self.blocks[waiting] = Some(block);
        true
    }

    /// They leave.
    pub fn leave(&mut self) -> Batch<T> {
        core::mem::take(self)
    }

    /// The blocks.
    pub fn blocks(&self) -> impl Iterator<Item = T> {
        self.blocks.iter().flatten().copied()
    }
}

impl<T: Copy> Default for Batch<T> {
    fn default() -> Self {
        Batch::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frees_of_one_owner_wait_together() {
        let [a, b] = [HeapId::new(1).unwrap(), HeapId::new(2).unwrap()];
        let mut batch = Batch::new();
        assert!(batch.add(a, 'x', 2, 10) && !batch.add(b, 'y', 2, 11));
        assert!(batch.add(a, 'y', 2, 12) && !batch.add(a, 'z', 2, 13));
        assert_eq!((batch.len(), batch.since(), batch.owner()), (2, Some(10), Some(a)));
        assert!(batch.leave().blocks().eq(['x', 'y']) && batch.is_empty());
        assert!(batch.add(b, 'z', 2, 14) && batch.since() == Some(14));
    }
}
