//! The inbox of the real-time heap under loom: interleavings of two senders and the owner, all with at
//! most three preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p freehold-blocks --test realtime_loom`
#![cfg(loom)]

use freehold_blocks::realtime::sent::Sent;
use freehold_blocks::sync::AtomicU64;
use loom::sync::Arc;
use loom::thread;
use std::ptr::NonNull;

/// An inbox of two levels, and the words it lies in.
struct Model {
    sent: Sent,
    top: NonNull<AtomicU64>,
    words: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the words are atomics, and live as long as the model.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

impl Model {
    fn new(places: u32) -> Arc<Model> {
        let count = Sent::words(places) as usize;
        let words: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let words = NonNull::new(Box::into_raw(words).cast()).expect("a box");
        let top = NonNull::new(Box::into_raw(Box::new(AtomicU64::new(0)))).expect("a box");
        // SAFETY: the words are the model's, and `new` overwrites atomics that nobody else has seen.
        let sent = unsafe { Sent::new(top, words, places) };
        Arc::new(Model { sent, top, words, count })
    }

    fn send(&self, place: u32) -> bool {
        // SAFETY: the tests' places are below the models' numbers of places.
        unsafe { self.sent.send(place) }
    }

    /// Takes out one place, if one is seen.
    fn take(&self) -> Option<u32> {
        let place = self.sent.first()?;
        // SAFETY: it came out of the inbox.
        unsafe { self.sent.take(place) };
        Some(place)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: made of boxes in `new`.
        unsafe {
            drop(Box::from_raw(self.top.as_ptr()));
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(
                self.words.as_ptr(),
                self.count,
            )));
        }
    }
}

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// Two threads send while the owner takes; in the end everything has come, once.
fn everything_comes_once(places: u32, first: u32, second: u32) {
    model(move || {
        let model = Model::new(places);
        let senders = [first, second].map(|place| {
            let model = Arc::clone(&model);
            thread::spawn(move || assert!(model.send(place)))
        });
        let mut taken: Vec<u32> = model.take().into_iter().collect();
        for sender in senders {
            sender.join().unwrap();
        }
        // A look that meets a summary which lies repairs it and finds nothing: at most one a level.
        for _ in 0..4 {
            taken.extend(model.take());
        }
        taken.sort_unstable();
        let mut sent = [first, second];
        sent.sort_unstable();
        assert_eq!(taken, sent);
        assert!(model.sent.is_empty());
    });
}

#[test]
fn two_places_of_one_word() {
    everything_comes_once(128, 3, 40);
}

#[test]
fn two_words_under_one() {
    everything_comes_once(128, 3, 100);
}

#[test]
fn a_place_sent_twice_is_taken_once() {
    model(|| {
        let model = Model::new(128);
        let other = Arc::clone(&model);
        let sender = thread::spawn(move || other.send(7));
        let mine = model.send(7);
        let its = sender.join().unwrap();
        assert!(mine != its, "one of them is told that it was sent already");
        assert_eq!(model.take(), Some(7));
        assert_eq!(model.take(), None);
        assert!(model.sent.is_empty());
    });
}
