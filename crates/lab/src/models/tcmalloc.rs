//! tcmalloc (gperftools' design) without its thread caches.
//!
//! ```text
//!   <= 256 KiB    the class's youngest run that has a free block: its youngest free block;
//!                 without such a run, a new one from the page heap, cut into blocks
//!   larger        a run of its own
//!   page heap     best fit of runs of 8 KiB pages; free runs merge at once
//! ```
//!
//! A run all of whose blocks are free goes back to the page heap. There are no headers: a map tells
//! of each page which run it belongs to. It is charged: 16 B a page at the start of the region (a
//! word of the map, and a run's record for about every sixth page).
//!
//! Left out: thread caches and their transfer lists (a block goes straight back to its run; step
//! counts are those of a cache miss), and growing. What is left at the end of a run, at most 1/8,
//! counts as part of its last block.
//!
//! The model's own state lies outside of the region, but every word that tcmalloc would touch there
//! (links inside free blocks, the map) is reported to the probe.

mod classes;
mod pages;

use classes::{CLASSES, PAGE, class_for};
use freehold_blocks::Region;
use freehold_blocks::align::Align;
use freehold_blocks::check::Broken;
use freehold_blocks::policy::{BlockInfo, Inspect, Policy, Totals};
use freehold_blocks::probe::{Probe, Step};
use pages::{Pages, Run, RunId};
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// Bytes of the map and of records, charged for each page.
const CHARGED: u64 = 16;

/// The model; see the module.
#[derive(Debug)]
pub struct Tcmalloc {
    base: NonNull<u8>,
    /// Where the first page lies, in bytes from the start of the region.
    start: u64,
    pages: Pages,
    /// The runs cut into blocks, by run.
    cut: BTreeMap<RunId, Cut>,
    lists: Vec<List>,
    totals: Totals,
    turns: u64,
}

/// The runs of one class.
#[derive(Clone, Debug, Default)]
struct List {
    /// Those with a free block, the youngest last.
    open: BTreeMap<u64, RunId>,
    /// Free blocks of all.
    free: u64,
    /// Of these, how many are the last of their run and end with its tail.
    free_last: u64,
}

/// A run that is cut into blocks.
#[derive(Clone, Debug)]
struct Cut {
    class: usize,
    /// The free blocks, the youngest last.
    free: Vec<u32>,
    used: Vec<bool>,
    /// Its key among the open runs of its class.
    turn: u64,
}

impl Cut {
    fn is_unused(&self) -> bool {
        self.free.len() == self.used.len()
    }

    fn is_last(&self, block: u32) -> bool {
        block as usize == self.used.len() - 1
    }
}

impl Policy for Tcmalloc {
    fn new(region: Region) -> Option<Self> {
        let base = region.base();
        let address = base.addr().get() as u64;
        let room = region.len().div_ceil(PAGE + CHARGED);
        let skip = (address + room * CHARGED).next_multiple_of(PAGE) - address;
        let count = u32::try_from(region.len().checked_sub(skip)? / PAGE).ok()?;
        if count == 0 {
            return None;
        }
        let capacity = u64::from(count) * PAGE;
        let totals = Totals { capacity, free: capacity, free_blocks: 1, ..Totals::default() };
        let (pages, lists) = (Pages::new(count, 0), vec![List::default(); CLASSES.len()]);
        Some(Self { base, start: skip, pages, cut: BTreeMap::new(), lists, totals, turns: 0 })
    }

    fn alloc<P: Probe>(&mut self, size: u64, align: Align, probe: &mut P) -> Option<NonNull<u8>> {
        probe.step(Step::Index);
        let at = match class_for(size, align.bytes()) {
            Some(class) => self.alloc_block(class, probe)?,
            None => self.alloc_run(size, align, probe)?,
        };
        self.totals.used_blocks += 1;
        self.totals.extent = self.extent();
        self.totals.peak_extent = self.totals.peak_extent.max(self.totals.extent);
        // `map_addr` keeps the provenance of the region, inside of which `at` lies.
        Some(self.base.map_addr(|address| address.saturating_add(at as usize)))
    }

