//! A spool written and read back: every shape of event, cut-off files, damage.

use super::codec::{Encoder, Event, Form};
use super::facts::FactWriter;
use super::*;
use crate::finish::plan::Plan;
use crate::stacks::Trie;
use freehold_record::packed::{Kind as Op, Packed, SLACK_UNKNOWN, TICK_BITS, WIDE_SLACK_UNKNOWN};
use freehold_trace::StackId;

fn read_all(spool: &Spool, index: usize) -> Vec<Event> {
    let mut stream = Stream::new(spool.threads[index].2.clone(), 0);
    let mut loader = Loader::new(spool, Trie::new(&Plan::default())).unwrap();
    stream.begin(&mut loader).unwrap();
    let next = || {
        let event = stream.peek().copied()?;
        stream.step(&mut loader).unwrap();
        Some(event)
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn every_shape_of_event_survives() {
    for form in [Form::Packed, Form::Plain] {
        every_shape_survives(form);
    }
}

fn every_shape_survives(form: Form) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let mut writer = SpoolWriter::create(&path).unwrap();
    let mut encoder = Encoder::new(form);
    let mut expected = Vec::new();
    let mut tick = 1 << 50;
    let addresses = [0x7FFF_0000_1230, 0x7FFF_0000_1230, 0x7FFF_0000_1270, 0x7FFF_0010_0000, 8, 0];
    for step in [0, 0xFF, 0x100, 0xFFFF, 0x1_0000, 0xFF_FFFF, 0x100_0000, 1 << 45] {
        for address in addresses {
            tick += step;
            if tick >> TICK_BITS != (tick - step) >> TICK_BITS {
                encoder.clock(Packed::clock(tick));
            }
            let size = step & 0xFF_FFFF;
            encoder.push(Op::Malloc, Packed::new(Op::Malloc, address, 8, size, tick), tick);
            let event = Event {
                tick,
                kind: Op::Malloc,
                address,
                size,
                slack: Some(8),
                align_log2: 0,
                stack: StackId::NONE,
            };
            expected.push(event);
            encoder.push(Op::Free, Packed::new(Op::Free, address, 0, 0, tick), tick);
            expected.push(Event { kind: Op::Free, size: 0, slack: None, ..event });
        }
    }
    encoder.push(Op::Access, Packed::access(4096, 40, 3, true, tick), tick);
    let (kind, slack) = (Op::Access, Some(3));
    expected.push(Event {
        tick,
        kind,
        address: 4096,
        size: 81,
        slack,
        align_log2: 0,
        stack: StackId::NONE,
    });
    let unknown = Packed::new(Op::New, 16, SLACK_UNKNOWN, 3, tick);
    encoder.push(Op::New, unknown, tick);
    expected.push(Event {
        tick,
        kind: Op::New,
        address: 16,
        size: 3,
        slack: None,
        align_log2: 0,
        stack: StackId::NONE,
    });
    for (size, slack) in [(u64::MAX, Some(1 << 30)), (5, None)] {
        let wide = Packed::wide(size, slack.unwrap_or(WIDE_SLACK_UNKNOWN), 12);
        encoder.push(Op::Wide, wide, tick);
        encoder.push(Op::Aligned, Packed::new(Op::Aligned, 4096, 0, 0, tick), tick);
        let (kind, address) = (Op::Aligned, 4096);
        expected.push(Event {
            tick,
            kind,
            address,
            size,
            slack,
            align_log2: 12,
            stack: StackId::NONE,
        });
    }
    writer.events(3, 1, &mut encoder, Pace::Calm);
    let spool = Spool::open(&path).unwrap();
    assert_eq!(read_all(&spool, 0), expected);
}

#[test]
fn threads_are_read_apart_and_facts_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let mut writer = SpoolWriter::create(&path).unwrap();
    let mut encoder = Encoder::default();
    let words = vec!["a".to_string(), String::new(), "é".to_string()];
    writer.fact(Kind::Start, 0, &FactWriter::default().number(7).texts(&words));
    for round in 0..3u64 {
        for thread in 0..2 {
            // As after the plain beginning of a spool.
            encoder.clear(Form::Packed);
            for step in 0..10 {
                let tick = round * 100 + step;
                encoder.push(Op::Free, Packed::new(Op::Free, tick, 0, 0, tick), tick);
            }
            // A drain that falls behind stores blocks as they are; order and content do not change.
            let pace = if round == 1 { Pace::Behind } else { Pace::Calm };
            writer.events(0, thread, &mut encoder, pace);
        }
    }
    writer.fact(Kind::End, 5, &FactWriter::default());
    let spool = Spool::open(&path).unwrap();
    assert_eq!((spool.events, spool.cut_off, spool.threads.len()), (60, 0, 2));
    let ticks: Vec<u64> = read_all(&spool, 1).iter().map(|event| event.tick).collect();
    let expected: Vec<u64> =
        (0..3).flat_map(|round| (0..10).map(move |s| round * 100 + s)).collect();
    assert_eq!(ticks, expected);
    let mut fact = spool.facts[0].reader();
    assert_eq!((fact.number(), fact.texts(), fact.number()), (Some(7), Some(words), None));
    assert_eq!((spool.facts[1].kind, spool.facts[1].process), (Kind::End, 5));
}

