//! The engine on traces of a few events, with every number computed by hand.

use super::*;
use crate::simulate::memory::Memory;
use freehold_blocks::{BestFit, GoodFit};
use freehold_trace::Api;

fn request(size: u64) -> Request {
    Request { size, align_log2: 0, api: Api::Malloc, usable: 0 }
}
fn alloc(object: u32, size: u64) -> Event {
    Event::Alloc { object: ObjectId(object), request: request(size) }
}
fn free(object: u32) -> Event {
    Event::Free { object: ObjectId(object), remote: false }
}
fn realloc(object: u32, size: u64) -> Event {
    let request = request(size);
    Event::Realloc { object: ObjectId(object), request, remote: false, began: Tick(0) }
}

/// Replays on best fit in a region of `len` bytes, a tick an event, 1000 ticks a second.
fn replay(len: u64, events: &[Event]) -> Outcome {
    replay_on::<BestFit>(len, events)
}

fn replay_on<P: Policy>(len: u64, events: &[Event]) -> Outcome {
    let mut memory = Memory::reserve(len).unwrap();
    // SAFETY: the only region of this memory; the engine is consumed before the memory is dropped.
    let mut engine = Engine::<P>::new(unsafe { memory.region() }.unwrap(), 1000).unwrap();
    for (tick, event) in events.iter().enumerate() {
        engine.apply(Tick(tick as u64), event);
    }
    let broken = engine.policy.check();
    assert!(broken.is_ok(), "{broken:?}");
    engine.finish("best-fit", 1000, Tick(0))
}

#[test]
fn live_bytes_peaks_and_fragmentation_of_a_hand_made_run() {
    // Blocks are the size asked for and 8 rounded up to 16, at least 32.
    let found = replay(1 << 16, &[alloc(0, 100), alloc(1, 200), free(0), alloc(2, 50), free(1)]);
    let live: Vec<_> = found.timeline.iter().map(|point| point.live).collect();
    let used: Vec<_> = found.timeline.iter().map(|point| point.used).collect();
    assert_eq!(live, [100, 300, 200, 250, 50]);
    assert_eq!(used, [112, 320, 320, 320, 64], "50 + 8 go into the hole of 112, and 208 come back");
    assert_eq!((found.peak_live, found.peak_memory, found.final_memory), (300, 320, 64));
    assert_eq!(found.johnstone_wilson.average, 1136.0 / 900.0 - 1.0);
    assert_eq!(found.johnstone_wilson.peak_over_peak, 320.0 / 300.0 - 1.0);
    // Gross after each event: 112, 320, 208, 272, 64.
    assert_eq!(found.internal_fragmentation, Some(1.0 - 900.0 / 976.0));
    assert_eq!(found.external_fragmentation, Some(0.0), "never more than one hole");
    assert_eq!(found.timeline.last().unwrap().allocated, 350);
    assert_eq!(found.timeline.last().unwrap().seconds, 0.004);
    assert_eq!((found.events, found.failures, found.seconds), (5, 0, None));
    let steps = found.steps.unwrap();
    assert!(steps.total >= 5 && steps.max <= steps.total && steps.mean > 0.0, "{steps:?}");
}

#[test]
fn external_fragmentation_sees_the_holes_below_the_end_only() {
    // Holes of 112 and 208 between blocks that stay; the free end of the region does not count.
    let found = replay(
        1 << 20,
        &[alloc(0, 100), alloc(1, 20), alloc(2, 200), alloc(3, 20), free(0), free(2)],
    );
    let last = 1.0 - 208.0 / 320.0;
    assert_eq!(
        found.external_fragmentation,
        Some(last / 6.0),
        "five moments with at most one hole"
    );
}

#[test]
fn what_failed_is_counted_and_its_frees_are_skipped() {
    let found =
        replay(4096, &[alloc(0, 1000), alloc(1, 8000), free(1), alloc(1, 500), free(1), free(0)]);
    assert_eq!((found.failures, found.events), (1, 6));
    assert_eq!((found.peak_live, found.final_memory), (1500, 0));
}

