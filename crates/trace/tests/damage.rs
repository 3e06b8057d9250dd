//! Truncated and corrupted traces: never a panic, and what is sound is still read.

use freehold_trace::*;
use std::collections::BTreeMap;
use std::path::Path;

/// Three threads of two processes, several blocks each.
fn sample(path: &Path) -> Vec<Record> {
    let header = Header { ticks_per_second: 1_000_000_000, ..Header::default() };
    let mut writer = Writer::create(path, header).unwrap();
    writer.process(ProcessInfo { os_pid: 42, ..ProcessInfo::unseen(ProcessId(0)) }).unwrap();
    let mut all = Vec::new();
    for i in 0..90u64 {
        let (process, thread) = (ProcessId((i % 3 / 2) as u32), ThreadId((i % 3) as u32));
        let object = ObjectId(i as u32 / 6);
        let request = Request { size: i * 37 % 1000, ..Request::default() };
        let event = match i / 3 % 2 {
            0 => Event::Alloc { object, request },
            _ => Event::Free { object, remote: false },
        };
        let record = Record { tick: Tick(i * 100), process, thread, event };
        writer.push(&record).unwrap();
        all.push(record);
        if i % 30 == 29 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap();
    all
}

/// Everything that can be read, or why nothing can.
fn read(path: &Path) -> Result<(Vec<Record>, Vec<Damage>), OpenError> {
    let trace = Trace::open(path)?;
    let mut records = trace.records().unwrap();
    let mut all = Vec::new();
    records.for_each(|record| all.push(*record)).unwrap();
    let damage = trace.damage().iter().chain(records.damage()).cloned().collect();
    Ok((all, damage))
}

/// What is read must have been written, in order, thread by thread.
fn assert_part_of(read: &[Record], written: &[Record], what: &str) {
    let mut left: BTreeMap<_, std::collections::VecDeque<&Record>> = BTreeMap::new();
    for record in written {
        left.entry((record.process, record.thread)).or_default().push_back(record);
    }
    for record in read {
        let thread = left.get_mut(&(record.process, record.thread)).expect(what);
        while thread.pop_front().unwrap_or_else(|| panic!("{what}: {record:?} was not written"))
            != record
        {}
    }
    assert!(read.windows(2).all(|pair| pair[0].tick <= pair[1].tick), "{what}: out of order");
}

#[test]
fn truncated_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.fht");
    let written = sample(&path);
    let bytes = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut.fht");
    let mut before = 0;
    for len in 0..bytes.len() {
        std::fs::write(&cut, &bytes[..len]).unwrap();
        let Ok((records, damage)) = read(&cut) else {
            assert!(len < 400, "only a cut header refuses to open, not {len} bytes");
            continue;
        };
        let what = format!("cut to {len} bytes");
        assert_part_of(&records, &written, &what);
        assert!(!damage.is_empty(), "{what} must be reported");
        assert!(records.len() >= before, "{what}: more bytes, fewer events");
        before = records.len();
    }
    assert_eq!(before, written.len(), "without the end mark, all events are there");
}

#[test]
fn any_byte_corrupted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.fht");
    let written = sample(&path);
    let sound = std::fs::read(&path).unwrap();
    let bad = folder.path().join("bad.fht");
    let mut refused = 0;
    for at in 0..sound.len() {
        // One bit of each byte, another one in the next.
        let flip = 1 << (at % 8);
        let mut bytes = sound.clone();
        bytes[at] ^= flip;
        std::fs::write(&bad, &bytes).unwrap();
        let what = format!("byte {at} flipped by {flip:#x}");
        let Ok((records, damage)) = read(&bad) else {
            refused += 1;
            continue;
        };
        assert_part_of(&records, &written, &what);
        // One block holds ten events of one thread: no more may be lost.
        assert!(records.len() + 10 >= written.len(), "{what}: {} left", records.len());
        if records.len() < written.len() {
            assert!(!damage.is_empty(), "{what}: events are lost and nothing is said");
            // With the index sound, the loss is known to the event.
            let known: u64 = damage.iter().filter_map(|d| d.events_lost).sum();
            assert_eq!(known, (written.len() - records.len()) as u64, "{what}: {damage:?}");
        }
    }
    assert!(refused < 400, "only a corrupted header refuses to open");
}

