//! Slabs that threads share: of which classes, from how many threads on, and what becomes of their blocks.

use freehold_core::malloc::{Cache, NodeHeap};
use freehold_testkit::failing_machine::FailingMachine;

fn heap() -> NodeHeap<FailingMachine> {
    let heap = NodeHeap::new(FailingMachine::with_reservations(512 << 20));
    heap.set_key(0x0123_4567_89AB_CDEF);
    heap
}

fn threads(heap: &NodeHeap<FailingMachine>, len: usize) -> Vec<&Cache> {
    (0..len).map(|_| heap.attach().expect("memory")).collect()
}

fn allocate(heap: &NodeHeap<FailingMachine>, cache: &Cache, size: usize) -> *mut u8 {
    let block = heap.allocate(cache, size);
    assert!(!block.is_null());
    // SAFETY: the block is ours and that long.
    unsafe { block.write_bytes(0xAB, size) };
    block
}

fn free(heap: &NodeHeap<FailingMachine>, cache: &Cache, block: *mut u8) {
    // SAFETY: allocated by the tests, and freed once.
    unsafe { heap.free(cache, block) }.expect("a block");
}

/// How many units more are in use after each thread took a block of `size`.
fn units(threads_len: usize, size: usize) -> usize {
    let heap = heap();
    let caches = threads(&heap, threads_len);
    let before = heap.usage().used.0;
    caches.iter().for_each(|cache| _ = allocate(&heap, cache, size));
    heap.check().expect("whole");
    heap.usage().used.0 - before
}

#[test]
fn eight_threads_share_slabs_of_blocks_from_1_kib_and_more_threads_of_shorter_ones() {
    assert_eq!((units(7, 1024), units(8, 1024), units(15, 1024)), (7, 1, 1));
    assert_eq!((units(17, 1024), units(60, 1024)), (2, 4), "sixteen share one, so few wait");
    assert_eq!((units(7, 32 << 10), units(8, 32 << 10)), (7, 4));
    assert_eq!((units(31, 512), units(32, 512)), (31, 3));
    assert_eq!((units(63, 256), units(64, 256)), (63, 5));
    assert_eq!((units(8, 960), units(100, 112)), (8, 100), "smaller ones are every thread's own");
}

/// How many blocks of `size` one of `threads_len` threads has in its stack after it freed `len`.
fn at_hand(threads_len: usize, size: usize, len: usize) -> u64 {
    let heap = heap();
    let cache = threads(&heap, threads_len)[0];
    let blocks: Vec<_> = (0..len).map(|_| allocate(&heap, cache, size)).collect();
    blocks.into_iter().for_each(|block| free(&heap, cache, block));
    // The purger takes what was set aside.
    (0..4).for_each(|_| _ = heap.purge(true));
    heap.check().expect("whole");
    heap.census().cached() / size as u64
}

#[test]
fn a_stack_holds_four_long_blocks_and_one_of_those_that_threads_share() {
    // The last refill took a block more than the program, but of a slab of one block.
    for (size, rest) in [(16 << 10, 2), (64 << 10, 1)] {
        assert_eq!([4, 5, 8, 9].map(|len| at_hand(1, size, len)), [4, rest, 4, rest]);
        assert_eq!([4, 5, 8, 9].map(|len| at_hand(8, size, len)), [1; 4]);
    }
}

#[test]
fn full_stacks_of_blocks_that_threads_share_hold_512_kib_together() {
    // What was taken comes back, and with these batches that is an odd number: one less than a full stack.
    let fullest = |threads_len| (8..28).map(|len| at_hand(threads_len, 1024, len)).max();
    assert_eq!([7, 32, 64, 128].map(fullest), [15, 15, 7, 3].map(Some));
}

#[test]
fn from_the_second_refill_on_two_long_blocks_are_taken_and_one_of_those_that_threads_share() {
    let waiting = |threads_len, size, len| {
        let heap = heap();
        let cache = threads(&heap, threads_len)[0];
        (0..len).for_each(|_| _ = allocate(&heap, cache, size));
        heap.census().cached() / size as u64
    };
    // One, two, the last of a slab of four, two of the next.
    assert_eq!([1, 2, 3, 4, 5].map(|len| waiting(1, 16 << 10, len)), [0, 1, 0, 0, 1]);
    assert_eq!([1, 2, 3, 4, 5].map(|len| waiting(8, 16 << 10, len)), [0; 5]);
}

/// Bytes that one of `threads_len` threads keeps of 3 MiB of blocks of `size` that it freed.
fn kept(threads_len: usize, size: usize) -> u64 {
    let heap = heap();
    let cache = threads(&heap, threads_len)[0];
    let blocks: Vec<_> = (0..(3 << 20) / size).map(|_| allocate(&heap, cache, size)).collect();
    blocks.into_iter().for_each(|block| free(&heap, cache, block));
    heap.check().expect("whole");
    heap.census().cached()
}

