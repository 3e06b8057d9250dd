//! DmRT's lists with their heads inside the region, so that every list is a ring.
//!
//! ```text
//!   head of a class (8 B)      a free block              a free block
//!   | down | up |       <--->  tag | down | up |  <--->  tag | down | up |  <--->  the head
//! ```
//!
//! Heads and blocks are named alike, by their place in words of 8 B, and linked alike. Hence a block
//! leaves its ring by four accesses without a question asked; that the ring became empty shows in that
//! both neighbours were the same, and *which* ring it was is the neighbour's name. That is what the
//! worst case of a free pays for twice: two neighbours to merge with, each the last of its list.
//!
//! Classes are those of `classes`, numbered without a hole: lengths up to 1 KiB one by one (DmRT's
//! bins: exact fit), above them 32 to a doubling (good fit). Chooses what [`Dmrt`](crate::Dmrt)
//! chooses, block by block; a test holds one against the other.
//!
//! The class of a length is read off the bits of the length as a double: its exponent and the five bits
//! below are the logarithm with 32 steps to a doubling.
//!
//! A request first looks at the youngest block of the class that it falls in, the only one it searches that may be too
//! short, then at the classes above (`dmrt` says why). So it need not be rounded up, and the look costs
//! 7 instructions in place of the 3 of rounding.
//!
//! ```text
//!   bytes of the region    0       128       256      512     1024                           first tag
//!                          | words | 16 words of bits |       | heads of classes 128, 129 ... |
//! ```
//!
//! Everything is inside the region, at fixed places, so that one address is all a call must keep.
//! A class is the name of its head; the first, that of 32 B, is 128.
//!
//! Invariant: a ring links blocks of its class, youngest first, and the bit of a class tells whether
//! its ring has any; every link in a ring names a free block or the ring's head.

#![deny(unsafe_code)]

use crate::check::Broken;
use crate::index::{Census, FreeIndex, LongestTwo};
use crate::probe::{Probe, Step};
use crate::tags::{Block, Granules, Tags, View};

const DOWN: usize = 0;
const UP: usize = 1;

/// Bytes of a word by which places are named; heads are so long.
const NAMED: u64 = 8;
/// The longest region: its log2 has five bits, of which a class is made.
pub(super) const MAX_LEN: u64 = (1 << 33) - 16;

/// Where the word is that has a bit for each word of bits that is not zero.
const WORDS: u64 = 0;
/// Where the words of bits are.
const BITS: u64 = 128;
/// Room that is nobody's: a cache line for a word that other threads write.
pub(super) const SPARE: u64 = 512;
/// The first class.
const FIRST: u64 = class_of(32);
/// One more than the last class.
const CLASSES: u64 = 1024;
/// Bits of a word.
const WORD: u64 = 64;

const _: () =
    assert!(BITS + CLASSES / WORD * 8 < SPARE && SPARE + 64 < FIRST * NAMED, "no two overlap");
const _: () = assert!(class_of(MAX_LEN) == CLASSES - 1, "the last class");

/// Requests of so many bytes and more take the longest block (DmRT's large class).
pub(super) const LARGE: u64 = 2 << 20;

/// Blocks of its own class looked at before a request takes a longer one. A bound of the heap's, hence no parameter.
pub const FIRST_LOOK: u32 = 1;

/// Blocks looked at behind the first choice before a large request fails. (For the others the first look was at
/// the same block.)
pub const SECOND_LOOK: u32 = 1;

/// Mantissa bits of a double below the five that are part of a class.
const WIDTH_LOG2: u32 = 52 - 5;

/// The class of blocks of `bytes`: 32 to [`MAX_LEN`].
#[inline(always)]
const fn class_of(bytes: u64) -> u64 {
    (bytes as i64 as f64).to_bits() >> WIDTH_LOG2 & (CLASSES - 1)
}

/// The rings; see the module. They lie in the region; this is only the type that knows how.
#[derive(Debug, Default)]
pub struct Rings;

impl Rings {
    /// Where the heads of a region of `bytes` end, in bytes from its start.
    pub(super) const fn end_for(bytes: u64) -> u64 {
        (class_of(bytes) + 1) * NAMED
    }

    /// Empty rings, whose heads end at byte `end` of the region.
    pub(super) fn new(tags: &Tags, end: u64) -> Rings {
        let mut view = tags.quiet();
        view.set_index_word(WORDS, 0);
        for word in 0..CLASSES / WORD {
            view.set_index_word(BITS + word * 8, 0);
        }
        for class in FIRST..end / NAMED {
            view.set_link_in(class * NAMED, DOWN, class as u32);
            view.set_link_in(class * NAMED, UP, class as u32);
        }
        Rings
    }

