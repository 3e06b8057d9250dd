//! `freehold strip` leaves no name in the file's bytes, packed or not: not of a recording, and not of a trace that has a name
//! wherever there can be one.

use super::{Program, freehold, succeeded};
use freehold_trace::*;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Strips `trace` into a file beside it.
fn strip(trace: &Path) -> PathBuf {
    let stripped = trace.with_extension("stripped.fht");
    succeeded(freehold().arg("strip").args([trace, Path::new("-o"), &stripped]).output().unwrap());
    stripped
}

/// The bytes of a file, and behind them what each zstd frame in it unpacks to.
fn unpacked(path: &Path) -> Vec<u8> {
    const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let bytes = std::fs::read(path).unwrap();
    let mut all = bytes.clone();
    for at in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&FRAME)) {
        let decoder = zstd::stream::read::Decoder::with_buffer(&bytes[at..]).unwrap();
        // Bytes that only look like a frame are no loss: they were searched as they are.
        let _ = decoder.single_frame().read_to_end(&mut all);
    }
    all
}

fn has(bytes: &[u8], name: &str) -> bool {
    bytes.windows(name.len()).any(|window| window == name.as_bytes())
}

/// Each of `names` is in the one file and not in the other.
#[track_caller]
fn assert_gone(trace: &Path, stripped: &Path, names: &[&str]) {
    let (named, bare) = (unpacked(trace), unpacked(stripped));
    for name in names {
        assert!(has(&named, name), "{name} was never there");
        assert!(!has(&bare, name), "{name} is still there");
    }
}

#[test]
fn a_stripped_recording_names_nobody_and_has_the_same_figures() {
    let Some(program) = Program::compile("leak.c") else { return };
    let trace = program.record();
    let stripped = strip(&trace);
    let folder = program.folder.path().to_str().unwrap();
    assert_gone(&trace, &stripped, &["take_note", "leak.c", "/program", folder, "libc.so"]);
    let json = |trace: &Path| -> serde_json::Value {
        let text = succeeded(freehold().args(["info", "--json"]).arg(trace).output().unwrap());
        serde_json::from_str(&text).unwrap()
    };
    let (named, bare) = (json(&trace), json(&stripped));
    assert_eq!(named["total"], bare["total"]);
    assert_eq!(named["sites"]["total"]["leaked_bytes"], bare["sites"]["total"]["leaked_bytes"]);
    assert!(named["there"].is_object() && bare["there"].is_null());
    let (stacks, _) = Trace::open(&stripped).unwrap().stacks().unwrap();
    assert!(stacks.modules().iter().any(|module| !module.build_id.is_empty()));
}

/// A process of two events, with a name of its own in each field that can have one.
fn write_named(path: &Path) {
    let header = Header {
        command: vec!["./secret-command".into()],
        notes: vec!["secret-note".into()],
        ..Header::default()
    };
    let mut writer = Writer::create(path, header).unwrap();
    let process = ProcessInfo {
        command: vec!["./secret-program".into(), "secret-argument".into()],
        title: "secret-title".into(),
        malloc: "/secret-malloc".into(),
        peak_bytes: Some(24),
        peak_resident: Some(4096),
        high_water: Some(8192),
        ..ProcessInfo::unseen(ProcessId(0))
    };
    writer.process(process).unwrap();
    let mut stacks = Stacks::default();
    let module = Module { path: "/secret-module".into(), build_id: "00ff17".into() };
    let module = Some(stacks.add_module(module));
    let call =
        Call { function: "secret_function".into(), file: Some("secret-file.c".into()), line: None };
    let frame = stacks.add_frame(Frame { module, offset: 16, exact: false, calls: vec![call] });
    let stack = stacks.add(StackId::NONE, frame);
    writer.stacks(&stacks).unwrap();
    let (process, thread, object) = (ProcessId(0), ThreadId(0), ObjectId(0));
    let request = Request { size: 24, align_log2: 0, api: Api::Malloc, usable: 24 };
    let made = Record { tick: Tick(1), process, thread, event: Event::Alloc { object, request } };
    writer.push_stacked(&made, stack).unwrap();
    let freed = Event::Free { object, remote: false };
    writer.push(&Record { tick: Tick(9), event: freed, ..made }).unwrap();
    let change = MapChange::Map { bytes: 4096, flags: MapFlags::default() };
    writer
        .mapping(&MapEvent { tick: Tick(2), process, thread, stack, map: MapId(0), change })
        .unwrap();
    let kinds = [(What::File, "/secret-mapped"), (What::Runtime, "secret-runtime")];
    let part = |(what, name): (What, &str)| Part {
        what,
        name: name.into(),
        resident: 2048,
        stack,
        ..Part::default()
    };
    let sample = Resident {
        tick: Tick(3),
        at_end: true,
        parts: kinds.map(part).into(),
        kept: vec![Kept { stack: StackId(1), live: 9, pages: 4096 }],
        blank: vec![Blank { stack: StackId(1), seen: 512, zero: 448 }],
    };
    writer.residents(process, &[sample]).unwrap();
    writer.finish().unwrap();
}

#[test]
fn every_field_that_can_have_a_name_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.fht");
    write_named(&trace);
    let stripped = strip(&trace);
    let names = [
        "secret-command",
        "secret-note",
        "secret-program",
        "secret-argument",
        "secret-title",
        "/secret-module",
        "secret_function",
        "secret-file.c",
        "/secret-mapped",
        "secret-runtime",
        "secret",
    ];
    assert_gone(&trace, &stripped, &names);
    let bare = Trace::open(&stripped).unwrap();
    assert_eq!((bare.events(), bare.damage()), (2, &[][..]));
    assert_eq!(bare.residents_of(ProcessId(0)).unwrap(), (vec![], vec![]));
    let mut mapped = |event: &MapEvent| panic!("{event:?}");
    assert_eq!(bare.mappings_of(ProcessId(0), &mut mapped).unwrap(), []);
    let info = bare.process(ProcessId(0)).unwrap();
    assert_eq!((info.peak_resident, info.high_water), (None, None));
}

#[test]
fn a_trace_is_not_stripped_onto_itself() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.fht");
    write_named(&trace);
    let itself = freehold().arg("strip").args([&trace, Path::new("-o"), &trace]).output().unwrap();
    assert_eq!(itself.status.code(), Some(1));
    assert!(has(&unpacked(&trace), "secret"), "it is as it was");
}