#[test]
fn of_blocks_that_are_its_own_a_thread_keeps_as_much_as_a_thread_alone() {
    assert_eq!([1, 2, 8, 128].map(|threads| kept(threads, 112) >> 20), [3; 4], "all");
    let quarters = |threads, size| kept(threads, size) >> 18;
    assert_eq!((quarters(31, 512), quarters(32, 512)), (12, 0), "32 threads share slabs of these");
    assert_eq!((quarters(7, 2048), quarters(8, 2048)), (12, 2));
}

#[test]
fn who_frees_a_shared_block_uses_it_next_and_keeps_its_part() {
    let heap = heap();
    let caches = threads(&heap, 8);
    let (here, there) = (caches[0], caches[1]);
    let block = allocate(&heap, here, 2000);
    free(&heap, there, block);
    assert_eq!(allocate(&heap, there, 2000), block);
    // SAFETY: misuse, on purpose: the heap says so and changes nothing.
    unsafe {
        free(&heap, there, block);
        heap.free(here, block).expect_err("freed by another thread");
        heap.free(there, block).expect_err("freed by this thread");
        heap.free(here, block.add(16)).expect_err("not a block");
    }
    let blocks: Vec<_> = (0..2000).map(|_| allocate(&heap, here, 1024)).collect();
    blocks.into_iter().for_each(|block| free(&heap, there, block));
    let cached = heap.census().cached();
    // A stack, the one being filled, and an eighth of what all reserves hold.
    assert!(cached <= (32 << 10) + (4 << 20) / 8, "{cached} bytes wait with the threads");
    heap.check().expect("whole");
}

#[test]
fn what_threads_shared_goes_back_when_it_is_free() {
    let heap = heap();
    let caches = threads(&heap, 8);
    let before = heap.usage().used.0;
    let blocks: Vec<_> = (0..4000).map(|at| allocate(&heap, caches[at % 8], 3000)).collect();
    assert!(heap.usage().used.0 > before + 100);
    blocks.into_iter().enumerate().for_each(|(at, block)| free(&heap, caches[(at + 3) % 8], block));
    caches.into_iter().for_each(|cache| heap.detach(cache));
    for _ in 0..4 {
        heap.purge(true);
    }
    assert!(heap.usage().used.0 <= before + 1, "{:?}", heap.usage());
    heap.check().expect("whole");
}

#[test]
fn a_forked_child_has_all_shared_blocks() {
    let heap = heap();
    let caches = threads(&heap, 8);
    let blocks: Vec<_> = (0..400).map(|at| allocate(&heap, caches[at % 8], 1500)).collect();
    let (goes, stays) = blocks.split_at(200);
    goes.iter().for_each(|&block| free(&heap, caches[2], block));
    heap.after_fork_in_child(|cache| std::ptr::eq(cache, caches[0]));
    heap.check().expect("whole");
    let census = heap.census();
    assert_eq!(census.blocks(), 200);
    stays.iter().for_each(|&block| free(&heap, caches[0], block));
    heap.give_all(caches[0]);
    assert_eq!(heap.census().blocks(), 0);
    heap.check().expect("whole");
}

#[test]
fn the_census_counts_what_threads_have() {
    let heap = heap();
    let caches = threads(&heap, 8);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |end: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as usize % end
    };
    let mut live: Vec<(*mut u8, usize)> = Vec::new();
    for step in 0..20_000 {
        let cache = caches[below(8)];
        if live.len() > 500 || (!live.is_empty() && below(100) < 48) {
            let (block, _) = live.swap_remove(below(live.len()));
            free(&heap, cache, block);
        } else {
            let size = if below(3) == 0 { below(32 << 10) } else { below(2000) } + 1;
            live.push((allocate(&heap, cache, size), size));
        }
        if step % 100 == 0 {
            assert_eq!(heap.census().blocks(), live.len() as u64, "step {step}");
        }
    }
    heap.check().expect("whole");
}

#[test]
fn blocks_that_many_threads_shared_are_used_by_the_few_that_stay() {
    let heap = heap();
    let caches = threads(&heap, 8);
    let blocks: Vec<_> = (0..8000).map(|at| allocate(&heap, caches[at % 8], 3000)).collect();
    let full = heap.usage().used.0;
    caches[1..].iter().for_each(|cache| heap.detach(cache));
    // One of each slab stays.
    let (stays, goes): (Vec<_>, Vec<_>) =
        blocks.into_iter().enumerate().partition(|it| it.0 % 16 == 0);
    goes.iter().for_each(|&(_, block)| free(&heap, caches[0], block));
    goes.iter().for_each(|_| _ = allocate(&heap, caches[0], 3000));
    assert!(heap.usage().used.0 <= full + full / 16, "{full}, then {:?}", heap.usage());
    assert_eq!(heap.census().blocks(), (stays.len() + goes.len()) as u64);
    heap.check().expect("whole");
}

#[test]
fn a_request_is_refused_only_when_no_idle_thread_keeps_a_shared_block() {
    let heap = heap();
    let caches = threads(&heap, 10);
    let block = allocate(&heap, caches[5], 9000);
    heap.set_limit(heap.usage().used.bytes());
    while !heap.allocate(caches[0], 9000).is_null() {}
    free(&heap, caches[5], block);
    heap.detach(caches[5]);
    assert_eq!(heap.allocate(caches[0], 9000), block);
    heap.check().expect("whole");
}
