//! Memory is the tested malloc's, and no peak is missed.

mod common;

use common::{Script, measure, quick};
use freehold_lab::real::{Allocator, Options, Touch};

const MIB: u64 = 1 << 20;

#[test]
fn the_peak_between_two_samples_is_seen() {
    let mut script = Script::new();
    for object in 0..2000 {
        script.malloc(0, object, 64);
    }
    script.malloc(0, 5000, 64 * MIB).free(0, 5000);
    for object in 0..2000 {
        script.free(0, object);
    }
    let prepared = script.finish();
    assert_eq!(prepared.facts().peak_live, 64 * MIB + 2000 * 64);
    let outcome = measure(&prepared, &Allocator::glibc(), &quick()).outcome;
    let peak = outcome.peak_memory;
    // The kernel's mark lags by up to 32 pages per processor.
    assert!((63 * MIB..66 * MIB).contains(&peak), "peak {peak}");
    assert!(outcome.final_memory < 2 * MIB, "at the end {}", outcome.final_memory);
}

#[test]
fn tables_and_streams_of_the_replayer_do_not_count() {
    // 400,000 events are 6.4 MB of stream, 200,000 slots 3.2 MB of table; the objects are 16 bytes,
    // 32 with glibc's header: 6.4 MB.
    let mut script = Script::new();
    for object in 0..200_000 {
        script.malloc(0, object, 16);
    }
    for object in 0..200_000 {
        script.free(0, object);
    }
    let outcome = measure(&script.finish(), &Allocator::glibc(), &quick()).outcome;
    let peak = outcome.peak_memory;
    assert!((6_000_000..7_500_000).contains(&peak), "peak {peak}");
    assert!(outcome.timeline.len() <= 300 && outcome.timeline.len() >= 150);
    let times: Vec<f64> = outcome.timeline.iter().map(|point| point.seconds).collect();
    assert!(times.is_sorted() && times.last() == Some(&0.399_999));
    let fullest = outcome.timeline.iter().map(|point| point.live).max();
    assert!(fullest.is_some_and(|live| live > 3_100_000 && live <= 3_200_000));
    assert!(outcome.johnstone_wilson.peak_over_peak > 0.8);
    assert!(outcome.latency.is_some_and(|l| l.p50 > 0.0 && l.p50 <= l.p99 && l.p99 <= l.max));
}

#[test]
fn without_touching_memory_stays_away() {
    let mut script = Script::new();
    script.malloc(0, 0, 64 * MIB);
    let prepared = script.finish();
    let peak = |touch| {
        measure(&prepared, &Allocator::glibc(), &Options { touch, ..quick() }).outcome.peak_memory
    };
    assert!(peak(Touch::None) < 2 * MIB);
    assert!(peak(Touch::Page) >= 64 * MIB);
    assert!(peak(Touch::All) >= 64 * MIB);
}
