//! Sites of traces made by hand.

use super::{Measure, Site, Sites, Trend, sites};
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
    let grown = stacks.add(grow, new); // 4
    stacks.add(parse, new); // 5
    stacks.add(main, bare); // 6
    stacks.add(grown, bare); // 7
    stacks
}

/// The same with other callers of grow: load by three lines, save by one, poll.
fn stacks_of_callers() -> (Stacks, Vec<StackId>) {
    let mut stacks = stacks();
    let grow = FrameId(2);
    let callers = [("load()", 11), ("load()", 12), ("load()", 13), ("save()", 21), ("poll()", 31)];
    let ids = callers.map(|(function, line)| {
        let call =
            Call { function: function.into(), file: Some("app.cc".into()), line: Some(line) };
        let offset = line.into();
        let frame = Frame { module: Some(0), offset, exact: false, calls: vec![call] };
        let frame = stacks.add_frame(frame);
        let caller = stacks.add(StackId(1), frame);
        stacks.add(caller, grow)
    });
    (stacks, ids.into())
}

fn alloc(object: u32, size: u64, stack: u32) -> (Event, u32) {
    let request = Request { size, ..Request::default() };
    (Event::Alloc { object: ObjectId(object), request }, stack)
}

fn free(object: u32) -> (Event, u32) {
    (Event::Free { object: ObjectId(object), remote: false }, 0)
}

/// The sites of events, each a tick after the last one and of a thread.
fn found_in(events: &[(Event, u32, u32)]) -> Sites {
    found_with(events, &[])
}

/// The same where somebody looked at the process's pages.
fn found_with(events: &[(Event, u32, u32)], looks: &[Resident]) -> Sites {
    found_by(&stacks(), events, looks)
}

fn found_by(stacks: &Stacks, events: &[(Event, u32, u32)], looks: &[Resident]) -> Sites {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fht");
    let mut writer = Writer::create(&path, Header::default()).unwrap();
    for (tick, &(event, stack, thread)) in events.iter().enumerate() {
        let (process, thread) = (ProcessId(0), ThreadId(thread));
        let record = Record { tick: Tick(tick as u64), process, thread, event };
        writer.push_stacked(&record, StackId(stack)).unwrap();
    }
    writer.stacks(stacks).unwrap();
    writer.residents(ProcessId(0), looks).unwrap();
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    sites(&trace, ProcessId(0), &mut |_, _| (), &AtomicBool::new(false)).unwrap().unwrap()
}

/// The same of one thread.
fn found(events: &[(Event, u32)]) -> Sites {
    let events: Vec<_> = events.iter().map(|&(event, stack)| (event, stack, 0)).collect();
    found_in(&events)
}

fn names<'a>(sites: &[&'a Site], what: fn(&Site) -> u64) -> Vec<(&'a str, u64)> {
    sites.iter().map(|site| (site.function.as_str(), what(site))).collect()
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
    let peak = sites.most(|counts| counts.peak_bytes);
    assert_eq!(names(&peak, |s| s.counts.peak_bytes), [("parse()", 300), ("grow()", 100)]);
    assert_eq!((sites.total.peak_bytes, sites.total.allocations), (400, 5));
    assert_eq!((peak[0].share, sites.peak_s), (0.75, 3.0));
    assert_eq!(peak[1].callers.names, ["main (app.cc:1)"], "operator new is folded");
    assert_eq!(peak[1].text(), "grow (app.cc:2)");
    let leaked = sites.most(|counts| counts.leaked_bytes);
    assert_eq!(names(&leaked, |s| s.counts.leaked_bytes), [("grow()", 200), ("app+0x77", 100)]);
}

/// A thousand small stacks through one caller are more than the longest of all, and what is freed at once comes by others.
#[test]
fn callers_are_those_through_which_most_came_by_each_measure() {
    let (stacks, ids) = stacks_of_callers();
    let [first, second, third, save, poll] = ids[..] else { panic!("{ids:?}") };
    let mut events = vec![alloc(0, 40, first.0), alloc(1, 41, second.0), alloc(2, 40, third.0)];
    events.push(alloc(3, 100, save.0));
    for object in 4..400 {
        events.extend([alloc(object, 8, poll.0), free(object)]);
    }
    let events: Vec<_> = events.iter().map(|&(event, stack)| (event, stack, 0)).collect();
    let sites = found_by(&stacks, &events, &[]);
    let [grow] = &sites.sites[..] else { panic!("{sites:?}") };
    let by = |measure| grow.callers_by(measure).names.join(" < ");
    assert_eq!(by(Measure::Peak), "load (app.cc:12) < main (app.cc:1)");
    assert_eq!(by(Measure::NeverFreed), by(Measure::Peak));
    assert_eq!(by(Measure::Temporary), "poll (app.cc:31) < main (app.cc:1)");
    assert_eq!(by(Measure::Allocated), by(Measure::Temporary));
    let told: Vec<Measure> = grow.callers_by.keys().copied().collect();
    assert_eq!(told, [Measure::Allocated, Measure::Temporary], "only what differs");
}

