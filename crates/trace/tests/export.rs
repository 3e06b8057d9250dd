//! Exports say what the trace says.

use flate2::read::GzDecoder;
use freehold_trace::export::{
    Control, ExportError, SiteOf, collapsed, csv, heaptrack, pprof, row, speedscope,
};
use freehold_trace::import;
use freehold_trace::*;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

fn golden() -> Trace {
    Trace::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1.0.fht")).unwrap()
}

fn as_csv(trace: &Trace) -> String {
    csv_with(trace, &|_| None)
}

fn csv_with(trace: &Trace, site_of: SiteOf<'_>) -> String {
    let mut out = Vec::new();
    let mut control = Control { progress: &mut |_, _| {}, stop: &NEVER };
    let mut records = trace.records().unwrap();
    let (header, events) = (trace.header(), trace.events());
    let written = csv(header, &mut records, events, site_of, &mut out, &mut control).unwrap();
    assert_eq!(written, trace.events());
    String::from_utf8(out).unwrap()
}

#[test]
fn csv_has_a_row_for_every_event() {
    let text = as_csv(&golden());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len() as u64, golden().events() + 1);
    let columns = |line: &str| line.split(',').count();
    assert!(lines.iter().all(|line| columns(line) == row::COLUMNS.len() + 1), "{text}");
    assert!(lines.contains(&"30,0.000000030,0,0,alloc,2,aligned,4096,4096,4096,,,,,"), "{text}");
    assert!(lines.contains(&"60,0.000000060,0,1,free,3,,,,,1,,,,"), "{text}");
    assert!(lines.contains(&"80,0.000000080,0,1,realloc,0,malloc,5000,5000,,1,75,,,"), "{text}");
    assert!(lines.contains(&"120,0.000000120,0,0,fork,,,,,,,,,1,"), "{text}");
    assert!(lines.contains(&"100,0.000000100,0,0,write,1,,,,,,,96,,"), "{text}");
}

/// What asked for memory has its site, in quotes where it needs them; a free has none.
#[test]
fn csv_names_the_sites_of_what_asked_for_memory() {
    let folder = tempfile::tempdir().unwrap();
    let trace = stacked(folder.path());
    let named = |stack: StackId| (stack != StackId::NONE).then_some("f<a, b> (x.cc:1)");
    let text = csv_with(&trace, &named);
    let mut lines = text.lines();
    assert!(lines.next().unwrap().ends_with(",child,site"), "{text}");
    let asked = |line: &&str| [",alloc,", ",realloc,"].iter().any(|event| line.contains(event));
    let (asked, others): (Vec<&str>, Vec<&str>) = lines.partition(asked);
    let with_site = asked.iter().filter(|line| line.ends_with(",\"f<a, b> (x.cc:1)\"")).count();
    assert_eq!((with_site, asked.len()), (2, 3), "one has no stack: {text}");
    assert!(!others.is_empty() && others.iter().all(|line| line.ends_with(',')), "{text}");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_reads_back() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    let trace = golden();
    let mut file = tempfile::tempfile().unwrap();
    let mut control = Control { progress: &mut |_, _| {}, stop: &NEVER };
    let mut records = trace.records().unwrap();
    let nobody = |_| None;
    export::parquet(trace.header(), &mut records, 23, &nobody, &mut file, &mut control).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let columns = reader.metadata().file_metadata().schema_descr().columns().to_vec();
    let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    assert_eq!(names, [&row::COLUMNS[..], &["site"]].concat());
    let rows: Vec<String> =
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    assert_eq!(rows.len() as u64, trace.events());
    let freed = rows.iter().find(|row| row.contains("tick: 60,")).unwrap();
    assert!(freed.contains("event: \"free\", object: 3, api: null"), "{freed}");
    assert!(freed.contains("remote: true"), "{freed}");
}

