//! Whole replays of small traces written by the tests.

use super::*;
use freehold_blocks::policy::POLICIES;
use freehold_trace::{
    Api, Event, Header, ObjectId, ProcessInfo, Record, Request, ThreadId, Tick, Writer,
};
use std::path::Path;

/// Writes a trace of two processes: P0 with `events` events on two threads from a little generator,
/// P1 with one allocation.
fn write_trace(path: &Path, events: u64) {
    let header =
        Header { ticks_per_second: 1_000_000, command: vec!["sample".into()], ..Header::default() };
    let mut writer = Writer::create(path, header).unwrap();
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut alive: Vec<u32> = Vec::new();
    let mut spare: Vec<u32> = (0..400).rev().collect();
    let mut push = |process, thread, tick, event| {
        let (process, thread) = (ProcessId(process), ThreadId(thread));
        writer.push(&Record { tick: Tick(tick), process, thread, event }).unwrap();
    };
    for tick in 0..events {
        let size = 1 << random(12);
        let request = Request { size: size + random(size), api: Api::Malloc, ..Request::default() };
        let event = match (random(8), spare.is_empty(), alive.is_empty()) {
            (0, _, false) => {
                let object = ObjectId(alive[random(alive.len() as u64) as usize]);
                Event::Realloc { object, request, remote: false, began: Tick(tick) }
            }
            (1..=4, false, _) | (_, false, true) => {
                let object = spare.pop().unwrap();
                alive.push(object);
                Event::Alloc { object: ObjectId(object), request }
            }
            _ => {
                let object = alive.swap_remove(random(alive.len() as u64) as usize);
                spare.push(object);
                Event::Free { object: ObjectId(object), remote: false }
            }
        };
        push(0, (tick % 2) as u32, tick, event);
    }
    let request = Request { size: 10, ..Request::default() };
    push(1, 0, events, Event::Alloc { object: ObjectId(0), request });
    writer.finish().unwrap();
}

struct Sample {
    _folder: tempfile::TempDir,
    trace: Trace,
}

fn sample(events: u64) -> Sample {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.fht");
    write_trace(&path, events);
    Sample { trace: Trace::open(&path).unwrap(), _folder: folder }
}

fn all_on(trace: &Trace, names: &[&str], limit: Option<u64>) -> Vec<Outcome> {
    let calm = AtomicBool::new(false);
    let process = busiest(trace).unwrap();
    let found = survey(trace, process, &mut |_, _| (), &calm).unwrap();
    let options = Options { process, limit };
    let results = replay(trace, &found, names, options, &mut |_, _| (), &calm).unwrap();
    results.into_iter().map(|one| one.outcome).collect()
}

#[test]
fn every_policy_sees_the_same_program() {
    let sample = sample(20_000);
    let names: Vec<&str> = POLICIES.iter().map(|policy| policy.name).collect();
    let outcomes = all_on(&sample.trace, &names, None);
    assert_eq!(outcomes.iter().map(|o| o.name.as_str()).collect::<Vec<_>>(), names);
    let calm = AtomicBool::new(false);
    let survey = survey(&sample.trace, ProcessId(0), &mut |_, _| (), &calm).unwrap();
    for outcome in &outcomes {
        assert_eq!(outcome.events, 20_000, "{}", outcome.name);
        assert_eq!(outcome.failures, 0, "{}", outcome.name);
        assert_eq!(outcome.peak_live, survey.peak_live, "{}", outcome.name);
        assert!(outcome.peak_memory >= outcome.peak_live, "{}", outcome.name);
        let lives = |o: &Outcome| o.timeline.iter().map(|p| p.live).collect::<Vec<_>>();
        assert_eq!(lives(outcome), lives(&outcomes[0]), "{}", outcome.name);
        assert_eq!(outcome.timeline.last().unwrap().allocated, survey.facts.allocated);
    }
}

#[test]
fn lists_and_trees_find_the_same_places() {
    let sample = sample(5_000);
    for name in ["first-fit", "next-fit", "best-fit", "worst-fit"] {
        let outcomes = all_on(&sample.trace, &[name, &format!("{name}-list")], None);
        let as_if = |o: &Outcome| Outcome { name: String::new(), steps: None, ..o.clone() };
        assert_eq!(as_if(&outcomes[0]), as_if(&outcomes[1]), "{name}");
    }
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let sample = sample(5_000);
    let names: Vec<&str> = POLICIES.iter().map(|policy| policy.name).collect();
    let bytes = || serde_json::to_vec(&all_on(&sample.trace, &names, None)).unwrap();
    assert_eq!(bytes(), bytes());
}

#[test]
fn a_limit_makes_allocations_fail() {
    let sample = sample(20_000);
    let outcome = all_on(&sample.trace, &["best-fit"], Some(64 << 10)).remove(0);
    assert!(outcome.failures > 0);
    assert!(outcome.peak_memory <= 64 << 10);
}