    /// Takes in the block of `bytes` whose payload is at `at`.
    #[inline(always)]
    pub(super) fn link<P: Probe>(&mut self, view: &mut View<P>, at: u64, bytes: u64) {
        let class = class_of(bytes);
        let name = (at / NAMED) as u32;
        let old = view.link_in(class * NAMED, DOWN);
        view.set_link_in(at, DOWN, old);
        view.set_link_in(at, UP, class as u32);
        view.set_link_in(class * NAMED, DOWN, name);
        view.set_link_in(u64::from(old) * NAMED, UP, name);
        let word = class / WORD;
        let bits = view.index_word(BITS + word * 8);
        view.set_index_word(BITS + word * 8, bits | 1 << (class % WORD));
        let words = view.index_word(WORDS);
        view.set_index_word(WORDS, words | 1 << word);
    }

    /// Forgets the block at `at`.
    #[inline(always)]
    pub(super) fn unlink<P: Probe>(&mut self, view: &mut View<P>, at: u64) {
        let (down, up) = (view.link_in(at, DOWN), view.link_in(at, UP));
        view.set_link_in(u64::from(down) * NAMED, UP, up);
        view.set_link_in(u64::from(up) * NAMED, DOWN, down);
        if down == up {
            // Both are the head, whose name is the class.
            self.emptied(view, u64::from(down), u64::from(down) / WORD);
        }
    }

    #[inline(always)]
    fn emptied<P: Probe>(&mut self, view: &mut View<P>, class: u64, word: u64) {
        let bits = view.index_word(BITS + word * 8) & !(1 << (class % WORD));
        view.set_index_word(BITS + word * 8, bits);
        if bits == 0 {
            let words = view.index_word(WORDS);
            view.set_index_word(WORDS, words & !(1 << word));
        }
    }

    /// Where the payload of the block to be used for `need` bytes is: the youngest of its own class if
    /// that is long enough, else good fit.
    fn find_good<P: Probe>(&self, view: &mut View<P>, need: u64) -> Option<u64> {
        let (class, _) = self.choose(view, need)?;
        Some(self.youngest(view, class))
    }

    /// As [`find_good`](Self::find_good); the block is no longer in its ring. `need` is at most the
    /// length of all blocks together: longer classes have no heads.
    #[inline(always)]
    pub(super) fn take_good<P: Probe>(&mut self, view: &mut View<P>, need: u64) -> Option<u64> {
        let (class, word) = self.choose(view, need)?;
        Some(self.pop(view, class, word))
    }

    /// The class whose youngest block is to be used for `need` bytes, and the word of its bit: its own if that block
    /// is long enough, else the lowest above that has any.
    #[inline(always)]
    fn choose<P: Probe>(&self, view: &mut View<P>, need: u64) -> Option<(u64, u64)> {
        let class = class_of(need);
        let word = class / WORD;
        let here = view.index_word(BITS + word * 8) >> (class % WORD);
        if here & 1 != 0 {
            let youngest = self.youngest(view, class);
            if view.tag_at(youngest).holds(need) {
                return Some((class, word));
            }
        }
        // Every block of a class above is long enough.
        let above = here & !1;
        if above != 0 {
            return Some((class + u64::from(above.trailing_zeros()), word));
        }
        self.above_word(view, word)
    }

    /// The lowest class that has a block, of those whose bits are behind word `word`.
    #[inline(always)]
    fn above_word<P: Probe>(&self, view: &mut View<P>, word: u64) -> Option<(u64, u64)> {
        let words = view.index_word(WORDS) & (!1 << word);
        if words == 0 {
            return None;
        }
        let word = u64::from(words.trailing_zeros());
        let bits = view.index_word(BITS + word * 8);
        Some((word * WORD + u64::from(bits.trailing_zeros()), word))
    }

    /// The youngest block of a class that has one: where its payload is.
    #[inline(always)]
    fn youngest<P: Probe>(&self, view: &mut View<P>, class: u64) -> u64 {
        view.step(Step::Inspect);
        u64::from(view.link_in(class * NAMED, DOWN)) * NAMED
    }

    /// Forgets the youngest block of a class that has one: where its payload is.
    #[inline(always)]
    fn pop<P: Probe>(&mut self, view: &mut View<P>, class: u64, word: u64) -> u64 {
        let at = self.youngest(view, class);
        let down = view.link_in(at, DOWN);
        view.set_link_in(class * NAMED, DOWN, down);
        view.set_link_in(u64::from(down) * NAMED, UP, class as u32);
        if u64::from(down) == class {
            self.emptied(view, class, word);
        }
        at
    }

    /// As [`find_good`](Self::find_good), worst fit: the head of the highest ring, or one behind it.
    #[inline(always)]
    pub(super) fn find_long<P: Probe>(&self, view: &mut View<P>, need: u64) -> Option<u64> {
        let class = self.highest(view)?;
        let head = self.youngest(view, class);
        if view.tag_at(head).holds(need) {
            return Some(head);
        }
        self.fit_behind(view, head, class, need, SECOND_LOOK)
    }

    /// The highest class that has a block.
    #[inline(always)]
    fn highest<P: Probe>(&self, view: &mut View<P>) -> Option<u64> {
        let word = u64::from(view.index_word(WORDS).checked_ilog2()?);
        let bits = view.index_word(BITS + word * 8);
        Some(word * WORD + u64::from(bits.checked_ilog2()?))
    }

