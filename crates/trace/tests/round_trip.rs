//! What is written is read: the same events, in the order of time.

use freehold_trace::*;
use proptest::prelude::*;
use std::path::Path;

fn header() -> Header {
    Header { ticks_per_second: 1_000_000_000, recorder: "test".into(), ..Header::default() }
}

fn write(path: &Path, records: &[Record]) -> Summary {
    let mut writer = Writer::create(path, header()).unwrap();
    for record in records {
        writer.push(record).unwrap();
    }
    writer.finish().unwrap()
}

fn read(trace: &Trace) -> Vec<Record> {
    let mut records = trace.records().unwrap();
    let mut all = Vec::new();
    while let Some(record) = records.next().unwrap() {
        all.push(record);
    }
    assert_eq!(records.damage(), []);
    all
}

/// The order the reader promises.
fn rank(event: &Event) -> u8 {
    let frees = matches!(event, Event::Free { .. } | Event::UnknownFree | Event::Inherit { .. });
    u8::from(!frees)
}

/// Merges the threads one event at a time: what the reader does, in the plainest way.
fn merged(records: &[Record]) -> Vec<Record> {
    let mut threads: std::collections::BTreeMap<_, std::collections::VecDeque<Record>> =
        Default::default();
    for record in records {
        threads.entry((record.process, record.thread)).or_default().push_back(*record);
    }
    let mut all = Vec::new();
    while let Some((key, _)) = threads
        .iter()
        .filter_map(|(key, left)| Some((*key, left.front()?)))
        .min_by_key(|(key, record)| (record.tick, rank(&record.event), *key))
    {
        all.extend(threads.get_mut(&key).unwrap().pop_front());
    }
    all
}

fn request() -> impl Strategy<Value = Request> {
    let api = prop_oneof![
        Just(Api::Malloc),
        Just(Api::Calloc),
        Just(Api::Aligned),
        Just(Api::New),
        Just(Api::NewArray)
    ];
    let size = prop_oneof![0..200u64, any::<u64>()];
    (size, 0..64u8, api, prop_oneof![Just(0), 0..300u64, any::<u64>()])
        .prop_map(|(size, align_log2, api, usable)| Request { size, align_log2, api, usable })
}

fn event(tick: u64) -> impl Strategy<Value = Event> {
    let object = prop_oneof![0..20u32, any::<u32>()].prop_map(ObjectId);
    let object2 = object.clone();
    prop_oneof![
        4 => (object.clone(), request()).prop_map(|(object, request)| Event::Alloc { object, request }),
        4 => (object.clone(), any::<bool>()).prop_map(|(object, remote)| Event::Free { object, remote }),
        2 => (object.clone(), request(), any::<bool>(), 0..=tick).prop_map(
            |(object, request, remote, began)| Event::Realloc { object, request, remote, began: Tick(began) }),
        1 => (object2, request()).prop_map(|(object, request)| Event::Inherit { object, request }),
        1 => Just(Event::UnknownFree),
        1 => request().prop_map(|request| Event::Failed { request }),
        1 => Just(Event::ThreadStart),
        1 => Just(Event::ThreadEnd),
        1 => any::<u32>().prop_map(|child| Event::Fork { child: ProcessId(child) }),
        1 => (object, any::<u64>(), any::<bool>())
            .prop_map(|(object, offset, write)| Event::Access { object, offset, write }),
    ]
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let step = prop_oneof![5 => 0..3u64, 3 => 0..1000u64, 1 => 0..1u64 << 50];
    let raw = (step, 0..3u32, 0..3u32).prop_flat_map(|(step, process, thread)| {
        event(step).prop_map(move |event| (step, process, thread, event))
    });
    proptest::collection::vec(raw, 0..300).prop_map(|raw| {
        let mut tick = 0;
        let record = |(step, process, thread, event)| {
            tick += step;
            Record {
                tick: Tick(tick),
                process: ProcessId(process),
                thread: ThreadId(thread),
                event,
            }
        };
        raw.into_iter().map(record).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_records_come_back_in_the_order_of_time(records in records()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.fht");
        let summary = write(&path, &records);
        prop_assert_eq!(summary.events, records.len() as u64);
        let trace = Trace::open(&path).unwrap();
        prop_assert_eq!(trace.damage(), &[]);
        prop_assert_eq!(trace.events(), records.len() as u64);
        prop_assert_eq!(read(&trace), merged(&records));
    }
}

#[test]
fn no_events_is_a_trace_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.fht");
    write(&path, &[]);
    let trace = Trace::open(&path).unwrap();
    assert_eq!((trace.events(), trace.damage()), (0, &[][..]));
    assert_eq!(read(&trace), []);
}
