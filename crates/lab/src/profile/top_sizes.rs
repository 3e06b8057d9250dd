//! The sizes asked for most often, exactly, as long as the program asks for a bounded number of
//! different ones.

use rustc_hash::FxHashMap;
use serde::Serialize;

/// Different sizes counted; the first so many that appear.
const MOST: usize = 1 << 16;
/// Sizes listed.
const LISTED: usize = 32;

/// A size and how often it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct TopSize {
    /// Bytes asked for.
    pub size: u64,
    /// How often.
    pub count: u64,
    /// Bytes altogether.
    pub bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TopSizes {
    counts: FxHashMap<u64, u64>,
}

impl TopSizes {
    #[inline]
    pub(super) fn add(&mut self, size: u64) {
        self.add_many(size, 1);
    }

    fn add_many(&mut self, size: u64, count: u64) {
        if let Some(known) = self.counts.get_mut(&size) {
            *known += count;
        } else if self.counts.len() < MOST {
            self.counts.insert(size, count);
        }
    }

    pub(super) fn merge(&mut self, other: &TopSizes) {
        // In order, so that what a full table keeps does not hang on the order of a hash map.
        for top in other.sorted() {
            self.add_many(top.size, top.count);
        }
    }

    /// Most frequent first.
    pub(super) fn finish(&self) -> Vec<TopSize> {
        let mut sorted = self.sorted();
        sorted.truncate(LISTED);
        sorted
    }

    fn sorted(&self) -> Vec<TopSize> {
        let top = |(&size, &count)| TopSize { size, count, bytes: size.saturating_mul(count) };
        let mut sorted: Vec<TopSize> = self.counts.iter().map(top).collect();
        sorted.sort_by(|a, b| b.count.cmp(&a.count).then(a.size.cmp(&b.size)));
        sorted
    }
}
