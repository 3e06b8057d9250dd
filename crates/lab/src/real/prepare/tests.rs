//! A flat file is carried out by an interpreter under schedules that a real machine may never show.

use super::*;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

fn request(size: u64) -> Request {
    Request { size, ..Request::default() }
}

fn prepare(events: impl IntoIterator<Item = (u32, Event)>) -> Prepared {
    let mut preparation = Preparation::new(None, 1_000_000_000).unwrap();
    preparation.phase_events = 16;
    for (tick, (thread, event)) in events.into_iter().enumerate() {
        let (tick, thread) = (Tick(tick as u64), ThreadId(thread));
        let process = freehold_trace::ProcessId(0);
        preparation.push(&Record { tick, process, thread, event }).unwrap();
    }
    preparation.finish().unwrap()
}

fn alloc(thread: u32, object: u32, size: u64) -> (u32, Event) {
    (thread, Event::Alloc { object: ObjectId(object), request: request(size) })
}

fn free(thread: u32, object: u32) -> (u32, Event) {
    (thread, Event::Free { object: ObjectId(object), remote: false })
}

/// A machine that obeys a flat file one operation at a time.
struct Machine {
    header: Header,
    words: Vec<u64>,
    ops: Vec<Op>,
    cursors: BTreeMap<usize, usize>,
    /// Turn and size of each slot's object.
    slots: Vec<(u32, Option<u64>)>,
    spawned: u32,
    ended: Vec<usize>,
    parked: usize,
    most_alive: usize,
    done: BTreeMap<&'static str, u64>,
    slept: u64,
    /// Threads that have ended each phase, and how many will.
    phases: BTreeMap<u64, (u64, u64)>,
}

impl Machine {
    fn load(prepared: &Prepared) -> Machine {
        let mut bytes = vec![0; prepared.file.metadata().unwrap().len() as usize];
        prepared.file.read_exact_at(&mut bytes, 0).unwrap();
        let header = Header::from_bytes(&bytes).unwrap();
        let words: Vec<u64> =
            bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
        let ops: Vec<Op> =
            bytes.chunks_exact(16).map(|op| Op::from_bytes(op.try_into().unwrap())).collect();
        let start = words[header.threads_at as usize / 8] as usize;
        Machine {
            cursors: BTreeMap::from([(MAIN, start)]),
            slots: vec![(0, None); header.slots as usize],
            spawned: 0,
            ended: Vec::new(),
            parked: 0,
            most_alive: 1,
            done: BTreeMap::new(),
            slept: 0,
            phases: BTreeMap::new(),
            header,
            words,
            ops,
        }
    }

    /// Runs until nothing can run any more, `choose` picking among the threads.
    fn run(&mut self, mut choose: impl FnMut(usize) -> usize) {
        loop {
            let able: Vec<usize> = self.cursors.keys().copied().filter(|&t| self.can(t)).collect();
            if able.is_empty() {
                break;
            }
            let thread = able[choose(able.len()) % able.len()];
            self.step(thread);
        }
        assert!(self.cursors.is_empty(), "deadlock: {:?} cannot go on", self.cursors);
    }

    fn can(&self, thread: usize) -> bool {
        let op = self.ops[self.cursors[&thread]];
        match op.kind().unwrap() {
            Kind::Jump | Kind::Sample | Kind::End | Kind::Park => true,
            Kind::Phase if op.position().is_multiple_of(self.header.phase) => {
                let before = op.position() / self.header.phase - 1;
                self.phases.get(&before).is_none_or(|(arrived, running)| arrived >= running)
            }
            Kind::Phase => true,
            Kind::Spawn => self.spawned == op.turn() && self.joinable(op.size() as usize),
            _ => self.slots[op.slot() as usize].0 == op.turn(),
        }
    }

    fn joinable(&self, count: usize) -> bool {
        let table = &self.words[self.header.ended_at as usize / 8..];
        table[..count].iter().all(|&thread| self.ended.contains(&(thread as usize)))
    }

    fn step(&mut self, thread: usize) {
        let at = self.cursors[&thread];
        let op = self.ops[at];
        let kind = op.kind().unwrap();
        let mut next = at + 1;
        match kind {
            Kind::Jump => next = op.size() as usize,
            Kind::Sample | Kind::Phase => {}
            Kind::Spawn => self.spawn(op),
            Kind::End | Kind::Park => {
                self.cursors.remove(&thread);
                self.ended.push(thread);
                self.parked += usize::from(kind == Kind::Park);
                return;
            }
            _ => next += self.operate(thread, op, self.ops.get(at + 1).copied()),
        }
        self.cursors.insert(thread, next);
        self.arrive(self.ops[next]);
    }

    /// A thread stands before `op`; at the end of a phase it says so before it waits.
    fn arrive(&mut self, op: Op) {
        if op.kind() == Some(Kind::Phase) && op.position().is_multiple_of(self.header.phase) {
            let phase = self.phases.entry(op.position() / self.header.phase).or_default();
            *phase = (phase.0 + 1, op.size());
        }
    }

    fn spawn(&mut self, op: Op) {
        let thread = op.slot() as usize;
        let start = self.words[self.header.threads_at as usize / 8 + thread] as usize;
        assert!(self.cursors.insert(thread, start).is_none());
        self.arrive(self.ops[start]);
        self.spawned += 1;
        let alive = 1 + self.spawned as usize - op.size() as usize;
        self.most_alive = self.most_alive.max(alive);
    }

