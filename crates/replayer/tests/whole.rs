//! From a trace file to outcomes.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use common::{Random, bytes, quick};
use freehold_lab::real::{Allocator, Options, RealError, replay};
use freehold_trace::{Event, Header, ObjectId, ProcessId, Record, ThreadId, Tick, Trace, Writer};
use tempfile::TempDir;

const REPLAYER: &str = env!("CARGO_BIN_EXE_freehold-replayer");

/// Two processes of two threads each that hand objects over, and one that allocates nothing.
fn trace(events: u64) -> (TempDir, Trace) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.fht");
    let header = Header { ticks_per_second: 1_000_000_000, ..Header::default() };
    let mut writer = Writer::create(&path, header).unwrap();
    let mut random = Random(11);
    for tick in 0..events {
        for process in [0, 1] {
            let object = ObjectId((tick / 2 % 1000) as u32);
            let event = if tick % 2 == 0 {
                Event::Alloc { object, request: bytes(random.below(5000)) }
            } else {
                Event::Free { object, remote: true }
            };
            let (process, thread) = (ProcessId(process), ThreadId((tick % 2) as u32));
            writer.push(&Record { tick: Tick(tick), process, thread, event }).unwrap();
        }
    }
    let idle = Record {
        tick: Tick(events),
        process: ProcessId(2),
        thread: ThreadId(0),
        event: Event::ThreadStart,
    };
    writer.push(&idle).unwrap();
    writer.finish().unwrap();
    (folder, Trace::open(path).unwrap())
}

#[test]
fn one_process_of_a_trace_is_replayed_with_progress() {
    let (_folder, trace) = trace(100_000);
    let (mut last, mut calls) = ((0, 0), 0);
    let mut progress = |done, total| {
        assert!(done >= last.0 && done <= total);
        (last, calls) = ((done, total), calls + 1);
    };
    let go_on = AtomicBool::new(false);
    let allocators = [Allocator::glibc(), Allocator::glibc()];
    let replayer = Path::new(REPLAYER);
    let found =
        replay(&trace, ProcessId(1), &allocators, &quick(), replayer, &mut progress, &go_on);
    for measured in found.unwrap() {
        let outcome = measured.unwrap().outcome;
        assert_eq!((outcome.name.as_str(), outcome.events), ("glibc", 100_000));
        assert_eq!(outcome.spread.map(|spread| spread.runs), Some(2));
        assert!(outcome.library.is_some_and(|name| name.starts_with("libc.so.6 ")));
    }
    assert_eq!(last.0, last.1, "progress does not end at its end");
    assert!(calls > 6);
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let (_folder, trace) = trace(100);
    let said = |process| {
        let go_on = AtomicBool::new(false);
        let glibc = [Allocator::glibc()];
        let replayer = Path::new(REPLAYER);
        let options = Options::default();
        replay(&trace, ProcessId(process), &glibc, &options, replayer, &mut |_, _| {}, &go_on)
            .unwrap_err()
    };
    assert!(matches!(said(7), RealError::NoProcess { known: 3, .. }));
    assert!(matches!(said(2), RealError::NoEvents { .. }));
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let (_folder, trace) = trace(100);
    let options = Options { scratch: Some("no/such/folder".into()), ..quick() };
    let go_on = AtomicBool::new(false);
    let (glibc, replayer) = ([Allocator::glibc()], Path::new(REPLAYER));
    let error = replay(&trace, ProcessId(0), &glibc, &options, replayer, &mut |_, _| {}, &go_on);
    assert!(error.unwrap_err().to_string().contains("no/such/folder"));
}

#[test]
fn preparation_can_be_interrupted() {
    let (_folder, trace) = trace(200_000);
    let stop = AtomicBool::new(true);
    let (glibc, replayer) = ([Allocator::glibc()], Path::new(REPLAYER));
    let mut calls = 0;
    let mut progress = |_, _| calls += 1;
    let found = replay(&trace, ProcessId(0), &glibc, &quick(), replayer, &mut progress, &stop);
    assert!(matches!(found, Err(RealError::Interrupted)));
    assert!(calls == 0 && stop.load(Relaxed));
}
