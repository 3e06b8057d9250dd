//! A small trace whose profile can be reckoned by hand.

use super::*;
use freehold_trace::{Event, ObjectId, Record, Request, ThreadId, Tick, Writer};

static NEVER: AtomicBool = AtomicBool::new(false);

fn bytes(size: u64) -> Request {
    Request { size, ..Request::default() }
}

/// A profile and its processes.
struct Whole {
    profile: Profile,
    total: TotalProfile,
    processes: Vec<ProcessProfile>,
}

fn profile_of(infos: Vec<ProcessInfo>, events: &[(u64, u32, u32, Event)]) -> Whole {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fht");
    let header = Header { ticks_per_second: 1000, ..Header::default() };
    let mut writer = Writer::create(&path, header).unwrap();
    for info in infos {
        writer.process(info).unwrap();
    }
    for &(tick, process, thread, event) in events {
        let (process, thread) = (ProcessId(process), ThreadId(thread));
        writer.push(&Record { tick: Tick(tick), process, thread, event }).unwrap();
    }
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    let mut processes = Vec::new();
    let mut keep = |process| {
        processes.push(process);
        true
    };
    let profile = profile(&trace, None, &mut keep, &mut |_, _| {}, &NEVER).unwrap().unwrap();
    assert_eq!(profile.processes, processes.len());
    Whole { total: profile.total.clone(), profile, processes }
}

fn alloc(object: u32, size: u64) -> Event {
    Event::Alloc { object: ObjectId(object), request: bytes(size) }
}

fn free(object: u32, remote: bool) -> Event {
    Event::Free { object: ObjectId(object), remote }
}

#[test]
fn counts_peaks_and_lifetimes() {
    let grow = Event::Realloc {
        object: ObjectId(1),
        request: bytes(70),
        remote: false,
        began: Tick(1500),
    };
    let profile = profile_of(
        vec![],
        &[
            (0, 0, 0, alloc(0, 100)),
            (1000, 0, 0, alloc(1, 50)),
            (2000, 0, 0, grow),
            (3000, 0, 1, free(0, true)),
            (3000, 0, 1, Event::UnknownFree),
            (4000, 0, 1, Event::Failed { request: bytes(1 << 50) }),
            (5000, 0, 0, alloc(0, 8)),
        ],
    );
    let process = &profile.processes[0];
    assert_eq!(process.figures.events, 7);
    assert_eq!((process.figures.calls.malloc, process.figures.calls.reallocs), (3, 1));
    assert_eq!((process.figures.calls.frees, process.figures.calls.remote_frees), (1, 1));
    assert_eq!((process.figures.calls.unknown_frees, process.figures.calls.failed), (1, 1));
    assert_eq!(process.figures.calls.contradictions, 0);
    assert_eq!(process.figures.allocated_bytes, 178, "100 + 50 + growth of 20 + 8");
    assert_eq!(process.figures.peak, Peak { bytes: 170, objects: 2, at_s: 2.0, at_bytes: 170 });
    assert_eq!((process.figures.end_bytes, process.figures.end_objects), (78, 2));
    let lived = |buckets: &[Bucket]| {
        assert_eq!(buckets.iter().map(|b| b.count).sum::<u64>(), 1);
        buckets[0].from
    };
    assert_eq!(lived(&process.figures.lifetimes.events), 3.0);
    assert_eq!(lived(&process.figures.lifetimes.bytes), 160.0, "170 since before it, to an eighth");
    assert!((lived(&process.figures.lifetimes.seconds) - 3.0).abs() < 0.4);
    let pair = FreesBetween { owner: 0, by: 1, frees: 1, bytes: 100 };
    assert_eq!(process.frees_between, [pair]);
    assert_eq!(process.threads.len(), 2);
    assert_eq!(process.figures.live_over_seconds.last().unwrap().bytes, 78);
    assert_eq!((profile.total.figures.peak.bytes, profile.total.threads), (170, 2));
    assert_eq!((profile.total.figures.end_bytes, profile.total.seconds), (78, 5.0));
}

#[test]
fn inherited_objects_are_live_in_the_child_and_count_once_in_total() {
    let parent = ProcessInfo::unseen(ProcessId(0));
    let child = ProcessInfo {
        parent: Some(ProcessId(0)),
        begins: freehold_trace::Begin::Fork,
        inherited_objects: 2,
        inherited_bytes: 300,
        ..ProcessInfo::unseen(ProcessId(1))
    };
    let inherit = Event::Inherit { object: ObjectId(0), request: bytes(200) };
    let profile = profile_of(
        vec![parent, child],
        &[
            (0, 0, 0, alloc(0, 200)),
            (1, 0, 0, alloc(1, 100)),
            (2, 0, 0, Event::Fork { child: ProcessId(1) }),
            (3, 1, 0, inherit),
            (3, 1, 0, free(0, false)),
            (4, 1, 0, alloc(0, 1000)),
            (9, 0, 0, alloc(2, 1)),
        ],
    );
    let child = &profile.processes[1];
    assert_eq!(child.figures.live_over_bytes[0].max_bytes, 300);
    assert_eq!((child.figures.end_bytes, child.figures.end_objects), (1100, 2));
    assert_eq!((child.figures.calls.inherited, child.figures.calls.frees), (1, 1));
    assert!(child.figures.lifetimes.events.is_empty(), "where it began is not known to the child");
    assert_eq!(profile.total.figures.peak.bytes, 1300, "the parent's 300 and the child's own 1000");
    let last = profile.total.figures.live_over_seconds.last().unwrap();
    assert_eq!(last.bytes, 301, "the child ended");
    assert_eq!((profile.total.figures.end_bytes, profile.total.figures.end_objects), (1301, 4));
}

#[test]
fn no_events() {
    let profile = profile_of(vec![], &[]);
    assert_eq!((profile.total.figures.events, profile.processes.len()), (0, 0));
    let text = serde_json::to_string(&profile.profile).unwrap();
    assert!(text.contains(&format!("\"schema\":{PROFILE_SCHEMA}")), "{text}");
}

#[test]
fn events_that_contradict_others_are_counted() {
    let profile = profile_of(
        vec![],
        &[(0, 0, 0, free(7, false)), (1, 0, 0, alloc(0, 4)), (2, 0, 0, alloc(0, 5))],
    );
    assert_eq!(profile.total.figures.calls.contradictions, 2);
    assert_eq!((profile.total.figures.end_bytes, profile.total.figures.end_objects), (5, 1));
}