    /// Returns how many operations beyond the first it took.
    fn operate(&mut self, thread: usize, op: Op, following: Option<Op>) -> usize {
        let (turn, object) = &mut self.slots[op.slot() as usize];
        let mut name = "alloc";
        let mut extra = 0;
        match op.kind().unwrap() {
            Kind::Free => {
                assert_eq!(object.take(), Some(op.size()), "a free of another object");
                name = "free";
            }
            Kind::Realloc => {
                assert_eq!(object.replace(op.size()), following.map(Op::size));
                (name, extra) = ("realloc", 1);
            }
            _ => assert_eq!(object.replace(op.size()), None, "the slot was not empty"),
        }
        *turn = next_turn(*turn);
        // A thread that waits for this slot may sleep: it must have been told of.
        let slot_turn = (op.slot(), *turn);
        let others = self.cursors.iter().filter(|(other, _)| **other != thread);
        let waiting = others.filter(|(_, at)| {
            let waits = self.ops[**at];
            waits.kind().is_some_and(|kind| kind as u8 <= Kind::Realloc as u8)
                && (waits.slot(), waits.turn()) == slot_turn
        });
        let waiting = waiting.count() as u64;
        assert!(waiting == 0 || op.hands_off(), "a sleeper would not be woken");
        self.slept += waiting;
        *self.done.entry(name).or_default() += 1;
        extra
    }
}

/// A deterministic stream of small numbers.
fn numbers(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |bound| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % bound.max(1)
    }
}

/// Random events of threads that come and go, with every object number used again at once.
fn tangle(seed: u64) -> (Vec<(u32, Event)>, BTreeMap<&'static str, u64>, usize) {
    let mut below = numbers(seed);
    let (mut events, mut expected) = (Vec::new(), BTreeMap::new());
    let (mut threads, mut next_thread, mut most_alive) = (vec![0], 1, 1);
    let mut live: Vec<u32> = Vec::new();
    let mut unused: Vec<u32> = (0..500).rev().collect();
    for _ in 0..4000 {
        let thread = threads[below(threads.len())];
        let mut note = |name, event| {
            *expected.entry(name).or_default() += 1;
            events.push(event);
        };
        match below(100) {
            0..45 if !unused.is_empty() => {
                live.extend(unused.last());
                note("alloc", alloc(thread, unused.pop().unwrap(), below(9000) as u64));
            }
            45..88 if !live.is_empty() => {
                unused.push(live.swap_remove(below(live.len())));
                note("free", free(thread, unused[unused.len() - 1]));
            }
            88..96 if !live.is_empty() => {
                let object = ObjectId(live[below(live.len())]);
                let (request, began) = (request(below(9000) as u64), Tick(0));
                note("realloc", (thread, Event::Realloc { object, request, remote: false, began }));
            }
            96..98 => {
                threads.push(next_thread);
                events.push((next_thread, Event::ThreadStart));
                next_thread += 1;
                most_alive = most_alive.max(threads.len());
            }
            98.. if threads.len() > 1 => {
                events.push((threads.remove(1 + below(threads.len() - 1)), Event::ThreadEnd));
            }
            _ => {}
        }
    }
    (events, expected, most_alive)
}

#[test]
fn no_schedule_deadlocks_or_changes_what_is_done() {
    for seed in 0..5 {
        let (events, expected, most_alive) = tangle(seed);
        let prepared = prepare(events);
        assert_eq!(prepared.facts().events, expected.values().sum::<u64>());
        type Choice = Box<dyn FnMut(usize) -> usize>;
        let schedules: [Choice; 3] =
            [Box::new(|_| 0), Box::new(|able| able - 1), Box::new(numbers(seed + 100))];
        for schedule in schedules {
            let mut machine = Machine::load(&prepared);
            machine.run(schedule);
            assert_eq!(machine.done, expected);
            assert!(machine.slept > 0, "the schedule lets nobody wait");
            assert!(machine.phases.len() > 10);
            assert!(machine.phases.values().all(|(arrived, running)| arrived == running));
            assert!(machine.most_alive <= most_alive);
            assert_eq!(machine.spawned, prepared.facts().threads - 1);
        }
    }
}

#[test]
fn the_streams_of_a_handover() {
    let prepared = prepare([alloc(0, 0, 10), alloc(1, 1, 20), free(1, 0), free(0, 1)]);
    let machine = Machine::load(&prepared);
    let stream = |thread: usize| {
        let start = machine.words[machine.header.threads_at as usize / 8 + thread] as usize;
        let ops = machine.ops[start..].iter().filter(|op| op.kind() != Some(Kind::Sample));
        let told = ops
            .map_while(|op| Some((op.kind()?, op.slot(), op.turn(), op.hands_off())))
            .take_while(|&(kind, ..)| kind != Kind::End && kind != Kind::Park);
        told.collect::<Vec<_>>()
    };
    use Kind::{Free, Malloc, Spawn};
    assert_eq!(stream(0), [(Malloc, 0, 0, true), (Spawn, 1, 0, false), (Free, 64, 1, false)]);
    assert_eq!(stream(1), [(Malloc, 64, 0, true), (Free, 0, 1, false)]);
    assert_eq!(prepared.facts().handoffs, 2);
    assert_eq!(prepared.facts().peak_live, 30);
}

#[test]
fn a_number_far_beyond_the_events_is_refused() {
    let mut preparation = Preparation::new(None, 1).unwrap();
    let (thread, event) = alloc(0, u32::MAX, 1);
    let (tick, process) = (Tick(0), freehold_trace::ProcessId(0));
    let record = Record { tick, process, thread: ThreadId(thread), event };
    let error = preparation.push(&record).unwrap_err();
    assert!(matches!(error, RealError::NotDense { object: u32::MAX, events: 0 }), "{error}");
}
