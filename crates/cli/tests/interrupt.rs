//! Ctrl-C in the middle of work: the status is 130, and nothing half-written stays behind.

use freehold_trace::{Event, Header, ObjectId, ProcessId, Record, Request, ThreadId, Tick, Writer};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Events that take long enough to be interrupted, and little enough to be made for a test.
const EVENTS: u64 = 600_000;

/// A folder for the work and one for temporary files, both of which must be clean afterwards. What the command keeps of
/// its libraries goes elsewhere: without a home it would be among the temporary files.
struct Desk {
    folder: tempfile::TempDir,
    cache: tempfile::TempDir,
}

impl Desk {
    fn new() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        Desk { folder, cache: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
        command.current_dir(self.folder.path()).env("TMPDIR", self.path("tmp"));
        command.env("XDG_CACHE_HOME", self.cache.path());
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Interrupts `arguments` in the middle. A signal may come before the command listens or after
    /// it is done: then another moment is tried.
    fn interrupt(&self, arguments: &[&str]) -> Output {
        let mut delay_ms = 64;
        for _ in 0..40 {
            let child = self.start(arguments);
            std::thread::sleep(Duration::from_millis(delay_ms));
            let output = send_interrupt(child);
            match output.status.code() {
                Some(0) => delay_ms = (delay_ms * 2 / 3).max(1),
                None => delay_ms += delay_ms / 3 + 1,
                Some(_) => return output,
            }
        }
        panic!("{arguments:?} is too quick to be interrupted");
    }

    /// Everything there is, but the folder for temporary files itself.
    fn names(&self) -> Vec<String> {
        let inside = |folder: &Path| -> Vec<String> {
            let entries = fs::read_dir(folder).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        let mut names = inside(self.folder.path());
        names.retain(|name| name != "tmp");
        names.extend(inside(&self.path("tmp")).into_iter().map(|name| format!("tmp/{name}")));
        names.sort();
        names
    }
}

fn send_interrupt(child: Child) -> Output {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.is_ok(), "there is a kill command");
    child.wait_with_output().unwrap()
}

fn assert_interrupted(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

fn write_trace(path: &Path) {
    let header = Header { ticks_per_second: 1_000_000, ..Header::default() };
    let mut writer = Writer::create(path, header).unwrap();
    for tick in 0..EVENTS {
        let object = ObjectId((tick / 2 % 1000) as u32);
        let request = Request { size: tick % 977 + 1, ..Request::default() };
        let event = match tick % 2 {
            0 => Event::Alloc { object, request },
            _ => Event::Free { object, remote: false },
        };
        let (process, thread) = (ProcessId(0), ThreadId(0));
        writer.push(&Record { tick: Tick(tick), process, thread, event }).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn info_prints_nothing() {
    let desk = Desk::new();
    write_trace(&desk.path("a.fht"));
    let output = desk.interrupt(&["info", "a.fht"]);
    assert_interrupted(&output);
    assert!(output.stdout.is_empty());
    assert_eq!(desk.names(), ["a.fht"]);
}

#[test]
fn export_leaves_no_file_and_keeps_an_older_one() {
    let desk = Desk::new();
    write_trace(&desk.path("a.fht"));
    for name in ["a.csv", "a.parquet"] {
        fs::write(desk.path(name), "older").unwrap();
        let output = desk.interrupt(&["export", "a.fht", "-o", name]);
        assert_interrupted(&output);
        // An attempt that came too late has replaced it by a whole file; a part of one it is never.
        let found = fs::read(desk.path(name)).unwrap();
        let is_whole = match name {
            "a.csv" => found.iter().filter(|byte| **byte == b'\n').count() as u64 == EVENTS + 1,
            _ => found.starts_with(b"PAR1") && found.ends_with(b"PAR1"),
        };
        assert!(found == b"older" || is_whole, "{name} is {} bytes", found.len());
        fs::remove_file(desk.path(name)).unwrap();
        assert_eq!(desk.names(), ["a.fht"]);
    }
}

#[test]
fn import_leaves_no_trace() {
    let desk = Desk::new();
    let call = "@ ./app:[0x401136] + 0x5581a0 0x2a\n@ ./app:[0x401140] - 0x5581a0\n";
    fs::write(desk.path("a.mtrace"), call.repeat(EVENTS as usize / 2)).unwrap();
    let output = desk.interrupt(&["import", "a.mtrace", "-o", "a.fht"]);
    assert_interrupted(&output);
    // See above: an attempt that came too late made a whole trace.
    let _ = fs::remove_file(desk.path("a.fht"));
    assert_eq!(desk.names(), ["a.mtrace"]);
}

/// Asks for objects of one size, which the library below takes its time for.
const PROGRAM: &str = r#"
#include <stdlib.h>
int main(void) {
  for (int i = 0; i < 2000; i++) { void *volatile p = malloc(4711); free(p); }
  return 0;
}
"#;

/// glibc's allocator, but that a replay of the program takes half a minute; says when it is asked.
const SLOW: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t), __libc_free(void *);
void *malloc(size_t size) {
  if (size == 4711) { close(open(ASKED, O_CREAT | O_WRONLY, 0600)); usleep(15000); }
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return __libc_realloc(old, size); }
void free(void *old) { __libc_free(old); }
void *memalign(size_t align, size_t size) { return __libc_memalign(align, size); }
void *aligned_alloc(size_t align, size_t size) { return __libc_memalign(align, size); }
int posix_memalign(void **out, size_t align, size_t size) {
  *out = __libc_memalign(align, size);
  return *out ? 0 : ENOMEM;
}
"#;

fn compile(desk: &Desk, source: &str, name: &str, flags: &[&str]) {
    let file = desk.path("source.c");
    fs::write(&file, source).unwrap();
    let built = Command::new("cc")
        .args(["-O1", "-fno-builtin", "-w", "-o"])
        .args([&desk.path(name), &file])
        .args(flags)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "a C compiler is there");
    fs::remove_file(file).unwrap();
}

#[test]
fn compare_stops_its_measurements() {
    let desk = Desk::new();
    compile(&desk, PROGRAM, "program", &[]);
    let asked = desk.path("asked");
    let define = format!("-DASKED=\"{}\"", asked.display());
    compile(&desk, SLOW, "slow.so", &["-shared", "-fPIC", &define]);
    let child = desk.start(&["compare", "--on", "./slow.so", "--", "./program"]);
    let began = Instant::now();
    while !asked.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came to measure");
        std::thread::sleep(Duration::from_millis(5));
    }
    let interrupted = Instant::now();
    assert_interrupted(&send_interrupt(child));
    assert!(interrupted.elapsed() < Duration::from_secs(10), "it went on measuring");
    fs::remove_file(&asked).unwrap();
    assert_eq!(desk.names(), ["program", "slow.so"]);
    std::thread::sleep(Duration::from_millis(60));
    assert!(!asked.exists(), "no process goes on behind our back");
}