    unsafe fn free<P: Probe>(&mut self, payload: NonNull<u8>, probe: &mut P) {
        let at = self.offset(payload);
        let id = self.pages.run_of(self.page(at), probe);
        self.totals.used_blocks -= 1;
        match self.cut.get(&id).map(|cut| cut.class) {
            Some(class) => self.free_block(id, class, at, probe),
            None => {
                self.totals.free += u64::from(self.pages.run(id).pages) * PAGE;
                self.pages.give(id, probe);
            }
        }
        self.totals.extent = self.extent();
    }

    /// As gperftools' `realloc`: stays while the block is long enough and at least half used.
    unsafe fn resize_in_place<P: Probe>(
        &mut self,
        payload: NonNull<u8>,
        size: u64,
        probe: &mut P,
    ) -> bool {
        probe.step(Step::Index);
        // SAFETY: the caller's promise is the one asked for here.
        let usable = unsafe { self.usable(payload) };
        size <= usable && size >= usable / 2
    }

    unsafe fn usable(&self, payload: NonNull<u8>) -> u64 {
        let id = self.pages.run_of(self.page(self.offset(payload)), &mut ());
        match self.cut.get(&id) {
            Some(cut) => CLASSES[cut.class].size,
            None => u64::from(self.pages.run(id).pages) * PAGE,
        }
    }
}

/// Where things lie.
impl Tcmalloc {
    fn offset(&self, payload: NonNull<u8>) -> u64 {
        (payload.addr().get() - self.base.addr().get()) as u64
    }

    fn page(&self, at: u64) -> u32 {
        ((at - self.start) / PAGE) as u32
    }

    fn page_at(&self, page: u32) -> u64 {
        self.start + u64::from(page) * PAGE
    }

    /// The end of the last used block, from the first page on.
    fn extent(&self) -> u64 {
        let Some(id) = self.pages.last_taken() else { return 0 };
        let run = self.pages.run(id);
        let first = u64::from(run.first) * PAGE;
        let whole = first + u64::from(run.pages) * PAGE;
        let Some(cut) = self.cut.get(&id) else { return whole };
        match cut.used.iter().rposition(|&used| used) {
            Some(last) if cut.is_last(last as u32) => whole,
            Some(last) => first + (last as u64 + 1) * CLASSES[cut.class].size,
            None => first,
        }
    }
}

/// Runs and blocks.
impl Tcmalloc {
    fn alloc_run<P: Probe>(&mut self, size: u64, align: Align, probe: &mut P) -> Option<u64> {
        let pages = u32::try_from(size.div_ceil(PAGE).max(1)).ok()?;
        let align_pages = u32::try_from(align.bytes().div_ceil(PAGE)).ok()?;
        let origin = (self.base.addr().get() as u64 + self.start) / PAGE;
        let skip = |first: u32| {
            let past = (origin + u64::from(first)) % u64::from(align_pages);
            if past == 0 { 0 } else { align_pages - past as u32 }
        };
        let id = self.pages.take(pages, skip, align_pages - 1, probe)?;
        self.totals.free -= u64::from(pages) * PAGE;
        Some(self.page_at(self.pages.run(id).first))
    }

    fn alloc_block<P: Probe>(&mut self, number: usize, probe: &mut P) -> Option<u64> {
        probe.step(Step::Inspect);
        let youngest = self.lists[number].open.last_key_value().map(|(_, &id)| id);
        let id = match youngest {
            Some(id) => id,
            None => self.open_run(number, probe)?,
        };
        let (class, first) = (CLASSES[number], self.pages.run(id).first);
        let run_at = self.page_at(first);
        let (cut, list) = (self.cut.get_mut(&id)?, &mut self.lists[number]);
        let block = cut.free.pop()?;
        cut.used[block as usize] = true;
        let at = run_at + u64::from(block) * class.size;
        // The link to the next free block is read out of this one.
        probe.step(Step::Touch { at });
        probe.step(Step::Index);
        list.free -= 1;
        list.free_last -= u64::from(cut.is_last(block));
        self.totals.free -= class.size + if cut.is_last(block) { class.tail() } else { 0 };
        if cut.free.is_empty() {
            probe.step(Step::Index);
            list.open.remove(&cut.turn);
        }
        Some(at)
    }