#[test]
fn what_a_killed_parent_leaves_is_read_to_its_last_whole_block() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let mut writer = SpoolWriter::create(&path).unwrap();
    let mut encoder = Encoder::new(Form::Plain);
    for block in 0..4u64 {
        encoder.push(Op::Free, Packed::new(Op::Free, 16, 0, 0, block), block);
        writer.events(0, 0, &mut encoder, Pace::Calm);
    }
    let whole = std::fs::read(&path).unwrap();
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        let spool = Spool::open(&path).unwrap();
        assert_eq!(spool.events, (len * 4 / whole.len()) as u64, "{len} bytes");
        assert_eq!(spool.cut_off, (len % (whole.len() / 4)) as u64);
    }
}

#[test]
fn a_damaged_block_is_skipped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let mut writer = SpoolWriter::create(&path).unwrap();
    let mut encoder = Encoder::new(Form::Plain);
    for block in 0..3u64 {
        encoder.push(Op::Free, Packed::new(Op::Free, 16, 0, 0, block), block);
        writer.events(0, 0, &mut encoder, Pace::Calm);
    }
    let mut bytes = std::fs::read(&path).unwrap();
    let second = bytes.len() / 3 + HEAD_BYTES + 2;
    bytes[second] ^= 0x40;
    std::fs::write(&path, &bytes).unwrap();
    let spool = Spool::open(&path).unwrap();
    let mut stream = Stream::new(spool.threads[0].2.clone(), 0);
    let mut loader = Loader::new(&spool, Trie::new(&Plan::default())).unwrap();
    stream.begin(&mut loader).unwrap();
    let mut ticks = Vec::new();
    while let Some(event) = stream.peek() {
        ticks.push(event.tick);
        stream.step(&mut loader).unwrap();
    }
    assert_eq!((ticks, stream.damaged), (vec![0, 2], 1));
}

#[test]
fn events_added_at_once_are_those_added_singly() {
    let event = |i: u64| Packed::new(Op::Malloc, i << 4, 8, i, 1000 + i);
    let events: Vec<Packed> = (1..600).map(event).collect();
    let (mut at_once, mut singly) = (Encoder::new(Form::Plain), Encoder::new(Form::Plain));
    let epoch = 3;
    for some in events.chunks(256) {
        assert!(at_once.push_all(some, epoch));
    }
    for &event in &events {
        singly.push(Op::Malloc, event, epoch << TICK_BITS | event.low_tick());
    }
    assert_eq!(at_once.block(), singly.block());
    assert!(!at_once.push_all(&[event(1), Packed::clock(5)], epoch), "a clock changes the epoch");
    assert_eq!(at_once.block(), singly.block(), "and nothing is done");
    assert!(!Encoder::new(Form::Packed).push_all(&events, epoch), "packing needs each");
}
