//! The malloc on the simulated machine, under traces made here.

use super::*;
use crate::results::write_json;
use crate::simulate;
use freehold_core::malloc::decisions::Decision;
use freehold_trace::{Api, Event, Header, ObjectId, Record, Request, ThreadId, Tick, Writer};
use rayon::prelude::*;
use std::sync::atomic::AtomicU64;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Events in a temporary file; a tick is a millisecond.
struct Script {
    folder: tempfile::TempDir,
    traces: AtomicU64,
    records: Vec<Record>,
}

impl Script {
    fn new() -> Script {
        Script {
            folder: tempfile::tempdir().unwrap(),
            traces: AtomicU64::new(0),
            records: Vec::new(),
        }
    }

    fn push(&mut self, ms: u64, thread: u32, event: Event) -> &mut Script {
        let (process, thread) = (ProcessId(0), ThreadId(thread));
        self.records.push(Record { tick: Tick(ms), process, thread, event });
        self
    }

    fn alloc(&mut self, ms: u64, thread: u32, object: u32, size: u64) -> &mut Script {
        let request = Request { size, ..Request::default() };
        self.push(ms, thread, Event::Alloc { object: ObjectId(object), request })
    }

    fn free(&mut self, ms: u64, thread: u32, object: u32) -> &mut Script {
        self.push(ms, thread, Event::Free { object: ObjectId(object), remote: thread != 0 })
    }

    fn trace(&self) -> Trace {
        let number = self.traces.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.path().join(format!("{number}.fht"));
        let header = Header { ticks_per_second: 1000, ..Header::default() };
        let mut writer = Writer::create(&path, header).unwrap();
        self.records.iter().for_each(|record| writer.push(record).unwrap());
        writer.finish().unwrap();
        Trace::open(&path).unwrap()
    }

    fn run(&self, settings: &Settings) -> Outcome {
        let (trace, never) = (self.trace(), AtomicBool::new(false));
        let survey = simulate::survey(&trace, ProcessId(0), &mut |_, _| (), &never).unwrap();
        replay(&trace, ProcessId(0), &survey, settings, &mut |_, _| (), &never).unwrap().0
    }
}

fn paged(outcome: &Outcome) -> &crate::results::Paged {
    outcome.paged.as_ref().unwrap()
}

/// Three threads of blocks of all sizes, some freed by another thread; the second one ends.
fn busy() -> Script {
    let mut script = Script::new();
    for i in 0..6000u32 {
        let (ms, thread) = (u64::from(i) / 4, i % 3);
        if thread == 1 && i == 4000 {
            script.push(ms, 1, Event::ThreadEnd);
        }
        if i >= 900 {
            script.free(ms, (i / 7) % 3, i % 900);
        }
        let size = u64::from(i * 7919 % 3001 + i % 97 * (i % 5) * 300);
        script.alloc(ms, thread, i % 900, size);
        if i % 11 == 0 {
            let object = ObjectId(i % 900);
            let request = Request { size: size * 2 + 1, ..Request::default() };
            let began = Tick(ms);
            script.push(ms, thread, Event::Realloc { object, request, remote: false, began });
        }
    }
    script
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let script = busy();
    for settings in
        [Settings::default(), Settings { huge_pages: true, page: 16 << 10, ..Settings::default() }]
    {
        let json = || {
            let mut bytes = Vec::new();
            write_json(&mut bytes, &script.run(&settings)).unwrap();
            bytes
        };
        let first = json();
        // Elsewhere in the address space, and beside another one.
        let _in_the_way = vec![1u8; 64 << 20];
        let second = std::thread::scope(|scope| {
            let other = scope.spawn(json);
            let second = json();
            assert_eq!(other.join().unwrap(), second);
            second
        });
        assert_eq!(first, second);
    }
}

#[test]
fn every_resident_byte_has_one_cause() {
    for huge_pages in [false, true] {
        let outcome = busy().run(&Settings { huge_pages, ..Settings::default() });
        let found = paged(&outcome);
        assert_eq!(found.at_peak.resident(), outcome.peak_memory);
        assert_eq!(outcome.timeline.len(), found.over_time.len());
        for (point, by_cause) in outcome.timeline.iter().zip(&found.over_time) {
            assert_eq!((point.used, point.events), (by_cause.causes.resident(), by_cause.events));
            assert_eq!(point.live, by_cause.causes.live);
            assert!(point.used <= outcome.peak_memory);
        }
        assert_eq!((outcome.events, outcome.failures), (busy().records.len() as u64 - 1, 0));
    }
}

#[test]
fn causes_are_told_apart() {
    let mut script = Script::new();
    // A slab of blocks of 4 KiB, of which one in four stays; a large block with a page too many; a run that was freed.
    (0..16).for_each(|i| _ = script.alloc(0, 0, i, 4000));
    script.alloc(0, 0, 16, 65 * KIB + 1);
    script.alloc(0, 0, 17, MIB).free(0, 0, 17);
    (0..16).filter(|i| i % 4 != 0).for_each(|i| _ = script.free(1, 0, i));
    let outcome = script.run(&Settings::default());
    let causes = paged(&outcome).over_time.last().unwrap().causes;
    assert_eq!(causes.live, 4 * 4000 + 65 * KIB + 1);
    assert_eq!(causes.inside_blocks, 4 * 96);
    assert_eq!(causes.caches + causes.slabs, 12 * 4096);
    assert!(causes.caches > 0, "{causes:?}");
    assert_eq!(causes.partly_used, 68 * KIB - (65 * KIB + 1));
    assert_eq!(causes.not_due, MIB);
    assert!((8 * KIB..128 * KIB).contains(&causes.metadata), "{causes:?}");
    assert_eq!((causes.huge_pages, outcome.peak_live), (0, 16 * 4000 + 65 * KIB + 1 + MIB));
}

