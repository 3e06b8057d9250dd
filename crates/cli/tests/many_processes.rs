//! Traces of 20,000 processes, and of one table of processes again and again: what the commands need for them is bounded,
//! whether the processes come one after the other or all at once.

use freehold_trace::{
    Event, Header, ObjectId, ProcessId, ProcessInfo, Record, Request, ThreadId, Tick, Writer,
};
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Stdio};

const PROCESSES: u32 = 20_000;
/// Events of each. (`cargo run --release -p freehold-trace --example processes` writes longer ones.)
const EVENTS: u32 = 16;
/// Most resident memory of a command.
const MOST_KIB: i64 = 256 << 10;
/// Most processor time of a command, in seconds: other work beside does not count.
const MOST_S: f64 = 5.0;
/// What is not optimised may take so many times as long, where there is much to read.
const SLOWER: f64 = if cfg!(debug_assertions) { 4.0 } else { 1.0 };

/// Writes a trace, of which so many processes are alive at once.
fn write(path: &Path, at_once: u32) {
    let mut writer = Writer::create(path, Header::default()).unwrap();
    let mut tick = 0;
    for first in (0..PROCESSES).step_by(at_once as usize) {
        for step in 0..EVENTS {
            for process in first..first + at_once {
                tick += 1;
                push(&mut writer, process, step, tick);
            }
        }
    }
    for id in 0..PROCESSES {
        let command = vec!["cc".into(), format!("part-{id}.c")];
        writer.process_at_end(ProcessInfo { command, ..ProcessInfo::unseen(ProcessId(id)) });
    }
    writer.finish().unwrap();
}

/// Makes objects, and frees all but every fourth; then the thread ends.
fn push(writer: &mut Writer, process: u32, step: u32, tick: u64) {
    let request = Request { size: u64::from(20 + step * 40), ..Request::default() };
    let event = match step % 4 {
        _ if step + 1 == EVENTS => Event::ThreadEnd,
        3 => Event::Free { object: ObjectId(step - 1), remote: false },
        _ => Event::Alloc { object: ObjectId(step), request },
    };
    let (process, thread) = (ProcessId(process), ThreadId(0));
    writer.push(&Record { tick: Tick(tick), process, thread, event }).unwrap();
}

/// Fails where `freehold` with these arguments has more resident than it may, takes more than `most_s`, or ends with
/// another code than `code`.
#[track_caller]
fn assert_bounded_on(trace: &Path, arguments: &[&str], most_s: f64, code: i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.args(arguments).arg(trace).stdout(Stdio::null()).stderr(Stdio::null());
    #[expect(clippy::zombie_processes, reason = "it is waited for by its number")]
    let child = command.spawn().unwrap();
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: the kernel writes both.
    let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, usage.as_mut_ptr()) };
    assert_eq!((waited, status), (child.id() as i32, code << 8), "{arguments:?}");
    // SAFETY: all zero is a valid structure, and the kernel has written it.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let (kib, took) = (usage.ru_maxrss, seconds(usage.ru_utime) + seconds(usage.ru_stime));
    println!("{arguments:?}: {kib} KiB, {took:.2} s");
    assert!(kib <= MOST_KIB && took <= most_s, "{arguments:?}: {kib} KiB, {took:.2} s");
}

fn assert_bounded(at_once: u32, commands: &[&[&str]]) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("many.fht");
    write(&trace, at_once);
    commands.iter().for_each(|arguments| assert_bounded_on(&trace, arguments, MOST_S * SLOWER, 0));
}

#[test]
fn twenty_thousand_processes_in_turn_need_at_most_256_mib() {
    let json = ["info", "--json"];
    let pprof = ["export", "-o", "-", "--format", "pprof"];
    assert_bounded(1, &[&["info"], &json, &pprof, &["replay", "--on", "good-fit", "--json"]]);
}

#[test]
fn twenty_thousand_processes_at_once_need_at_most_256_mib() {
    assert_bounded(PROCESSES, &[&["info"], &["export", "-o", "-", "--format", "csv"]]);
}

/// Four megabytes took 45 seconds, because each table was read as one that says something new.
#[test]
fn two_thousand_equal_tables_of_processes_take_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("repeated.fht");
    let mut writer = Writer::create(&trace, Header::default()).unwrap();
    (0..EVENTS).for_each(|step| push(&mut writer, 0, step, 1 + u64::from(step)));
    for id in 0..1000 {
        let command = vec![format!("part-{}.c", id * 7919 % 1009)];
        writer.process_at_end(ProcessInfo { command, ..ProcessInfo::unseen(ProcessId(id)) });
    }
    writer.finish().unwrap();
    let bytes = std::fs::read(&trace).unwrap();
    // A block's head (FORMAT.md): its mark, its kind, and the bytes behind the head.
    let starts = |at: &usize| bytes[*at..].starts_with(b"FhBk") && bytes[at + 4] == 2;
    let at = (0..bytes.len() - 64).find(starts).expect("a table of processes");
    let stored = u32::from_le_bytes(bytes[at + 40..at + 44].try_into().unwrap());
    let table = &bytes[at..at + 64 + stored as usize];
    let repeated = [&bytes[..at], &table.repeat(2000)].concat();
    assert!(repeated.len() > 4_000_000);
    std::fs::write(&trace, repeated).unwrap();
    // Its index is missing: it is damaged, and said to be.
    assert_bounded_on(&trace, &["info"], MOST_S, 1);
}
