//! The files that must always read: every kind of event, as version 1.0 wrote it, call stacks, as 1.1 did, and memory outside
//! of malloc, as 1.2 did.
//!
//! `FREEHOLD_WRITE_GOLDEN=1 cargo test -p freehold-trace --test golden` writes it anew, which is
//! right only when a new version gets a file of its own (so it writes that of 1.2 only).

use freehold_trace::*;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn header() -> Header {
    Header {
        ticks_per_second: 1_000_000_000,
        started_unix_ms: 1_795_000_000_000,
        command: vec!["./program".into(), "--flag".into()],
        recorder: "freehold 0.1.0".into(),
        machine: [("cpus".into(), "2".into())].into(),
        notes: vec!["made by hand".into()],
        ..Header::default()
    }
}

fn processes() -> [ProcessInfo; 2] {
    let parent = ProcessInfo {
        os_pid: 1000,
        command: vec!["./program".into(), "--flag".into()],
        ended: Some(Ending::Code(3)),
        ..ProcessInfo::unseen(ProcessId(0))
    };
    let child = ProcessInfo {
        parent: Some(ProcessId(0)),
        begins: Begin::Fork,
        os_pid: 1001,
        ended: Some(Ending::Signal(9)),
        inherited_objects: 2,
        inherited_bytes: 124,
        ..ProcessInfo::unseen(ProcessId(1))
    };
    [parent, child]
}

fn request(size: u64, align_log2: u8, api: Api, usable: u64) -> Request {
    Request { size, align_log2, api, usable }
}

fn records() -> Vec<Record> {
    let o = ObjectId;
    let alloc = |object, request| Event::Alloc { object: o(object), request };
    let realloc = |object, remote, began| Event::Realloc {
        object: o(object),
        request: request(5000, 0, Api::Malloc, 5000),
        remote,
        began: Tick(began),
    };
    let small = request(24, 0, Api::Malloc, 24);
    let events = [
        (0, 0, 0, Event::ThreadStart),
        (10, 0, 0, alloc(0, small)),
        (25, 0, 0, alloc(1, request(100, 0, Api::Calloc, 104))),
        (30, 0, 0, alloc(2, request(4096, 12, Api::Aligned, 4096))),
        (40, 0, 1, Event::ThreadStart),
        (41, 0, 0, alloc(3, request(17, 0, Api::New, 0))),
        (50, 0, 1, alloc(4, request(1 << 33, 6, Api::NewArray, 0))),
        (50, 0, 0, Event::Free { object: o(2), remote: false }),
        (51, 0, 0, alloc(2, small)),
        (60, 0, 1, Event::Free { object: o(3), remote: true }),
        (70, 0, 0, realloc(0, false, 66)),
        (80, 0, 1, realloc(0, true, 75)),
        (90, 0, 1, Event::UnknownFree),
        (95, 0, 1, Event::Failed { request: request(u64::MAX, 0, Api::Malloc, 0) }),
        (99, 0, 1, Event::ThreadEnd),
        (100, 0, 0, Event::Access { object: o(1), offset: 96, write: true }),
        (101, 0, 0, Event::Access { object: o(1), offset: 0, write: false }),
        (110, 0, 0, Event::Free { object: o(0), remote: true }),
        (111, 0, 0, Event::Free { object: o(4), remote: true }),
        (120, 0, 0, Event::Fork { child: ProcessId(1) }),
        (1_000_000_000_000, 1, 0, Event::Inherit { object: o(0), request: small }),
        (1_000_000_000_000, 1, 0, Event::Free { object: o(0), remote: false }),
        (1_000_000_000_001, 0, 0, Event::ThreadEnd),
    ];
    let record = |&(tick, process, thread, event): &(u64, u32, u32, Event)| Record {
        tick: Tick(tick),
        process: ProcessId(process),
        thread: ThreadId(thread),
        event,
    };
    events.iter().map(record).collect()
}

