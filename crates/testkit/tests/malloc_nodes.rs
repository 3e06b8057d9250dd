//! The malloc on a machine with several memories, simulated: whose memory a block is of, whoever frees it.

use freehold_core::malloc::units::BANK;
use freehold_core::malloc::units::Cursor;
use freehold_core::malloc::{Cache, NodeHeap};
use freehold_core::place::{NodeId, NodeSet};
use freehold_testkit::failing_machine::FailingMachine;
use freehold_testkit::nodes::{CAPACITY, FakeNodes};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

const NODES: usize = 4;

fn heap() -> NodeHeap<FailingMachine> {
    let heap = NodeHeap::new(FailingMachine::with_nodes(FakeNodes::new(NODES)));
    heap.set_key(0x0123_4567_89AB_CDEF);
    heap
}

fn nodes(heap: &NodeHeap<FailingMachine>) -> &FakeNodes {
    heap.machine().fake_nodes().expect("it was made with nodes")
}

/// A thread of a node: its cache, and its blocks with the node that they are of.
struct Caller<'a> {
    cache: &'a Cache,
    blocks: Vec<(*mut u8, usize)>,
}

#[derive(Clone, Debug)]
enum Step {
    /// The nth thread allocates so many blocks of a size.
    Allocate(usize, usize, usize),
    /// The first frees so many of the second's.
    Free(usize, usize, usize),
    /// The nth moves to a node.
    Move(usize, usize),
    Purge,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![8 => 1..2000usize, 2 => 2000..40_000usize, 1 => 40_000..400_000usize];
    prop_oneof![
        5 => (0..NODES, size, 1..60usize).prop_map(|(who, size, count)| Step::Allocate(who, size, count)),
        4 => (0..NODES, 0..NODES, 1..200usize).prop_map(|(who, whose, count)| Step::Free(who, whose, count)),
        1 => (0..NODES, 0..NODES).prop_map(|(who, node)| Step::Move(who, node)),
        1 => Just(Step::Purge),
    ]
}

/// Runs steps; answers how many blocks were not of their thread's node when it got them, and how many there were.
fn run(steps: &[Step]) -> Result<(usize, usize), TestCaseError> {
    let heap = heap();
    let fake = nodes(&heap);
    let mut where_is: [usize; NODES] = std::array::from_fn(|node| node);
    let (mut strange, mut all) = (0, 0);
    let mut callers: Vec<Caller<'_>> = (0..NODES)
        .map(|node| {
            fake.go_to(node);
            Caller { cache: heap.attach().expect("memory"), blocks: Vec::new() }
        })
        .collect();
    for step in steps {
        match *step {
            Step::Allocate(who, size, count) => {
                fake.go_to(where_is[who]);
                let caller = &mut callers[who];
                for _ in 0..count {
                    let block = heap.allocate(caller.cache, size);
                    if heap.is_stray(caller.cache) {
                        let new = heap.attach().expect("memory");
                        heap.detach(std::mem::replace(&mut caller.cache, new));
                    }
                    if block.is_null() {
                        break; // this machine is small
                    }
                    let node = fake.node_of(block.addr()).expect("every bank is placed");
                    (all, strange) = (all + 1, strange + usize::from(node != where_is[who]));
                    caller.blocks.push((block, node));
                }
            }
            Step::Free(who, whose, count) => {
                fake.go_to(where_is[who]);
                for _ in 0..count {
                    let Some((block, node)) = callers[whose].blocks.pop() else { break };
                    prop_assert_eq!(fake.node_of(block.addr()), Some(node), "a live block moved");
                    // SAFETY: the block is ours, and forgotten.
                    let freed = unsafe { heap.free(callers[who].cache, block) };
                    prop_assert_eq!(freed, Ok(()));
                }
            }
            Step::Move(who, node) => where_is[who] = node,
            Step::Purge => _ = heap.purge(true),
        }
        prop_assert_eq!(heap.check(), Ok(()));
    }
    for caller in callers {
        for (block, _) in caller.blocks {
            // SAFETY: as above.
            prop_assert_eq!(unsafe { heap.free(caller.cache, block) }, Ok(()));
        }
        heap.detach(caller.cache);
    }
    heap.purge(true);
    heap.purge(true);
    prop_assert_eq!(heap.check(), Ok(()));
    // One unit of caches for each home.
    prop_assert!(heap.usage().used.0 <= NODES, "{:?}", heap.usage());
    Ok((strange, all))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_of_the_node_of_who_allocates_whoever_frees(steps in vec(step(), 1..60)) {
        let moves = steps.iter().filter(|step| matches!(step, Step::Move(..))).count();
        let (strange, all) = run(&steps)?;
        // A thread that has moved takes a refill or two, of at most 256 blocks each, to notice.
        prop_assert!(strange <= moves * 512, "{strange} of {all} after {moves} moves");
        if moves == 0 {
            prop_assert_eq!(strange, 0);
        }
    }
}

