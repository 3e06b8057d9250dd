//! The page heap: runs of pages, free or taken, without gaps.
//!
//! Free runs merge at once; a request takes the shortest that holds it, of several below 128 pages
//! the youngest and from 128 on the lowest (as gperftools' lists and set do), and what is left of
//! it stays free. Invariant: every page belongs to one run, and no two neighbours are free.

use freehold_blocks::probe::{Probe, Step};
use std::collections::BTreeSet;

/// Lists of exact lengths end here.
const LISTED_PAGES: u32 = 128;

/// A run, by its number in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RunId(u32);

/// A run of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Its first page.
    pub first: u32,
    /// How many.
    pub pages: u32,
    /// Whether nobody uses it.
    pub free: bool,
    /// Orders free runs of one length: see the module.
    turn: u64,
}

impl Run {
    fn key(&self, id: RunId) -> (u32, u64, RunId) {
        (self.pages, self.turn, id)
    }
}

/// The page heap.
#[derive(Debug)]
pub struct Pages {
    runs: Vec<Run>,
    unused: Vec<RunId>,
    /// Of each page the run; true of first and last pages, and of all pages of taken runs.
    map: Vec<RunId>,
    free: BTreeSet<(u32, u64, RunId)>,
    /// The first pages of taken runs.
    taken: BTreeSet<u32>,
    turns: u64,
    /// Where in the region the map's first word lies, for the probe.
    map_at: u64,
}

/// Bytes of a word of the map.
const WORD: u64 = 8;

impl Pages {
    /// `count` free pages; the map of them begins `map_at` bytes into the region.
    pub fn new(count: u32, map_at: u64) -> Pages {
        let mut pages = Pages {
            runs: Vec::new(),
            unused: Vec::new(),
            map: vec![RunId(0); count as usize],
            free: BTreeSet::new(),
            taken: BTreeSet::new(),
            turns: 0,
            map_at,
        };
        pages.add_free(0, count, &mut ());
        pages
    }

    /// How many pages there are.
    pub fn count(&self) -> u32 {
        self.map.len() as u32
    }

    /// The run of that number.
    pub fn run(&self, id: RunId) -> Run {
        self.runs[id.0 as usize]
    }

    /// The run of a page that is its first or last, or that is taken. One word is touched.
    pub fn run_of<P: Probe>(&self, page: u32, probe: &mut P) -> RunId {
        self.touch(page, probe);
        self.map[page as usize]
    }

    /// The last taken run.
    pub fn last_taken(&self) -> Option<RunId> {
        self.taken.last().map(|&page| self.map[page as usize])
    }

    /// Pages of the longest free run.
    pub fn longest_free(&self) -> u32 {
        self.free.last().map_or(0, |key| key.0)
    }

    /// How many runs are free.
    pub fn free_runs(&self) -> u64 {
        self.free.len() as u64
    }

    /// Every run, in the order of addresses.
    pub fn for_each(&self, mut visit: impl FnMut(RunId, Run)) {
        let mut page = 0;
        while page < self.count() {
            let id = self.map[page as usize];
            let run = self.run(id);
            visit(id, run);
            page += run.pages.max(1);
        }
    }

    /// Takes a run of `pages`, whose first page `skip(first)` behind the free run's own shall be.
    pub fn take<P: Probe>(
        &mut self,
        pages: u32,
        skip: impl Fn(u32) -> u32,
        slack: u32,
        probe: &mut P,
    ) -> Option<RunId> {
        let ask = pages.checked_add(slack)?;
        let &(found, _, id) = self.free.range((ask, 0, RunId(0))..).next()?;
        self.count_search(ask, found, probe);
        let run = self.run(id);
        let gap = skip(run.first);
        self.drop_free(id, probe);
        if gap > 0 {
            probe.step(Step::Split);
            self.add_free(run.first, gap, probe);
        }
        let rest = run.pages - gap - pages;
        if rest > 0 {
            probe.step(Step::Split);
            self.add_free(run.first + gap + pages, rest, probe);
        }
        Some(self.add_taken(run.first + gap, pages, probe))
    }

    /// Gives a taken run back, and merges it with its free neighbours.
    pub fn give<P: Probe>(&mut self, id: RunId, probe: &mut P) {
        let Run { mut first, mut pages, .. } = self.run(id);
        self.taken.remove(&first);
        self.unused.push(id);
        if let Some(below) = first.checked_sub(1).and_then(|page| self.free_run(page, probe)) {
            probe.step(Step::Merge);
            let run = self.run(below);
            self.drop_free(below, probe);
            (first, pages) = (run.first, pages + run.pages);
        }
        if let Some(above) = self.free_run(first + pages, probe) {
            probe.step(Step::Merge);
            pages += self.run(above).pages;
            self.drop_free(above, probe);
        }
        self.add_free(first, pages, probe);
    }

    /// The free run that `page` is the first or last page of.
    fn free_run<P: Probe>(&self, page: u32, probe: &mut P) -> Option<RunId> {
        if page >= self.count() {
            return None;
        }
        let id = self.run_of(page, probe);
        self.run(id).free.then_some(id)
    }

    /// Every list from `ask` pages on is looked at; beyond the lists, the way down a tree.
    fn count_search<P: Probe>(&self, ask: u32, found: u32, probe: &mut P) {
        let lists = found.min(LISTED_PAGES).saturating_sub(ask) + 1;
        (0..lists).for_each(|_| probe.step(Step::Index));
        if found >= LISTED_PAGES {
            (0..=self.free.len().ilog2()).for_each(|_| probe.step(Step::Inspect));
        }
    }

    fn add(&mut self, run: Run) -> RunId {
        match self.unused.pop() {
            Some(id) => {
                self.runs[id.0 as usize] = run;
                id
            }
            None => {
                self.runs.push(run);
                RunId(self.runs.len() as u32 - 1)
            }
        }
    }

    fn add_free<P: Probe>(&mut self, first: u32, pages: u32, probe: &mut P) {
        self.turns += 1;
        let turn = if pages < LISTED_PAGES { u64::MAX - self.turns } else { first.into() };
        let run = Run { first, pages, free: true, turn };
        let id = self.add(run);
        probe.step(Step::Index);
        self.free.insert(run.key(id));
        for page in [first, first + pages - 1] {
            self.touch(page, probe);
            self.map[page as usize] = id;
        }
    }

    fn drop_free<P: Probe>(&mut self, id: RunId, probe: &mut P) {
        probe.step(Step::Index);
        let gone = self.free.remove(&self.run(id).key(id));
        debug_assert!(gone, "a free run is in the set");
        self.unused.push(id);
    }

    /// All pages of a taken run point to it: blocks of a class may lie on any.
    fn add_taken<P: Probe>(&mut self, first: u32, pages: u32, probe: &mut P) -> RunId {
        let id = self.add(Run { first, pages, free: false, turn: 0 });
        self.taken.insert(first);
        for page in first..first + pages {
            self.touch(page, probe);
            self.map[page as usize] = id;
        }
        id
    }

    fn touch<P: Probe>(&self, page: u32, probe: &mut P) {
        probe.step(Step::Touch { at: self.map_at + u64::from(page) * WORD });
    }
}
