//! Turns in every interleaving: everybody's turn comes, and what was done before it is seen.

use super::{AtomicU32, Relaxed, Turn};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// An object that only the thread whose turn it is may touch, as a slot's address.
struct Slot {
    turn: Turn,
    object: UnsafeCell<u32>,
}

// SAFETY: `object` is touched only between `wait_for` and `pass`; loom checks that this is enough.
unsafe impl Sync for Slot {}

impl Slot {
    fn shared() -> Arc<Slot> {
        let turn = Turn { now: AtomicU32::new(0), sleepers: AtomicU32::new(0) };
        Arc::new(Slot { turn, object: UnsafeCell::new(0) })
    }

    /// One operation: its turn, and whether another thread has the next.
    fn take(&self, turn: u32, hands_off: bool) {
        self.turn.wait_for(turn, || 0);
        self.object.with_mut(|object| {
            // SAFETY: it is this thread's turn.
            let object = unsafe { &mut *object };
            assert_eq!(*object, turn);
            *object += 1;
        });
        self.turn.pass(turn, hands_off);
    }
}

/// One thread for each list of operations; loom reports a thread that sleeps for ever.
fn all_come_to_their_turns(streams: &'static [&'static [(u32, bool)]]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let slot = Slot::shared();
        let run = |slot: &Slot, stream: &[(u32, bool)]| {
            stream.iter().for_each(|&(turn, hands_off)| slot.take(turn, hands_off));
        };
        let others: Vec<_> = streams[1..]
            .iter()
            .map(|stream| {
                let slot = Arc::clone(&slot);
                thread::spawn(move || run(&slot, stream))
            })
            .collect();
        run(&slot, streams[0]);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(slot.turn.sleepers.load(Relaxed), 0);
    });
}

#[test]
fn two_threads_hand_an_object_to_and_fro() {
    all_come_to_their_turns(&[&[(0, false), (1, true), (3, false)], &[(2, true)]]);
}

/// The lost wake-up of November 2026: a replay with many threads hung about once in a hundred runs.
#[test]
fn a_thread_that_waits_for_a_later_turn_is_not_forgotten() {
    all_come_to_their_turns(&[&[(0, true)], &[(1, true)], &[(2, false)]]);
}
