//! The ring under loom: every interleaving of a producer and a consumer of a ring of four.
//! `RUSTFLAGS="--cfg loom" cargo test -p freehold-record --release --lib ring::model`

use super::*;
use crate::packed::Kind;
use loom::sync::Arc;

const N: usize = 4;

struct Ring {
    head: RingHead,
    slots: [Slot; N],
}

fn put(ring: &Ring, pen: &mut Pen, number: u64) {
    while !pen.has_room() {
        pen.refresh(&ring.head, N as u64);
        if !pen.has_room() {
            loom::thread::yield_now();
        }
    }
    let slot = &ring.slots[pen.position() as usize % N];
    pen.put(&ring.head, slot, Packed::new(Kind::Free, number, 0, 0, number));
}

fn drain(ring: &Ring, tail: &mut u64, next: &mut u64) {
    let range = ring.head.published(*tail, N as u64);
    for at in range.clone() {
        let event = ring.slots[at as usize % N].get();
        assert_eq!((event.address(), event.low_tick()), (*next, *next), "torn or out of order");
        *next += 1;
    }
    *tail = range.end;
    ring.head.release(*tail);
}

/// Five events through four slots: slots are reused while the consumer reads.
#[test]
fn nothing_is_torn_lost_or_repeated() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let ring = Arc::new(Ring { head: RingHead::default(), slots: Default::default() });
        let producer = Arc::clone(&ring);
        let writer = loom::thread::spawn(move || {
            let mut pen = Pen::start(&producer.head, N as u64);
            (1..=5).for_each(|number| put(&producer, &mut pen, number));
            producer.head.close();
        });
        let (mut tail, mut next) = (0, 1);
        loop {
            let closed = ring.head.state() == CLOSED;
            drain(&ring, &mut tail, &mut next);
            if closed {
                break;
            }
            loom::thread::yield_now();
        }
        assert_eq!(next, 6, "a closed ring is whole");
        writer.join().unwrap();
    });
}

/// The last event before sleep and the last drain: no wake-up is missed.
#[test]
fn a_full_producer_sees_room_or_is_woken() {
    loom::model(|| {
        let ring = Arc::new(Ring { head: RingHead::default(), slots: Default::default() });
        let mut pen = Pen::start(&ring.head, N as u64);
        (1..=4).for_each(|number| put(&ring, &mut pen, number));
        let consumer = Arc::clone(&ring);
        let drainer = loom::thread::spawn(move || consumer.head.release(4));
        let sleeps = ring.head.announce_wait(&mut pen, N as u64);
        let woken = drainer.join().unwrap();
        assert!(!sleeps || woken, "asleep with an empty ring");
    });
}