/// A tenth of the heaviest one's memory is worth a judgement, less is not; the heaviest is first, whatever its number.
#[test]
fn processes_with_a_tenth_of_the_most_memory_are_heavy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tree.fht");
    let mut writer = Writer::create(&path, Header::default()).unwrap();
    for (process, size) in [(0, 99), (1, 100), (2, 1000), (3, 0)] {
        let process = ProcessId(process);
        writer
            .process_at_end(ProcessInfo { peak_bytes: Some(size), ..ProcessInfo::unseen(process) });
        let request = Request { size, api: Api::Malloc, ..Request::default() };
        let event = match size {
            0 => Event::ThreadStart,
            _ => Event::Alloc { object: ObjectId(0), request },
        };
        let tick = Tick(process.0.into());
        writer.push(&Record { tick, process, thread: ThreadId(0), event }).unwrap();
    }
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    let found = heavy(&trace, &mut |_, _| (), &AtomicBool::new(false)).unwrap();
    assert_eq!(found, [ProcessId(2), ProcessId(1)]);
}

/// A child that touches what its parent made, and makes less itself: with the writer's peaks and without them the same is chosen,
/// and it is the one that `profile` puts first.
#[test]
fn inherited_memory_makes_no_process_the_heaviest() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = |size| Request { size, api: Api::Malloc, ..Request::default() };
    for peaks in [[None, None], [Some(300), Some(550)]] {
        let path = folder.path().join("family.fht");
        let mut writer = Writer::create(&path, Header::default()).unwrap();
        let parent = ProcessInfo { peak_bytes: peaks[0], ..ProcessInfo::unseen(ProcessId(0)) };
        let child = ProcessInfo {
            inherited_objects: 1,
            inherited_bytes: 300,
            peak_bytes: peaks[1],
            ..ProcessInfo::unseen(ProcessId(1))
        };
        [parent, child].into_iter().for_each(|process| writer.process_at_end(process));
        let events = [
            (0, Event::Alloc { object: ObjectId(0), request: bytes(300) }),
            (1, Event::Inherit { object: ObjectId(0), request: bytes(300) }),
            (1, Event::Alloc { object: ObjectId(1), request: bytes(250) }),
        ];
        for (tick, (process, event)) in events.into_iter().enumerate() {
            let (tick, process) = (Tick(tick as u64), ProcessId(process));
            writer.push(&Record { tick, process, thread: ThreadId(0), event }).unwrap();
        }
        writer.finish().unwrap();
        let trace = Trace::open(&path).unwrap();
        let stop = AtomicBool::new(false);
        assert_eq!(heaviest(&trace, &mut |_, _| (), &stop).unwrap(), Some(ProcessId(0)));
        let both = heavy(&trace, &mut |_, _| (), &stop).unwrap();
        assert_eq!(both, [ProcessId(0), ProcessId(1)], "{peaks:?}");
        let mut first = None;
        let mut keep = |process: crate::profile::ProcessProfile| {
            first = first.max(Some(process.weight()));
            true
        };
        crate::profile::profile(&trace, None, &mut keep, &mut |_, _| (), &stop).unwrap();
        assert_eq!(first.unwrap().2.0, ProcessId(0), "{peaks:?}");
    }
}

#[test]
fn the_busiest_process_is_the_one_meant() {
    let sample = sample(100);
    assert_eq!(busiest(&sample.trace), Some(ProcessId(0)));
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let sample = sample(100);
    let calm = AtomicBool::new(false);
    let wrong = survey(&sample.trace, ProcessId(9), &mut |_, _| (), &calm).unwrap_err();
    assert_eq!(wrong.to_string(), "the trace has no process 9; it has 2, counted from 0");
    let found = survey(&sample.trace, ProcessId(0), &mut |_, _| (), &calm).unwrap();
    let on = |name, limit, stop: &AtomicBool| {
        let options = Options { process: ProcessId(0), limit };
        replay(&sample.trace, &found, &[name], options, &mut |_, _| (), stop)
    };
    assert!(matches!(on("nearest-fit", None, &calm), Err(SimulateError::Unknown { .. })));
    assert!(matches!(on("best-fit", Some(8), &calm), Err(SimulateError::TooShort { .. })));
}

#[test]
fn an_interrupted_replay_ends() {
    let sample = sample(100_000);
    let calm = AtomicBool::new(false);
    let found = survey(&sample.trace, ProcessId(0), &mut |_, _| (), &calm).unwrap();
    let options = Options { process: ProcessId(0), limit: None };
    let raised = AtomicBool::new(true);
    let ended = replay(&sample.trace, &found, &["best-fit"], options, &mut |_, _| (), &raised);
    assert!(matches!(ended, Err(SimulateError::Interrupted)));
}

#[test]
fn regions_have_room_and_bounds() {
    assert_eq!(region_len(0, None), 16 << 20);
    assert_eq!(region_len(5 << 20, None), 32 << 20);
    assert_eq!(region_len(u64::MAX, None), MAX_REGION);
    assert_eq!(region_len(5 << 20, Some(1000)), 1000);
}
