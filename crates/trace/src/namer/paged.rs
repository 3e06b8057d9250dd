//! A growing array in pages that a parent and its forked child share until one of them writes: the
//! kernel's own copy-on-write, at the grain of 4 KiB of entries.
//!
//! Invariant: a page is `Own` in at most one array, and only `Own` pages are written.

use std::sync::Arc;

/// Entries of a page.
const PAGE: usize = 256;

#[expect(clippy::redundant_allocation, reason = "sharing an own page must not copy its 4 KiB")]
enum Page<T> {
    Own(Box<[T; PAGE]>),
    Shared(Arc<Box<[T; PAGE]>>),
}

/// An array of `T`, default where nothing was set.
pub(super) struct Paged<T> {
    pages: Vec<Page<T>>,
}

impl<T> Default for Paged<T> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<T: Copy + Default> Paged<T> {
    /// An array of at least `len` entries.
    pub(super) fn with_len(len: usize) -> Self {
        let mut paged = Self::default();
        paged.grow(len);
        paged
    }

    /// The entry; `index` must have been set or be below the length made.
    #[inline]
    pub(super) fn get(&self, index: usize) -> &T {
        match &self.pages[index / PAGE] {
            Page::Own(page) => &page[index % PAGE],
            Page::Shared(page) => &page[index % PAGE],
        }
    }

    /// The entry, if the array is long enough.
    #[inline]
    pub(super) fn try_get(&self, index: usize) -> Option<&T> {
        match self.pages.get(index / PAGE)? {
            Page::Own(page) => page.get(index % PAGE),
            Page::Shared(page) => page.get(index % PAGE),
        }
    }

    /// The entries from `index` to the end of its page.
    #[inline]
    pub(super) fn rest_of_page(&self, index: usize) -> &[T] {
        match &self.pages[index / PAGE] {
            Page::Own(page) => &page[index % PAGE..],
            Page::Shared(page) => &page[index % PAGE..],
        }
    }

    /// Sets an entry, growing to hold it. Amortised O(1).
    #[inline]
    pub(super) fn set(&mut self, index: usize, value: T) {
        if index / PAGE >= self.pages.len() {
            self.grow(index + 1);
        }
        match &mut self.pages[index / PAGE] {
            Page::Own(page) => page[index % PAGE] = value,
            shared => shared.own_slow()[index % PAGE] = value,
        }
    }

    /// A second array with the same entries, sharing all pages. O(pages).
    pub(super) fn share(&mut self) -> Self {
        Self { pages: self.pages.iter_mut().map(Page::share).collect() }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        self.pages.resize_with(len.div_ceil(PAGE), || Page::Own(Box::new([T::default(); PAGE])));
    }
}

impl<T: Copy + Default> Page<T> {
    #[cold]
    fn own_slow(&mut self) -> &mut [T; PAGE] {
        if let Page::Shared(page) = self {
            // The last one to hold the page need not copy it.
            let own = match Arc::get_mut(page) {
                Some(page) => std::mem::replace(page, Box::new([T::default(); PAGE])),
                None => (*page).as_ref().clone(),
            };
            *self = Page::Own(own);
        }
        match self {
            Page::Own(page) => page,
            Page::Shared(_) => unreachable!("the page was just made our own"),
        }
    }

    fn share(&mut self) -> Page<T> {
        let shared = match std::mem::replace(self, Page::Own(Box::new([T::default(); PAGE]))) {
            Page::Own(page) => Arc::new(page),
            Page::Shared(page) => page,
        };
        *self = Page::Shared(shared.clone());
        Page::Shared(shared)
    }
}
