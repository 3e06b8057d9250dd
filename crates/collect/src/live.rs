//! What the drain knows of a process: its rings, and the events of its threads on their way.
//!
//! Invariant: events of one thread reach the spool in the order of time, whatever rings they came by. (A thread has one
//! ring, but each event after its end has another: they may stand in any order in the sets.)

use crate::lost::Lost;
use crate::mapping::Shared;
use crate::spool::codec::Encoder;
use crate::spool::{Pace, SpoolWriter};
use freehold_record::packed::{Kind, Packed, TICK_BITS};
use freehold_record::ring::{self, RingHead, Slot};
use freehold_record::ring_set::{RINGS, RingSet, SLOTS};
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering;

/// Events waiting in a ring from which on the drain is behind: its producer may soon have to wait.
const BEHIND: u64 = SLOTS as u64 / 2;

/// Events copied out of a ring at once: first all that lie in another processor's cache, so that the
/// fetches overlap, then the work on them.
const NEAR: usize = 256;

/// A process being recorded.
pub struct Live {
    number: u32,
    sets: Vec<(Shared<RingSet>, [Ring; RINGS])>,
    /// By the thread's number.
    threads: FxHashMap<u32, Encoder>,
    /// The rings of one round; kept for its memory.
    busy: Vec<Busy>,
}

/// A ring that a round empties.
#[derive(Clone, Copy)]
struct Busy {
    thread: u32,
    state: u32,
    set: usize,
    ring: usize,
    /// See [`Ring::next_tick`].
    tick: u64,
}

/// The consumer's side of a ring.
#[derive(Clone, Copy, Default)]
struct Ring {
    tail: u64,
    /// The upper bits of ticks, as the last Clock event told them.
    epoch: u64,
    /// A Wide event whose event has not come yet.
    wide: Option<Packed>,
}

impl Live {
    /// A process with its first ring set.
    pub fn new(number: u32, set: Shared<RingSet>) -> Live {
        let sets = vec![(set, [Ring::default(); RINGS])];
        Live { number, sets, threads: FxHashMap::default(), busy: Vec::new() }
    }

    /// The process got more rings.
    pub fn add(&mut self, set: Shared<RingSet>) {
        self.sets.push((set, [Ring::default(); RINGS]));
    }

    /// Notes the rings that there is something in.
    pub fn look(&mut self) {
        let mut busy = std::mem::take(&mut self.busy);
        busy.clear();
        // An open ring without events may get some that come after those of a ring passed already.
        busy.extend(self.rings().filter(|at| at.state == ring::CLOSED || at.tick != 0));
        self.busy = busy;
    }

    /// Empties the rings noted, those of one thread in the order in which it took them. How many events there were.
    ///
    /// While we look, rings are taken and closed, but nobody except us frees one. What a thread had put before what lies in a
    /// ring noted was in closed rings by then; those that were passed when they were still free, or are of a set that we had
    /// not heard of, are found by looking again. What it put later waits for the next round.
    pub fn drain(&mut self, spool: &mut SpoolWriter) -> u64 {
        let mut busy = std::mem::take(&mut self.busy);
        self.look_again(&mut busy);
        // Who has several has closed all but the last.
        if busy.iter().any(|at| at.state == ring::CLOSED) {
            busy.sort_by_key(|at| (at.thread, at.tick));
        }
        let events = busy.iter().map(|&at| self.empty(at, spool)).sum();
        busy.clear();
        self.busy = busy;
        events
    }

    /// Adds the rings that threads had closed before they took those noted.
    fn look_again(&self, busy: &mut Vec<Busy>) {
        let seen = busy.len();
        let mut next = 0;
        for at in self.rings() {
            let seen = &busy[..seen];
            if seen.get(next).is_some_and(|was| (was.set, was.ring) == (at.set, at.ring)) {
                next += 1;
            } else if at.state == ring::CLOSED
                && seen.iter().any(|later| later.thread == at.thread && later.tick > at.tick)
            {
                busy.push(at);
            }
        }
    }

    /// Empties one ring. How many events there were.
    fn empty(&mut self, at: Busy, spool: &mut SpoolWriter) -> u64 {
        let (set, rings) = &mut self.sets[at.set];
        let (head, slots) = set.ring(at.ring);
        let form = spool.form();
        let encoder = self.threads.entry(at.thread).or_insert_with(|| Encoder::new(form));
        let mut store = |encoder: &mut Encoder, pace| {
            spool.events(self.number, at.thread, encoder, pace);
        };
        let mut events = 0;
        let ended = rings[at.ring].drain(head, slots, encoder, &mut events, &mut store);
        if at.state == ring::CLOSED {
            head.set_free();
        }
        if ended {
            store(encoder, Pace::Calm);
            self.threads.remove(&at.thread);
        }
        events
    }