/// Three stacks: main → new of a vector's growth; main → a signal's handler; one whose callers are unknown.
fn stacks() -> Stacks {
    let mut stacks = Stacks::default();
    let app = stacks.add_module(Module { path: "/usr/bin/app".into(), build_id: "00ff17".into() });
    let call = |function: &str, line| Call {
        function: function.into(),
        file: Some("app.cc".into()),
        line: Some(line),
    };
    let frame = |offset, exact, calls| Frame { module: Some(app), offset, exact, calls };
    let main = stacks.add_frame(frame(0x1180, false, vec![call("main", 7)]));
    let grow =
        stacks.add_frame(frame(0x1240, false, vec![call("grow", 40), call("push_back", 12)]));
    let handler = stacks.add_frame(frame(0x1300, true, Vec::new()));
    let made = stacks.add_frame(Frame { offset: 0x7f00_0000_1000, ..Frame::default() });
    let in_main = stacks.add(StackId::NONE, main);
    stacks.add(in_main, grow);
    stacks.add(in_main, handler);
    let cut = stacks.add(StackId::NONE, FrameId::CUT);
    stacks.add(cut, made);
    stacks
}

/// As [`write`], each third event with no stack, and the first block without any.
fn write_stacked(path: &Path) {
    let mut writer = Writer::create(path, header()).unwrap();
    for process in processes() {
        writer.process(process).unwrap();
    }
    for (index, record) in records().iter().enumerate() {
        let stack = if index < 4 { 0 } else { [2, 3, 0, 5][index % 4] };
        writer.push_stacked(record, StackId(stack)).unwrap();
    }
    writer.stacks(&stacks()).unwrap();
    writer.finish().unwrap();
}

fn write(path: &Path) {
    let mut writer = Writer::create(path, header()).unwrap();
    for process in processes() {
        writer.process(process).unwrap();
    }
    for record in records() {
        writer.push(&record).unwrap();
    }
    writer.finish().unwrap();
}

/// All that a trace says, as text.
fn text(path: &Path) -> String {
    let trace = Trace::open(path).unwrap();
    let mut text = format!("{:#?}\n{:#?}\n", trace.header(), trace.processes());
    let mut records = trace.records().unwrap();
    records
        .for_each(|r| {
            writeln!(text, "{:?} {:?} {:?} {:?}", r.tick, r.process, r.thread, r.event).unwrap();
        })
        .unwrap();
    assert_eq!((trace.damage(), records.damage()), (&[][..], &[][..]));
    text
}

/// The stacks of a trace and of its events, as text.
fn stacked_text(path: &Path) -> String {
    let trace = Trace::open(path).unwrap();
    let (stacks, damage) = trace.stacks().unwrap();
    assert_eq!(damage, []);
    let mut text = format!("{:#?}\n{:#?}\n", stacks.modules(), stacks.frames());
    let mut records = trace.records().unwrap();
    while let Some(run) = records.next_run().unwrap() {
        assert!(run.stacks.is_empty() || run.stacks.len() == run.events.len());
        for (index, timed) in run.events.iter().enumerate() {
            let stack = run.stacks.get(index).copied().unwrap_or_default();
            let frames: Vec<u32> = stacks.walk(stack).map(|frame| frame.0).collect();
            writeln!(text, "{:?} {:?} {frames:?}", timed.tick, timed.event).unwrap();
        }
    }
    assert_eq!(records.damage(), []);
    text
}