/// 32 MiB freed at once; then now and then a call.
fn idle_after_a_peak() -> Script {
    let mut script = Script::new();
    (0..32).for_each(|i| _ = script.alloc(0, 0, i, MIB));
    (0..32).for_each(|i| _ = script.free(1, 0, i));
    (1..60).for_each(|i| _ = script.alloc(100 * i, 0, 0, 16).free(100 * i, 0, 0));
    script
}

#[test]
fn the_purger_comes_at_the_times_of_the_trace() {
    let script = idle_after_a_peak();
    let outcome = script.run(&Settings::default());
    assert!((32 * MIB..33 * MIB).contains(&outcome.peak_memory), "{}", outcome.peak_memory);
    assert!(outcome.final_memory < 200 * KIB, "{}", outcome.final_memory);
    assert_eq!(paged(&outcome).purged / MIB, 32);
    let at = |seconds: f64| {
        let after = outcome.timeline.iter().find(|point| point.seconds >= seconds);
        after.unwrap().used
    };
    assert!(at(0.7) > 32 * MIB && at(1.3) < MIB, "after the second or third round");
    let hasty = script.run(&Settings { speed: 100.0, ..Settings::default() });
    assert_eq!((hasty.final_memory / MIB, paged(&hasty).purged), (32, 0), "over in 60 ms");
}

#[test]
fn a_machine_with_huge_pages_gives_whole_banks() {
    let mut script = Script::new();
    (0..48 * 1024).for_each(|i| _ = script.alloc(0, 0, i, KIB));
    let small = script.run(&Settings::default());
    let mut settings = Settings { huge_pages: true, ..Settings::default() };
    settings.set("huge.from=8M").unwrap();
    let huge = script.run(&settings);
    assert_eq!(paged(&small).at_peak.huge_pages, 0);
    assert!(paged(&huge).at_peak.huge_pages > MIB, "{:?}", paged(&huge).at_peak);
    assert_eq!(huge.timeline.last().unwrap().live, small.timeline.last().unwrap().live);
    assert!(huge.page_faults.unwrap() < small.page_faults.unwrap() / 2);
}

#[test]
fn a_calloc_clears_a_long_block_by_its_pages_and_the_peak_is_before_that() {
    let mut script = Script::new();
    script.alloc(0, 0, 0, 16 * MIB).free(1, 0, 0);
    let request = Request { size: 16 * MIB, api: Api::Calloc, ..Request::default() };
    script.push(2, 0, Event::Alloc { object: ObjectId(1), request });
    let outcome = script.run(&Settings::default());
    assert_eq!(outcome.peak_memory / MIB, 16);
    assert_eq!(paged(&outcome).purged, 16 * MIB);
    assert_eq!(outcome.page_faults.unwrap() / (MIB / 4096), 32, "each page came twice");
}

#[test]
fn pages_that_move_are_not_resident_twice() {
    let mut script = Script::new();
    script.alloc(0, 0, 0, 8 * MIB).alloc(0, 0, 1, MIB);
    let request = Request { size: 24 * MIB, ..Request::default() };
    let (object, began) = (ObjectId(0), Tick(1));
    script.push(1, 0, Event::Realloc { object, request, remote: false, began });
    let outcome = script.run(&Settings::default());
    assert_eq!(outcome.peak_memory / MIB, 25);
    assert_eq!(paged(&outcome).at_peak.not_due, 0);
}

#[test]
fn a_limit_makes_allocations_fail() {
    let mut script = Script::new();
    (0..8).for_each(|i| _ = script.alloc(0, 0, i, MIB));
    let outcome = script.run(&Settings { limit: Some(4 * MIB), ..Settings::default() });
    assert!((4..8).contains(&outcome.failures), "{}", outcome.failures);
    assert!(outcome.peak_memory <= 4 * MIB + 200 * KIB);
}

#[test]
fn longer_pages_cost_what_they_round_up() {
    let script = busy();
    let peak = |page| script.run(&Settings { page, ..Settings::default() }).peak_memory;
    let peaks = [4 << 10, 16 << 10, 64 << 10].map(peak);
    assert!(peaks[0] < peaks[1] && peaks[1] < peaks[2], "{peaks:?}");
}

/// The malloc holds whatever is decided: under every decision switched its invariants hold, and no event is lost.
#[test]
fn whatever_is_decided_the_malloc_stays_whole() {
    let script = busy();
    let shipped = script.run(&Settings::default());
    let switched = |decision: &Decision| {
        for value in [decision.off.unwrap_or(1), (decision.shipped / 4).max(1)] {
            let mut settings = Settings::default();
            *(decision.of)(&mut settings.decisions) = value;
            let outcome = script.run(&settings);
            assert_eq!(
                (outcome.events, outcome.failures),
                (shipped.events, 0),
                "{}",
                decision.name
            );
            assert_eq!(outcome.peak_live, shipped.peak_live, "{}", decision.name);
        }
    };
    decisions().par_iter().for_each(switched);
}

#[test]
fn a_decision_changes_what_comes_out() {
    let script = idle_after_a_peak();
    let mut settings = Settings::default();
    settings.set("purge.from=off").unwrap();
    let never = script.run(&settings);
    assert_eq!((never.final_memory / MIB, paged(&never).purged), (32, 0));
    assert_eq!(paged(&never).changed[0].name, "purge.from");
}