#[test]
fn a_realloc_that_fails_keeps_the_object() {
    let found = replay(4096, &[alloc(0, 1000), alloc(1, 1000), realloc(0, 3000), free(0), free(1)]);
    let live: Vec<_> = found.timeline.iter().map(|point| point.live).collect();
    assert_eq!((live, found.failures), (vec![1000, 2000, 2000, 1000, 0], 1));
}

#[test]
fn a_realloc_grows_in_place_or_moves() {
    let found = replay(1 << 16, &[alloc(0, 100), realloc(0, 150), alloc(1, 100), realloc(0, 1000)]);
    let used: Vec<_> = found.timeline.iter().map(|point| point.used).collect();
    assert_eq!(used, [112, 160, 272, 1280]);
    let allocated: Vec<_> = found.timeline.iter().map(|point| point.allocated).collect();
    assert_eq!(allocated, [100, 150, 250, 1100], "a realloc allocates what it adds");
}

#[test]
fn damage_neither_breaks_nor_leaks() {
    let found = replay(
        1 << 16,
        &[
            free(7),
            alloc(0, 100),
            alloc(0, 200),          // the free between was lost
            alloc(999_999_999, 64), // an id that no trace of this length can hold
            realloc(3, 300),        // its allocation was lost
            free(0),
            free(0),
            free(3),
            Event::UnknownFree,
            Event::ThreadEnd,
        ],
    );
    assert_eq!((found.events, found.failures, found.final_memory), (8, 0, 0));
    assert_eq!(found.peak_live, 500);
}

#[test]
fn a_wild_id_of_a_long_trace_costs_no_memory() {
    let mut memory = Memory::reserve(1 << 16).unwrap();
    // SAFETY: the only region of this memory; the engine is dropped before the memory.
    let region = unsafe { memory.region() }.unwrap();
    let mut engine = Engine::<GoodFit>::new(region, u64::from(u32::MAX) + 1).unwrap();
    for id in (0..=u32::MAX).rev().step_by(1 << 20) {
        engine.apply(Tick(0), &alloc(id, 16));
    }
    assert!(engine.objects.len() <= (1 << 22) + 4096, "{}", engine.objects.len());
    assert_eq!(engine.live, 4 * 16, "the lowest ids are believed");
}

#[test]
fn looking_ahead_changes_nothing() {
    let mut events = vec![alloc(9, 40), free(9), free(9), realloc(9, 70), realloc(9, 4000)];
    events.extend((10..200).map(|object| alloc(object, u64::from(object) * 7 % 900)));
    events.extend((10..200).step_by(3).flat_map(|object| [free(object), alloc(object, 33)]));
    events.extend((10..200).map(free));
    let timed: Vec<_> =
        events.iter().zip(0..).map(|(&event, tick)| Timed { tick: Tick(tick), event }).collect();
    for policy in freehold_blocks::policy::POLICIES {
        struct Both<'a>(&'a [Event], &'a [Timed]);
        impl freehold_blocks::policy::Visitor for Both<'_> {
            type Out = [Outcome; 2];
            fn visit<P: Policy>(self) -> [Outcome; 2] {
                let mut memory = Memory::reserve(1 << 18).unwrap();
                // SAFETY: the only region of this memory; the engine is consumed before it.
                let region = unsafe { memory.region() }.unwrap();
                let mut engine = Engine::<P>::new(region, 1000).unwrap();
                engine.apply_all(self.1);
                [replay_on::<P>(1 << 18, self.0), engine.finish("best-fit", 1000, Tick(0))]
            }
        }
        let [one_by_one, ahead] =
            freehold_blocks::policy::dispatch(policy.name, Both(&events, &timed)).unwrap();
        assert_eq!(one_by_one, ahead, "{}", policy.name);
    }
}

#[test]
fn no_event_no_figures() {
    let found = replay(1 << 16, &[Event::ThreadStart]);
    assert_eq!((found.events, found.timeline.len()), (0, 0));
    assert_eq!((found.internal_fragmentation, found.external_fragmentation), (None, None));
}

#[test]
fn alignment_is_honoured_in_the_gross() {
    let aligned = Request { align_log2: 12, ..request(64) };
    let event = Event::Alloc { object: ObjectId(1), request: aligned };
    let found = replay_on::<GoodFit>(1 << 16, &[alloc(0, 64), event]);
    assert!(found.peak_memory > 4096, "{}", found.peak_memory);
}
