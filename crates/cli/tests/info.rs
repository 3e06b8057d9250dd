//! `freehold info` on good and bad input.

use freehold_trace::{Event, Header, ObjectId, ProcessId, Record, Request, ThreadId, Tick, Writer};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/golden/v1.0.fht")
}

fn info(args: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_freehold")).arg("info").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn refusal(path: &Path) -> String {
    let output = info(&[path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    text(&output.stderr).to_owned()
}

#[test]
fn the_page_fits_a_terminal_and_a_pipe_gets_whole_commands_and_no_colours() {
    let output = info(&[&golden()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = text(&output.stdout);
    for line in page.lines().skip(1).filter(|line| !line.starts_with("Note")) {
        assert!(line.chars().count() <= 80 || line.contains(" ./program "), "{line}");
    }
    assert!(!page.contains('\x1b'));
    for expected in ["peak live", "Sizes", "Live bytes over seconds", "Processes", "made by hand"] {
        assert!(page.contains(expected), "{expected} is missing:\n{page}");
    }
}

#[test]
fn json_has_what_the_page_has() {
    let output = info(&[&golden(), Path::new("--json")]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 2);
    assert_eq!(json["total"]["calls"]["unknown_frees"], 1);
    assert_eq!(json["processes"][1]["process"]["ended"]["signal"], 9);
    assert_eq!(json["processes"][0]["threads"].as_array().unwrap().len(), 2);
    let one = info(&[&golden(), Path::new("--process"), Path::new("1"), Path::new("--json")]);
    let json: serde_json::Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(json["processes"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_no_trace_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.fht");
    assert!(refusal(&path).contains("No such file"));
    assert!(refusal(folder.path()).contains("is a directory"));
    std::fs::write(&path, b"").unwrap();
    assert!(refusal(&path).contains("is empty"));
    std::fs::write(&path, b"a text").unwrap();
    assert!(refusal(&path).contains("not a Freehold trace"));
    let mut newer = std::fs::read(golden()).unwrap();
    newer[8] = 2;
    std::fs::write(&path, newer).unwrap();
    assert!(refusal(&path).contains("format 2.0; this freehold reads format 1.x"));
    let missing = info(&[&golden(), Path::new("--process"), Path::new("7")]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("has processes 0 to 1"));
}

#[test]
fn a_cut_trace_is_shown_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.fht");
    let bytes = std::fs::read(golden()).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
    let output = info(&[&path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("peak live"));
    assert!(text(&output.stderr).contains("is damaged"), "{}", text(&output.stderr));
}

#[test]
fn no_events_and_one_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("few.fht");
    Writer::create(&path, Header::default()).unwrap().finish().unwrap();
    let output = info(&[&path]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("No allocations"));
    let mut writer = Writer::create(&path, Header::default()).unwrap();
    let event = Event::Alloc { object: ObjectId(0), request: Request::default() };
    let (process, thread) = (ProcessId(0), ThreadId(0));
    writer.push(&Record { tick: Tick(0), process, thread, event }).unwrap();
    writer.finish().unwrap();
    assert_eq!(info(&[&path]).status.code(), Some(0));
}

/// The example in `info --help` that asks for the peak.
#[test]
fn the_example_for_jq_names_what_the_json_has() {
    let help = info(&[Path::new("--help")]);
    let help = text(&help.stdout);
    let asked = help.split("| jq ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let output = info(&[&golden(), Path::new("--json")]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let pointer = asked.unwrap_or_else(|| panic!("no example: {help}")).replace('.', "/");
    let found = json.pointer(&pointer);
    assert!(found.is_some_and(|found| found["bytes"].is_u64()), "{pointer}: {found:?}");
}