/// Blocks of slabs that the threads of a node share stayed in the stack of whoever freed them, on any node.
#[test]
fn a_shared_block_goes_home_when_another_node_frees_it() {
    let heap = heap();
    let fake = nodes(&heap);
    let caches: Vec<&Cache> = (0..2 * NODES)
        .map(|at| {
            fake.go_to(at % NODES);
            heap.attach().expect("memory")
        })
        .collect();
    for size in [1024, 2000, 5000, 20_000] {
        let blocks: Vec<_> = (0..40).map(|_| heap.allocate(caches[2], size)).collect();
        let of = |block: &*mut u8| fake.node_of(block.addr());
        assert!(blocks.iter().all(|block| of(block) == Some(2)), "{size}");
        for (at, block) in blocks.into_iter().enumerate() {
            // SAFETY: the block is ours, and forgotten.
            unsafe { heap.free(caches[at % caches.len()], block) }.unwrap();
        }
        for (at, cache) in caches.iter().enumerate() {
            let blocks: Vec<_> = (0..10).map(|_| heap.allocate(cache, size)).collect();
            assert!(blocks.iter().all(|block| of(block) == Some(at % NODES)), "{size} on {at}");
        }
    }
    heap.check().expect("sound");
}

/// Each slab took a bank of its own from a node elsewhere that was the first choice, while home had room: the node was
/// full of huge pages of which a thirty-second part was used.
#[test]
fn slabs_fill_the_banks_of_a_first_choice_elsewhere() {
    let path = "shared>local>search".parse().expect("a path");
    let fake = FakeNodes::new(NODES).with_shared_last(path);
    let heap = NodeHeap::new(FailingMachine::with_nodes(fake));
    heap.set_key(0x0123_4567_89AB_CDEF);
    let cache = heap.attach().expect("memory");
    // Two to a slab; the first four banks are at home.
    let blocks: Vec<*mut u8> = (0..2 * 32 * 6 - 8).map(|_| heap.allocate(cache, 30_000)).collect();
    assert!(blocks.iter().all(|block| !block.is_null()));
    let banks: BTreeSet<usize> = blocks.iter().map(|block| block.addr() / BANK).collect();
    assert!(banks.len() <= 7, "{} banks for what six hold", banks.len());
    let last = blocks.last().expect("there are some");
    assert_eq!(nodes(&heap).node_of(last.addr()), Some(NODES - 1));
    for block in blocks {
        // SAFETY: the block is ours, and forgotten.
        unsafe { heap.free(cache, block) }.unwrap();
    }
    heap.detach(cache);
    assert_eq!(heap.check(), Ok(()));
}

/// Fills the own node and looks where the rest comes from; then there is room again, and new banks are at home: what of their
/// pages was resident elsewhere went back to the system first, by the purger or for this.
#[test]
fn a_full_node_sends_banks_elsewhere_and_takes_them_back() {
    [true, false].into_iter().for_each(fill_and_take_back);
}

fn fill_and_take_back(purging: bool) {
    let heap = heap();
    let fake = nodes(&heap);
    fake.go_to(1);
    let cache = heap.attach().expect("memory");
    let take = |count: usize| -> Vec<*mut u8> {
        (0..count).map(|_| heap.allocate(cache, 500_000)).filter(|block| !block.is_null()).collect()
    };
    let node_of = |block: &*mut u8| fake.node_of(block.addr()).expect("placed");
    let first = take(12);
    assert!(first.iter().all(|block| node_of(block) == 1), "what nobody asked for, and more");
    [0, 1, 3].into_iter().for_each(|node| fake.set_free(node, 0));
    fake.set_free(2, 8 << 20); // room for two banks beside what a node keeps
    let second = take(8);
    assert!(
        second.len() == 8 && second[4..].iter().all(|block| node_of(block) == 2),
        "where there is room"
    );
    for block in second {
        // SAFETY: the block is ours, and forgotten.
        unsafe { heap.free(cache, block) }.unwrap();
    }
    if purging {
        heap.purge(true);
    }
    fake.set_free(1, 500 << 20);
    fake.set_free(2, 0);
    let third = take(8);
    assert!(third.len() == 8 && third[4..].iter().all(|block| node_of(block) == 1), "home again");
    assert!(third[4..].iter().all(|block| heap.machine().was_purged(block.addr())), "{purging}");
    assert_eq!(heap.check(), Ok(()));
    for block in first.into_iter().chain(third) {
        // SAFETY: as above.
        unsafe { heap.free(cache, block) }.unwrap();
    }
    heap.detach(cache);
}