    /// A new run of the class, its free blocks linked from the first to the last.
    fn open_run<P: Probe>(&mut self, number: usize, probe: &mut P) -> Option<RunId> {
        let class = CLASSES[number];
        let id = self.pages.take(class.pages as u32, |_| 0, 0, probe)?;
        let (blocks, start) = (class.blocks() as u32, self.page_at(self.pages.run(id).first));
        for block in 0..u64::from(blocks) {
            probe.step(Step::Touch { at: start + block * class.size });
        }
        self.turns += 1;
        let free = (0..blocks).rev().collect();
        let cut = Cut { class: number, free, used: vec![false; blocks as usize], turn: self.turns };
        self.cut.insert(id, cut);
        let list = &mut self.lists[number];
        list.open.insert(self.turns, id);
        list.free += u64::from(blocks);
        list.free_last += 1;
        Some(id)
    }

    fn free_block<P: Probe>(&mut self, id: RunId, number: usize, at: u64, probe: &mut P) {
        let (class, run_at) = (CLASSES[number], self.page_at(self.pages.run(id).first));
        let list = &mut self.lists[number];
        let Some(cut) = self.cut.get_mut(&id) else { return };
        let block = ((at - run_at) / class.size) as u32;
        debug_assert!(cut.used[block as usize], "double free at {at}");
        probe.step(Step::Touch { at });
        probe.step(Step::Index);
        if cut.free.is_empty() {
            probe.step(Step::Index);
            self.turns += 1;
            cut.turn = self.turns;
            list.open.insert(cut.turn, id);
        }
        cut.used[block as usize] = false;
        cut.free.push(block);
        list.free += 1;
        list.free_last += u64::from(cut.is_last(block));
        self.totals.free += class.size + if cut.is_last(block) { class.tail() } else { 0 };
        if cut.is_unused() {
            probe.step(Step::Index);
            list.open.remove(&cut.turn);
            list.free -= cut.free.len() as u64;
            list.free_last -= 1;
            self.cut.remove(&id);
            self.pages.give(id, probe);
        }
    }

    fn visit_run(&self, id: RunId, run: Run, visit: &mut impl FnMut(BlockInfo)) {
        let (offset, len) = (self.page_at(run.first), u64::from(run.pages) * PAGE);
        let Some(cut) = self.cut.get(&id).filter(|_| !run.free) else {
            return visit(BlockInfo { offset, size: len, free: run.free });
        };
        let class = CLASSES[cut.class];
        for (i, &used) in cut.used.iter().enumerate() {
            let tail = if cut.is_last(i as u32) { class.tail() } else { 0 };
            let offset = offset + i as u64 * class.size;
            visit(BlockInfo { offset, size: class.size + tail, free: !used });
        }
    }
}

impl Inspect for Tcmalloc {
    fn totals(&self) -> Totals {
        let blocks: u64 = self.lists.iter().map(|list| list.free).sum();
        Totals { free_blocks: self.pages.free_runs() + blocks, ..self.totals }
    }

    fn largest_free(&self) -> u64 {
        let of_list = |(list, class): (&List, &classes::Class)| match (list.free_last, list.free) {
            (0, 0) => 0,
            (0, _) => class.size,
            _ => class.size + class.tail(),
        };
        let blocks = self.lists.iter().zip(CLASSES.iter()).map(of_list).max().unwrap_or(0);
        blocks.max(u64::from(self.pages.longest_free()) * PAGE)
    }

    fn for_each_block(&self, mut visit: impl FnMut(BlockInfo)) {
        self.pages.for_each(|id, run| self.visit_run(id, run, &mut visit));
    }

