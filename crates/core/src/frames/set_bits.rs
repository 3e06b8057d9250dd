//! Sets of bank sets: one bit each.

use super::request::SetId;
use super::zone::MAX_SETS;

const WORDS: usize = MAX_SETS / 64;

/// Which of the sets of a zone. A summary says which words are not empty, so both ends are found at
/// once, in O(1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetBits {
    words: [u64; WORDS],
    any: u16,
}

impl SetBits {
    /// Adds one.
    pub fn insert(&mut self, set: SetId) {
        self.words[set.index() / 64] |= 1 << (set.0 % 64);
        self.any |= 1 << (set.index() / 64);
    }

    /// Removes one.
    pub fn remove(&mut self, set: SetId) {
        let word = &mut self.words[set.index() / 64];
        *word &= !(1 << (set.0 % 64));
        if *word == 0 {
            self.any &= !(1 << (set.index() / 64));
        }
    }

    /// Whether it is in.
    pub fn contains(&self, set: SetId) -> bool {
        self.words[set.index() / 64] >> (set.0 % 64) & 1 == 1
    }

    /// The lowest.
    pub fn lowest(&self) -> Option<SetId> {
        let word = self.any.trailing_zeros();
        let bits = *self.words.get(word as usize)?;
        Some(SetId((word * 64 + bits.trailing_zeros()) as u16))
    }

    /// The highest.
    pub fn highest(&self) -> Option<SetId> {
        let word = self.any.checked_ilog2()?;
        let bits = self.words[word as usize];
        Some(SetId((word * 64 + bits.ilog2()) as u16))
    }

    /// The lowest from `from` on, itself included. O(sets / 64).
    pub fn next_from(&self, from: usize) -> Option<SetId> {
        let mut mask = !0 << (from % 64);
        for (word, bits) in self.words.iter().enumerate().skip(from / 64) {
            if bits & mask != 0 {
                return Some(SetId((word as u32 * 64 + (bits & mask).trailing_zeros()) as u16));
            }
            mask = !0;
        }
        None
    }

    /// The bits of a word, to be combined with those of other sets.
    pub fn word(&self, at: usize) -> u64 {
        self.words[at]
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_found() {
        let mut bits = SetBits::default();
        assert_eq!((bits.lowest(), bits.highest(), bits.next_from(0)), (None, None, None));
        for set in [3, 64, 700, 1023] {
            bits.insert(SetId(set));
        }
        assert_eq!((bits.lowest(), bits.highest()), (Some(SetId(3)), Some(SetId(1023))));
        assert_eq!(bits.next_from(65), Some(SetId(700)));
        assert_eq!(bits.next_from(700), Some(SetId(700)));
        bits.remove(SetId(3));
        bits.remove(SetId(1023));
        assert_eq!(
            (bits.lowest(), bits.highest(), bits.len()),
            (Some(SetId(64)), Some(SetId(700)), 2)
        );
        assert!(bits.contains(SetId(64)) && !bits.contains(SetId(65)));
    }
}