    /// All rings in use, in the order in which they lie.
    fn rings(&self) -> impl Iterator<Item = Busy> {
        let numbered = self.sets.iter().enumerate();
        let all = numbered.flat_map(|(set, (shared, rings))| {
            rings.iter().enumerate().map(move |(ring, own)| (set, ring, shared.ring(ring), own))
        });
        all.filter_map(|(set, ring, (head, slots), own)| {
            // The state first: a ring that is closed by now is whole by now.
            let state = head.state();
            let in_use = state == ring::USED || state == ring::CLOSED;
            in_use.then(|| {
                let thread = head.rare.0.thread.load(Ordering::Relaxed);
                Busy { thread, state, set, ring, tick: own.next_tick(head, slots) }
            })
        })
    }

    /// Stores what waits, so that a killed parent loses little.
    pub fn flush(&mut self, spool: &mut SpoolWriter) {
        for (&thread, encoder) in &mut self.threads {
            spool.events(self.number, thread, encoder, Pace::Calm);
        }
    }

    /// Tells the process to stop recording.
    pub fn stop(&self) {
        for (set, _) in &self.sets {
            set.stop.store(1, Ordering::Relaxed);
        }
    }

    /// Events that the process could not hand over.
    pub fn lost(&self) -> Lost {
        let mut lost = Lost::default();
        for (set, _) in &self.sets {
            lost.ringless += set.ringless.load(Ordering::Relaxed);
            lost.interrupting += set.interrupting.load(Ordering::Relaxed);
            lost.differing += set.differing.load(Ordering::Relaxed);
            lost.compared += set.compared.load(Ordering::Relaxed);
        }
        lost
    }
}

impl Ring {
    /// When what waits begins, or a little before; 0 where nothing waits.
    #[inline]
    fn next_tick(&self, head: &RingHead, slots: &[Slot; SLOTS]) -> u64 {
        let range = head.published(self.tail, SLOTS as u64);
        if range.is_empty() {
            return 0;
        }
        let next = slots[range.start as usize & (SLOTS - 1)].get();
        let tick = match next.kind() {
            Some(Kind::Clock) => next.1,
            Some(Kind::Wide | Kind::Stack | Kind::Data) | None => self.epoch << TICK_BITS,
            Some(_) => self.epoch << TICK_BITS | next.low_tick(),
        };
        tick.max(1)
    }

    /// Takes everything there is. True if the thread's end was among it.
    fn drain(
        &mut self,
        head: &RingHead,
        slots: &[Slot; SLOTS],
        encoder: &mut Encoder,
        events: &mut u64,
        store: &mut impl FnMut(&mut Encoder, Pace),
    ) -> bool {
        let range = head.published(self.tail, SLOTS as u64);
        if range.is_empty() {
            return false;
        }
        let waiting = range.end - range.start;
        *events += waiting;
        let pace = if waiting > BEHIND { Pace::Behind } else { Pace::Calm };
        let mut ended = false;
        let mut near = [Packed::default(); NEAR];
        let mut at = range.start;
        while at != range.end {
            let index = at as usize & (SLOTS - 1);
            let count = NEAR.min((range.end - at) as usize).min(SLOTS - index);
            let near = &mut near[..count];
            for (to, from) in near.iter_mut().zip(&slots[index..]) {
                *to = from.get();
            }
            at += count as u64;
            if self.wide.is_some() || !encoder.push_all(near, self.epoch) {
                ended |= self.push_each(near, encoder);
            }
            if encoder.len() >= crate::spool::BLOCK_BYTES {
                store(encoder, pace);
            }
        }
        self.tail = range.end;
        if head.release(self.tail) {
            wake(head);
        }
        ended
    }

    /// One event after the other. True if the thread's end was among them.
    fn push_each(&mut self, near: &[Packed], encoder: &mut Encoder) -> bool {
        let mut ended = false;
        for &event in near {
            // What is no event was written by a program that overwrites our memory.
            let Some(kind) = event.kind() else { continue };
            if kind == Kind::Clock {
                self.epoch = event.1 >> TICK_BITS;
                encoder.clock(event);
                continue;
            }
            if kind == Kind::Wide {
                self.wide = Some(event);
                continue;
            }
            if !Packed::is_timed(kind) {
                encoder.untimed(kind, event, self.epoch);
                continue;
            }
            ended |= kind == Kind::ThreadEnd;
            let tick = self.epoch << TICK_BITS | event.low_tick();
            if let Some(wide) = self.wide.take() {
                encoder.push(Kind::Wide, wide, tick);
            }
            encoder.push(kind, event, tick);
        }
        ended
    }
}

/// Wakes the producer that waits for room.
fn wake(head: &RingHead) {
    let word = &raw const head.rare.0.waiting;
    // SAFETY: the kernel reads the address only; the futex is shared between processes.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
}
