//! tcmalloc's size classes and the runs they are cut from.
//!
//! Classes are spaced so that rounding up wastes at most 1/8 of a block, and the runs are long
//! enough that what is left at their end is at most 1/8 of them (both: gperftools, the comments of
//! its size map). The table follows from these two rules and is made once.

use std::sync::LazyLock;

/// Bytes of a page.
pub const PAGE: u64 = 8 << 10;
/// The longest request that has a class.
pub const LARGEST: u64 = 256 << 10;

/// Blocks are 16-aligned.
const LEAST: u64 = 16;
/// Runs of small blocks hold enough of them to be worth a trip to the page heap.
const WORTH: u64 = 8;

/// One class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// Bytes of a block.
    pub size: u64,
    /// Pages of a run.
    pub pages: u64,
}

impl Class {
    /// Blocks of a run.
    pub fn blocks(&self) -> u64 {
        self.pages * PAGE / self.size
    }

    /// What is left at the end of a run.
    pub fn tail(&self) -> u64 {
        self.pages * PAGE - self.blocks() * self.size
    }
}

/// All classes, by size.
pub static CLASSES: LazyLock<Vec<Class>> = LazyLock::new(make);

/// The least class that holds `size` at a multiple of `align` (at most a page), by number.
pub fn class_for(size: u64, align: u64) -> Option<usize> {
    let first = CLASSES.partition_point(|class| class.size < size);
    (first..CLASSES.len()).find(|&number| CLASSES[number].size.is_multiple_of(align))
}

/// How far apart classes are at `size`: an eighth of the doubling, from 16 B to a page.
fn spacing(size: u64) -> u64 {
    ((1 << size.ilog2()) / 8).clamp(LEAST, PAGE)
}

fn pages_for(size: u64) -> u64 {
    let wanted = (LARGEST / 4 / size).clamp(1, WORTH);
    let fits = |pages: &u64| {
        let len = pages * PAGE;
        len / size >= wanted && len % size <= len / 8
    };
    (1..).find(fits).unwrap_or(size.div_ceil(PAGE))
}

fn make() -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    let mut size = LEAST;
    while size <= LARGEST {
        let class = Class { size, pages: pages_for(size) };
        classes.push(class);
        size += spacing(size);
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_and_tails_waste_at_most_an_eighth() {
        for size in 1..=LARGEST {
            let waste = CLASSES[class_for(size, 1).unwrap()].size - size;
            // Below 128 B the alignment rules, not the eighth.
            assert!(waste < LEAST || waste * 8 < size, "{waste} B of {size} B");
        }
        assert!(CLASSES.iter().all(|class| class.tail() * 8 <= class.pages * PAGE));
        assert!(CLASSES.windows(2).all(|pair| pair[0].size < pair[1].size));
        assert_eq!(CLASSES.last().unwrap().size, LARGEST);
        // Eight a doubling from 128 B; the last doubling has a class for every page.
        assert_eq!(CLASSES.len(), 7 + 8 * 10 + 16 + 1);
    }

    #[test]
    fn aligned_requests_get_blocks_that_are_aligned_throughout() {
        for log2 in 0..=13 {
            let align = 1 << log2;
            let class = CLASSES[class_for(100, align).unwrap()];
            assert!(class.size >= 100 && class.size.is_multiple_of(align));
        }
        assert_eq!(class_for(LARGEST + 1, 1), None);
    }
}
