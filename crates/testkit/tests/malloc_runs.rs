//! Runs of large blocks that one of several threads sets aside.

use freehold_core::malloc::units::{UNIT, UnitCount};
use freehold_core::malloc::{Cache, Misuse, NodeHeap};
use freehold_testkit::failing_machine::FailingMachine;

const MIB: usize = 1 << 20;
const SIZE: usize = 2 * UNIT;

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

fn free(heap: &NodeHeap<FailingMachine>, cache: &Cache, block: *mut u8) {
    // SAFETY: allocated by the tests, and freed once.
    unsafe { heap.free(cache, block) }.expect("a block");
}

fn used(heap: &NodeHeap<FailingMachine>) -> UnitCount {
    heap.usage().used
}

#[test]
fn a_run_comes_back_to_the_thread_that_freed_it_and_to_no_other() {
    let (heap, [one, two]) = heap();
    let block = heap.allocate(one, SIZE);
    // SAFETY: ours, and that long.
    unsafe { block.write_bytes(0xAB, SIZE) };
    let before = used(&heap);
    free(&heap, one, block);
    assert_eq!(used(&heap), before, "it is no free unit");
    let others = heap.allocate(two, SIZE);
    assert_ne!(others, block);
    assert_ne!(heap.allocate(one, SIZE + 1), block, "it is too short");
    assert_eq!(heap.allocate(one, SIZE - UNIT / 2), block);
    assert_eq!(heap.usable_size(block), Ok(SIZE - UNIT / 2));
    heap.check().expect("whole");
}

#[test]
fn a_run_that_is_set_aside_is_no_block() {
    let (heap, [one, two]) = heap();
    let block = heap.allocate(one, SIZE);
    assert_eq!(heap.census().large_blocks, 1);
    free(&heap, one, block);
    let census = heap.census();
    assert_eq!((census.large_blocks, census.large_bytes, census.dirty), (0, 0, SIZE as u64));
    assert_eq!(heap.usable_size(block), Err(Misuse::DoubleFree));
    assert_eq!(heap.examine(block), Err(Misuse::DoubleFree));
    for cache in [one, two] {
        // SAFETY: nobody uses the block.
        assert_eq!(unsafe { heap.free(cache, block) }, Err(Misuse::DoubleFree));
    }
    heap.detach(one);
    heap.detach(two);
    heap.walk(|block| panic!("{block:?}"));
}

#[test]
fn what_is_zero_is_what_calloc_says_is_zero() {
    let (heap, [one, _]) = heap();
    let block = heap.allocate(one, SIZE);
    // SAFETY: ours, and that long.
    unsafe { block.write_bytes(0xAB, SIZE) };
    free(&heap, one, block);
    let zeroed = heap.allocate_zeroed(one, SIZE);
    assert_eq!(zeroed, block);
    // SAFETY: as above.
    assert!((0..SIZE).all(|at| unsafe { zeroed.add(at).read() } == 0));
}

/// The purger takes all of them in each round; and a thread that cuts a slab takes its unit from a run.
#[test]
fn runs_become_free_units() {
    let (heap, [one, _]) = heap();
    let at_first = used(&heap);
    let block = heap.allocate(one, SIZE);
    free(&heap, one, block);
    heap.purge(false);
    assert_eq!((used(&heap), heap.usage().dirty), (at_first, UnitCount(2)));
    let block = heap.allocate(one, SIZE);
    free(&heap, one, block);
    let small = heap.allocate(one, 64);
    assert_eq!(small.addr() & !(UNIT - 1), block.addr(), "in what is resident");
    assert_eq!(used(&heap), at_first + UnitCount::ONE);
}

/// What the purger took is not counted any more, whoever counted it meanwhile.
#[test]
fn a_thread_sets_a_mib_aside_again_and_again() {
    let (heap, [one, _]) = heap();
    for _ in 0..100 {
        let blocks: Vec<_> = (0..20).map(|_| heap.allocate(one, SIZE)).collect();
        let all = used(&heap);
        blocks.into_iter().for_each(|block| free(&heap, one, block));
        let kept = used(&heap).beyond(all - UnitCount::holding(20 * SIZE));
        assert_eq!(kept, UnitCount::whole_in(MIB));
        heap.purge(false);
    }
}

#[test]
fn a_thread_alone_and_a_heap_with_a_limit_set_nothing_aside() {
    let (heap, [one, two]) = heap();
    heap.detach(two);
    let block = heap.allocate(one, SIZE);
    let before = used(&heap);
    free(&heap, one, block);
    assert_eq!(used(&heap) + UnitCount(2), before);
    let limited = NodeHeap::new(FailingMachine::with_reservations(256 * MIB));
    limited.set_limit(64 * MIB);
    let [one, _two] = [limited.attach(), limited.attach()].map(|cache| cache.expect("memory"));
    let block = limited.allocate(one, SIZE);
    let before = used(&limited);
    free(&limited, one, block);
    assert_eq!(used(&limited) + UnitCount(2), before);
}

/// What an idle thread has set aside serves the others before they are refused.
#[test]
fn runs_of_ended_threads_go_back_when_memory_is_short() {
    let (heap, [one, two]) = heap();
    let blocks: Vec<_> = (0..8).map(|_| heap.allocate(two, SIZE)).collect();
    blocks.into_iter().for_each(|block| free(&heap, two, block));
    heap.detach(two);
    let before = used(&heap);
    // More than the machine has.
    assert!(heap.allocate(one, 1 << 40).is_null());
    assert_eq!(used(&heap) + UnitCount::whole_in(MIB), before);
}
