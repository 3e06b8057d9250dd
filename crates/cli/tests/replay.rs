//! `freehold replay` and `freehold policies` from outside: what they print, write and refuse.

use freehold_trace::{
    Api, Event, Header, ObjectId, ProcessId, Record, Request, ThreadId, Tick, Writer,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn freehold(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    freehold(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Sample {
    folder: tempfile::TempDir,
}

impl Sample {
    /// A trace of `events` events: objects come and go in turn, 64 at a time at most.
    fn new(events: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let header = Header {
            ticks_per_second: 1000,
            command: vec!["/bin/sample".into()],
            ..Header::default()
        };
        let mut writer = Writer::create(folder.path().join("sample.fht"), header).unwrap();
        for i in 0..events {
            let object = ObjectId((i / 2 * 7 % 64) as u32);
            let request =
                Request { size: 16 + i * 37 % 3000, api: Api::Malloc, ..Request::default() };
            let event = match i % 2 {
                0 => Event::Alloc { object, request },
                _ => Event::Free { object, remote: false },
            };
            let (process, thread) = (ProcessId(0), ThreadId(0));
            writer.push(&Record { tick: Tick(i), process, thread, event }).unwrap();
        }
        writer.finish().unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn named(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn trace(&self) -> String {
        self.named("sample.fht")
    }
}

fn policies_lists_the_registry() {
    let shown = text(&run(&["policies"]).stdout);
    assert!(shown.contains("best-fit") && shown.contains("buddy"), "{shown}");
    let json: Value = serde_json::from_slice(&run(&["policies", "--json"]).stdout).unwrap();
    assert_eq!(json["schema_version"], 1);
    let names: Vec<&str> =
        json["policies"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names.len(), shown.lines().count());
}

fn a_table_without_colour_within_a_hundred_columns() {
    let sample = Sample::new(1000);
    let output = run(&["replay", &sample.trace(), "--on", "policies"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(shown.starts_with("sample: 1000 events in 1 thread"), "{shown}");
    assert!(shown.contains("good-fit") && !shown.contains("good-fit-list"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "no terminal, no colour");
    let tables = shown.lines().take_while(|line| !line.starts_with("Of the policies"));
    assert!(tables.clone().all(|line| line.chars().count() <= 100), "{shown}");
}

fn results_of_policies_are_the_same_bytes() {
    let sample = Sample::new(2000);
    let result = |name: &str| {
        let output =
            run(&["replay", &sample.trace(), "--on", "policies", "-o", &sample.named(name)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        fs::read(sample.path(name)).unwrap()
    };
    let first = result("first.json");
    assert_eq!(first, result("second.json"));
    let json: Value = serde_json::from_slice(&first).unwrap();
    assert_eq!((&json["schema_version"], &json["trace"]["events"]), (&1.into(), &2000.into()));
    let machine: Value =
        serde_json::from_slice(&fs::read(sample.path("first.machine.json")).unwrap()).unwrap();
    assert_eq!(
        machine["timings"].as_array().unwrap().len(),
        json["results"].as_array().unwrap().len()
    );
    let parquet = result("third.parquet");
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let printed = run(&["replay", &sample.trace(), "--on", "policies", "--json"]).stdout;
    assert_eq!(printed, first, "--json prints what -o writes");
}

fn the_malloc_gives_the_same_bytes_and_its_decisions_can_be_set() {
    let sample = Sample::new(20_000);
    let replay = |more: &[&str]| {
        let trace = sample.trace();
        let words = [&["replay", &trace, "--on", "malloc", "--json"], more].concat();
        let output = run(&words);
        assert!(output.status.success(), "{}", text(&output.stderr));
        output.stdout
    };
    let first = replay(&[]);
    assert_eq!(first, replay(&[]));
    let json: Value = serde_json::from_slice(&first).unwrap();
    let found = &json["results"][0];
    assert_eq!((&found["name"], &found["kind"]), (&"malloc".into(), &"malloc".into()));
    let peak = found["peak_memory"].as_u64().unwrap();
    let by_cause = found["paged"]["at_peak"].as_object().unwrap().values();
    assert_eq!(by_cause.map(|bytes| bytes.as_u64().unwrap()).sum::<u64>(), peak);
    let set: Value = serde_json::from_slice(&replay(&[
        "--set",
        "batch.first=8K",
        "--set",
        "purge.from=off",
        "--page-size",
        "16K",
    ]))
    .unwrap();
    let found = &set["results"][0];
    assert_eq!(found["paged"]["changed"][0]["name"], "batch.first");
    assert_eq!(found["paged"]["page_size"], 16384);
    assert!(
        found["peak_memory"].as_u64().unwrap() > peak,
        "more is taken at first, in longer pages"
    );
}

fn decisions_are_listed_and_wrong_ones_refused() {
    let listed = text(&run(&["replay", "--decisions"]).stdout);
    assert!(listed.contains("reserve.bytes") && listed.contains("32M, off is 0"), "{listed}");
    assert!(listed.lines().all(|line| line.chars().count() <= 100), "{listed}");
    let json: Value =
        serde_json::from_slice(&run(&["replay", "--decisions", "--json"]).stdout).unwrap();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["decisions"][0]["name"], "stack.bytes");
    let sample = Sample::new(10);
    let trace = sample.trace();
    let refused = |more: &[&str]| {
        let output = run(&[&["replay", &trace, "--on", "malloc"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        text(&output.stderr)
    };
    assert!(refused(&["--set", "reserve.byte=1"]).contains("did you mean reserve.bytes?"));
    assert!(refused(&["--page-size", "12K"]).contains("pages have 4K, 8K, 16K, 32K or 64K"));
    assert!(refused(&["--speed", "0"]).contains("a number above 0"));
    assert_eq!(run(&["replay"]).status.code(), Some(2), "a trace or --decisions");
}

fn unknown_names_are_usage_errors_with_a_hint() {
    let sample = Sample::new(10);
    let output = run(&["replay", &sample.trace(), "--on", "bset-fit"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean best-fit"), "{}", text(&output.stderr));
}

fn a_trace_without_events_is_a_clear_error() {
    let sample = Sample::new(0);
    let output = run(&["replay", &sample.trace(), "--on", "policies"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no event"), "{}", text(&output.stderr));
}

fn a_damaged_trace_is_replayed_as_far_as_it_is_sound() {
    let sample = Sample::new(100_000);
    let whole = fs::read(sample.path("sample.fht")).unwrap();
    let mut broken = whole.clone();
    let middle = whole.len() / 2;
    broken[middle] ^= 0xff;
    fs::write(sample.path("broken.fht"), &broken).unwrap();
    fs::write(sample.path("cut.fht"), &whole[..whole.len() * 2 / 3]).unwrap();
    for name in ["broken.fht", "cut.fht"] {
        let output = run(&["replay", &sample.named(name), "--on", "good-fit", "--json"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}, as info and export: {said}");
        assert!(said.contains("damaged trace"), "{name}: {said}");
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(!json["trace"]["damage"].as_array().unwrap().is_empty());
    }
    let nonsense = sample.path("nonsense.fht");
    fs::write(&nonsense, "no trace at all").unwrap();
    assert_eq!(run(&["replay", nonsense.to_str().unwrap()]).status.code(), Some(1));
}

fn what_cannot_be_written_is_refused_before_the_work() {
    let sample = Sample::new(10);
    let refused = |name: &str, status: i32| {
        let output = run(&["replay", &sample.trace(), "--on", "good-fit", "-o", name]);
        assert_eq!(output.status.code(), Some(status), "{name}");
        assert!(output.stdout.is_empty(), "{name}: nothing was replayed");
        text(&output.stderr)
    };
    let missing = refused(&sample.named("missing/results.json"), 1);
    assert!(missing.contains("cannot be written: there is no folder"), "{missing}");
    assert!(refused(&sample.named("results.xml"), 2).contains(".json or .parquet"));
}

fn a_full_disk_is_an_error() {
    if !Path::new("/dev/full").exists() {
        return freehold_testkit::skip("this system has no /dev/full");
    }
    let sample = Sample::new(10);
    std::os::unix::fs::symlink("/dev/full", sample.path("full.json")).unwrap();
    let output =
        run(&["replay", &sample.trace(), "--on", "good-fit", "-o", &sample.named("full.json")]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("cannot be written"), "{}", text(&output.stderr));
}

fn a_limit_is_read_and_obeyed() {
    let sample = Sample::new(1000);
    let output = run(&["replay", &sample.trace(), "--on", "best-fit", "--limit", "1K", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["results"][0]["failures"].as_u64().unwrap() > 0);
    assert!(json["results"][0]["peak_memory"].as_u64().unwrap() <= 1024);
    let wrong = run(&["replay", &sample.trace(), "--limit", "much"]);
    assert_eq!(wrong.status.code(), Some(2));
}

/// Whether the process has a handler for interrupts: before, one would just end it.
fn listens(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (libc::SIGINT - 1) != 0
}

fn ctrl_c_leaves_nothing_behind() {
    let sample = Sample::new(1_000_000);
    let arguments =
        ["replay", &sample.trace(), "--on", "policies", "-o", &sample.named("results.json")];
    let mut child =
        freehold(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !listens(child.id()) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it could be interrupted");
        std::thread::sleep(Duration::from_millis(1));
    }
    // All policies on a million events take far longer than this.
    std::thread::sleep(Duration::from_millis(100));
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let ended = child.wait().unwrap();
    assert_eq!(ended.code(), Some(130));
    let names: Vec<_> =
        fs::read_dir(sample.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["sample.fht"]);
}

freehold_testkit::trials! {
    policies_lists_the_registry,
    a_table_without_colour_within_a_hundred_columns,
    results_of_policies_are_the_same_bytes,
    the_malloc_gives_the_same_bytes_and_its_decisions_can_be_set,
    decisions_are_listed_and_wrong_ones_refused,
    unknown_names_are_usage_errors_with_a_hint,
    a_trace_without_events_is_a_clear_error,
    a_damaged_trace_is_replayed_as_far_as_it_is_sound,
    what_cannot_be_written_is_refused_before_the_work,
    a_full_disk_is_an_error,
    a_limit_is_read_and_obeyed,
    ctrl_c_leaves_nothing_behind,
}
