//! Searches and gates together, in every order of messages that proptest can think of.

use super::*;
extern crate std;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

/// What a client does: searches for a block, or frees the last it found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    Nothing,
    Searching,
    Freeing(HeapId),
}

#[derive(Clone, Copy, Debug)]
enum Search {
    Table(PriorityTable),
    Lazy(Lazy),
}

struct Client {
    doing: Doing,
    search: Search,
    full: Vec<u64>,
    /// The message under way.
    asked: Option<(HeapId, Ask)>,
    /// Let in, and not yet done.
    inside: bool,
    /// Heaps that have had room all the time since the search began.
    roomy: Vec<bool>,
    held: Vec<HeapId>,
}

/// Heaps with a number of equal blocks each, and a client at each.
struct Meshwork {
    mesh: Mesh,
    lazy: bool,
    order: Order,
    one_message: bool,
    /// What everybody believes to have room: anything.
    expected: u16,
    free: Vec<u32>,
    gates: Vec<Gate>,
    waiting: Vec<VecDeque<usize>>,
    clients: Vec<Client>,
    refused: usize,
}

impl Meshwork {
    fn new(mesh: Mesh, lazy: bool, order: Order, blocks: &[u32]) -> Meshwork {
        let heaps = mesh.heaps();
        let client = |from| Client {
            doing: Doing::Nothing,
            search: Search::Table(PriorityTable::new(Walk::new(order, mesh, from))),
            full: vec![0; HeapSet::words(heaps)],
            asked: None,
            inside: false,
            roomy: vec![false; heaps],
            held: Vec::new(),
        };
        Meshwork {
            mesh,
            lazy,
            order,
            one_message: false,
            expected: u16::MAX,
            free: blocks.iter().copied().cycle().take(heaps).collect(),
            gates: vec![Gate::default(); heaps],
            waiting: vec![VecDeque::new(); heaps],
            clients: mesh.all().map(client).collect(),
            refused: 0,
        }
    }

    /// The client begins something, if it does nothing: a free if that is wanted and possible.
    fn begin(&mut self, at: usize, frees: bool) {
        let from = HeapId::new(at).unwrap();
        let client = &mut self.clients[at];
        if client.doing != Doing::Nothing {
            return;
        }
        if let Some(heap) = client.held.pop_if(|_| frees) {
            client.doing = Doing::Freeing(heap);
            client.asked = Some((heap, Ask::Free));
            return self.arrive(at);
        }
        let rest = Walk::new(self.order, self.mesh, from);
        client.search = match self.lazy {
            true => Search::Lazy(Lazy::new(rest, 2, self.one_message)),
            false => Search::Table(PriorityTable::new(rest)),
        };
        client.doing = Doing::Searching;
        client.roomy = self.free.iter().map(|&free| free > 0).collect();
        self.go_on(at, None);
    }

    fn go_on(&mut self, at: usize, answer: Option<Answer>) {
        let client = &mut self.clients[at];
        let step = match &mut client.search {
            Search::Table(search) => search.next(answer),
            Search::Lazy(search) => {
                let expects = |heap: HeapId| self.expected >> heap.index() & 1 == 1;
                search.next(answer, &mut HeapSet::over(&mut client.full), expects)
            }
        };
        match step {
            Step::Ask(heap, ask) => {
                client.asked = Some((heap, ask));
                self.arrive(at);
            }
            Step::Rest(_) => client.asked = None,
            Step::Served(heap) => {
                client.held.push(heap);
                (client.doing, client.asked) = (Doing::Nothing, None);
            }
            Step::Full => {
                let spurious = client.roomy.iter().position(|&roomy| roomy);
                assert_eq!(spurious, None, "H{at} gave up though that heap always had room");
                (client.doing, client.asked) = (Doing::Nothing, None);
                self.refused += 1;
            }
        }
    }

    fn arrive(&mut self, at: usize) {
        let (heap, ask) = self.clients[at].asked.unwrap();
        match self.gates[heap.index()].arrive(HeapId::new(at).unwrap(), ask) {
            Pass::Go => self.clients[at].inside = true,
            Pass::Busy => self.go_on(at, Some(Answer::Busy)),
            Pass::Wait => self.waiting[heap.index()].push_back(at),
            Pass::Refused => panic!("H{at} sent {ask:?} to {heap:?} without its lock"),
        }
    }

    /// One client's message is done, or its rest is over.
    fn advance(&mut self, at: usize) {
        let client = &mut self.clients[at];
        match (client.asked, client.inside) {
            (None, _) if client.doing == Doing::Searching => self.go_on(at, None),
            (Some((heap, ask)), true) => {
                client.inside = false;
                self.finish(at, heap, ask);
            }
            _ => {}
        }
    }

