//! Events of a process, counted by site, and the bytes of each call stack for the flame graph.
//!
//! What a site held at the peak is known without looking at all sites at every new peak: a site whose live bytes have
//! not changed since the last peak held what it holds. So each notes the number of peaks when it last changed,
//! and takes its note only at the first change after another peak. Stacks do the same.
//!
//! Stacks are many and keep seven numbers each; sites are fewer and keep everything else.

use super::fold::Folding;
use super::life::{Life, MOMENTS};
use super::pages::Pages;
use super::tree::Bytes;
use crate::profile::live::LiveTable;
use freehold_trace::{
    Blank, Event, Kept, ObjectId, ProcessInfo, Request, Run, StackId, ThreadId, Tick,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::ops::Add;

/// What a site did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Bytes asked for, growth of reallocations included.
    pub allocated_bytes: u64,
    /// Allocations and reallocations.
    pub allocations: u64,
    /// Bytes held at the peak of the process's live bytes.
    pub peak_bytes: u64,
    /// Objects held then.
    pub peak_blocks: u64,
    /// Bytes never freed.
    pub leaked_bytes: u64,
    /// Objects never freed.
    pub leaked_blocks: u64,
    /// Objects that their thread freed as its next event.
    pub temporary: u64,
    /// Their bytes.
    pub temporary_bytes: u64,
    /// Objects that their thread freed within [`BRIEF`] of its events, temporary ones among them.
    pub brief: u64,
    /// Times that an object grew: by `realloc`, or as C++ containers do, by a longer block of the same site after which
    /// the thread's next event frees the shorter one.
    pub growths: u64,
    /// Bytes that they added.
    pub grown_bytes: u64,
    /// Bytes that the objects had before they grew, which were copied (or may have been, by `realloc`).
    pub copied_bytes: u64,
    /// The longest object, bytes.
    pub largest_bytes: u64,
    /// Objects that were freed.
    pub freed: u64,
    /// Of those, by another thread than the one that made or last resized them.
    pub freed_by_others: u64,
    /// Bytes of the objects that are never freed and whose thread has ended.
    pub orphaned_bytes: u64,
    /// Those objects.
    pub orphaned_blocks: u64,
    /// Bytes of the pages that are kept for few objects each, at the moment at which most are; each page is divided among its
    /// objects. As the recorder saw them, or else in a model (`sites::pages`).
    pub kept_page_bytes: u64,
    /// Bytes of the objects for which they are kept.
    pub keeping_bytes: u64,
    /// Bytes of its objects that were read, in some pages, when malloc had most in use; those of `calloc` and those longer than a page are left out.
    pub seen_bytes: u64,
    /// Of those, bytes in lines of 64 bytes that hold nothing but zeroes.
    pub blank_bytes: u64,
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, more: Counts) -> Counts {
        Counts {
            allocated_bytes: self.allocated_bytes.saturating_add(more.allocated_bytes),
            allocations: self.allocations + more.allocations,
            peak_bytes: self.peak_bytes.saturating_add(more.peak_bytes),
            peak_blocks: self.peak_blocks + more.peak_blocks,
            leaked_bytes: self.leaked_bytes.saturating_add(more.leaked_bytes),
            leaked_blocks: self.leaked_blocks + more.leaked_blocks,
            temporary: self.temporary + more.temporary,
            temporary_bytes: self.temporary_bytes.saturating_add(more.temporary_bytes),
            brief: self.brief + more.brief,
            growths: self.growths + more.growths,
            grown_bytes: self.grown_bytes.saturating_add(more.grown_bytes),
            copied_bytes: self.copied_bytes.saturating_add(more.copied_bytes),
            largest_bytes: self.largest_bytes.max(more.largest_bytes),
            freed: self.freed + more.freed,
            freed_by_others: self.freed_by_others + more.freed_by_others,
            orphaned_bytes: self.orphaned_bytes.saturating_add(more.orphaned_bytes),
            orphaned_blocks: self.orphaned_blocks + more.orphaned_blocks,
            kept_page_bytes: self.kept_page_bytes.saturating_add(more.kept_page_bytes),
            keeping_bytes: self.keeping_bytes.saturating_add(more.keeping_bytes),
            seen_bytes: self.seen_bytes.saturating_add(more.seen_bytes),
            blank_bytes: self.blank_bytes.saturating_add(more.blank_bytes),
        }
    }
}

/// The bytes of a call stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct StackBytes {
    pub(super) peak: u64,
    pub(super) allocated: u64,
    pub(super) leaked: u64,
    pub(super) temporary: u64,
    /// Of pages that are kept for few objects.
    pub(super) kept_pages: u64,
    live: u64,
    peaks: u32,
}

