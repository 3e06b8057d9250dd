//! A set of heaps: a bit each, in memory that the caller brings.

use super::HeapId;

/// Heaps by number. The words are the caller's; heaps beyond them cannot be held.
#[derive(Debug)]
pub struct HeapSet<'a>(&'a mut [u64]);

impl<'a> HeapSet<'a> {
    /// Words that a set of `heaps` heaps needs.
    pub const fn words(heaps: usize) -> usize {
        heaps.div_ceil(u64::BITS as usize)
    }

    /// The set that these words are.
    pub const fn over(words: &'a mut [u64]) -> HeapSet<'a> {
        HeapSet(words)
    }

    /// Takes every heap out.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Takes `heap` in.
    pub fn insert(&mut self, heap: HeapId) {
        let (word, bit) = (heap.index() / 64, heap.index() % 64);
        if let Some(word) = self.0.get_mut(word) {
            *word |= 1 << bit;
        }
    }

    /// Whether `heap` is in.
    pub fn contains(&self, heap: HeapId) -> bool {
        let (word, bit) = (heap.index() / 64, heap.index() % 64);
        self.0.get(word).is_some_and(|word| word >> bit & 1 == 1)
    }
}
