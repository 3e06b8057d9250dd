//! Real files of the tools, and what may be wrong with them.

use super::*;
use crate::event::{Api, Event, ObjectId, Record, Request, Tick};
use crate::pprof::{Function, Line, Location, Mapping, Profile, Sample, ValueType};
use crate::reader::Trace;
use prost::Message as _;
use std::io::Write as _;
use std::sync::atomic::AtomicBool;

/// Written by glibc 2.41's libc_malloc_debug for a program that calls the whole family.
const MTRACE: &str = include_str!("../../tests/samples/mtrace.txt");
/// Written by heaptrack 1.4 for a small C++ program with a thread, zstd-compressed.
const HEAPTRACK: &[u8] = include_bytes!("../../tests/samples/heaptrack.zst");

/// Two threads that hand each other an object, in the layout of `trace2wl`.
const WORKLOAD: &[u8] = include_bytes!("../../tests/samples/two-threads.wl");

fn try_import(
    bytes: &[u8],
    format: Option<Source>,
) -> Result<(Imported, Vec<Record>), ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to.fht"));
    std::fs::write(&from, bytes).unwrap();
    let stop = AtomicBool::new(false);
    let mut control = Control { progress: &mut |_, _| {}, stop: &stop };
    let imported = import(&from, &to, format, &mut control);
    if imported.is_err() {
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "a failed import leaves nothing: {left:?}");
    }
    let imported = imported?;
    let mut records = Vec::new();
    Trace::open(&to).unwrap().records().unwrap().for_each(|r| records.push(*r)).unwrap();
    Ok((imported, records))
}

fn sizes(records: &[Record]) -> Vec<u64> {
    let size = |record: &Record| match record.event {
        Event::Alloc { request, .. } | Event::Realloc { request, .. } => Some(request.size),
        _ => None,
    };
    records.iter().filter_map(size).collect()
}

#[test]
fn mtrace_of_glibc() {
    let (imported, records) = try_import(MTRACE.as_bytes(), None).unwrap();
    assert_eq!((imported.format, imported.malformed), (Source::Mtrace, 0));
    assert_eq!(imported.anomalies, Anomalies::default());
    assert_eq!(sizes(&records), [10, 21, 5000, 20, 33, 128, 5, 2]);
    let count = |f: fn(&Event) -> bool| records.iter().filter(|r| f(&r.event)).count();
    assert_eq!(count(|e| matches!(e, Event::Free { .. })), 4);
    assert_eq!(count(|e| matches!(e, Event::Realloc { .. })), 2);
    assert_eq!(count(|e| matches!(e, Event::Failed { .. })), 1);
    assert!(records.iter().enumerate().all(|(i, record)| record.tick.0 == i as u64));
}

#[test]
fn heaptrack_as_it_leaves_on_disk() {
    let (imported, records) = try_import(HEAPTRACK, None).unwrap();
    assert_eq!((imported.format, imported.malformed), (Source::Heaptrack, 0));
    assert_eq!(imported.anomalies, Anomalies::default());
    let sizes = sizes(&records);
    for size in [5000, 21, 77, 128] {
        assert!(sizes.contains(&size), "{size} in {sizes:?}");
    }
    assert!(!imported.notes.is_empty());
}

#[test]
fn heaptrack_tells_who_called() {
    let text = "v 10400 3\ns 8 /opt/app\ns 4 main\ns 6 a b.cc\ns 4 grow\ni 10 1 2 3 7\ni 20 1 4 3 9 2 3 8\n\
                t 1 0\nt 2 1\nt 9 1\na 10 2\na 20 3\n+ 0\n+ 1\n";
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to.fht"));
    std::fs::write(&from, text).unwrap();
    let mut control = Control { progress: &mut |_, _| {}, stop: &AtomicBool::new(false) };
    let imported = import(&from, &to, None, &mut control).unwrap();
    assert_eq!(imported.first_malformed[0].line, 10, "there is no place 9");
    let trace = Trace::open(&to).unwrap();
    let (stacks, _) = trace.stacks().unwrap();
    let mut records = trace.records().unwrap();
    let run = records.next_run().unwrap().unwrap();
    let functions = |stack| {
        let frames = stacks.walk(stack).filter_map(|frame| stacks.frame(frame));
        let calls = frames.flat_map(|frame| &frame.calls);
        calls.map(|call| format!("{} {:?}", call.function, call.line)).collect::<Vec<_>>()
    };
    assert_eq!(functions(run.stacks[0]), ["grow Some(9)", "main Some(8)", "main Some(7)"]);
    assert_eq!(functions(run.stacks[1]), [] as [&str; 0], "of an unsound stack nothing is known");
    assert_eq!(stacks.modules()[0].path, "/opt/app");
}