    fn check(&self) -> Result<(), Broken> {
        let (mut free, mut used, mut free_blocks, mut pages) = (0, 0, 0, 0);
        let mut before_free = false;
        let mut lonely = true;
        self.pages.for_each(|_, run| {
            lonely &= !(before_free && run.free);
            before_free = run.free;
            pages += run.pages;
        });
        self.for_each_block(|block| {
            free += if block.free { block.size } else { 0 };
            used += u64::from(!block.free);
            free_blocks += u64::from(block.free);
        });
        Broken::unless(lonely, "two free runs are one run", 0)?;
        let count = self.pages.count().into();
        Broken::unless_equal("runs tile the pages", 0, count, pages.into())?;
        let totals = self.totals();
        Broken::unless_equal("the total of free bytes is kept", 0, free, totals.free)?;
        Broken::unless_equal("used blocks are counted", 0, used, totals.used_blocks)?;
        Broken::unless_equal("free blocks are counted", 0, free_blocks, totals.free_blocks)?;
        for (number, list) in self.lists.iter().enumerate() {
            let cut = self.cut.values().filter(|cut| cut.class == number);
            let free: u64 = cut.clone().map(|cut| cut.free.len() as u64).sum();
            let open = cut.filter(|cut| !cut.free.is_empty()).count() as u64;
            Broken::unless_equal("a class counts its free blocks", 0, free, list.free)?;
            let listed = list.open.len() as u64;
            Broken::unless_equal("a class lists its runs with free blocks", 0, open, listed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_testkit::{ShadowHeap, SimRegion};

    fn heap(pages: usize) -> ShadowHeap<Tcmalloc> {
        let charged = (pages * CHARGED as usize).next_multiple_of(PAGE as usize);
        let heap = ShadowHeap::new(SimRegion::new(pages * PAGE as usize + charged));
        heap.expect("long enough")
    }

    #[test]
    fn the_map_is_charged() {
        assert_eq!(heap(512).policy().totals().capacity, 512 * PAGE);
        assert!(ShadowHeap::<Tcmalloc>::new(SimRegion::new(PAGE as usize)).is_none());
    }

    #[test]
    fn blocks_of_one_class_share_a_run_which_goes_back_when_all_are_free() {
        let mut heap = heap(16);
        heap.alloc(0, 4000, Align::ONE).unwrap();
        heap.alloc(1, 4000, Align::ONE).unwrap();
        let blocks = heap.blocks();
        assert_eq!(blocks[0].size, 4096);
        assert_eq!(heap.place(1).unwrap() - heap.place(0).unwrap(), 4096);
        heap.free(0).unwrap();
        heap.free(1).unwrap();
        assert_eq!(heap.picture(), format!("[free {}]", 16 * PAGE));
    }

    #[test]
    fn the_youngest_free_block_is_used_again_first() {
        let mut heap = heap(16);
        for id in 0..4 {
            heap.alloc(id, 1000, Align::ONE).unwrap();
        }
        let places = [1, 2].map(|id| heap.place(id));
        heap.free(1).unwrap();
        heap.free(2).unwrap();
        heap.alloc(5, 1000, Align::ONE).unwrap();
        heap.alloc(6, 1000, Align::ONE).unwrap();
        assert_eq!([heap.place(6), heap.place(5)], places);
    }

    #[test]
    fn large_requests_take_the_shortest_run_that_holds_them() {
        let mut heap = heap(512);
        let mib = |quarters: u64| quarters << 18;
        for (id, size) in [mib(3), mib(2), mib(2), mib(2), mib(2)].into_iter().enumerate() {
            heap.alloc(id as u32, size, Align::ONE).unwrap();
        }
        let second = heap.place(2);
        heap.free(0).unwrap();
        heap.free(2).unwrap();
        heap.alloc(9, mib(2) - 100, Align::ONE).unwrap();
        assert_eq!(heap.place(9), second, "2 of 4 MiB, not 3");
        heap.verify().unwrap();
    }

    #[test]
    fn alignments_above_a_page_leave_the_gap_free() {
        let mut heap = heap(128);
        heap.alloc(0, 300 << 10, Align::ONE).unwrap();
        heap.alloc(1, 300 << 10, Align::from_bytes(64 << 10).unwrap()).unwrap();
        heap.verify().unwrap();
        heap.free(1).unwrap();
        heap.free(0).unwrap();
        assert_eq!(heap.picture(), format!("[free {}]", 128 * PAGE));
    }
}