impl StackBytes {
    /// Of each measure.
    pub(super) fn bytes(&self) -> Bytes {
        [self.peak, self.allocated, self.leaked, self.temporary, self.kept_pages]
    }

    fn note(&mut self, peaks: u32) {
        if self.peaks != peaks {
            self.peak = self.live;
            self.peaks = peaks;
        }
    }
}

/// A site while events are read.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    pub(super) life: Life,
    live_bytes: u64,
    live_blocks: u64,
    /// Peaks there had been when it last changed.
    peaks: u32,
}

impl Tally {
    /// Before it changes: what it holds now it held at the last peak, if it has not changed since.
    fn note(&mut self, peaks: u32) {
        if self.peaks != peaks {
            self.counts.peak_bytes = self.live_bytes;
            self.counts.peak_blocks = self.live_blocks;
            self.peaks = peaks;
        }
    }
}

/// A live object.
#[derive(Clone, Copy)]
struct Live {
    /// The number of its call stack here.
    stack: u32,
    thread: u32,
    page: u32,
    /// How many events the thread had told.
    event: u32,
    size: u64,
    born: u64,
}

/// What a thread did in its last event, if that made an object.
#[derive(Clone, Copy)]
struct Last {
    object: ObjectId,
    site: u32,
    size: u64,
}

/// What a thread did of late.
#[derive(Clone, Copy, Default)]
struct Recent {
    /// Its events so far.
    events: u32,
    last: Option<Last>,
}

/// The thread of an event, and what it did before.
type By = (ThreadId, Recent);

/// Events of a thread within which a brief object is made and freed.
pub const BRIEF: u32 = 16;

/// So many sparse pages are not looked at.
const LEAST_SPARSE: u64 = 64;

/// Counts the events of a process.
pub(super) struct Counting<'a> {
    folding: &'a Folding,
    /// The numbers here of the call stacks that allocate.
    numbers: FxHashMap<StackId, u32>,
    pub(super) stacks: Vec<(StackId, StackBytes)>,
    pub(super) sites: Vec<Tally>,
    live: LiveTable<Live>,
    pages: Pages,
    /// Most sparse pages at the end of any moment.
    most_sparse: u64,
    /// The looks at the process's own pages that are still to come, the next one last,
    looks: Vec<Tick>,
    /// and the most sparse pages here when one came.
    sparse_at_looks: u64,
    now: usize,
    recent: FxHashMap<ThreadId, Recent>,
    ended: FxHashSet<u32>,
    first: u64,
    ticks_a_moment: u64,
    bytes: u64,
    peak: u64,
    peaks: u32,
    pub(super) peak_tick: Tick,
    /// Allocations in each moment.
    pub(super) made: [u64; MOMENTS],
    /// Frees in each moment.
    pub(super) freed: [u64; MOMENTS],
}