#[test]
fn what_has_no_name_and_is_called_by_an_allocator_is_the_allocators() {
    let sites = found(&[alloc(0, 100, 7), alloc(1, 50, 6)]);
    let peak = sites.most(|counts| counts.peak_bytes);
    assert_eq!(names(&peak, |s| s.counts.peak_bytes), [("grow()", 100), ("app+0x77", 50)]);
    assert_eq!((peak[0].nameless(), peak[1].nameless()), (None, Some("app")));
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
    let temporary = sites.most(|counts| counts.temporary);
    assert_eq!(names(&temporary, |s| s.counts.temporary_bytes), [("grow()", 40)]);
    assert_eq!(temporary[0].counts.temporary, 2);
    assert_eq!(sites.most(|counts| counts.leaked_bytes), [] as [&Site; 0]);
}

fn realloc(object: u32, size: u64, stack: u32) -> (Event, u32) {
    let request = Request { size, ..Request::default() };
    (Event::Realloc { object: ObjectId(object), request, remote: false, began: Tick(0) }, stack)
}

#[test]
fn a_reallocation_belongs_to_who_asked_for_it() {
    let sites = found(&[alloc(0, 100, 4), realloc(0, 500, 5)]);
    let peak = sites.most(|counts| counts.peak_bytes);
    assert_eq!(names(&peak, |s| s.counts.peak_bytes), [("parse()", 500)]);
    assert_eq!(sites.total.allocated_bytes, 500);
}

#[test]
fn growth_is_counted_of_realloc_and_of_containers_that_copy() {
    let sites = found(&[
        alloc(0, 10, 4),
        realloc(0, 30, 4),
        alloc(1, 8, 5),
        alloc(2, 16, 5), // a container: a longer block,
        free(1),         // and the shorter one goes
        alloc(3, 32, 5),
        free(2),
        realloc(0, 20, 4), // shorter: no growth
    ]);
    let grew =
        |site: &Site| (site.counts.growths, site.counts.grown_bytes, site.counts.copied_bytes);
    let of = |name| grew(sites.sites.iter().find(|site| site.function == name).unwrap());
    assert_eq!(of("grow()"), (1, 20, 10));
    assert_eq!(of("parse()"), (2, 24, 24));
}

#[test]
fn other_threads_that_free_and_threads_that_end_are_seen() {
    let of = |(event, stack), thread| (event, stack, thread);
    let sites = found_in(&[
        of(alloc(0, 10, 4), 1),
        of(alloc(1, 20, 4), 1),
        of(alloc(2, 40, 5), 2),
        of(free(0), 2),
        (Event::ThreadEnd, 0, 1),
        of(free(2), 2),
    ]);
    let grow = &sites.most(|counts| counts.orphaned_bytes)[0].counts;
    assert_eq!((grow.orphaned_bytes, grow.freed_by_others, grow.freed), (20, 1, 1));
    assert_eq!(sites.total.freed_by_others, 1);
    assert_eq!(sites.sites[0].trend, Trend::Steady);
}

#[test]
fn the_tree_has_the_bytes_of_all_that_lies_below() {
    let sites = found(&[alloc(0, 100, 4), alloc(1, 300, 5), alloc(2, 100, 6), free(2)]);
    let tree = &sites.tree;
    assert_eq!(tree.bytes, [500, 500, 400, 100, 0]);
    let [main] = &tree.calls[..] else { panic!("{tree:?}") };
    assert_eq!((main.name.as_str(), main.place.as_deref()), ("main", Some("app.cc:1")));
    let calls: Vec<_> = main.calls.iter().map(|call| (call.name.as_str(), call.bytes[0])).collect();
    // Of equals at the peak, that which is never freed is first.
    assert_eq!(calls, [("parse", 300), ("grow", 100), ("app+0x77", 100)]);
    assert_eq!(main.calls[0].calls[0].name, "operator new");
}

/// On a fast machine the only look at a short program came while it still filled its pages.
#[test]
fn looks_that_came_before_pages_were_sparse_say_nothing_of_them() {
    const PAGES: u32 = 2000;
    const BLOCKS: u32 = 32;
    let of = |block: u32| if block.is_multiple_of(BLOCKS) { (3, 0) } else { (2, 0) };
    let all = 0..PAGES * BLOCKS;
    let fill = all.clone().map(|block| (alloc(block, 112, of(block).0), of(block).1));
    let empty = all.filter(|block| block % BLOCKS > 0).map(|block| (free(block), 0));
    let events: Vec<_> =
        fill.chain(empty).map(|((event, stack), thread)| (event, stack, thread)).collect();
    let look = |part: usize| {
        let kept = vec![Kept { stack: StackId(2), pages: 40960, live: 1120 }];
        Resident { tick: Tick((events.len() * part / 8) as u64), kept, ..Resident::default() }
    };
    let kept = |looks: &[Resident]| {
        let sites = found_with(&events, looks);
        let parse = sites.sites.iter().find(|site| site.function == "parse()").unwrap();
        let all: u64 = sites.sites.iter().map(|site| site.counts.kept_page_bytes).sum();
        assert_eq!(sites.tree.bytes[4], all, "the flame graph has them, too");
        (sites.kept_s.is_some(), parse.counts.kept_page_bytes > 4 << 20)
    };
    assert_eq!(kept(&[]), (false, true), "the model's");
    assert_eq!(kept(&[look(2)]), (false, true), "too early");
    assert_eq!(kept(&[look(7)]), (true, false), "in time");
    assert_eq!(kept(&(1..5).map(look).collect::<Vec<_>>()), (false, true), "all too early");
    assert_eq!(kept(&(1..8).map(look).collect::<Vec<_>>()), (true, false), "well looked after");
}
