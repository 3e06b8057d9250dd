//! Limits: what counts as held, and what a heap keeps for itself when little is left of its own limit or its container's.

use freehold_core::machine::Machine;
use freehold_core::malloc::{Cache, NodeHeap};
use freehold_testkit::failing_machine::FailingMachine;

const MIB: usize = 1 << 20;
type Heap = NodeHeap<FailingMachine>;

fn heap_on(machine: FailingMachine) -> Heap {
    let heap = NodeHeap::new(machine);
    heap.set_key(0x0123_4567_89AB_CDEF);
    heap
}

fn heap() -> Heap {
    heap_on(FailingMachine::with_reservations(512 * MIB))
}

/// A block all of which is written.
fn filled(heap: &Heap, cache: &Cache, size: usize) -> Option<*mut u8> {
    let block = heap.allocate(cache, size);
    if block.is_null() {
        return None;
    }
    // SAFETY: the block is ours and that long.
    unsafe { block.write_bytes(0xAB, size) };
    Some(block)
}

fn free(heap: &Heap, cache: &Cache, block: *mut u8) {
    // SAFETY: allocated by the tests, and freed once.
    unsafe { heap.free(cache, block) }.expect("a block");
}

fn written(heap: &Heap) -> usize {
    heap.machine().written_pages() * heap.machine().page_size()
}

#[test]
fn a_limit_counts_pages_that_blocks_use() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    heap.set_limit(64 * MIB);
    // The second would have a slab each.
    for size in [100_000, 40_000, 100_000, 36_500, 40_000] {
        let blocks: Vec<_> = core::iter::from_fn(|| filled(&heap, cache, size)).collect();
        let held = blocks.len() * size;
        assert!(held > 62 * MIB, "{held} bytes of 64 MiB, whole pages counted");
        // What is known about them is not counted.
        assert!(written(&heap) <= 64 * MIB + MIB / 4, "{} bytes", written(&heap));
        blocks.into_iter().for_each(|block| free(&heap, cache, block));
    }
    heap.check().expect("whole");
}

#[test]
fn a_limit_counts_the_pages_of_a_block_that_would_have_a_slab_of_its_own() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    heap.set_limit(16 * MIB);
    let small = || heap.allocate(cache, 1000);
    let grown = |block| {
        // SAFETY: the block is this test's.
        unsafe { heap.reallocate(cache, block, 40_000) }.expect("a block")
    };
    let ways: [&dyn Fn() -> *mut u8; 4] = [
        &|| heap.allocate(cache, 40_000),
        &|| heap.allocate_zeroed(cache, 40_000),
        &|| heap.allocate_aligned(cache, 40_000, 4096),
        &|| grown(small()),
    ];
    for (way, take) in ways.iter().enumerate() {
        // A slab each would be 25 MiB.
        let blocks: Vec<_> = (0..380).map(|_| take()).collect();
        assert!(blocks.iter().all(|block| !block.is_null()), "{way}");
        assert!(blocks.iter().all(|&block| heap.usable_size(block) == Ok(40_960)), "{way}");
        // It moves when it shrinks to less than half.
        let last = blocks.iter().map(|&block| {
            // SAFETY: the block is this test's.
            unsafe { heap.reallocate(cache, block, 10_000) }.expect("a block")
        });
        last.for_each(|block| free(&heap, cache, block));
        heap.check().expect("whole");
    }
}

/// A large block of no bytes counts as freed.
#[test]
fn a_block_of_no_bytes_between_long_boundaries_is_a_block_under_a_limit_too() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    heap.set_limit(16 * MIB);
    for size in [0, 1, 40_000] {
        let block = heap.allocate_aligned(cache, size, MIB);
        assert!(!block.is_null() && block.addr().is_multiple_of(MIB));
        assert_eq!(heap.usable_size(block), Ok(size.max(1).next_multiple_of(4096)));
        free(&heap, cache, block);
    }
}

/// Blocks grew where they lay, whatever the limit.
#[test]
fn a_block_does_not_grow_beyond_the_limit() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    heap.set_limit(8 * MIB);
    let block = heap.allocate(cache, MIB);
    // SAFETY: the block is ours; it stays where it was when it cannot grow.
    let grown = unsafe { heap.reallocate(cache, block, 30 * MIB) }.expect("a block");
    assert!(grown.is_null());
    // SAFETY: as above.
    let grown = unsafe { heap.reallocate(cache, block, 6 * MIB) }.expect("a block");
    assert!(!grown.is_null());
    free(&heap, cache, grown);
    assert!(!heap.allocate(cache, 7 * MIB).is_null());
    heap.check().expect("whole");
}

/// A service that has sessions, loses most of them, has reports instead, and so again; the most pages that were written.
fn serve(heap: &Heap, bytes: usize) -> usize {
    let cache = heap.attach().expect("memory");
    let mut sessions: Vec<Option<*mut u8>> = vec![None; bytes / 200];
    let mut most = 0;
    for time in 0..3 {
        for session in sessions.iter_mut().filter(|session| session.is_none()) {
            *session = filled(heap, cache, 200);
        }
        most = most.max(written(heap));
        for (at, session) in sessions.iter_mut().enumerate() {
            if at / 16 % 8 != time {
                session.take().into_iter().for_each(|block| free(heap, cache, block));
            }
        }
        let reports: Vec<_> = (0..bytes / 100_000).map(|_| filled(heap, cache, 100_000)).collect();
        most = most.max(written(heap));
        reports.into_iter().flatten().for_each(|block| free(heap, cache, block));
    }
    sessions.into_iter().flatten().for_each(|block| free(heap, cache, block));
    heap.check().expect("whole");
    most
}

#[test]
fn in_a_container_what_is_free_goes_back_before_the_limit() {
    let machine = || FailingMachine::with_reservations(512 * MIB).with_limit(50 * MIB);
    let (keeps, follows) = (heap_on(machine()), heap_on(machine()));
    follows.follow_machine();
    let (kept, followed) = (serve(&keeps, 30 * MIB), serve(&follows, 30 * MIB));
    assert!(kept > 50 * MIB, "{kept} bytes: no test without need");
    assert!(followed <= 50 * MIB, "{followed} bytes");
}

#[test]
fn near_a_limit_of_its_own_it_keeps_little() {
    let heap = heap();
    heap.set_limit(50 * MIB);
    let cache = heap.attach().expect("memory");
    let blocks: Vec<_> = (0..44 * MIB / 200_000).map(|_| filled(&heap, cache, 200_000)).collect();
    blocks.into_iter().flatten().for_each(|block| free(&heap, cache, block));
    assert!(written(&heap) <= 8 * MIB, "{} bytes", written(&heap));
    heap.check().expect("whole");
}

#[test]
fn the_end_of_a_block_that_became_shorter_is_neither_counted_nor_held() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    heap.set_limit(64 * MIB);
    let blocks: Vec<_> = core::iter::from_fn(|| {
        let block = filled(&heap, cache, 128 << 10)?;
        // SAFETY: the block is ours.
        let block = unsafe { heap.reallocate(cache, block, 66 << 10) }.expect("a block");
        Some(block)
    })
    .collect();
    assert!(blocks.len() * (66 << 10) > 60 * MIB);
    assert!(written(&heap) <= 64 * MIB + MIB / 4, "{} bytes", written(&heap));
    blocks.into_iter().for_each(|block| free(&heap, cache, block));
    heap.check().expect("whole");
}