#[test]
fn heaptrack_raw_names_addresses() {
    let raw =
        "v 10400 3\nX prog arg\nI 1000 10\nc 5\n+ 10 1 7f00\n+ 20 2 8f00\nc 9\n- 7f00\n- 1234\n";
    let (imported, records) = try_import(raw.as_bytes(), None).unwrap();
    assert_eq!(imported.anomalies.unknown_frees, 1);
    assert_eq!(sizes(&records), [16, 32]);
    assert_eq!(records.iter().map(|r| r.tick.0).collect::<Vec<_>>(), [5, 5, 9, 9]);
}

#[test]
fn malformed_lines_are_told_and_skipped() {
    let text = "= Start\n@ ./a:[0x1] + 0x10 0x20\nnonsense\n@ ./a b:[0x2] - 0x10\n@ x - 0xzz\n> 0x1 0x2\n\u{fffd}\n";
    let (imported, records) = try_import(text.as_bytes(), None).unwrap();
    assert_eq!(records.len(), 2);
    let lines: Vec<u64> = imported.first_malformed.iter().map(|m| m.line).collect();
    assert_eq!((imported.malformed, lines), (4, vec![3, 5, 6, 7]));
    let (imported, _) =
        try_import(b"v 1 3\n+ 1\n\xff\xfe\na 5 0\n+ 0\n- 9\n- zz\nq\n", None).unwrap();
    let lines: Vec<u64> = imported.first_malformed.iter().map(|m| m.line).collect();
    assert_eq!(lines, [2, 3, 6, 7, 8]);
}

#[test]
fn what_is_no_trace_is_refused() {
    assert!(matches!(try_import(b"", None), Err(ImportError::Empty { .. })));
    assert!(matches!(try_import(b"hello\n", None), Err(ImportError::Unknown { .. })));
    let forced = try_import(b"hello\n", Some(Source::Mtrace));
    assert!(matches!(forced, Err(ImportError::Nothing { line: 1, .. })));
    assert!(matches!(try_import(b"\x7fELF\0\0", None), Err(ImportError::Unknown { .. })));
}

#[test]
fn files_that_end_within_their_compression_give_what_is_before() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for i in 0..50_000u64 {
        writeln!(
            gzip,
            "+ {:#x} {:#x}",
            i.wrapping_mul(0x9e37_79b9_7f4a) & 0xffff_ffff_fff0 | 16,
            i
        )
        .unwrap();
    }
    let whole = gzip.finish().unwrap();
    let (imported, _) = try_import(&whole, Some(Source::Mtrace)).unwrap();
    assert!(!imported.cut_short);
    let (imported, records) = try_import(&whole[..whole.len() / 2], Some(Source::Mtrace)).unwrap();
    assert!(imported.cut_short);
    assert!(records.len() > 1000);
    for cut in (1..HEAPTRACK.len()).step_by(37) {
        // Whatever comes of it, nothing panics.
        let _ = try_import(&HEAPTRACK[..cut], None);
    }
}

#[test]
fn a_workload_of_two_threads() {
    let (imported, records) = try_import(WORKLOAD, None).unwrap();
    assert_eq!((imported.format, imported.malformed), (Source::Workload, 0));
    assert_eq!(imported.anomalies, Anomalies::default());
    let told: Vec<_> = records.iter().map(|r| (r.thread.0, r.event)).collect();
    let request = |size, align_log2, api| Request { size, align_log2, api, usable: 0 };
    let alloc = |object, request| Event::Alloc { object: ObjectId(object), request };
    let free = |object, remote| Event::Free { object: ObjectId(object), remote };
    let grown = Event::Realloc {
        object: ObjectId(0),
        request: request(300, 0, Api::Malloc),
        remote: false,
        began: Tick(2),
    };
    let expected = [
        (0, alloc(0, request(200, 0, Api::Malloc))),
        (0, alloc(1, request(1 << 20, 0, Api::Calloc))),
        (0, grown),
        (1, free(0, true)),
        (1, alloc(2, request(64, 6, Api::Aligned))),
        (1, Event::Failed { request: request(1 << 40, 0, Api::Malloc) }),
        (0, free(2, true)),
    ];
    assert_eq!(told, expected, "frees of null and waits are no events");
}

#[test]
fn a_damaged_workload_is_read_as_far_as_it_is_sound() {
    for cut in 0..WORKLOAD.len() {
        match try_import(&WORKLOAD[..cut], Some(Source::Workload)) {
            Ok((imported, records)) => {
                assert!(records.len() <= 7 && imported.malformed > 0, "{cut}")
            }
            Err(ImportError::Empty { .. } | ImportError::Nothing { .. }) => {}
            Err(other) => panic!("cut at {cut}: {other}"),
        }
    }
    // Thread 0 waits for what nothing reaches, and goes on.
    let (imported, records) =
        try_import(&[8, 2, 9, 1, 10, 1, 11, 9, 1, 7, 5, 2, 1, 100, 1], None).unwrap();
    assert_eq!((imported.malformed, sizes(&records)), (1, vec![100]));
    assert_eq!(imported.first_malformed[0].problem, "waits for 5, which nothing reaches");
}