#[test]
fn pprof_is_gzip_with_the_names_and_sums() {
    let trace = golden();
    let mut out = Vec::new();
    let mut control = Control { progress: &mut |_, _| {}, stop: &NEVER };
    let mut records = trace.records().unwrap();
    let bare = Stacks::default();
    pprof(trace.header(), trace.processes(), &bare, &mut records, 23, &mut out, &mut control)
        .unwrap();
    let mut raw = Vec::new();
    GzDecoder::new(&out[..]).read_to_end(&mut raw).unwrap();
    let has = |text: &str| raw.windows(text.len()).any(|window| window == text.as_bytes());
    for text in [
        "alloc_objects",
        "alloc_space",
        "inuse_objects",
        "inuse_space",
        "count",
        "bytes",
        "process 0 ./program",
        "thread 1",
        "new_array",
        "4096 B and more",
    ] {
        assert!(has(text), "{text} is missing");
    }
}

/// Takes so many bytes and then has no space left.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_of_every_format() {
    let trace = golden();
    let mut control = Control { progress: &mut |_, _| {}, stop: &NEVER };
    let is_full = |result: Result<u64, ExportError>| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains("no storage space"), "{message}");
    };
    let records = || trace.records().unwrap();
    is_full(csv(trace.header(), &mut records(), 23, &|_| None, &mut Full(100), &mut control));
    let bare = Stacks::default();
    is_full(pprof(trace.header(), &[], &bare, &mut records(), 23, &mut Full(100), &mut control));
    is_full(collapsed(&[], &bare, &mut records(), 23, &mut Full(10), &mut control));
    is_full(speedscope(&[], &bare, &mut records(), 23, &mut Full(100), &mut control));
    let head = trace.header();
    is_full(heaptrack(head, &[], &bare, &mut records(), 23, &mut Full(10), &mut control));
    #[cfg(feature = "parquet")]
    is_full(export::parquet(head, &mut records(), 23, &|_| None, &mut Full(100), &mut control));
}

/// main → grow, 100 B twice, of which one is freed; and something without a stack.
fn stacked(folder: &Path) -> Trace {
    let mut stacks = Stacks::default();
    let app = stacks.add_module(Module { path: "/opt/app".into(), build_id: String::new() });
    let mut frame = |function: &str, line| {
        let call = Call { function: function.into(), file: Some("app.c".into()), line: Some(line) };
        stacks.add_frame(Frame { module: Some(app), offset: 9, exact: false, calls: vec![call] })
    };
    let frames = [frame("main", 7), frame("grow;", 8)];
    let main = stacks.add(StackId::NONE, frames[0]);
    let grow = stacks.add(main, frames[1]);
    let path = folder.join("t.fht");
    let mut writer = Writer::create(&path, Header::default()).unwrap();
    let request = Request { size: 100, ..Request::default() };
    let alloc = |object| Event::Alloc { object: ObjectId(object), request };
    let free = Event::Free { object: ObjectId(0), remote: false };
    for (event, stack) in
        [(alloc(0), grow), (alloc(1), grow), (free, StackId::NONE), (alloc(0), StackId::NONE)]
    {
        let (process, thread) = (ProcessId(0), ThreadId(0));
        writer.push_stacked(&Record { tick: Tick(0), process, thread, event }, stack).unwrap();
    }
    writer.stacks(&stacks).unwrap();
    writer.finish().unwrap();
    Trace::open(&path).unwrap()
}

/// The column of sites is a dictionary: each name stands once in a row group.
#[cfg(feature = "parquet")]
#[test]
fn parquet_has_the_sites_as_a_dictionary() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;
    let folder = tempfile::tempdir().unwrap();
    let trace = stacked(folder.path());
    let mut file = tempfile::tempfile().unwrap();
    let mut control = Control { progress: &mut |_, _| {}, stop: &NEVER };
    let mut records = trace.records().unwrap();
    let site_of = |stack| (stack != StackId::NONE).then_some("grow (app.c:8)");
    export::parquet(trace.header(), &mut records, 4, &site_of, &mut file, &mut control).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    assert!(reader.metadata().row_group(0).column(14).dictionary_page_offset().is_some());
    let site = |row: ::parquet::record::Row| match row.get_column_iter().nth(14) {
        Some((_, Field::Str(site))) => Some(site.clone()),
        _ => None,
    };
    let sites: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| site(row.unwrap())).collect();
    let grow = Some("grow (app.c:8)".to_owned());
    // Two of a site, one freed, one without a stack: by time, frees first.
    assert_eq!(sites.iter().filter(|site| **site == grow).count(), 2, "{sites:?}");
    assert_eq!(sites.iter().filter(|site| site.is_none()).count(), 2, "{sites:?}");
}

