//! Blocks by hand: what later versions may add is skipped.

use super::*;
use crate::block::{BlockHeader, Kind};
use crate::event::{Event, ObjectId, ProcessId, Request, ThreadId, Tick};

fn stored(encoder: &Encoder) -> (BlockHeader, Vec<u8>) {
    let mut zstd = zstd::bulk::Compressor::new(3).unwrap();
    let mut bytes = Vec::new();
    encoder.store(&mut zstd, &mut Vec::new(), &mut bytes).unwrap();
    let header = BlockHeader {
        kind: Kind::EVENTS,
        process: ProcessId(0),
        thread: ThreadId(0),
        first: encoder.first(),
        last: encoder.last(),
        count: encoder.count(),
        raw_len: encoder.raw_len() as u32,
        stored_len: bytes.len() as u32,
        crc: 0,
        sequence: 0,
    };
    (header, bytes)
}

fn decoded(header: &BlockHeader, bytes: &[u8]) -> Option<Vec<Timed>> {
    let mut decoder = Decoder::default();
    let mut zstd = zstd::bulk::Decompressor::new().unwrap();
    decoder.load(header, bytes, &mut zstd)?;
    let mut events = Vec::new();
    decoder.batch(usize::MAX, &mut events)?;
    Some(events)
}

fn alloc(object: u32, size: u64) -> Event {
    Event::Alloc { object: ObjectId(object), request: Request { size, ..Request::default() } }
}

#[test]
fn events_of_later_versions_are_skipped() {
    let mut encoder = Encoder::new();
    encoder.push(Tick(5), &alloc(0, 10));
    encoder.push_unknown(Tick(6), 0xfe, b"whatever it is");
    encoder.push(Tick(9), &alloc(1, 10));
    let (header, bytes) = stored(&encoder);
    let events = decoded(&header, &bytes).unwrap();
    let expected = [
        Timed { tick: Tick(5), event: alloc(0, 10) },
        Timed { tick: Tick(9), event: alloc(1, 10) },
    ];
    assert_eq!(events, expected);
}

#[test]
fn columns_of_later_versions_are_skipped() {
    let mut encoder = Encoder::new();
    encoder.push(Tick(5), &alloc(0, 10));
    let (mut header, mut bytes) = stored(&encoder);
    bytes.extend([99, 0, 3, 3, b'a', b'b', b'c']);
    assert!(decoded(&header, &bytes).is_none(), "its length must be in the header");
    header.raw_len += 3;
    assert_eq!(decoded(&header, &bytes).unwrap().len(), 1);
}

#[test]
fn more_requests_than_slots() {
    let mut encoder = Encoder::new();
    let events: Vec<Event> = (0..3000).map(|i| alloc(i, u64::from(i * i) % 457)).collect();
    for (i, event) in events.iter().enumerate() {
        encoder.push(Tick(i as u64), event);
    }
    let (header, bytes) = stored(&encoder);
    let back: Vec<Event> =
        decoded(&header, &bytes).unwrap().into_iter().map(|timed| timed.event).collect();
    assert_eq!(back, events);
}

#[test]
fn a_promise_of_more_than_there_is_is_damage() {
    let mut encoder = Encoder::new();
    encoder.push(Tick(5), &alloc(0, 10));
    let (header, bytes) = stored(&encoder);
    assert!(decoded(&BlockHeader { count: 2, ..header }, &bytes).is_none());
    let early = BlockHeader { last: Tick(4), ..header };
    assert!(decoded(&early, &bytes).is_none(), "an event after the block's last tick");
    for cut in 0..bytes.len() {
        assert!(decoded(&header, &bytes[..cut]).is_none());
    }
}