    fn finish(&mut self, at: usize, heap: HeapId, ask: Ask) {
        let free = &mut self.free[heap.index()];
        let answer = match ask {
            Ask::Lock | Ask::TryLock => Answer::Locked,
            Ask::Free => {
                *free += 1;
                Answer::Freed
            }
            Ask::Take | Ask::Alloc | Ask::TryAlloc if *free > 0 => {
                *free -= 1;
                Answer::Served
            }
            Ask::Take | Ask::Alloc | Ask::TryAlloc => Answer::Full,
        };
        if *free == 0 {
            self.clients.iter_mut().for_each(|client| client.roomy[heap.index()] = false);
        }
        let free = self.gates[heap.index()].leave(ask);
        if let Some(first) = free.then(|| self.waiting[heap.index()].pop_front()).flatten() {
            self.arrive(first);
        }
        match answer {
            Answer::Freed => {
                (self.clients[at].doing, self.clients[at].asked) = (Doing::Nothing, None);
            }
            answer => self.go_on(at, Some(answer)),
        }
    }

    /// Everything under way comes to its end.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.clients.iter().all(|client| client.doing == Doing::Nothing) {
                return;
            }
            (0..self.clients.len()).for_each(|at| self.advance(at));
        }
        panic!("messages wait for each other for ever");
    }
}

fn orders() -> impl Strategy<Value = (bool, Order)> {
    let table = prop::sample::select(&Order::ALL[..3]).prop_map(|order| (false, order));
    prop_oneof![table, prop::sample::select(&Order::ALL[..]).prop_map(|order| (true, order))]
}

proptest! {
    /// No block is lost or found twice, no search gives up although a heap had room all the time, and
    /// nobody waits for ever.
    #[test]
    fn any_order_of_messages_keeps_every_block(
        (lazy, order) in orders(),
        (one_message, expected) in (any::<bool>(), any::<u16>()),
        (rows, columns) in (1_usize..4, 1_usize..4),
        blocks in prop::collection::vec(0_u32..4, 1..9),
        moves in prop::collection::vec((0_usize..9, 0_u8..8), 0..300),
    ) {
        let mesh = Mesh::new(rows, columns).unwrap();
        let mut work = Meshwork::new(mesh, lazy, order, &blocks);
        (work.one_message, work.expected) = (one_message, expected);
        let all: u32 = work.free.iter().sum();
        for (at, what) in moves {
            let at = at % mesh.heaps();
            match what {
                0 | 1 => work.begin(at, false),
                2 => work.begin(at, true),
                _ => work.advance(at),
            }
        }
        work.settle();
        let held: usize = work.clients.iter().map(|client| client.held.len()).sum();
        prop_assert_eq!(work.free.iter().sum::<u32>() as usize + held, all as usize);
        // What is held can be freed, whatever else happens, and then every block is back.
        while work.clients.iter().any(|client| !client.held.is_empty()) {
            (0..mesh.heaps()).for_each(|at| {
                if !work.clients[at].held.is_empty() {
                    work.begin(at, true);
                }
            });
            work.settle();
        }
        prop_assert_eq!(work.free.iter().sum::<u32>(), all);
        prop_assert!(work.gates.iter().all(|gate| gate.holder().is_none()));
    }
}

fn heap(number: usize) -> HeapId {
    HeapId::new(number).unwrap()
}

fn lazy(mesh: &str, from: usize, rounds: u32) -> Lazy {
    Lazy::new(Walk::new(Order::Index, mesh.parse().unwrap(), heap(from)), rounds, false)
}

/// "If the allocator tries to acquire the lock of a remote heap and fails, it should move to the next".
#[test]
fn a_busy_heap_is_passed_by_and_the_first_that_fits_is_taken() {
    let (mut search, mut full) = (lazy("2x2", 0, 1), [0]);
    let mut next = |answer| search.next(answer, &mut HeapSet::over(&mut full), |_| true);
    assert_eq!(next(None), Step::Ask(heap(0), Ask::Alloc));
    assert_eq!(next(Some(Answer::Full)), Step::Ask(heap(1), Ask::TryLock));
    assert_eq!(next(Some(Answer::Busy)), Step::Ask(heap(2), Ask::TryLock));
    assert_eq!(next(Some(Answer::Locked)), Step::Ask(heap(2), Ask::Take));
    assert_eq!(next(Some(Answer::Served)), Step::Served(heap(2)));
}