impl<'a> Counting<'a> {
    /// `looks`: when somebody looked at the process's own pages.
    pub(super) fn new(folding: &'a Folding, process: &ProcessInfo, looks: &[Tick]) -> Counting<'a> {
        let mut looks = looks.to_vec();
        looks.sort_unstable_by_key(|look| std::cmp::Reverse(*look));
        let ticks = process.last.0.saturating_sub(process.first.0);
        let mut sites = Vec::new();
        sites.resize_with(folding.sites(), Tally::default);
        Counting {
            folding,
            numbers: FxHashMap::default(),
            stacks: Vec::new(),
            sites,
            live: LiveTable::default(),
            pages: Pages::new(),
            most_sparse: LEAST_SPARSE,
            looks,
            sparse_at_looks: 0,
            now: 0,
            recent: FxHashMap::default(),
            ended: FxHashSet::default(),
            first: process.first.0,
            ticks_a_moment: ticks / MOMENTS as u64 + 1,
            bytes: process.inherited_bytes,
            peak: process.inherited_bytes,
            peaks: 1,
            peak_tick: process.first,
            made: [0; MOMENTS],
            freed: [0; MOMENTS],
        }
    }

    pub(super) fn see(&mut self, run: &Run<'_>) {
        let thread = run.thread;
        let mut recent = self.recent.remove(&thread).unwrap_or_default();
        for (index, timed) in run.events.iter().enumerate() {
            let stack = run.stacks.get(index).copied().unwrap_or_default();
            recent.events = recent.events.wrapping_add(1);
            if self.moment(timed.tick) > self.now {
                self.now = self.moment(timed.tick);
                self.look_at_pages();
            }
            if self.looks.last().is_some_and(|look| timed.tick >= *look) {
                self.looked(timed.tick);
            }
            let by = (thread, recent);
            recent.last = match timed.event {
                Event::Alloc { object, request } => {
                    self.remove(timed.tick, object);
                    let stack = self.number(stack);
                    self.made(timed.tick, stack, request.size);
                    Some(self.add(timed.tick, by, object, stack, &request))
                }
                Event::Free { object, .. } => {
                    self.free(timed.tick, by, object);
                    None
                }
                Event::Realloc { object, request, .. } => {
                    Some(self.resize(timed.tick, by, object, stack, &request))
                }
                Event::Inherit { object, request } => {
                    // Counted from the beginning, as nobody's here.
                    self.bytes = self.bytes.saturating_sub(request.size);
                    let stack = self.number(StackId::NONE);
                    self.add(timed.tick, by, object, stack, &request);
                    None
                }
                Event::ThreadEnd => {
                    self.ended.insert(thread.0);
                    None
                }
                _ => None,
            };
        }
        self.recent.insert(thread, recent);
    }

    fn number(&mut self, stack: StackId) -> u32 {
        *self.numbers.entry(stack).or_insert_with(|| {
            self.stacks.push((stack, StackBytes::default()));
            self.stacks.len() as u32 - 1
        })
    }

    /// The site of a call stack, by its number here.
    fn site(&self, stack: u32) -> u32 {
        self.folding.site(self.stacks[stack as usize].0)
    }

    fn moment(&self, tick: Tick) -> usize {
        (tick.0.saturating_sub(self.first) / self.ticks_a_moment) as usize
    }

    /// So many bytes more were asked for.
    fn made(&mut self, tick: Tick, stack: u32, bytes: u64) {
        let site = self.site(stack) as usize;
        let of_stack = &mut self.stacks[stack as usize].1;
        of_stack.allocated = of_stack.allocated.saturating_add(bytes);
        let moment = self.moment(tick);
        self.made[moment.min(MOMENTS - 1)] += 1;
        let tally = &mut self.sites[site];
        tally.life.reach(moment, tally.live_bytes);
        tally.counts.allocations += 1;
        tally.counts.allocated_bytes = tally.counts.allocated_bytes.saturating_add(bytes);
    }

    fn add(
        &mut self,
        tick: Tick,
        (thread, recent): By,
        object: ObjectId,
        stack: u32,
        request: &Request,
    ) -> Last {
        let (site, size, moment) = (self.site(stack), request.size, self.moment(tick));
        let tally = &mut self.sites[site as usize];
        tally.note(self.peaks);
        tally.life.reach(moment, tally.live_bytes);
        tally.live_bytes = tally.live_bytes.saturating_add(size);
        tally.live_blocks += 1;
        tally.counts.largest_bytes = tally.counts.largest_bytes.max(size);
        let of_stack = &mut self.stacks[stack as usize].1;
        of_stack.note(self.peaks);
        of_stack.live = of_stack.live.saturating_add(size);
        let (page, born) = (self.pages.take(size), tick.0);
        self.live.insert(
            object.0,
            Live { stack, thread: thread.0, page, event: recent.events, size, born },
        );
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.peak {
            (self.peak, self.peak_tick) = (self.bytes, tick);
            self.peaks = self.peaks.wrapping_add(1);
        }
        Last { object, site, size }
    }

    fn remove(&mut self, tick: Tick, object: ObjectId) -> Option<Live> {
        let live = self.live.remove(object.0)?;
        self.pages.give(live.page);
        let (site, moment) = (self.site(live.stack), self.moment(tick));
        let tally = &mut self.sites[site as usize];
        tally.note(self.peaks);
        tally.life.reach(moment, tally.live_bytes);
        tally.live_bytes = tally.live_bytes.saturating_sub(live.size);
        tally.live_blocks = tally.live_blocks.saturating_sub(1);
        let of_stack = &mut self.stacks[live.stack as usize].1;
        of_stack.note(self.peaks);
        of_stack.live = of_stack.live.saturating_sub(live.size);
        self.bytes = self.bytes.saturating_sub(live.size);
        Some(live)
    }

    fn free(&mut self, tick: Tick, (thread, recent): By, object: ObjectId) {
        let Some(live) = self.remove(tick, object) else { return };
        let moment = self.moment(tick).min(MOMENTS - 1);
        self.freed[moment] += 1;
        let site = self.site(live.stack);
        let tally = &mut self.sites[site as usize];
        tally.life.died(tick.0.saturating_sub(live.born));
        let counts = &mut tally.counts;
        counts.freed += 1;
        let is_own = live.thread == thread.0;
        counts.freed_by_others += u64::from(!is_own);
        let is_brief = is_own && recent.events.wrapping_sub(live.event) <= BRIEF;
        counts.brief += u64::from(is_brief);
        match recent.last {
            Some(last) if last.object == object => {
                counts.temporary += 1;
                counts.temporary_bytes = counts.temporary_bytes.saturating_add(live.size);
                let of_stack = &mut self.stacks[live.stack as usize].1;
                of_stack.temporary = of_stack.temporary.saturating_add(live.size);
            }
            Some(last) if last.site == site && live.size < last.size => {
                grew(counts, live.size, last.size);
            }
            _ => {}
        }
    }

    fn resize(
        &mut self,
        tick: Tick,
        by: By,
        object: ObjectId,
        stack: StackId,
        request: &Request,
    ) -> Last {
        let before = self.remove(tick, object);
        // One that came without a stack stays where it was.
        let stack = match (stack, before) {
            (StackId::NONE, Some(live)) => live.stack,
            _ => self.number(stack),
        };
        let old = before.map_or(0, |live| live.size);
        self.made(tick, stack, request.size.saturating_sub(old));
        let last = self.add(tick, by, object, stack, request);
        if let (Some(before), Some(Some(live))) = (before, self.live.get_mut(object.0)) {
            // It lives on.
            live.born = before.born;
        }
        if before.is_some() && old < request.size {
            grew(&mut self.sites[last.site as usize].counts, old, request.size);
        }
        last
    }

    /// If more pages are sparse than at any moment before: finds out whose objects keep them.
    fn look_at_pages(&mut self) {
        if self.pages.sparse() <= self.most_sparse {
            return;
        }
        self.most_sparse = self.pages.sparse();
        self.keep_nothing();
        for live in self.live.iter() {
            if let Some(bytes) = self.pages.kept(live.page) {
                let (stack, of_stack) = &mut self.stacks[live.stack as usize];
                of_stack.kept_pages += bytes;
                let counts = &mut self.sites[self.folding.site(*stack) as usize].counts;
                counts.kept_page_bytes += bytes;
                counts.keeping_bytes += live.size;
            }
        }
    }

    fn keep_nothing(&mut self) {
        self.stacks.iter_mut().for_each(|(_, of_stack)| of_stack.kept_pages = 0);
        for tally in &mut self.sites {
            (tally.counts.kept_page_bytes, tally.counts.keeping_bytes) = (0, 0);
        }
    }

    /// Somebody looked at the process's own pages, by now.
    fn looked(&mut self, now: Tick) {
        while self.looks.pop_if(|look| *look <= now).is_some() {}
        self.sparse_at_looks = self.sparse_at_looks.max(self.pages.sparse());
    }

    /// Whether a look came when the model had many sparse pages: if all came at other times, they say nothing of these.
    pub(super) fn is_look_in_time(&self) -> bool {
        self.sparse_at_looks.max(LEAST_SPARSE) * 2 >= self.most_sparse
    }

    /// The pages that were seen to be kept, instead of those of the model.
    pub(super) fn keep(&mut self, kept: &[Kept]) {
        self.keep_nothing();
        for kept in kept {
            let number = self.number(kept.stack);
            self.stacks[number as usize].1.kept_pages += kept.pages;
            let counts = &mut self.sites[self.folding.site(kept.stack) as usize].counts;
            counts.kept_page_bytes += kept.pages;
            counts.keeping_bytes += kept.live;
        }
    }

    /// What was seen of the objects' contents.
    pub(super) fn see_blank(&mut self, blank: &[Blank]) {
        for blank in blank {
            let counts = &mut self.sites[self.folding.site(blank.stack) as usize].counts;
            counts.seen_bytes += blank.seen;
            counts.blank_bytes += blank.zero;
        }
    }

    /// All events are seen.
    pub(super) fn finish(&mut self) {
        self.look_at_pages();
        if !self.looks.is_empty() {
            self.looked(Tick(u64::MAX));
        }
        for (_, of_stack) in &mut self.stacks {
            of_stack.note(self.peaks);
            of_stack.leaked = of_stack.live;
        }
        for tally in &mut self.sites {
            tally.note(self.peaks);
            tally.life.reach(MOMENTS, tally.live_bytes);
            tally.counts.leaked_bytes = tally.live_bytes;
            tally.counts.leaked_blocks = tally.live_blocks;
        }
        for live in self.live.iter().filter(|live| self.ended.contains(&live.thread)) {
            let site = self.folding.site(self.stacks[live.stack as usize].0);
            let counts = &mut self.sites[site as usize].counts;
            counts.orphaned_bytes = counts.orphaned_bytes.saturating_add(live.size);
            counts.orphaned_blocks += 1;
        }
    }
}

/// An object became longer.
fn grew(counts: &mut Counts, old: u64, new: u64) {
    counts.growths += 1;
    counts.grown_bytes = counts.grown_bytes.saturating_add(new - old);
    counts.copied_bytes = counts.copied_bytes.saturating_add(old);
}
