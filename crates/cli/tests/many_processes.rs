//! Traces of 20,000 processes: what the commands need for them is bounded, whether the processes come one after
//! the other or all at once.

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

/// The most that `freehold` with these arguments had resident, in KiB.
fn peak_kib(arguments: &[&str], trace: &Path) -> i64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.args(arguments).arg(trace).stdout(Stdio::null());
    #[expect(clippy::zombie_processes, reason = "it is waited for by its number")]
    let child = command.spawn().unwrap();
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: the kernel writes both.
    let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, usage.as_mut_ptr()) };
    assert_eq!((waited, status), (child.id() as i32, 0), "{arguments:?}");
    // SAFETY: all zero is a valid structure, and the kernel has written it.
    unsafe { usage.assume_init().ru_maxrss }
}

fn assert_bounded(at_once: u32, commands: &[&[&str]]) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("many.fht");
    write(&trace, at_once);
    for arguments in commands {
        let peak = peak_kib(arguments, &trace);
        assert!(peak <= MOST_KIB, "{arguments:?}: {peak} KiB with {at_once} processes at once");
    }
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