fn set(nodes: &[usize]) -> NodeSet {
    nodes.iter().filter_map(|&node| NodeId::new(node)).fold(NodeSet::default(), NodeSet::with)
}

/// Blocks of several sizes by threads of all nodes, everything touched.
fn filled(heap: &NodeHeap<FailingMachine>) -> Vec<*mut u8> {
    let fake = nodes(heap);
    let mut blocks = Vec::new();
    for node in 0..NODES {
        fake.go_to(node);
        let cache = heap.attach().expect("memory");
        for size in [100, 3_000, 30_000, 300_000, 5 << 20].into_iter().cycle().take(60) {
            let block = heap.allocate(cache, size);
            fake.touch(block.addr(), size);
            blocks.push(block);
        }
        heap.detach(cache);
    }
    blocks
}

/// One round over everything: what moved, and what was left.
fn round(heap: &NodeHeap<FailingMachine>) -> (usize, usize) {
    let (mut cursor, mut sum) = (Cursor::default(), (0, 0));
    while let Some(part) = heap.vacate(&mut cursor) {
        sum = (sum.0 + part.moved, sum.1 + part.left);
    }
    sum
}

#[test]
fn a_node_that_is_left_holds_nothing_and_gets_nothing() {
    let heap = heap();
    let fake = nodes(&heap);
    let blocks = filled(&heap);
    let on_1 = |blocks: &[*mut u8]| {
        blocks.iter().filter(|block| fake.lies_on(block.addr()) == Some(1)).count()
    };
    assert_eq!(round(&heap), (0, 0), "nothing is closed yet");
    assert!(on_1(&blocks) >= 60);
    heap.close_nodes(set(&[1]), false);
    let (moved, left) = round(&heap);
    assert!(moved > 60 << 20 && left == 0, "{moved} bytes moved, {left} left");
    assert_eq!((round(&heap), on_1(&blocks)), ((0, 0), 0));
    heap.check().expect("sound");
    // Threads of that node, and of others, find memory elsewhere.
    let more = filled(&heap);
    assert_eq!((round(&heap), on_1(&more)), ((0, 0), 0));
    heap.close_nodes(set(&[]), false);
    assert!(on_1(&filled(&heap)) >= 30, "it is used again");
    heap.check().expect("sound");
}

#[test]
fn what_somebody_holds_is_said_to_be_left_and_moves_later() {
    let heap = heap();
    let fake = nodes(&heap);
    let blocks = filled(&heap);
    let large =
        *blocks[60..120].iter().rfind(|block| fake.lies_on(block.addr()) == Some(1)).unwrap();
    fake.hold(Some(large.addr()));
    heap.close_nodes(set(&[1]), false);
    assert_eq!(round(&heap).1, BANK);
    assert_eq!(fake.lies_on(large.addr()), Some(1));
    fake.hold(None);
    assert_eq!(round(&heap), (BANK, 0));
}

#[test]
fn without_room_elsewhere_everything_stays_and_nothing_fails() {
    let heap = heap();
    let fake = nodes(&heap);
    filled(&heap);
    for node in [0, 2, 3] {
        fake.set_free(node, 0);
    }
    heap.close_nodes(set(&[1]), false);
    let (moved, left) = round(&heap);
    assert!(moved == 0 && left > 60 << 20, "{moved} bytes moved, {left} left");
    fake.set_free(3, CAPACITY);
    assert_eq!(round(&heap), (left, 0));
}

#[test]
fn a_bound_heap_takes_from_its_node_whoever_asks_and_is_refused_when_that_is_full() {
    let heap = heap();
    let fake = nodes(&heap);
    heap.set_home(NodeId::new(2));
    heap.close_nodes(set(&[2]).complement(), true);
    let blocks = filled(&heap);
    assert!(blocks.iter().all(|block| fake.lies_on(block.addr()) == Some(2)));
    fake.set_free(2, 0);
    let cache = heap.attach().expect("an idle one");
    let got = (0..20).filter(|_| !heap.allocate(cache, 20 << 20).is_null()).count();
    assert!(got < 20, "an answer is good for a while only");
    assert!(heap.allocate(cache, 20 << 20).is_null());
}