#[test]
fn the_golden_file_of_stacks_reads_as_ever() {
    let (file, expected) = (golden("v1.1.fht"), golden("v1.1.txt"));
    let text = stacked_text(&file);
    assert_eq!(text, std::fs::read_to_string(expected).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let today = folder.path().join("today.fht");
    write_stacked(&today);
    assert_eq!(stacked_text(&today), text);
}

/// A process with a title and known peaks, what it mapped, and what was seen of it.
fn write_other_memory(path: &Path) {
    let mut writer = Writer::create(path, header()).unwrap();
    let [process, _] = processes();
    let process = ProcessInfo {
        title: "program: worker".into(),
        peak_bytes: Some(8320),
        peak_resident: Some(5 << 20),
        high_water: Some(6 << 20),
        ..process
    };
    writer.process(process).unwrap();
    let flags = MapFlags::FILE.with(MapFlags::SHARED);
    let changes = [
        (0, MapChange::Map { bytes: 1 << 30, flags: MapFlags::RESERVED }),
        (1, MapChange::Map { bytes: 4096, flags }),
        (0, MapChange::Unmap { bytes: 1 << 29 }),
    ];
    for (index, (map, change)) in changes.into_iter().enumerate() {
        let (process, thread) = (ProcessId(0), ThreadId(index as u32));
        let (tick, stack) = (Tick(7 * index as u64), StackId(2 - index as u32));
        let map = MapId(map);
        writer.mapping(&MapEvent { tick, process, thread, stack, map, change }).unwrap();
    }
    let part = |what, name: &str, resident| Part {
        what,
        name: name.into(),
        mapped: 2 * resident,
        resident,
        proportional: resident / 2,
        ..Part::default()
    };
    let heap = Part {
        stack: StackId(2),
        swapped: 4096,
        huge: 2 << 20,
        live: 8320,
        ..part(What::Malloc, "", 3 << 20)
    };
    let parts =
        vec![heap, part(What::Runtime, "V8", 1 << 20), part(What::File, "/usr/bin/app", 1 << 20)];
    let sample = Resident { tick: Tick(20), at_end: true, parts, ..Resident::default() };
    writer.residents(ProcessId(0), &[sample]).unwrap();
    writer.stacks(&stacks()).unwrap();
    writer.finish().unwrap();
}

/// Memory outside of malloc, as text.
fn other_memory_text(path: &Path) -> String {
    let trace = Trace::open(path).unwrap();
    let mut text = format!("{:#?}\n", trace.processes());
    for process in trace.processes() {
        let mut put = |event: &MapEvent| writeln!(text, "{event:?}").unwrap();
        assert_eq!(trace.mappings_of(process.id, &mut put).unwrap(), []);
        let (samples, damage) = trace.residents_of(process.id).unwrap();
        assert_eq!(damage, []);
        writeln!(text, "{samples:#?}").unwrap();
    }
    text
}

#[test]
fn the_golden_file_of_other_memory_reads_as_ever() {
    let (file, expected) = (golden("v1.2.fht"), golden("v1.2.txt"));
    if std::env::var_os("FREEHOLD_WRITE_GOLDEN").is_some() {
        write_other_memory(&file);
        std::fs::write(&expected, other_memory_text(&file)).unwrap();
    }
    let text = other_memory_text(&file);
    assert_eq!(text, std::fs::read_to_string(expected).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let today = folder.path().join("today.fht");
    write_other_memory(&today);
    assert_eq!(other_memory_text(&today), text);
}

#[test]
fn traces_of_before_say_nothing_of_other_memory() {
    for name in ["v1.0.fht", "v1.1.fht"] {
        let trace = Trace::open(golden(name)).unwrap();
        for process in trace.processes() {
            assert_eq!(
                (process.peak_bytes, process.peak_resident, process.high_water),
                (None, None, None)
            );
            assert_eq!(trace.residents_of(process.id).unwrap(), (vec![], vec![]));
        }
    }
}

#[test]
fn the_golden_file_reads_as_ever() {
    let (file, expected) = (golden("v1.0.fht"), golden("v1.0.txt"));
    assert_eq!(text(&file), std::fs::read_to_string(expected).unwrap());
}

#[test]
fn what_is_written_today_reads_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("today.fht");
    write(&path);
    assert_eq!(text(&path), text(&golden("v1.0.fht")));
}

#[test]
fn a_file_of_a_later_minor_version_with_unknown_blocks_reads_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later.fht");
    let mut bytes = std::fs::read(golden("v1.0.fht")).unwrap();
    // Without its index, so that the unknown block is met; then a block of kind 77.
    let index = u64::from_le_bytes(bytes[bytes.len() - 16..][..8].try_into().unwrap()) as usize;
    bytes.truncate(index);
    let mut block = [0u8; 64];
    block[..4].copy_from_slice(b"FhBk");
    block[4] = 77;
    block[40] = 5;
    let crc = crc32fast::hash(&block[..60]);
    block[60..].copy_from_slice(&crc.to_le_bytes());
    bytes.extend(block);
    bytes.extend(b"hello");
    bytes[10] = 7;
    let json = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[8..16]);
    crc.update(&bytes[20..20 + json]);
    let crc = crc.finalize().to_le_bytes();
    bytes[16..20].copy_from_slice(&crc);
    std::fs::write(&path, bytes).unwrap();
    let trace = Trace::open(&path).unwrap();
    assert_eq!(trace.events(), records().len() as u64);
    let reasons: Vec<Reason> = trace.damage().iter().map(|damage| damage.reason).collect();
    assert_eq!(reasons, [Reason::Truncated], "only the missing end is damage");
}
