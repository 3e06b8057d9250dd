//! Long blocks that another thread frees: they wait for the owner of their slabs.

use freehold_core::malloc::units::{UNIT, UnitCount};
use freehold_core::malloc::{Cache, Misuse, NodeHeap};
use freehold_testkit::failing_machine::FailingMachine;
use std::collections::BTreeSet;

const MIB: usize = 1 << 20;
/// A slab has one block of this length.
const WHOLE: usize = UNIT - 100;
/// How many blocks of a class wait at most.
const MOST: usize = 64;

/// A heap of two threads.
fn heap() -> (NodeHeap<FailingMachine>, [&'static Cache; 2]) {
    let heap = NodeHeap::new(FailingMachine::with_reservations(256 * MIB));
    heap.set_key(0x0123_4567_89AB_CDEF);
    let attach = || {
        let cache = std::ptr::from_ref(heap.attach().expect("memory"));
        // SAFETY: caches live as long as the heap, which each test keeps.
        unsafe { &*cache }
    };
    let caches = [attach(), attach()];
    (heap, caches)
}

fn allocate(heap: &NodeHeap<FailingMachine>, cache: &Cache, size: usize, len: usize) -> Vec<usize> {
    (0..len).map(|_| heap.allocate(cache, size).expose_provenance()).collect()
}

fn free(heap: &NodeHeap<FailingMachine>, cache: &Cache, block: usize) -> Result<(), Misuse> {
    // SAFETY: allocated by the tests, and in no other use.
    unsafe { heap.free(cache, std::ptr::with_exposed_provenance_mut(block)) }
}

fn free_all(heap: &NodeHeap<FailingMachine>, cache: &Cache, blocks: &[usize]) {
    blocks.iter().for_each(|&block| free(heap, cache, block).expect("a block"));
}

/// The owner has them again, all of them, and no slab ended meanwhile.
#[test]
fn the_owner_gets_them_back() {
    for size in [5000, 20_000, WHOLE] {
        let (heap, [one, two]) = heap();
        let blocks = allocate(&heap, one, size, 50);
        let before = heap.usage();
        free_all(&heap, two, &blocks);
        assert_eq!(heap.census().blocks(), 0, "they are not the program's");
        let again = allocate(&heap, one, size, 50);
        assert_eq!(BTreeSet::from_iter(again), BTreeSet::from_iter(blocks));
        assert_eq!(heap.usage(), before);
        heap.check().expect("whole");
    }
}

/// What waits serves other sizes, too, before memory grows; and is a block for nobody meanwhile.
#[test]
fn the_next_slab_of_another_size_lies_in_one_of_them() {
    let (heap, [one, two]) = heap();
    let blocks = allocate(&heap, one, WHOLE, 4);
    let before = heap.usage().used;
    free_all(&heap, two, &blocks);
    for (&block, cache) in blocks.iter().zip([one, two, one, two]) {
        assert_eq!(free(&heap, cache, block), Err(Misuse::DoubleFree));
    }
    let unit = allocate(&heap, one, 100, 1)[0] & !(UNIT - 1);
    assert!(blocks.contains(&unit));
    assert_eq!(heap.usage().used + UnitCount(2), before, "the last slab of its class stays");
    heap.check().expect("whole");
}

/// More of them than a list holds go back to bits, from where slabs end.
#[test]
fn so_many_wait_and_no_more() {
    let (heap, [one, two]) = heap();
    let blocks = allocate(&heap, one, WHOLE, 2 * MOST);
    let before = heap.usage().used;
    free_all(&heap, two, &blocks);
    // The owner ends them when it looks for memory.
    heap.give_all(two);
    allocate(&heap, one, 20_000, 1);
    assert!(heap.usage().used <= before.beyond(UnitCount(MOST)));
    heap.check().expect("whole");
}

/// A thread that allocates nothing any more keeps none: the purger takes them, in one round.
#[test]
fn an_idle_owner_keeps_none() {
    for size in [5000, WHOLE] {
        let (heap, [one, two]) = heap();
        let at_first = heap.usage().used;
        let blocks = allocate(&heap, one, size, MOST);
        free_all(&heap, two, &blocks);
        heap.purge(false);
        // The owner's stack stays, and a slab once it is at rest.
        heap.purge(true);
        assert!(heap.usage().used <= at_first + UnitCount(4), "{:?}", heap.usage());
        heap.check().expect("whole");
    }
}

/// Whether its owner ends before or after, a block that waits is lost to nobody.
#[test]
fn blocks_of_an_ended_owner_are_found() {
    for ends_first in [true, false] {
        let (heap, [one, two]) = heap();
        let blocks = allocate(&heap, one, 20_000, 30);
        if ends_first {
            heap.detach(one);
        }
        free_all(&heap, two, &blocks);
        if !ends_first {
            heap.detach(one);
        }
        let before = heap.usage().used;
        let again = allocate(&heap, two, 20_000, 30);
        assert_eq!(BTreeSet::from_iter(again), BTreeSet::from_iter(blocks), "{ends_first}");
        assert_eq!(heap.usage().used, before);
        heap.detach(two);
        heap.check().expect("whole");
    }
}

/// A slab may be adopted between the look at its tag and the free.
#[test]
fn nothing_is_the_programs_once_all_threads_ended() {
    let (heap, [one, two]) = heap();
    let blocks = allocate(&heap, one, 9000, 40);
    free_all(&heap, two, &blocks[..20]);
    heap.detach(one);
    // Adopts slabs of the first, which still has what was freed.
    let more = allocate(&heap, two, 9000, 10);
    free_all(&heap, two, &blocks[20..]);
    free_all(&heap, two, &more);
    heap.detach(two);
    heap.walk(|block| panic!("{block:?}"));
    heap.check().expect("whole");
    heap.purge(true);
    heap.purge(true);
    assert_eq!(heap.census().held, UNIT as u64, "the threads' caches");
}

/// A program that writes to a block after its free is told, and does not fall over: links lead nowhere else.
#[test]
fn a_link_that_was_overwritten_is_told() {
    for damaged in [2, 15, 19] {
        let (heap, [one, two]) = heap();
        let blocks = allocate(&heap, one, 20_000, 20);
        free_all(&heap, two, &blocks);
        let link: *mut usize = std::ptr::with_exposed_provenance_mut(blocks[damaged]);
        // SAFETY: memory of the heap's, which nobody reads or writes meanwhile.
        unsafe { link.write(0x4141_4141_4141_4141) };
        let again = allocate(&heap, one, 20_000, 30);
        assert_eq!(heap.late_misuse().map(|(misuse, _)| misuse), Some(Misuse::Astray), "{damaged}");
        assert_eq!(BTreeSet::from_iter(&again).len(), 30, "nobody's twice");
    }
}
