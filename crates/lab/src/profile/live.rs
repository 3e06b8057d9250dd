//! The live objects of a process, by id, and what the coming and going of one changes.
//!
//! Ids are dense, so this is a table. Its pages come when first touched, so that a damaged trace
//! with a wild id costs a page, not gigabytes; a page is as long as its highest id in use, so that thousands of
//! small processes cost what their objects take; and an id far above the number of objects seen is
//! not remembered, so that one with many wild ids costs no more than one with many objects.

const PAGE: usize = 1024;
/// Shortest page.
const LEAST: usize = 16;
/// How far ids may be ahead of the objects seen: the part that was lost had objects, too.
const SLACK: u64 = 1 << 22;

/// What the total over processes must remember of a live object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) size: u64,
    /// Inherited from the parent and not resized since.
    pub(super) inherited: bool,
}

/// What the profile of a process must remember.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) held: Held,
    pub(super) born_tick: u64,
    pub(super) born_event: u64,
    /// The allocation clock before the object came.
    pub(super) born_bytes: u64,
    /// The thread that made it or last changed its size.
    pub(super) owner: u32,
}

/// What an event changed, for the total over processes: inherited objects are their parent's.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Change {
    pub(super) bytes: i64,
    pub(super) objects: i64,
    /// By how much the allocation clock advanced.
    pub(super) allocated: u64,
}

impl Change {
    /// An object of this size came; `lost` was at its place, because its free is lost.
    pub(super) fn came(size: u64, lost: Change) -> Change {
        Change { bytes: signed(size) + lost.bytes, objects: 1 + lost.objects, allocated: size }
    }

    /// An object went.
    pub(super) fn went(old: &Held) -> Change {
        match old.inherited {
            true => Change::default(),
            false => Change { bytes: -signed(old.size), objects: -1, allocated: 0 },
        }
    }

    /// An object has this size now.
    pub(super) fn resized(old: &Held, size: u64) -> Change {
        let allocated = size.saturating_sub(old.size);
        match old.inherited {
            // The resized copy is the child's own.
            true => Change { bytes: signed(size), objects: 1, allocated },
            false => Change { bytes: signed(size) - signed(old.size), objects: 0, allocated },
        }
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The table.
#[derive(Debug)]
pub(crate) struct LiveTable<L> {
    /// The first page, which most processes need no other than.
    first: Vec<Option<L>>,
    /// The others.
    pages: Vec<Vec<Option<L>>>,
    seen: u64,
}

impl<L> Default for LiveTable<L> {
    fn default() -> Self {
        Self { first: Vec::new(), pages: Vec::new(), seen: 0 }
    }
}

impl<L: Copy> LiveTable<L> {
    /// Puts an object there, and gives the one that was there: a sound trace has none.
    #[inline]
    pub(crate) fn insert(&mut self, id: u32, live: L) -> Option<L> {
        self.seen += 1;
        if u64::from(id) >= self.seen + SLACK {
            return None;
        }
        match self.get_mut(id) {
            Some(place) => place.replace(live),
            None => self.grow(id).replace(live),
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: u32) -> Option<L> {
        self.get_mut(id)?.take()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Option<L>> {
        let (page, within) = (id as usize / PAGE, id as usize % PAGE);
        match page.checked_sub(1) {
            None => self.first.get_mut(within),
            Some(page) => self.pages.get_mut(page)?.get_mut(within),
        }
    }

    /// All that are live.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &L> {
        self.first.iter().chain(self.pages.iter().flatten()).flatten()
    }

    /// Makes a place for `id`.
    #[cold]
    fn grow(&mut self, id: u32) -> &mut Option<L> {
        let (page, within) = (id as usize / PAGE, id as usize % PAGE);
        if page > self.pages.len() {
            self.pages.resize_with(page, Vec::new);
        }
        let page = match page.checked_sub(1) {
            None => &mut self.first,
            Some(page) => &mut self.pages[page],
        };
        page.resize((within + 1).next_power_of_two().max(LEAST).max(page.len()), None);
        &mut page[within]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wild_ids_cost_next_to_nothing() {
        let live = Held { size: 1, inherited: false };
        let mut table = LiveTable::default();
        for id in (0..=u32::MAX).rev().step_by(1 << 16) {
            table.insert(id, live);
        }
        assert!(table.pages.len() <= (SLACK as usize + (1 << 16)) / PAGE + 1);
        assert!(table.pages.iter().filter(|page| !page.is_empty()).count() <= 65);
        assert!(table.remove(u32::MAX).is_none());
        assert!(table.remove(u32::MAX % (1 << 16)).is_some());
    }

    #[test]
    fn a_few_objects_take_a_few_places() {
        let mut table = LiveTable::default();
        for id in [0, 3, 40, 2000] {
            assert!(table.insert(id, Held { size: id.into(), inherited: false }).is_none());
        }
        let lengths: Vec<usize> = table.pages.iter().map(Vec::len).collect();
        assert_eq!((table.first.len(), &lengths[..]), (64, &[1024][..]));
        assert_eq!(table.remove(40).map(|held| held.size), Some(40));
        assert!(table.remove(41).is_none() && table.remove(5000).is_none());
    }
}
