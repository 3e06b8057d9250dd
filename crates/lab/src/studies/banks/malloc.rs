//! A malloc trace turned into pages: what a program's blocks would ask of page frames.
//!
//! The malloc is the simplest that gives all memory back: blocks above half a page have pages of their own; smaller ones
//! share pages with their size class ([`freehold_core::size_class`]), the page that was touched last being served first;
//! a page in which nothing is alive is given back at once, unless no other of its class has room. A process that ends
//! gives all of its pages back. No address of the trace is needed, for there is none in it.

use freehold_core::frames::{Kind, Order, Request};
use freehold_core::size_class::{SizeClass, class_of};
use freehold_sim::banks::{PageTrace, Sink, TraceError};
use freehold_trace::{Event, ObjectId, ProcessId, ReadError, Record, Trace};
use std::collections::BTreeMap;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Nodes that a page trace can name.
const NODES: u32 = 16;

/// Why a malloc trace gives no pages.
#[derive(Debug, thiserror::Error)]
pub enum MallocError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Nothing was allocated.
    #[error("nothing is allocated in it: {0}")]
    Empty(#[from] TraceError),
}

/// The pages of every process of a malloc trace.
///
/// # Errors
/// When it cannot be read, or allocates nothing.
pub fn pages(trace: &Trace) -> Result<PageTrace, MallocError> {
    let mut records = trace.records()?;
    let mut failed = None;
    let pages = PageTrace::of(|sink| {
        let mut malloc = Malloc::of(trace);
        loop {
            match records.next() {
                Ok(Some(record)) => malloc.apply(trace, &record, sink),
                Ok(None) => break,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
    });
    failed.map_or(Ok(pages?), |error| Err(error.into()))
}

/// Where a block lies.
enum Place {
    /// In a page of its class.
    Shared(SizeClass, u32),
    /// In pages of its own.
    Own(Vec<u32>),
}

/// A process's pages of one class: blocks in each that has any, and those that have room, the last one first.
#[derive(Default)]
struct Shared {
    used: BTreeMap<u32, usize>,
    open: Vec<u32>,
}

#[derive(Default)]
struct Process {
    blocks: BTreeMap<u32, Place>,
    shared: BTreeMap<usize, Shared>,
}

#[derive(Default)]
struct Malloc {
    processes: BTreeMap<ProcessId, Process>,
    /// Processes by the tick of their last event, the next to end last.
    ends: Vec<(u64, ProcessId)>,
    free_ids: Vec<u32>,
    next_id: u32,
    now_s: u64,
}

impl Malloc {
    fn of(trace: &Trace) -> Malloc {
        let mut ends: Vec<_> =
            trace.processes().iter().map(|process| (process.last.0, process.id)).collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        Malloc { ends, ..Malloc::default() }
    }

    fn apply(&mut self, trace: &Trace, record: &Record, sink: &mut dyn Sink) {
        while let Some((_, process)) = self.ends.pop_if(|end| end.0 < record.tick.0) {
            self.end(process, sink);
        }
        while self.now_s < trace.header().seconds(record.tick) as u64 {
            self.now_s += 1;
            sink.second();
        }
        match record.event {
            Event::Alloc { object, request }
            | Event::Inherit { object, request }
            | Event::Realloc { object, request, .. } => {
                self.alloc(record.process, object, request.size, sink);
            }
            Event::Free { object, .. } => self.free(record.process, object, sink),
            _ => {}
        }
    }

    fn page(&mut self, process: ProcessId, sink: &mut dyn Sink) -> u32 {
        let page = self.free_ids.pop().unwrap_or_else(|| {
            self.next_id += 1;
            self.next_id - 1
        });
        sink.grow(page, Request::new(Order::FRAME, Kind::Movable), (process.0 % NODES) as u8, 1);
        page
    }

    fn give_back(&mut self, page: u32, sink: &mut dyn Sink) {
        sink.end(page);
        self.free_ids.push(page);
    }

    /// The object's block; the old one goes, whether by realloc or because its free is missing.
    fn alloc(&mut self, process: ProcessId, object: ObjectId, size: u64, sink: &mut dyn Sink) {
        self.free(process, object, sink);
        let class = usize::try_from(size).ok().filter(|&size| size <= PAGE as usize / 2);
        let place = match class.and_then(class_of) {
            Some(class) => Place::Shared(class, self.share(process, class, sink)),
            None => {
                Place::Own((0..size.div_ceil(PAGE)).map(|_| self.page(process, sink)).collect())
            }
        };
        self.processes.entry(process).or_default().blocks.insert(object.0, place);
    }

    /// A page with room for one more block of that class, which is counted.
    fn share(&mut self, process: ProcessId, class: SizeClass, sink: &mut dyn Sink) -> u32 {
        let open = self.shared(process, class).open.last().copied();
        let page = open.unwrap_or_else(|| {
            let page = self.page(process, sink);
            self.shared(process, class).open.push(page);
            page
        });
        let shared = self.shared(process, class);
        let used = shared.used.entry(page).or_default();
        *used += 1;
        if *used == class.blocks_in(PAGE as usize) {
            shared.open.pop();
        }
        page
    }

    fn shared(&mut self, process: ProcessId, class: SizeClass) -> &mut Shared {
        self.processes.entry(process).or_default().shared.entry(class.index()).or_default()
    }

    fn free(&mut self, process: ProcessId, object: ObjectId, sink: &mut dyn Sink) {
        let place = self.processes.entry(process).or_default().blocks.remove(&object.0);
        match place {
            None => {}
            Some(Place::Own(pages)) => {
                pages.into_iter().for_each(|page| self.give_back(page, sink));
            }
            Some(Place::Shared(class, page)) => {
                let shared = self.shared(process, class);
                let used = shared.used.entry(page).or_default();
                *used -= 1;
                let (left, was_full) = (*used, *used + 1 == class.blocks_in(PAGE as usize));
                if was_full {
                    shared.open.push(page);
                }
                if left == 0 && shared.open.len() > 1 {
                    shared.used.remove(&page);
                    shared.open.retain(|&open| open != page);
                    self.give_back(page, sink);
                }
            }
        }
    }

    fn end(&mut self, process: ProcessId, sink: &mut dyn Sink) {
        let Some(ended) = self.processes.remove(&process) else { return };
        let shared = ended.shared.into_values().flat_map(|shared| shared.used.into_keys());
        let own = ended.blocks.into_values().filter_map(|place| match place {
            Place::Own(pages) => Some(pages),
            Place::Shared(..) => None,
        });
        for page in shared.chain(own.flatten()).collect::<Vec<_>>() {
            self.give_back(page, sink);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks that come and go in a process, as calls.
    #[derive(Default)]
    struct Calls(Vec<(char, u32)>);

    impl Sink for Calls {
        fn grow(&mut self, object: u32, _: Request, _: u8, _: u32) {
            self.0.push(('+', object));
        }
        fn shrink(&mut self, _: u32, _: u32, _: u32) {}
        fn end(&mut self, object: u32) {
            self.0.push(('-', object));
        }
        fn occasion(&mut self, _: freehold_sim::banks::Trigger) {}
        fn second(&mut self) -> bool {
            true
        }
    }

    #[test]
    fn small_blocks_share_a_page_and_large_ones_have_their_own() {
        let (mut malloc, mut calls, process) = (Malloc::default(), Calls::default(), ProcessId(3));
        for object in 0..9 {
            malloc.alloc(process, ObjectId(object), 1_000, &mut calls);
        }
        assert_eq!(calls.0, [('+', 0), ('+', 1), ('+', 2)], "four to a page");
        malloc.alloc(process, ObjectId(9), 9_000, &mut calls);
        assert_eq!(calls.0[3..], [('+', 3), ('+', 4), ('+', 5)]);
        malloc.free(process, ObjectId(8), &mut calls);
        assert_eq!(calls.0.len(), 6, "the only page with room stays");
        malloc.alloc(process, ObjectId(8), 1_000, &mut calls);
        assert_eq!(calls.0.len(), 6, "the room that it left is used");
        malloc.free(process, ObjectId(0), &mut calls);
        malloc.free(process, ObjectId(8), &mut calls);
        assert_eq!(calls.0[6..], [('-', 2)], "another has room");
        malloc.end(process, &mut calls);
        assert_eq!(calls.0.iter().filter(|call| call.0 == '-').count(), 6, "all is given back");
    }
}
