//! Which pages small objects keep, in a model: pages of 4 KiB, each cut into blocks of one size; a free block is taken from the page
//! that had one freed last; a page without objects is given back.
//!
//! It is no allocator in particular. All that give pages back, and never move objects, are alike in what matters here: a page with
//! one object of many is kept for it.
//!
//! Invariant: a page is in its class's stack exactly if it has a free block.

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;
/// Classes of sizes, 16 bytes apart; longer objects have pages of their own.
const CLASSES: u64 = 64;
const STEP: u64 = 16;
/// A page is sparse with at most one block of so many in use.
const SPARSE: u16 = 4;
/// The page of an object that is not small.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Page {
    class: u8,
    blocks: u16,
    used: u16,
}

impl Page {
    fn is_sparse(self) -> bool {
        self.used > 0 && self.used * SPARSE <= self.blocks
    }
}

/// All pages that there were at once.
pub(super) struct Pages {
    pages: Vec<Page>,
    /// Of each class those with free blocks; the one to take from is the last.
    free: Vec<Vec<u32>>,
    sparse: u64,
}

impl Pages {
    pub(super) fn new() -> Pages {
        Pages { pages: Vec::new(), free: vec![Vec::new(); CLASSES as usize], sparse: 0 }
    }

    /// How many pages are sparse.
    pub(super) fn sparse(&self) -> u64 {
        self.sparse
    }

    /// The page of a new object.
    #[inline]
    pub(super) fn take(&mut self, size: u64) -> u32 {
        let class = size.saturating_sub(1) / STEP;
        if class >= CLASSES {
            return NONE;
        }
        let free = &mut self.free[class as usize];
        let number = match free.last() {
            Some(&number) => number,
            None => {
                let blocks = (PAGE / ((class + 1) * STEP)) as u16;
                self.pages.push(Page { class: class as u8, blocks, used: 0 });
                free.push(self.pages.len() as u32 - 1);
                self.pages.len() as u32 - 1
            }
        };
        let page = &mut self.pages[number as usize];
        let before = page.is_sparse();
        page.used += 1;
        if page.used == page.blocks {
            free.pop();
        }
        self.sparse = self.sparse + u64::from(page.is_sparse()) - u64::from(before);
        number
    }

    /// An object of that page is freed.
    #[inline]
    pub(super) fn give(&mut self, number: u32) {
        let Some(page) = self.pages.get_mut(number as usize) else { return };
        let before = page.is_sparse();
        if page.used == page.blocks {
            self.free[page.class as usize].push(number);
        }
        page.used -= 1;
        self.sparse = self.sparse + u64::from(page.is_sparse()) - u64::from(before);
    }

    /// An object's part of its page's bytes, if that is sparse.
    pub(super) fn kept(&self, number: u32) -> Option<u64> {
        let page = self.pages.get(number as usize).filter(|page| page.is_sparse())?;
        Some(PAGE / u64::from(page.used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_kept_by_the_last_of_its_blocks() {
        let mut pages = Pages::new();
        let taken: Vec<u32> = (0..40).map(|_| pages.take(400)).collect();
        assert_eq!(taken[..11], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "10 blocks a page");
        assert_eq!((pages.sparse(), pages.kept(0)), (0, None));
        taken[1..10].iter().for_each(|&page| pages.give(page));
        assert_eq!((pages.sparse(), pages.kept(0)), (1, Some(PAGE)));
        assert_eq!(pages.take(390), 0, "what was freed last is taken first");
        assert_eq!((pages.sparse(), pages.kept(0)), (1, Some(PAGE / 2)));
        pages.give(0);
        pages.give(0);
        assert_eq!((pages.sparse(), pages.kept(0)), (0, None), "nothing keeps it");
        assert_eq!((pages.take(1025), pages.take(0)), (NONE, 4));
        pages.give(NONE);
    }
}
