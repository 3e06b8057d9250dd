//! The report on made-up outcomes: what it says, and that it says it safely.

use super::*;

fn page_of(document: &Document, map: &HeatMap) -> String {
    page_with(document, map, None)
}

fn page_with(document: &Document, map: &HeatMap, sites: Option<&Sites>) -> String {
    let answer = Answer::of_comparison(None, document);
    Story {
        document,
        circumstances: &samples::circumstances(),
        lifetimes: Some(map),
        sites,
        answer: &answer,
        others: &[],
        command: "freehold compare -- freehold-radiosity",
        trace_file: "app.fht",
        kept: false,
        warnings: &[],
    }
    .html()
}

fn sample_page() -> String {
    page_of(&samples::document(), &samples::heat())
}

#[test]
fn base64_is_that_of_the_rfc() {
    let shown =
        ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|s| sheet::base64(s.as_bytes()));
    assert_eq!(shown, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
}

#[test]
fn the_page_is_sound_and_every_name_escaped() {
    let page = sample_page();
    sound::assert_sound(&page);
    assert!(page.contains("&lt;room &amp; box&gt;") && !page.contains("<room"));
}

#[test]
fn nothing_replayed_is_said_not_drawn() {
    let mut document = samples::document();
    document.results.clear();
    let page = page_of(&document, &HeatMap::default());
    assert!(page.contains("Nothing could replay this trace"));
    assert!(!page.contains("<svg"));
}

/// Five thousand places that allocate, each by three callers, all alive at the end.
fn of_many_sites(folder: &std::path::Path) -> Sites {
    use freehold_trace::*;
    let mut stacks = Stacks::default();
    let app = stacks.add_module(Module { path: "/opt/app".into(), build_id: String::new() });
    let mut frame = |function: String, line: u32| {
        let file = Some(format!("/build/of/the/app/source/part_{}/unit_{line}.cc", line % 40));
        let call = Call { function, file, line: Some(line) };
        stacks.add_frame(Frame {
            module: Some(app),
            offset: line.into(),
            exact: false,
            calls: vec![call],
        })
    };
    let outer: Vec<FrameId> =
        (0..60).map(|i| frame(format!("app::outer::run_{i}(int)"), i)).collect();
    let sites: Vec<FrameId> = (0..5000)
        .map(|i| frame(format!("app::module_{}::Container<int>::append_{i}(int)", i % 70), 100 + i))
        .collect();
    let path = folder.join("t.fht");
    let header = Header { ticks_per_second: 1000, ..Header::default() };
    let mut writer = Writer::create(&path, header).unwrap();
    let mut object = 0;
    for (i, site) in sites.iter().enumerate() {
        for caller in 0..3 {
            let chain = (0..8).fold(StackId::NONE, |parent, depth| {
                stacks.add(parent, outer[(i * 7 + caller * 13 + depth * 5) % outer.len()])
            });
            let stack = stacks.add(chain, *site);
            let request = Request { size: 1000 + i as u64, ..Request::default() };
            let event = Event::Alloc { object: ObjectId(object), request };
            let (process, thread) = (ProcessId(0), ThreadId(0));
            let record = Record { tick: Tick(object.into()), process, thread, event };
            writer.push_stacked(&record, stack).unwrap();
            object += 1;
        }
    }
    writer.stacks(&stacks).unwrap();
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    let never = std::sync::atomic::AtomicBool::new(false);
    crate::sites::sites(&trace, ProcessId(0), &mut |_, _| {}, &never).unwrap().unwrap()
}

/// With policies and allocators beside them. Writes the page where `FREEHOLD_LARGE_REPORT` says, to see how long a browser takes to open it.
#[test]
fn a_program_of_five_thousand_sites_stays_under_five_megabytes() {
    let folder = tempfile::tempdir().unwrap();
    let sites = of_many_sites(folder.path());
    assert_eq!(sites.sites.len(), 5000);
    let (document, map) = (samples::document(), samples::heat());
    let page = page_with(&document, &map, Some(&sites));
    sound::assert_sound(&page);
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    if let Some(path) = std::env::var_os("FREEHOLD_LARGE_REPORT") {
        std::fs::write(path, page).unwrap();
    }
}

/// Writes the sample page where `FREEHOLD_SAMPLE_REPORT` says, to be looked at.
#[test]
fn sample_page_for_the_eye() {
    if let Some(path) = std::env::var_os("FREEHOLD_SAMPLE_REPORT") {
        std::fs::write(path, sample_page()).unwrap();
    }
}