#[test]
fn stacks_are_told_with_functions_files_and_lines() {
    let folder = tempfile::tempdir().unwrap();
    let trace = stacked(folder.path());
    let (stacks, processes) = (trace.stacks().unwrap().0, trace.processes());
    let records = || trace.records().unwrap();
    let mut control = Control { progress: &mut |_, _| {}, stop: &NEVER };
    let mut text = Vec::new();
    collapsed(processes, &stacks, &mut records(), 4, &mut text, &mut control).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), "(no call stack) 100\nmain;grow: 200\n");
    let mut json = Vec::new();
    speedscope(processes, &stacks, &mut records(), 4, &mut json, &mut control).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let frame = serde_json::json!({ "name": "main", "file": "app.c", "line": 7 });
    assert_eq!(
        json["shared"]["frames"][json["profiles"][0]["samples"][1][0].as_u64().unwrap() as usize],
        frame
    );
    assert_eq!(json["profiles"][0]["weights"], serde_json::json!([100, 200]));
    assert_eq!(json["profiles"][1]["weights"], serde_json::json!([100, 100]), "in use");
    let mut packed = Vec::new();
    pprof(trace.header(), processes, &stacks, &mut records(), 4, &mut packed, &mut control)
        .unwrap();
    let mut raw = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut raw).unwrap();
    for text in ["grow;", "app.c", "(no call stack)"] {
        assert!(raw.windows(text.len()).any(|window| window == text.as_bytes()), "{text}");
    }
}

/// The export read back by our own importer.
#[test]
fn a_heaptrack_file_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let trace = stacked(folder.path());
    let (stacks, processes) = (trace.stacks().unwrap().0, trace.processes());
    let mut control = Control { progress: &mut |_, _| {}, stop: &NEVER };
    let mut file = Vec::new();
    let mut records = trace.records().unwrap();
    let head = trace.header();
    heaptrack(head, processes, &stacks, &mut records, 4, &mut file, &mut control).unwrap();
    let (from, to) = (folder.path().join("h.zst"), folder.path().join("back.fht"));
    std::fs::write(&from, file).unwrap();
    let imported = import::import(&from, &to, None, &mut control).unwrap();
    assert_eq!((imported.malformed, imported.cut_short), (0, false));
    let back = Trace::open(&to).unwrap();
    let mut text = Vec::new();
    let (stacks, processes) = (back.stacks().unwrap().0, back.processes());
    let mut records = back.records().unwrap();
    collapsed(processes, &stacks, &mut records, 4, &mut text, &mut control).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), "(no call stack) 100\nmain;grow: 200\n");
    let frame = stacks.frames().iter().find(|frame| frame.calls[0].function == "main").unwrap();
    assert_eq!((frame.calls[0].file.as_deref(), frame.calls[0].line), (Some("app.c"), Some(7)));
    assert_eq!(stacks.modules()[0].path, "/opt/app");
    assert_eq!(as_csv(&back).lines().count(), 5, "four events and the heads");
}

#[test]
fn a_profile_reads_back_as_what_was_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let trace = stacked(folder.path());
    let (stacks, processes) = (trace.stacks().unwrap().0, trace.processes());
    let mut control = Control { progress: &mut |_, _| {}, stop: &NEVER };
    let mut file = Vec::new();
    let mut records = trace.records().unwrap();
    pprof(trace.header(), processes, &stacks, &mut records, 4, &mut file, &mut control).unwrap();
    let (from, to) = (folder.path().join("heap.pb.gz"), folder.path().join("back.fht"));
    std::fs::write(&from, file).unwrap();
    let imported = import::import(&from, &to, None, &mut control).unwrap();
    assert_eq!((imported.malformed, imported.cut_short), (0, false));
    let back = Trace::open(&to).unwrap();
    let (stacks, processes) = (back.stacks().unwrap().0, back.processes());
    let mut text = Vec::new();
    let mut records = back.records().unwrap();
    collapsed(processes, &stacks, &mut records, 2, &mut text, &mut control).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), "(no call stack) 100\nmain;grow: 100\n");
}
