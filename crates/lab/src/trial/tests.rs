//! Recordings made by hand, and as they are after a change at `grow`.

use super::*;
use freehold_trace::{Call, Frame, Header, Stacks, Tick};

const GROW: u32 = 1;
const OTHER: u32 = 2;

fn alloc(object: u32, size: u64) -> Event {
    let request = Request { size, ..Request::default() };
    Event::Alloc { object: ObjectId(object), request }
}

fn realloc(object: u32, size: u64) -> Event {
    let request = Request { size, ..Request::default() };
    Event::Realloc { object: ObjectId(object), request, remote: false, began: Tick(0) }
}

fn free(object: u32) -> Event {
    Event::Free { object: ObjectId(object), remote: false }
}

/// The changed recording, with what became of each event, and the most bytes apart.
fn changed(change: Change, events: &[(Event, u32)]) -> (Vec<Event>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from.fht"), folder.path().join("to.fht"));
    let mut stacks = Stacks::default();
    for function in ["grow", "other"] {
        let call = Call { function: function.into(), ..Call::default() };
        let frame = stacks.add_frame(Frame { calls: vec![call], ..Frame::default() });
        stacks.add(StackId::NONE, frame);
    }
    let process = ProcessId(0);
    let mut writer = Writer::create(&from, Header::default()).unwrap();
    for (tick, &(event, stack)) in events.iter().enumerate() {
        let record = Record { tick: Tick(tick as u64), process, thread: ThreadId(0), event };
        writer.push_stacked(&record, StackId(stack)).unwrap();
    }
    writer.stacks(&stacks).unwrap();
    writer.finish().unwrap();
    let place = Place::named("grow");
    let trace = Trace::open(&from).unwrap();
    let most = write(&trace, process, &Trial { change, place }, &to).unwrap();
    let mut all = Vec::new();
    let changed = Trace::open(&to).unwrap();
    changed.records().unwrap().for_each(|record| all.push(record.event)).unwrap();
    (all, most)
}

#[test]
fn what_grows_is_made_at_its_final_size() {
    let events = [
        (alloc(0, 10), OTHER), // grown by realloc at the site, though made elsewhere
        (realloc(0, 20), GROW),
        (alloc(1, 5), GROW), // a container
        (alloc(2, 7), GROW),
        (free(1), 0),
        (alloc(1, 9), GROW),
        (free(2), 0),
        (alloc(2, 3), OTHER), // the numbers of objects come again
        (realloc(0, 15), GROW),
        (free(1), 0),
        (free(2), 0),
        (free(0), 0),
        (alloc(0, 4), GROW), // never grows
    ];
    let (found, most) = changed(Change::Reserve, &events);
    let expected = [alloc(3, 20), alloc(4, 9), alloc(2, 3), free(4), free(2), free(3), alloc(0, 4)];
    assert_eq!((found, most), (expected.to_vec(), 0));
}

#[test]
fn what_lies_apart_is_counted_and_gone() {
    let events = [
        (alloc(0, 10), GROW),
        (alloc(1, 40), OTHER),
        (alloc(2, 17), GROW),
        (realloc(0, 33), OTHER),
        (free(2), 0),
        (alloc(2, 8), OTHER),
        (realloc(1, 50), OTHER),
        (free(0), 0),
        (free(2), 0),
    ];
    let (found, most) = changed(Change::Apart, &events);
    assert_eq!(found, [alloc(1, 40), alloc(2, 8), realloc(1, 50), free(2)]);
    assert_eq!(most, 48 + 32);
}
