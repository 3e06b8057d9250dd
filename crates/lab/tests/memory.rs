//! Memory of `info` and `replay` grows with the peak of live objects, not with the length of a
//! trace: the same program, ten times as long, must not need more. (Traces of up to 1 GB:
//! `bench/results/replay-memory.md`.)

use freehold_lab::{profile, simulate, sites};
use freehold_trace::{
    Event, Header, ObjectId, ProcessId, Record, Request, ThreadId, Tick, Trace, Writer,
};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// Names the trace to the child that reads it.
const TRACE: &str = "FREEHOLD_TEST_MEMORY_TRACE";
const LIVE: u32 = 2_000;
/// A huge page that one run got and the other did not. A table of 16 bytes for every event would be
/// twice as much.
const SLACK_KIB: u64 = 2_560;

#[test]
fn ten_times_the_events_need_no_more_memory() {
    let folder = tempfile::tempdir().unwrap();
    let peak_of = |events: u64| {
        let path = folder.path().join(format!("{events}.fht"));
        write(&path, events);
        peak_of_child(&path)
    };
    let (short, long) = (peak_of(40_000), peak_of(400_000));
    assert!(long <= short + SLACK_KIB, "{short} KiB grew to {long} KiB");
}

/// Not a test of its own: what the child does, when there is a trace for it.
#[test]
fn child() {
    let Some(path) = std::env::var_os(TRACE) else { return };
    let trace = Trace::open(Path::new(&path)).unwrap();
    let calm = AtomicBool::new(false);
    profile::profile(&trace, None, &mut |_| true, &mut |_, _| (), &calm).unwrap();
    let process = ProcessId(0);
    sites::sites(&trace, process, &mut |_, _| (), &calm).unwrap();
    let survey = simulate::survey(&trace, process, &mut |_, _| (), &calm).unwrap();
    let options = simulate::Options { process, limit: None };
    simulate::replay(&trace, &survey, &["good-fit"], options, &mut |_, _| (), &calm).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    println!("{peak}");
}

/// In KiB.
fn peak_of_child(trace: &Path) -> u64 {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(TRACE, trace)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}");
    let peak = said.split("VmHWM:").nth(1).and_then(|rest| rest.split_whitespace().next());
    peak.and_then(|kib| kib.parse().ok()).unwrap_or_else(|| panic!("no peak in: {said}"))
}

/// A program that keeps `LIVE` objects, the oldest of which is always the next to go.
fn write(path: &Path, events: u64) {
    let mut writer = Writer::create(path, Header::default()).unwrap();
    for tick in 0..events {
        let object = ObjectId((tick / 2 % u64::from(LIVE)) as u32);
        let request = Request { size: 16 + tick * 37 % 1000, ..Request::default() };
        let event = match tick.is_multiple_of(2) {
            true if tick / 2 >= LIVE.into() => Event::Free { object, remote: false },
            true => continue,
            false => Event::Alloc { object, request },
        };
        let (process, thread) = (ProcessId(0), ThreadId(0));
        writer.push(&Record { tick: Tick(tick), process, thread, event }).unwrap();
    }
    writer.finish().unwrap();
}