    /// The first that holds `need` of the `most` blocks of a class behind the one at `at`.
    #[inline(always)]
    fn fit_behind<P: Probe>(
        &self,
        view: &mut View<P>,
        mut at: u64,
        class: u64,
        need: u64,
        most: u32,
    ) -> Option<u64> {
        for _ in 0..most {
            at = u64::from(view.link_in(at, DOWN)) * NAMED;
            if at == class * NAMED {
                return None;
            }
            view.step(Step::Inspect);
            if view.tag_at(at).holds(need) {
                return Some(at);
            }
        }
        None
    }

    /// Adds every block of a class.
    fn add_longest(&self, tags: &Tags, class: u64, two: &mut LongestTwo) {
        let mut view = tags.quiet();
        let mut at = u64::from(view.link_in(class * NAMED, DOWN)) * NAMED;
        while at != class * NAMED {
            two.add(view.tag_at(at).size());
            at = u64::from(view.link_in(at, DOWN)) * NAMED;
        }
    }

    fn classes(&self, tags: &Tags) -> core::ops::RangeInclusive<u64> {
        FIRST..=class_of(tags.total().bytes())
    }

    fn check_class(&self, tags: &Tags, class: u64, census: &mut Census) -> Result<(), Broken> {
        let mut view = tags.quiet();
        let head = class * NAMED;
        let said = view.index_word(BITS + class / WORD * 8) >> (class % WORD) & 1;
        let next = |view: &mut View<()>, at| u64::from(view.link_in(at, DOWN)) * NAMED;
        let (mut from, mut at) = (head, next(&mut view, head));
        let what = "a class's bit tells whether its ring has a block";
        Broken::unless_equal(what, head, u64::from(at != head), said)?;
        while at != head {
            let aligned = at.is_multiple_of(super::GRANULE);
            let block = tags.block_at(at / super::GRANULE).filter(|_| aligned);
            let what = "a ring's links name blocks of the region";
            let block = block.ok_or(Broken { what, at, expected: 1, found: 0 })?;
            census.add_indexed(tags, block)?;
            let right = class_of(view.tag_at(at).bytes()) == class;
            Broken::unless(right, "a ring holds blocks of its class", at)?;
            let back = u64::from(view.link_in(at, UP)) * NAMED == from;
            Broken::unless(back, "a ring links back to where it came from", at)?;
            from = at;
            at = next(&mut view, at);
        }
        let closed = u64::from(view.link_in(head, UP)) * NAMED == from;
        Broken::unless(closed, "a ring is closed", head)
    }
}

// SAFETY: a ring links blocks inserted and not removed since, and `find` gives one of them.
#[expect(unsafe_code, reason = "a promise about links; no unsafe operation follows")]
unsafe impl FreeIndex for Rings {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules) {
        self.link(view, block.payload_at(), size.bytes());
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, _: Granules) {
        self.unlink(view, block.payload_at());
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        self.find_for(view, need, 0)
    }

    fn find_for<P: Probe>(
        &mut self,
        view: &mut View<P>,
        need: Granules,
        requested: u64,
    ) -> Option<Block> {
        let need = need.bytes();
        if need > view.tags().total().bytes() {
            return None; // such classes have no heads
        }
        let found = if requested >= LARGE {
            self.find_long(view, need)
        } else {
            self.find_good(view, need)
        };
        Block::at((found? / super::GRANULE) as u32)
    }

    /// O(blocks of the highest class).
    fn largest(&self, tags: &Tags) -> Granules {
        let mut two = LongestTwo::default();
        if let Some(class) = self.highest(&mut tags.quiet()) {
            self.add_longest(tags, class, &mut two);
        }
        two.first
    }

    /// O(blocks of the classes that hold the two).
    fn longest_two(&self, tags: &Tags) -> Option<LongestTwo> {
        let classes = self.classes(tags).rev();
        Some(LongestTwo::of_classes(classes, |class, two| self.add_longest(tags, class, two)))
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        for class in self.classes(tags) {
            self.check_class(tags, class, &mut census)?;
        }
        let mut view = tags.quiet();
        let words = view.index_word(WORDS);
        let what = "a word's bit tells whether one of its classes has a block";
        for word in 0..CLASSES / WORD {
            let any = view.index_word(BITS + word * 8) != 0;
            Broken::unless_equal(what, BITS + word * 8, any.into(), words >> word & 1)?;
        }
        Ok(census)
    }
}

#[cfg(test)]
mod tests {
    use super::{CLASSES, FIRST, MAX_LEN, class_of};

    #[test]
    fn classes_are_in_order_and_one_length_each_up_to_1_kib() {
        assert_eq!(class_of(32), FIRST);
        for bytes in (48..2_000_000).step_by(16) {
            let (here, next) = (class_of(bytes), class_of(bytes + 16));
            assert!(here <= next && (bytes >= 1024 || here < next), "{bytes} bytes");
        }
        assert_eq!(class_of(1024), class_of(1040));
        assert_eq!(class_of(MAX_LEN), CLASSES - 1);
    }
}