/// A profile as Go writes it: main → parse (inlined) → grow, all in one file of code.
fn profile() -> Profile {
    let strings = "|alloc_objects|count|alloc_space|bytes|inuse_objects|inuse_space|main|parse|grow|app.c|/opt/app|abcd";
    let value = |kind, unit| ValueType { kind, unit };
    let line = |function_id, line| Line { function_id, line };
    let location = |id, line| Location { id, mapping_id: 1, address: 0x40_0000 + id, line };
    let function = |id, name| Function { id, name, system_name: name, filename: 10 };
    let sample = |location_id: &[u64], value: &[i64]| Sample {
        location_id: location_id.to_vec(),
        value: value.to_vec(),
    };
    Profile {
        sample_type: vec![value(1, 2), value(3, 4), value(5, 2), value(6, 4)],
        sample: vec![
            sample(&[2, 1], &[9, 900, 3, 100]),
            sample(&[1], &[5, 50, 0, 0]),
            sample(&[3], &[1, 8, 1, 8]),
        ],
        mapping: vec![Mapping {
            id: 1,
            memory_start: 0x40_0000,
            file_offset: 0x1000,
            filename: 11,
            build_id: 12,
        }],
        location: vec![
            location(1, vec![line(1, 3)]),
            location(2, vec![line(3, 30), line(2, 20)]),
            Location { id: 3, address: 0x77, ..Location::default() },
        ],
        function: vec![function(1, 7), function(2, 8), function(3, 9)],
        string_table: strings.split('|').map(str::to_owned).collect(),
        ..Profile::default()
    }
}

#[test]
fn what_a_profile_has_in_use_is_allocated_with_its_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to.fht"));
    std::fs::write(&from, profile().encode_to_vec()).unwrap();
    let mut control = Control { progress: &mut |_, _| {}, stop: &AtomicBool::new(false) };
    let imported = import(&from, &to, None, &mut control).unwrap();
    assert_eq!((imported.format, imported.lines, imported.malformed), (Source::Pprof, 3, 0));
    let trace = Trace::open(&to).unwrap();
    let (stacks, damage) = trace.stacks().unwrap();
    assert!(damage.is_empty());
    let mut records = trace.records().unwrap();
    let run = records.next_run().unwrap().unwrap();
    let size = |timed: &crate::Timed| match timed.event {
        Event::Alloc { request, .. } => request.size,
        _ => panic!("{timed:?}"),
    };
    assert_eq!(run.events.iter().map(size).collect::<Vec<_>>(), [34, 33, 33, 8]);
    let frames = |stack| stacks.walk(stack).filter_map(|frame| stacks.frame(frame));
    let calls: Vec<String> = frames(run.stacks[0])
        .flat_map(|frame| &frame.calls)
        .map(|call| format!("{} {:?}", call.function, call.line))
        .collect();
    assert_eq!(calls, ["grow Some(30)", "parse Some(20)", "main Some(3)"]);
    assert_eq!(frames(run.stacks[0]).next().unwrap().offset, 0x1002);
    assert_eq!((stacks.modules()[0].path.as_str(), stacks.modules().len()), ("/opt/app", 1));
    let bare = frames(run.stacks[3]).next().unwrap();
    assert_eq!((bare.module, bare.offset, bare.calls.len()), (None, 0x77, 0));
}

#[test]
fn samples_that_make_no_sense_are_told_and_skipped() {
    let mut bad = profile();
    let sample = |location_id: Vec<u64>, value: Vec<i64>| Sample { location_id, value };
    bad.sample.extend([
        sample(vec![9], vec![1, 1, 1, 1]),
        sample(vec![1], vec![1]),
        sample(vec![1], vec![0, 0, -1, 5]),
        sample(vec![1], vec![0, 0, 0, 5]),
        sample(vec![1], vec![0, 0, i64::MAX, 5]),
    ]);
    let (imported, records) = try_import(&bad.encode_to_vec(), None).unwrap();
    let lines: Vec<u64> = imported.first_malformed.iter().map(|m| m.line).collect();
    assert_eq!((records.len(), lines), (4, vec![4, 5, 6, 7, 8]));
    let mut of_time = profile();
    of_time.string_table[4] = "nanoseconds".into();
    let mut of_all = profile();
    of_all.sample_type.truncate(2);
    for other in [of_time, of_all] {
        let refused = try_import(&other.encode_to_vec(), None).unwrap_err().to_string();
        assert!(refused.contains("no profile of a heap"), "{refused}");
    }
    let mut cut = profile().encode_to_vec();
    cut.pop();
    assert!(matches!(try_import(&cut, None), Err(ImportError::Nothing { .. })));
    let mut bare = profile();
    bare.sample_type.retain(|value| value.kind == 6);
    bare.sample.iter_mut().for_each(|sample| sample.value = vec![sample.value[3]]);
    let (_, records) = try_import(&bare.encode_to_vec(), Some(Source::Pprof)).unwrap();
    assert_eq!(sizes(&records), [100, 8], "without counts a sample is an object");
}
