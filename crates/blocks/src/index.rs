//! The choice: which free block?
//!
//! An index holds exactly the free blocks of one region. It may use the four links inside each of
//! them (16 B that nobody else touches while the block is free) and whatever it is itself, but no
//! other memory. It never sees a used block.

use super::tags::{Block, Granules, Tags, View};
use crate::check::Broken;
use crate::policy::Distance;
use crate::probe::Probe;

/// Finds free blocks. `Default` is the index without blocks.
///
/// The heap calls, one call at a time, and always with the truth: `size` is what the block's tag
/// says, or, where a call is about a block's *former* length, said.
///
/// # Safety
/// A [`View`] reads and writes the region at the [`Block`] it is given, unchecked. Whoever
/// implements this promises that
///
/// - tags and links are asked for, and links set, only of blocks that are in the index: those given
///   to `insert` or `replace` and not taken back by `remove` or `replace` since (of a block that
///   is just leaving, links may still be read);
/// - a link is read as a block only where it was set as a link, and no [`Tags`] or [`View`] is
///   used after the call it came with;
/// - what `find` and `place` give is in the index and as long as was asked.
///
/// The heap hands out memory on that word, and memory that it handed out lies in the same region.
pub unsafe trait FreeIndex: Default {
    /// Takes in `block`, free since now; its tag is written, its links are anything.
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules);

    /// Forgets `block`, whose length was `size` when it came in. Its links still are what the
    /// index made them; afterwards they are no longer the index's to touch.
    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, size: Granules);

    /// `old` became `new`: grew, shrank, or began to lie elsewhere between the same free
    /// neighbours. The tag of `new` is written, the links of `old` are as the index left them, and
    /// the links of the two are the same or do not overlap. Same result as `remove` and `insert`.
    fn replace<P: Probe>(
        &mut self,
        view: &mut View<P>,
        old: (Block, Granules),
        new: (Block, Granules),
    ) {
        self.remove(view, old.0, old.1);
        self.insert(view, new.0, new.1);
    }

    /// The block to be used for `need`: at least so long, still in the index afterwards.
    /// [`Step::Inspect`](crate::probe::Step) is reported for every candidate judged.
    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block>;

    /// As [`find`](Self::find), told what was asked for: `requested` bytes, for which `need` (or a
    /// little more, where an alignment asks for it) was computed. For indices that choose by it.
    fn find_for<P: Probe>(
        &mut self,
        view: &mut View<P>,
        need: Granules,
        _requested: u64,
    ) -> Option<Block> {
        self.find(view, need)
    }

    /// How long a block `requested` bytes are to get: what they need, or more, where an index would rather have blocks
    /// of few lengths. Asked before `find`. `None` when that is longer than any region.
    #[inline(always)]
    fn need_for(&self, requested: u64) -> Option<Granules> {
        Granules::for_request(requested)
    }

    /// The length of the longest block, zero when there is none.
    fn largest(&self, tags: &Tags) -> Granules;

    /// A hint, cheaper than the call itself: what `find` would probably choose. See
    /// [`Policy::foresee_alloc`](crate::policy::Policy::foresee_alloc).
    fn foresee_find(&self, _need: Granules) -> Option<Block> {
        None
    }

    /// A hint: `insert` of what is used now and begins at `block` comes soon, if it does not merge.
    fn foresee_place(&self, _tags: &Tags, _block: Block, _distance: Distance) {}

    /// A hint: `insert` of a block of `size` comes soon.
    fn foresee_insert(&self, _tags: &Tags, _size: Granules) {}

    /// A hint: `remove` of `block`, which is in the index, comes soon.
    fn foresee_remove(&self, _tags: &Tags, _block: Block) {}

    /// The lengths of the two longest blocks; `None` (the default) where finding them takes a walk
    /// over all blocks. O(classes and blocks of the two highest classes).
    fn longest_two(&self, _tags: &Tags) -> Option<LongestTwo> {
        None
    }

    /// Walks its own structure, and counts every block it holds.
    fn check(&self, tags: &Tags) -> Result<Census, Broken>;
}

/// The lengths of the two longest of some blocks, the same where two are equally long; zero where
/// there are fewer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LongestTwo {
    /// The longest.
    pub first: Granules,
    /// The longest of the others.
    pub second: Granules,
}

impl LongestTwo {
    /// One more block.
    pub fn add(&mut self, size: Granules) {
        self.second = self.second.max(size.min(self.first));
        self.first = self.first.max(size);
    }

    /// Of blocks in size classes, the highest class first: `visit` adds those of a class.
    pub(super) fn of_classes<C>(
        occupied: impl Iterator<Item = C>,
        mut visit: impl FnMut(C, &mut LongestTwo),
    ) -> LongestTwo {
        let mut two = LongestTwo::default();
        for class in occupied {
            visit(class, &mut two);
            if two.second > Granules::default() {
                break;
            }
        }
        two
    }
}

/// A count of blocks that can be compared with another count of them. Two are equal when they
/// counted the same blocks, in whatever order (but for a collision of 64-bit sums).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    blocks: u64,
    granules: u64,
    print: u64,
}

impl Census {
    /// Counts `block`.
    pub fn add(&mut self, block: Block, size: Granules) {
        let name = u64::from(block.granule()) << 32 | u64::from(size.count());
        self.blocks += 1;
        self.granules += u64::from(size.count());
        self.print = self.print.wrapping_add(mix(name));
    }

    /// How many were counted.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// How long they are together, in bytes.
    pub fn bytes(&self) -> u64 {
        self.granules * super::GRANULE
    }

    /// `Ok` when `found` counted the same blocks as `self`.
    pub(super) fn expect(&self, what: &'static str, found: &Census) -> Result<(), Broken> {
        Broken::unless_equal(what, 0, self.blocks, found.blocks)?;
        Broken::unless_equal(what, 0, self.granules, found.granules)?;
        Broken::unless_equal(what, 0, self.print, found.print)
    }

    /// Counts `block` of an index, which must be a free block of the region.
    pub fn add_indexed(&mut self, tags: &Tags, block: Block) -> Result<(), Broken> {
        let at = block.tag_at();
        Broken::unless(tags.contains(block), "an index holds blocks of its region", at)?;
        let tag = tags.quiet().tag(block);
        Broken::unless(tag.is_free(), "an index holds free blocks only", at)?;
        let most = u64::from(tags.total().count());
        Broken::unless(self.blocks < most, "an index ends", at)?;
        self.add(block, tag.size());
        Ok(())
    }
}

/// A bijection of 64 bits in which every bit of the result depends on every bit of `x`
/// (the finalizer of SplitMix64: Steele, Lea and Flood, 2014).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::mix;

    /// What SplitMix64 gives first when it starts at 1234567: the finalizer of its first state.
    #[test]
    fn the_print_of_a_block_is_mixed_as_splitmix64_says() {
        let state = |n: u64| 1_234_567_u64.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let first = [1, 2, 3].map(|n| mix(state(n)));
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
