//! A slab of which pages were given back is fast again once it is used, and a block freed twice is told all the while.

use freehold_core::malloc::{Cache, Freed, Misuse, NodeHeap};
use freehold_core::size_class::{SizeClass, class_of};
use freehold_testkit::failing_machine::FailingMachine;

const UNIT: usize = 64 << 10;
/// Careful frees for a page, and pages of a slab: see `core/malloc/sparse`.
const WORTH_A_SLAB: usize = 256 * 16;

fn heap() -> NodeHeap<FailingMachine> {
    let heap = NodeHeap::new(FailingMachine::with_reservations(64 << 20));
    heap.set_key(0x0123_4567_89AB_CDEF);
    heap
}

fn class(size: usize) -> SizeClass {
    class_of(size).expect("a class")
}

/// Fills a slab and a little of the next with blocks of `size` bytes, frees all but the first of each, and rests until
/// everything that can be given back is. The freed ones.
fn idle(heap: &NodeHeap<FailingMachine>, cache: &Cache, size: usize) -> Vec<*mut u8> {
    let blocks: Vec<_> = (0..UNIT / size + 4).map(|_| heap.allocate(cache, size)).collect();
    let (mut freed, mut seen) = (Vec::new(), Vec::new());
    for block in blocks {
        assert!(!block.is_null());
        if !seen.contains(&(block.addr() / UNIT)) {
            seen.push(block.addr() / UNIT);
            continue;
        }
        // SAFETY: allocated above, and freed once.
        unsafe { heap.free(cache, block) }.expect("a block");
        freed.push(block);
    }
    heap.purge(true);
    freed
}

/// Allocates and frees a block so many times; how often the hot path did not do.
fn slow_frees(heap: &NodeHeap<FailingMachine>, cache: &Cache, size: usize, pairs: usize) -> usize {
    let mut slow = 0;
    for _ in 0..pairs {
        let block = heap.allocate_class(cache, class(size));
        assert!(!block.is_null());
        // SAFETY: allocated above, and freed once.
        match unsafe { cache.give(block) } {
            Freed::Done => {}
            Freed::Full(class) => heap.overflow(cache, class),
            Freed::Slow => {
                slow += 1;
                // SAFETY: as above.
                unsafe { heap.free_slow(cache, block) }.expect("a block");
            }
        }
    }
    slow
}

#[test]
fn frees_are_hot_again_after_an_idle_time() {
    for size in [16, 64, 112, 1000, 5000, 20_000] {
        let heap = heap();
        let cache = heap.attach().expect("memory");
        idle(&heap, cache, size);
        let first = slow_frees(&heap, cache, size, WORTH_A_SLAB);
        assert_eq!(slow_frees(&heap, cache, size, 10_000), 0, "of {size}, after {first}");
        heap.check().expect("whole");
    }
}

#[test]
fn a_slab_that_is_used_is_not_given_back_again_while_it_stays_as_it_is() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    idle(&heap, cache, 64);
    slow_frees(&heap, cache, 64, WORTH_A_SLAB);
    for round in 0..10 {
        assert_eq!(slow_frees(&heap, cache, 64, 1000), 0, "in round {round}");
        let given = heap.purge(false).bytes;
        assert!(given == 0 || round < 3, "{given} in round {round}");
        if given != 0 {
            slow_frees(&heap, cache, 64, WORTH_A_SLAB);
        }
    }
}

/// Pages of the slab of `block` that were written to since they were given back.
fn written(block: *mut u8) -> usize {
    let base = block.map_addr(|at| at & !(UNIT - 1));
    let page = |at: usize| {
        // SAFETY: the unit of a block is memory of the heap, all of it, and no other thread exists.
        unsafe { std::slice::from_raw_parts(base.wrapping_add(at), 4096) }
    };
    (0..UNIT).step_by(4096).filter(|at| page(*at).iter().any(|byte| *byte != 0)).count()
}

/// Pages in which no block was ever taken need no marks. They came into memory for marks alone, so a program with many slabs
/// and few blocks in each held more memory for having a purger.
#[test]
fn pages_that_no_block_was_taken_from_stay_out_of_memory() {
    for size in [16, 64, 112, 1000, 5000] {
        let heap = heap();
        let cache = heap.attach().expect("memory");
        // Keeps the slab.
        let block = heap.allocate(cache, size);
        slow_frees(&heap, cache, size, 10_000);
        let before = written(block);
        for round in 0..3 {
            heap.purge(true);
            slow_frees(&heap, cache, size, 10_000);
            assert_eq!(written(block), before, "pages for blocks of {size}, round {round}");
            assert_eq!(slow_frees(&heap, cache, size, 1000), 0, "of {size}, round {round}");
        }
        heap.check().expect("whole");
    }
}

#[test]
fn what_is_little_used_stays_given_back() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    idle(&heap, cache, 64);
    let block = heap.allocate(cache, 64);
    // SAFETY: allocated above, and freed once.
    unsafe { heap.free(cache, block) }.expect("a block");
    let before = written(block);
    slow_frees(&heap, cache, 64, 200);
    assert_eq!(written(block), before);
    slow_frees(&heap, cache, 64, 256);
    assert!(written(block) <= before + 2, "{} pages, before {before}", written(block));
}

#[test]
fn blocks_freed_twice_are_told_before_while_and_after_marks_come_back() {
    for size in [16, 64, 112, 1000, 5000] {
        let heap = heap();
        let cache = heap.attach().expect("memory");
        let freed = idle(&heap, cache, size);
        for step in 0..20 {
            // Taken, so that their pages are in memory again, and given back.
            let taken: Vec<_> = (0..5).map(|_| heap.allocate_class(cache, class(size))).collect();
            for block in freed.iter().filter(|block| !taken.contains(block)) {
                // SAFETY: nobody has the block.
                let told = unsafe { heap.free(cache, *block) };
                assert_eq!(told, Err(Misuse::DoubleFree), "{block:p} of {size} in step {step}");
            }
            for block in taken {
                // SAFETY: allocated above, and freed once.
                unsafe { heap.free(cache, block) }.expect("a block");
            }
            slow_frees(&heap, cache, size, 300);
        }
        slow_frees(&heap, cache, size, 2 * WORTH_A_SLAB);
        assert_eq!(slow_frees(&heap, cache, size, 1000), 0, "of {size}");
    }
}
