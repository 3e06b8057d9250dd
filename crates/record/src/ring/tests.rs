//! The ring with one producer and one consumer, and with a producer that lies.

use super::*;
use crate::packed::Kind;
use std::sync::Arc;

const N: usize = 16;

struct Ring {
    head: RingHead,
    slots: [Slot; N],
}

impl Ring {
    fn new() -> Arc<Ring> {
        Arc::new(Ring { head: RingHead::default(), slots: Default::default() })
    }

    fn put(&self, pen: &mut Pen, number: u64) -> bool {
        if !pen.has_room() {
            pen.refresh(&self.head, N as u64);
        }
        if !pen.has_room() {
            return false;
        }
        let slot = &self.slots[pen.position() as usize % N];
        pen.put(&self.head, slot, Packed::new(Kind::Free, number, 0, number & 0xFFF, number));
        true
    }

    fn drain(&self, tail: &mut u64) -> Vec<u64> {
        let range = self.head.published(*tail, N as u64);
        let events = range.clone().map(|at| self.slots[at as usize % N].get().address()).collect();
        *tail = range.end;
        self.head.release(*tail);
        events
    }
}

#[test]
fn a_ring_holds_exactly_its_slots() {
    let ring = Ring::new();
    let mut pen = Pen::start(&ring.head, N as u64);
    let accepted = (1..=100).take_while(|&number| ring.put(&mut pen, number)).count();
    assert_eq!(accepted, N);
    let mut tail = 0;
    assert_eq!(ring.drain(&mut tail), (1..=N as u64).collect::<Vec<_>>());
    assert!(ring.put(&mut pen, 99));
    assert_eq!(ring.drain(&mut tail), [99]);
    assert_eq!(ring.drain(&mut tail), []);
}

#[test]
fn a_million_events_cross_in_order() {
    const EVENTS: u64 = 1_000_000;
    let ring = Ring::new();
    let producer = Arc::clone(&ring);
    let writer = std::thread::spawn(move || {
        let mut pen = Pen::start(&producer.head, N as u64);
        for number in 0..EVENTS {
            while !producer.put(&mut pen, number) {
                std::thread::yield_now();
            }
        }
    });
    let (mut tail, mut next) = (0, 0);
    while next < EVENTS {
        for number in ring.drain(&mut tail) {
            assert_eq!(number, next);
            next += 1;
        }
        std::thread::yield_now();
    }
    writer.join().unwrap();
}

#[test]
fn the_next_owner_goes_on_where_the_last_one_stopped() {
    let ring = Ring::new();
    let mut tail = 0;
    for round in 0..5 {
        assert!(ring.head.try_take(round));
        assert!(!ring.head.try_take(77), "a used ring is not given twice");
        let mut pen = Pen::start(&ring.head, N as u64);
        assert!((0..7).all(|number| ring.put(&mut pen, number)));
        ring.head.close();
        assert_eq!(ring.head.state(), CLOSED);
        assert_eq!(ring.drain(&mut tail).len(), 7);
        ring.head.set_free();
    }
}

#[test]
fn a_head_that_lies_harms_nobody() {
    let ring = Ring::new();
    ring.head.head.0.store(5, Ordering::Relaxed);
    assert_eq!(ring.head.published(9, N as u64), 9..9, "stepped back");
    ring.head.head.0.store(1 << 60, Ordering::Relaxed);
    assert_eq!(ring.head.published(9, N as u64), 9..9 + N as u64, "ran away");
}

#[test]
fn a_pen_behind_the_consumer_starts_anew() {
    let ring = Ring::new();
    ring.head.release(10);
    let mut pen = Pen { head: 8, limit: 8 };
    pen.refresh(&ring.head, N as u64);
    assert_eq!(pen.position(), 10);
    assert!(pen.has_room());
}

#[test]
fn a_waiting_producer_is_reported_once() {
    let ring = Ring::new();
    let mut pen = Pen::start(&ring.head, N as u64);
    while ring.put(&mut pen, 1) {}
    assert!(ring.head.announce_wait(&mut pen, N as u64));
    assert!(ring.head.release(3), "it sleeps");
    assert!(!ring.head.release(4), "it was woken already");
    assert!(!ring.head.announce_wait(&mut pen, N as u64), "there is room now");
}