/// The letter's hidden bug: with all remote heaps busy its search would end without a block.
#[test]
fn when_all_are_busy_it_rests_tries_again_and_then_waits() {
    let (mut search, mut full) = (lazy("1x3", 1, 2), [0]);
    let mut next = |answer| search.next(answer, &mut HeapSet::over(&mut full), |_| true);
    assert_eq!(next(None), Step::Ask(heap(1), Ask::Alloc));
    assert_eq!(next(Some(Answer::Full)), Step::Ask(heap(0), Ask::TryLock));
    assert_eq!(next(Some(Answer::Busy)), Step::Ask(heap(2), Ask::TryLock));
    assert_eq!(next(Some(Answer::Busy)), Step::Rest(1));
    assert_eq!(next(None), Step::Ask(heap(0), Ask::TryLock));
    assert_eq!(next(Some(Answer::Locked)), Step::Ask(heap(0), Ask::Take));
    assert_eq!(next(Some(Answer::Full)), Step::Ask(heap(2), Ask::TryLock));
    assert_eq!(next(Some(Answer::Busy)), Step::Rest(2), "heap 0 has said that it is full");
    assert_eq!(next(None), Step::Ask(heap(2), Ask::TryLock));
    assert_eq!(next(Some(Answer::Busy)), Step::Ask(heap(2), Ask::Alloc), "now it waits");
    assert_eq!(next(Some(Answer::Full)), Step::Full);
}

/// What the asker believes changes the order and nothing else.
#[test]
fn heaps_that_seem_full_are_asked_last_and_in_one_message_where_that_is_wanted() {
    let rest = Walk::new(Order::Index, "1x4".parse().unwrap(), heap(0));
    let (mut search, mut full) = (Lazy::new(rest, 0, true), [0]);
    let mut next =
        |answer| search.next(answer, &mut HeapSet::over(&mut full), |heap| heap.index() == 2);
    assert_eq!(next(None), Step::Ask(heap(0), Ask::Alloc));
    assert_eq!(next(Some(Answer::Full)), Step::Ask(heap(2), Ask::TryAlloc));
    assert_eq!(next(Some(Answer::Full)), Step::Ask(heap(1), Ask::TryAlloc));
    assert_eq!(next(Some(Answer::Busy)), Step::Ask(heap(3), Ask::TryAlloc));
    assert_eq!(next(Some(Answer::Full)), Step::Ask(heap(1), Ask::Alloc));
    assert_eq!(next(Some(Answer::Full)), Step::Full);
}

#[test]
fn all_full_is_full_after_each_was_asked_once() {
    let (mut search, mut full) = (lazy("2x2", 3, 5), [0]);
    let (mut step, mut asked) = (search.next(None, &mut HeapSet::over(&mut full), |_| true), 0);
    while let Step::Ask(_, ask) = step {
        let answer = if ask == Ask::TryLock { Answer::Locked } else { Answer::Full };
        asked += u32::from(ask != Ask::TryLock);
        step = search.next(Some(answer), &mut HeapSet::over(&mut full), |_| true);
    }
    assert_eq!((step, asked), (Step::Full, 4));
}

#[test]
fn a_table_s_search_waits_at_each_record_in_turn() {
    let mesh = "2x2".parse().unwrap();
    let rest = Walk::new(Order::Rotated, mesh, heap(2));
    let mut search = PriorityTable::new(rest);
    let mut answers =
        [None, Some(Answer::Full), Some(Answer::Full), Some(Answer::Full)].into_iter();
    let asked: Vec<_> = answers.by_ref().map(|answer| search.next(answer)).collect();
    assert_eq!(asked, [2, 3, 0, 1].map(|at| Step::Ask(heap(at), Ask::Alloc)));
    assert_eq!(search.next(Some(Answer::Full)), Step::Full);
    assert_eq!([2, 3, 0, 1].map(|at| record_of(rest, heap(at))), [1, 2, 3, 4]);
}

#[test]
fn the_one_heap_is_locked_searched_and_then_either_way_over() {
    let mut search = Global::new(heap(0));
    assert_eq!(search.next(None), Step::Ask(heap(0), Ask::Lock));
    assert_eq!(search.next(Some(Answer::Locked)), Step::Ask(heap(0), Ask::Take));
    assert_eq!(search.next(Some(Answer::Full)), Step::Full);
    assert_eq!(Global::new(heap(3)).next(Some(Answer::Served)), Step::Served(heap(3)));
}

/// A free that finds its owner locked is let in when the lock is given back, and is first in line.
#[test]
fn a_free_to_a_locked_owner_is_late_not_lost() {
    let mut work = Meshwork::new("1x2".parse().unwrap(), true, Order::Index, &[0, 2]);
    work.begin(0, false);
    (0..6).for_each(|_| work.advance(0));
    assert_eq!((&work.clients[0].held[..], work.free[1]), (&[heap(1)][..], 1));
    assert_eq!(work.gates[1].arrive(heap(1), Ask::TryLock), Pass::Go, "the owner locks its heap");
    work.begin(0, true);
    (0..100).for_each(|_| work.advance(0));
    assert_eq!((work.free[1], work.waiting[1].len()), (1, 1), "it waits");
    assert!(work.gates[1].leave(Ask::Take));
    let first = work.waiting[1].pop_front().unwrap();
    work.arrive(first);
    work.settle();
    assert_eq!((work.free[1], work.clients[0].doing), (2, Doing::Nothing));
}
