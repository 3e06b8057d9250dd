//! Sites of traces made by hand.

use super::{Sites, sites};
use freehold_trace::*;
use std::sync::atomic::AtomicBool;

/// main → grow → operator new → malloc, and main → parse; grow's in two files.
fn stacks() -> Stacks {
    let mut stacks = Stacks::default();
    let app = stacks.add_module(Module { path: "/opt/app".into(), build_id: String::new() });
    let mut frame = |function: &str, line: u32| {
        let file = Some("app.cc".to_owned());
        let call = Call { function: function.into(), file, line: Some(line) };
        let offset = line.into();
        stacks.add_frame(Frame { module: Some(app), offset, exact: false, calls: vec![call] })
    };
    let frames = [frame("main()", 1), frame("grow()", 2), frame("parse()", 3)];
    let new = frame("operator new(unsigned long)", 9);
    let bare = stacks.add_frame(Frame { module: Some(app), offset: 0x77, ..Frame::default() });
    let main = stacks.add(StackId::NONE, frames[0]);
    let grow = stacks.add(main, frames[1]);
    let parse = stacks.add(main, frames[2]);
    stacks.add(grow, new); // 4
    stacks.add(parse, new); // 5
    stacks.add(main, bare); // 6
    stacks
}

fn alloc(object: u32, size: u64, stack: u32) -> (Event, u32) {
    let request = Request { size, ..Request::default() };
    (Event::Alloc { object: ObjectId(object), request }, stack)
}

fn free(object: u32) -> (Event, u32) {
    (Event::Free { object: ObjectId(object), remote: false }, 0)
}

fn found(events: &[(Event, u32)]) -> Sites {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fht");
    let mut writer = Writer::create(&path, Header::default()).unwrap();
    for (tick, &(event, stack)) in events.iter().enumerate() {
        let (process, thread) = (ProcessId(0), ThreadId(0));
        let record = Record { tick: Tick(tick as u64), process, thread, event };
        writer.push_stacked(&record, StackId(stack)).unwrap();
    }
    writer.stacks(&stacks()).unwrap();
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    sites(&trace, ProcessId(0), &AtomicBool::new(false)).unwrap().unwrap()
}

#[test]
fn the_peak_is_split_by_site_whatever_came_after() {
    let sites = found(&[
        alloc(0, 100, 4),
        alloc(1, 50, 5),
        free(1),
        alloc(1, 300, 5), // the peak: grow 100, parse 300
        free(0),
        free(1),
        alloc(0, 200, 4),
        alloc(1, 100, 6),
    ]);
    let of = |site: &super::Site| (site.function.clone(), site.counts.peak_bytes);
    let peak: Vec<_> = sites.peak.iter().map(of).collect();
    assert_eq!(peak, [("parse()".into(), 300), ("grow()".into(), 100)]);
    assert_eq!((sites.total.peak_bytes, sites.total.allocations), (400, 5));
    assert_eq!(sites.peak[1].callers, ["main() app.cc:1"], "operator new is folded");
    assert_eq!(sites.peak[1].place.as_deref(), Some("app.cc:2"));
    let leaked: Vec<_> = sites
        .leaked
        .iter()
        .map(|site| (site.function.as_str(), site.counts.leaked_bytes))
        .collect();
    assert_eq!(leaked, [("grow()", 200), ("app+0x77", 100)]);
}

#[test]
fn what_is_freed_as_the_next_event_is_temporary() {
    let sites = found(&[
        alloc(0, 10, 4),
        free(0),
        alloc(0, 10, 4),
        alloc(1, 10, 5),
        free(0),
        free(1),
        alloc(0, 30, 4),
        free(0),
    ]);
    assert_eq!(sites.temporary.len(), 1);
    let counts = sites.temporary[0].counts;
    assert_eq!((counts.temporary, counts.temporary_bytes), (2, 40));
    assert_eq!(sites.leaked, []);
}

#[test]
fn a_reallocation_belongs_to_who_asked_for_it() {
    let request = Request { size: 500, ..Request::default() };
    let event = Event::Realloc { object: ObjectId(0), request, remote: false, began: Tick(0) };
    let sites = found(&[alloc(0, 100, 4), (event, 5)]);
    assert_eq!(sites.peak.len(), 1);
    assert_eq!(
        (sites.peak[0].function.as_str(), sites.peak[0].counts.peak_bytes),
        ("parse()", 500)
    );
    assert_eq!(sites.total.allocated_bytes, 500);
}
