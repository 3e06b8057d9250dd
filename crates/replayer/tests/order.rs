//! Every event reaches the tested malloc once, in an order the trace allows, on any processors.

mod common;

use common::{Library, Script, bytes, measure, quick, tangle};
use freehold_lab::real::{Allocator, Options};
use freehold_trace::{Api, Event, ObjectId, Request};

/// Where `count.c` counts what.
const MALLOC: usize = 0;
const CALLOC: usize = 1;
const REALLOC: usize = 2;
const FREE: usize = 3;
const MEMALIGN: usize = 4;
const MOST_ALIVE: usize = 6;

#[test]
fn only_events_reach_the_malloc() {
    let library = Library::compile("count.c", &[]);
    let mut script = Script::new();
    for object in 0..1000 {
        script.malloc(0, object, 24);
    }
    for object in 0..100 {
        script.realloc(0, object, 100).free(0, 500 + object);
    }
    script.make(0, 500, Request { api: Api::Calloc, ..bytes(64) });
    script.make(0, 501, Request { api: Api::Aligned, align_log2: 12, ..bytes(64) });
    script.make(0, 502, Request { api: Api::New, align_log2: 6, ..bytes(64) });
    script.make(0, 503, Request { api: Api::NewArray, ..bytes(64) });
    script.event(0, Event::UnknownFree).event(0, Event::Failed { request: bytes(1 << 60) });
    let prepared = script.finish();
    assert_eq!((prepared.facts().left_out, prepared.facts().failed), (1, 1));
    let measured = measure(&prepared, &library.allocator(), &quick());
    assert_eq!(measured.outcome.events, 1000 + 200 + 4);
    let counts = library.counts();
    assert_eq!([counts[MALLOC], counts[REALLOC], counts[FREE]], [1001, 100, 100]);
    assert_eq!([counts[CALLOC], counts[MEMALIGN]], [1, 2]);
}

#[test]
fn a_thread_costs_one_calloc_of_libc_and_nothing_else() {
    let library = Library::compile("count.c", &[]);
    let mut script = Script::new();
    for thread in 0..4 {
        script.event(thread, Event::ThreadStart).malloc(thread, thread, 100);
    }
    measure(&script.finish(), &library.allocator(), &quick());
    let counts = library.counts();
    assert_eq!([counts[MALLOC], counts[CALLOC], counts[FREE]], [4, 3, 0]);
}

#[test]
fn no_more_threads_are_alive_than_in_the_trace() {
    let library = Library::compile("count.c", &[]);
    let mut script = Script::new();
    for thread in 1..=40 {
        script.event(thread, Event::ThreadStart).malloc(thread, thread, 100);
        if thread > 2 {
            // Two at a time beside the main thread; the object outlives its maker.
            script.event(thread - 2, Event::ThreadEnd).free(thread, thread - 2);
        }
    }
    measure(&script.finish(), &library.allocator(), &quick());
    // A third is begun before the first of the three ends.
    assert_eq!(library.counts()[MOST_ALIVE], 3);
}

#[test]
fn a_tangle_of_threads_ends_and_ends_as_the_trace_does() {
    for (threads, seed) in [(2, 1), (8, 2), (33, 3)] {
        let prepared = tangle(threads, 20_000, seed);
        assert_eq!(prepared.facts().threads, threads);
        assert!(prepared.facts().handoffs > 5_000);
        let measured = measure(&prepared, &Allocator::glibc(), &quick());
        let last = measured.outcome.timeline.last().copied().unwrap_or_default();
        assert_eq!(last.events, prepared.facts().events);
        assert!(last.live > 0 && last.live <= prepared.facts().peak_live);
        assert_eq!(measured.outcome.failures, 0);
    }
}

#[test]
fn a_tangle_ends_on_one_processor_too() {
    let _alone = OneProcessor::enter();
    let prepared = tangle(8, 10_000, 4);
    measure(&prepared, &Allocator::glibc(), &quick());
}

#[test]
fn replays_of_one_trace_count_the_same() {
    let library = Library::compile("count.c", &[]);
    let prepared = tangle(4, 10_000, 5);
    let allocator = library.allocator();
    let counts: Vec<Vec<u64>> = (0..2)
        .map(|_| {
            measure(&prepared, &allocator, &Options { repeats: 1, ..Options::default() });
            library.counts()[..5].to_vec()
        })
        .collect();
    assert_eq!(counts[0], counts[1]);
}

#[test]
fn inherited_objects_are_there_from_the_start() {
    let mut script = Script::new();
    script.malloc(0, 0, 1000).malloc(1, 1, 50);
    for object in 2..200 {
        script.event(1, Event::Inherit { object: ObjectId(object), request: bytes(4096) });
        script.free(1, object);
    }
    let prepared = script.finish();
    assert_eq!((prepared.facts().inherited, prepared.facts().events), (198, 200));
    assert_eq!(prepared.facts().peak_live, 1050 + 198 * 4096);
    let measured = measure(&prepared, &Allocator::glibc(), &quick());
    assert_eq!(measured.outcome.timeline[1].live, 1050 + 198 * 4096);
    assert_eq!(measured.outcome.timeline.last().map(|point| point.live), Some(1050));
}

#[test]
fn what_damage_has_swallowed_is_repaired() {
    let mut script = Script::new();
    script.free(0, 7).malloc(0, 1, 10).malloc(0, 1, 20).realloc(0, 9, 30).free(0, 9);
    script.event(2, Event::ThreadEnd).malloc(2, 3, 10);
    let prepared = script.finish();
    assert_eq!(prepared.facts().left_out, 1);
    assert_eq!(prepared.facts().events, 6);
    measure(&prepared, &Allocator::glibc(), &quick());
}

/// Holds the calling thread, and the children it starts, on one processor.
struct OneProcessor(libc::cpu_set_t);

impl OneProcessor {
    fn enter() -> OneProcessor {
        // SAFETY: all-zero is a valid set; the calls write only inside the sets given.
        unsafe {
            let size = size_of::<libc::cpu_set_t>();
            let mut all: libc::cpu_set_t = std::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(0, size, &raw mut all), 0);
            let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &all));
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(first.unwrap(), &mut one);
            assert_eq!(libc::sched_setaffinity(0, size, &raw const one), 0);
            OneProcessor(all)
        }
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        // SAFETY: gives the thread back the set it had.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const self.0) };
    }
}