#[test]
fn a_hole_of_garbage_costs_the_blocks_it_covers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fht");
    let written = sample(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    let (middle, len) = (bytes.len() / 3, bytes.len());
    bytes[middle..middle + 100].fill(0xa5);
    // Without its end, the file must be scanned through the garbage.
    std::fs::write(&path, &bytes[..len - 1]).unwrap();
    let (records, damage) = read(&path).unwrap();
    assert_part_of(&records, &written, "hole");
    assert!(records.len() >= written.len() - 30);
    let reasons: Vec<Reason> = damage.iter().map(|damage| damage.reason).collect();
    assert!(
        reasons.contains(&Reason::Garbage) || reasons.contains(&Reason::Checksum),
        "{reasons:?}"
    );
    assert!(reasons.contains(&Reason::Truncated));
}

#[test]
fn what_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.fht");
    let refusal = |path: &Path| Trace::open(path).unwrap_err().to_string();
    assert!(refusal(&path).contains("No such file"));
    assert!(refusal(folder.path()).contains("is a directory"));
    assert!(refusal(Path::new("/dev/null")).contains("is a device"));
    std::fs::write(&path, b"").unwrap();
    assert!(refusal(&path).contains("is empty"));
    std::fs::write(&path, b"#!/bin/sh\n").unwrap();
    assert!(refusal(&path).contains("not a Freehold trace"));
    sample(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 9;
    std::fs::write(&path, &bytes).unwrap();
    let newer = refusal(&path);
    assert!(newer.contains("format 9.2") && newer.contains("reads format 1.x"), "{newer}");
}

#[test]
fn what_cannot_be_written_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |path: &Path| Writer::create(path, Header::default()).err().unwrap().to_string();
    assert!(refusal(folder.path()).contains("is a directory"));
    assert!(refusal(Path::new("/dev/full")).contains("is a device"));
    assert!(refusal(&folder.path().join("no/such/folder.fht")).contains("No such file"));
}

#[test]
fn time_that_goes_back_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path().join("t.fht"), Header::default()).unwrap();
    let at = |tick| Record {
        tick: Tick(tick),
        process: ProcessId(0),
        thread: ThreadId(1),
        event: Event::UnknownFree,
    };
    writer.push(&at(5)).unwrap();
    assert!(matches!(writer.push(&at(4)), Err(WriteError::Order { tick: 4, last: 5, .. })));
}

#[test]
fn a_writer_that_dies_leaves_what_it_stored_and_no_final_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fht");
    let mut writer = Writer::create(&path, Header::default()).unwrap();
    let partial = writer.partial_path().to_owned();
    let record = Record {
        tick: Tick(7),
        process: ProcessId(0),
        thread: ThreadId(0),
        event: Event::UnknownFree,
    };
    writer.push(&record).unwrap();
    writer.flush().unwrap();
    drop(writer);
    assert!(!path.exists());
    let (records, damage) = read(&partial).unwrap();
    assert_eq!(records, [record]);
    assert_eq!(damage.iter().map(|d| d.reason).collect::<Vec<_>>(), [Reason::Truncated]);
    let writer = Writer::create(&path, Header::default()).unwrap();
    writer.abandon();
    assert!(!partial.exists());
}

/// Found by fuzzing: a block whose header says a late first tick, and whose columns then cannot be
/// read, was followed by one of earlier events; other threads had been given up to the late tick.
#[test]
fn a_lying_first_tick_does_not_bend_the_order() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lying-first-tick.fht");
    let (records, damage) = read(&path).unwrap();
    assert!(records.windows(2).all(|pair| pair[0].tick <= pair[1].tick), "{records:#?}");
    assert!(damage.iter().any(|damage| damage.reason == Reason::Order), "{damage:#?}");
}
