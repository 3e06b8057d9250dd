//! The live objects of a process, by id.
//!
//! Ids are dense, so this is a table; its pages come when first touched, so that a damaged trace
//! with a wild id costs one page, not gigabytes.

const PAGE: usize = 1024;

/// What must be remembered of a live object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) size: u64,
    pub(super) born_tick: u64,
    pub(super) born_event: u64,
    /// The allocation clock before the object came.
    pub(super) born_bytes: u64,
    /// The thread that made it or last changed its size.
    pub(super) owner: u32,
    /// Inherited from the parent and not resized since.
    pub(super) inherited: bool,
}

type Page = [Option<Live>; PAGE];

#[derive(Debug, Default)]
pub(super) struct LiveTable {
    pages: Vec<Option<Box<Page>>>,
}

impl LiveTable {
    /// Puts an object there, and gives the one that was there: a sound trace has none.
    #[inline]
    pub(super) fn insert(&mut self, id: u32, live: Live) -> Option<Live> {
        self.entry(id).replace(live)
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> Option<Live> {
        self.get_mut(id)?.take()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Option<Live>> {
        let page = self.pages.get_mut(id as usize / PAGE)?.as_mut()?;
        Some(&mut page[id as usize % PAGE])
    }

    #[inline]
    fn entry(&mut self, id: u32) -> &mut Option<Live> {
        let index = id as usize / PAGE;
        if index >= self.pages.len() {
            self.pages.resize_with(index + 1, || None);
        }
        let page = self.pages[index].get_or_insert_with(|| Box::new([None; PAGE]));
        &mut page[id as usize % PAGE]
    }
}
