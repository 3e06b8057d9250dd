//! The namer against the plainest model: a map from address to object, cloned at a fork.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const P: ProcessId = ProcessId(0);
const T0: ThreadId = ThreadId(0);
const T1: ThreadId = ThreadId(1);

fn bytes(size: u64) -> Request {
    Request { size, ..Request::default() }
}

fn alloc(namer: &mut Namer, p: ProcessId, t: ThreadId, address: u64, size: u64) -> Vec<Event> {
    let mut events = Vec::new();
    namer.alloc(p, t, address, bytes(size), &mut |event| events.push(event));
    events
}

fn free(namer: &mut Namer, p: ProcessId, t: ThreadId, address: u64) -> Vec<Event> {
    let mut events = Vec::new();
    namer.free(p, t, address, &mut |event| events.push(event));
    events
}

fn alloc_id(namer: &mut Namer, t: ThreadId, address: u64) -> u32 {
    match alloc(namer, P, t, address, 8)[..] {
        [Event::Alloc { object, .. }] => object.0,
        ref other => panic!("one allocation, not {other:?}"),
    }
}

#[test]
fn own_frees_are_recycled_last_in_first_out() {
    let mut namer = Namer::new();
    assert_eq!(
        (0..3).map(|i| alloc_id(&mut namer, T0, 16 + i * 16)).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    let object = |id| ObjectId(id);
    assert_eq!(free(&mut namer, P, T0, 16), [Event::Free { object: object(0), remote: false }]);
    assert_eq!(free(&mut namer, P, T0, 48), [Event::Free { object: object(2), remote: false }]);
    assert_eq!(
        (0..3).map(|i| alloc_id(&mut namer, T0, 96 + i * 16)).collect::<Vec<_>>(),
        [2, 0, 3]
    );
}

#[test]
fn remote_frees_wait_in_the_queue() {
    let mut namer = Namer::new();
    for i in 0..5000 {
        let id = alloc_id(&mut namer, T0, 16);
        assert!(id <= 1025, "the queue gives ids back: {id}");
        assert_eq!(id == i, i <= 1024, "and not before it is long");
        assert_eq!(
            free(&mut namer, P, T1, 16),
            [Event::Free { object: ObjectId(id), remote: true }]
        );
    }
}

#[test]
fn a_missed_free_is_implied() {
    let mut namer = Namer::new();
    alloc(&mut namer, P, T0, 64, 10);
    assert_eq!(
        alloc(&mut namer, P, T1, 64, 20),
        [
            Event::Free { object: ObjectId(0), remote: true },
            Event::Alloc { object: ObjectId(1), request: bytes(20) },
        ]
    );
    assert_eq!(free(&mut namer, P, T0, 128), [Event::UnknownFree]);
    let anomalies = Anomalies { implied_frees: 1, unknown_frees: 1, impossible: 0 };
    assert_eq!(namer.anomalies(P), anomalies);
    assert_eq!(namer.live(P), Inherited { objects: 1, bytes: 20 });
}

#[test]
fn the_old_address_can_be_given_to_others_while_a_reallocation_runs() {
    let mut namer = Namer::new();
    let mut events = Vec::new();
    alloc(&mut namer, P, T0, 64, 10);
    let moving = namer.realloc_begin(P, 64);
    alloc(&mut namer, P, T1, 64, 30);
    let mut emit = |event| events.push(event);
    namer.realloc_end(P, T1, moving, 96, bytes(20), Tick(3), &mut emit);
    let expected =
        Event::Realloc { object: ObjectId(0), request: bytes(20), remote: true, began: Tick(3) };
    assert_eq!(events, [expected]);
    assert_eq!(namer.live(P), Inherited { objects: 2, bytes: 50 });
    assert_eq!(namer.anomalies(P), Anomalies::default());
}

#[test]
fn realloc_of_null_allocates_of_unknown_says_so_and_failed_stays() {
    let mut namer = Namer::new();
    let mut events = Vec::new();
    let mut emit = |event| events.push(event);
    let moving = namer.realloc_begin(P, 0);
    namer.realloc_end(P, T0, moving, 64, bytes(5), Tick(0), &mut emit);
    let moving = namer.realloc_begin(P, 4096);
    namer.realloc_end(P, T0, moving, 128, bytes(6), Tick(0), &mut emit);
    let moving = namer.realloc_begin(P, 64);
    namer.realloc_failed(P, moving, bytes(1 << 60), &mut emit);
    namer.free(P, T0, 64, &mut emit);
    assert_eq!(
        events,
        [
            Event::Alloc { object: ObjectId(0), request: bytes(5) },
            Event::UnknownFree,
            Event::Alloc { object: ObjectId(1), request: bytes(6) },
            Event::Failed { request: bytes(1 << 60) },
            Event::Free { object: ObjectId(0), remote: false },
        ]
    );
}

#[test]
fn a_child_inherits_upon_first_touch_and_the_parent_sees_nothing() {
    let mut namer = Namer::new();
    let child = ProcessId(1);
    for i in 0..1000 {
        alloc(&mut namer, P, T1, 16 + i * 16, i);
    }
    let inherited = namer.fork(P, child);
    assert_eq!(inherited, Inherited { objects: 1000, bytes: 499_500 });
    assert_eq!(
        free(&mut namer, child, T0, 16 + 700 * 16),
        [
            Event::Inherit { object: ObjectId(0), request: bytes(700) },
            Event::Free { object: ObjectId(0), remote: false },
        ]
    );
    let remote = Event::Free { object: ObjectId(700), remote: true };
    assert_eq!(free(&mut namer, P, T0, 16 + 700 * 16), [remote]);
    let mut events = Vec::new();
    let object = namer.object_at(child, T0, 32, &mut |event| events.push(event));
    assert_eq!(object, Some(ObjectId(0)));
    assert_eq!(events, [Event::Inherit { object: ObjectId(0), request: bytes(1) }]);
    let own = Event::Free { object: ObjectId(0), remote: false };
    assert_eq!(free(&mut namer, child, T0, 32), [own]);
    assert_eq!(namer.live(child).objects, 998);
    assert_eq!(namer.live(P).objects, 999);
}

#[test]
fn chains_of_forks_flatten_and_keep_what_was_asked_for() {
    let mut namer = Namer::new();
    for generation in 0..200u32 {
        let process = ProcessId(generation);
        alloc(&mut namer, process, T0, 0x1000 + u64::from(generation) * 64, generation.into());
        let inherited = namer.fork(process, ProcessId(generation + 1));
        assert_eq!(inherited.objects, u64::from(generation) + 1);
        namer.end(process);
    }
    for generation in 0..200u64 {
        let events = free(&mut namer, ProcessId(200), T0, 0x1000 + generation * 64);
        assert_eq!(events[0], Event::Inherit { object: ObjectId(0), request: bytes(generation) });
    }
    assert_eq!(namer.live(ProcessId(200)), Inherited::default());
}

#[test]
fn impossible_addresses_are_counted_not_kept() {
    let mut namer = Namer::new();
    assert_eq!(alloc(&mut namer, P, T0, u64::MAX, 1), []);
    assert_eq!(free(&mut namer, P, T0, u64::MAX), [Event::UnknownFree]);
    assert_eq!(free(&mut namer, P, T0, 0), []);
    let failed = Event::Failed { request: bytes(7) };
    assert_eq!(alloc(&mut namer, P, T0, 0, 7), [failed]);
    assert_eq!(namer.anomalies(P).impossible, 1);
}

/// One call of the model.
#[derive(Clone, Copy, Debug)]
enum Call {
    Alloc { address: u64, size: u64 },
    Free { address: u64 },
    Realloc { from: u64, to: u64, size: u64 },
    Fork,
}

fn call() -> impl Strategy<Value = Call> {
    let address = || prop_oneof![1..60u64, 1..2000u64].prop_map(|unit| 0x7f00_0000_0000 + unit * 8);
    prop_oneof![
        6 => (address(), 0..100u64).prop_map(|(address, size)| Call::Alloc { address, size }),
        5 => address().prop_map(|address| Call::Free { address }),
        2 => (address(), address(), 0..100u64)
            .prop_map(|(from, to, size)| Call::Realloc { from, to, size }),
        1 => Just(Call::Fork),
    ]
}

/// What a reader would make of the events: live objects by id.
#[derive(Clone, Default)]
struct Reader {
    live: BTreeMap<u32, u64>,
}

impl Reader {
    fn see(&mut self, event: Event) {
        match event {
            Event::Alloc { object, request } | Event::Inherit { object, request } => {
                let old = self.live.insert(object.0, request.size);
                assert_eq!(old, None, "{object:?} is live already");
            }
            Event::Free { object, .. } => {
                assert!(self.live.remove(&object.0).is_some(), "{object:?} is not live");
            }
            Event::Realloc { object, request, .. } => {
                let old = self.live.insert(object.0, request.size);
                assert!(old.is_some(), "{object:?} is not live");
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_table_is_a_map_and_ids_are_unique(calls in proptest::collection::vec((call(), 0..6usize, 0..3u32), 0..400)) {
        let mut namer = Namer::new();
        let mut models = vec![BTreeMap::<u64, u64>::new()];
        let mut readers = vec![Reader::default()];
        for (call, which, thread) in calls {
            let index = which % models.len();
            let (p, t) = (ProcessId(index as u32), ThreadId(thread));
            let model = &mut models[index];
            let reader = &mut readers[index];
            let emit = &mut |event| reader.see(event);
            match call {
                Call::Alloc { address, size } => {
                    model.insert(address, size);
                    namer.alloc(p, t, address, bytes(size), emit);
                }
                Call::Free { address } => {
                    model.remove(&address);
                    namer.free(p, t, address, emit);
                }
                Call::Realloc { from, to, size } => {
                    model.remove(&from);
                    model.insert(to, size);
                    let moving = namer.realloc_begin(p, from);
                    namer.realloc_end(p, t, moving, to, bytes(size), Tick(0), emit);
                }
                Call::Fork => {
                    namer.fork(p, ProcessId(models.len() as u32));
                    models.push(models[index].clone());
                    readers.push(Reader::default());
                }
            }
            let live = namer.live(p);
            let model = &models[index];
            prop_assert_eq!(live.objects, model.len() as u64);
            prop_assert_eq!(live.bytes, model.values().sum::<u64>());
        }
        prop_assert_eq!(&readers[0].live.values().sum::<u64>(), &models[0].values().sum::<u64>());
        for (index, model) in models.into_iter().enumerate() {
            let reader = &mut readers[index];
            for address in model.into_keys() {
                let p = ProcessId(index as u32);
                namer.free(p, T0, address, &mut |event| reader.see(event));
            }
            prop_assert!(reader.live.is_empty(), "what dies in the model dies in the trace");
        }
    }
}
