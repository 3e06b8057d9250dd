//! The live objects of a process, by id.
//!
//! Ids are dense, so this is a table; its pages come when first touched, so that a damaged trace
//! with a wild id costs one page, not gigabytes; and an id far above the number of objects seen is
//! not remembered, so that one with many wild ids costs no more than one with many objects.

const PAGE: usize = 1024;
/// How far ids may be ahead of the objects seen: the part that was lost had objects, too.
const SLACK: u64 = 1 << 22;

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
    seen: u64,
}

impl LiveTable {
    /// Puts an object there, and gives the one that was there: a sound trace has none.
    #[inline]
    pub(super) fn insert(&mut self, id: u32, live: Live) -> Option<Live> {
        self.seen += 1;
        if u64::from(id) >= self.seen + SLACK {
            return None;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wild_ids_cost_next_to_nothing() {
        let live = Live {
            size: 1,
            born_tick: 0,
            born_event: 0,
            born_bytes: 0,
            owner: 0,
            inherited: false,
        };
        let mut table = LiveTable::default();
        for id in (0..=u32::MAX).rev().step_by(1 << 16) {
            table.insert(id, live);
        }
        assert!(table.pages.len() <= (SLACK as usize + (1 << 16)) / PAGE + 1);
        assert!(table.pages.iter().flatten().count() <= 65);
        assert!(table.remove(u32::MAX).is_none());
        assert!(table.remove(u32::MAX % (1 << 16)).is_some());
    }
}
