//! Call stacks: what is written is read, beside events with and without them, and damage stays where it is.

use freehold_trace::*;
use proptest::prelude::*;
use std::path::Path;

fn header() -> Header {
    Header { ticks_per_second: 1_000_000_000, ..Header::default() }
}

fn event(kind: u8, object: u32) -> Event {
    let object = ObjectId(object);
    let request = Request { size: 8, ..Request::default() };
    match kind {
        0 => Event::Alloc { object, request },
        1 => Event::Free { object, remote: false },
        2 => Event::Realloc { object, request, remote: true, began: Tick(0) },
        3 => Event::Failed { request },
        4 => Event::UnknownFree,
        _ => Event::ThreadStart,
    }
}

/// Whether the format has room for a stack of such an event.
fn has_stack(event: &Event) -> bool {
    !matches!(event, Event::ThreadStart)
}

fn write(path: &Path, events: &[(Event, StackId)], stacks: &Stacks) {
    let mut writer = Writer::create(path, header()).unwrap();
    for (tick, (event, stack)) in events.iter().enumerate() {
        let thread = ThreadId(tick as u32 % 2);
        let record =
            Record { tick: Tick(tick as u64), process: ProcessId(0), thread, event: *event };
        writer.push_stacked(&record, *stack).unwrap();
    }
    writer.stacks(stacks).unwrap();
    writer.finish().unwrap();
}

/// The events of a trace in order, each with its stack.
fn read(path: &Path) -> (Vec<(Event, StackId)>, Vec<Damage>) {
    let trace = Trace::open(path).unwrap();
    let mut records = trace.records().unwrap();
    let mut all = Vec::new();
    while let Some(run) = records.next_run().unwrap() {
        for (index, timed) in run.events.iter().enumerate() {
            all.push((timed.event, run.stacks.get(index).copied().unwrap_or_default()));
        }
    }
    (all, records.damage().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(
        kinds in proptest::collection::vec((0..6u8, prop_oneof![Just(0u32), 1..5u32, 1..100_000u32, Just(u32::MAX)]), 1..2000),
        quiet in 0..300usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.fht");
        let events: Vec<(Event, StackId)> = kinds.iter().enumerate().map(|(i, &(kind, stack))| {
            let event = event(kind, i as u32);
            // At first nobody has a stack: columns begin in the middle of a trace.
            let stack = if i < quiet || !has_stack(&event) { 0 } else { stack };
            (event, StackId(stack))
        }).collect();
        write(&path, &events, &Stacks::default());
        let (found, damage) = read(&path);
        prop_assert_eq!(damage, vec![]);
        prop_assert_eq!(found, events);
    }
}

/// A trie of `nodes` nodes over `frames` frames, as deep as it comes.
fn forest(nodes: u32, frames: u32) -> Stacks {
    let mut stacks = Stacks::default();
    let module = stacks.add_module(Module { path: "/lib/m.so".into(), build_id: "abcd".into() });
    for offset in 0..u64::from(frames) {
        let call = Call { function: format!("f{offset}"), file: None, line: None };
        let frame = Frame { module: Some(module), offset, exact: offset == 3, calls: vec![call] };
        stacks.add_frame(frame);
    }
    for node in 0..nodes {
        let parent = if node % 7 == 0 { node / 2 } else { node };
        stacks.add(StackId(parent), FrameId(node * 31 % (frames + 1)));
    }
    stacks
}

#[test]
fn tables_of_many_blocks_are_read_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fht");
    let written = forest(900_000, 20_000);
    write(&path, &[(event(0, 0), StackId(900_000))], &written);
    let trace = Trace::open(&path).unwrap();
    let (found, damage) = trace.stacks().unwrap();
    assert_eq!(damage, []);
    assert!(found == written, "the tables differ");
}

#[test]
fn a_damaged_table_costs_its_own_block_and_moves_no_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fht");
    let written = forest(900_000, 20);
    write(&path, &[(event(0, 0), StackId(900_000))], &written);
    let mut bytes = std::fs::read(&path).unwrap();
    // The first block of nodes: a byte in the middle of what it stores.
    let blocks: Vec<usize> = (0..bytes.len() - 64)
        .filter(|&at| bytes[at..].starts_with(b"FhBk") && bytes[at + 4..at + 6] == [3, 0])
        .collect();
    assert!(blocks.len() > 1, "{blocks:?}");
    bytes[blocks[0] + 200] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let (found, damage) = Trace::open(&path).unwrap().stacks().unwrap();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!((damage[0].offset, damage[0].reason), (blocks[0] as u64, Reason::Checksum));
    assert_eq!(found.len(), written.len());
    assert_eq!(found.node(StackId(900_000)), written.node(StackId(900_000)));
    assert_eq!(
        found.node(StackId(1)),
        Some((StackId::NONE, FrameId::CUT)),
        "nothing is known of it"
    );
}
