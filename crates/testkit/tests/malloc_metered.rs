//! Metered caches: exactly so many allocations of a class pass as were paid for, whatever is freed meanwhile.

use freehold_core::malloc::NodeHeap;
use freehold_core::size_class::{SizeClass, class_of};
use freehold_testkit::failing_machine::FailingMachine;
use std::collections::BTreeSet;

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }
}

fn heap() -> NodeHeap<FailingMachine> {
    let heap = NodeHeap::new(FailingMachine::with_reservations(64 << 20));
    heap.set_key(0x0123_4567_89AB_CDEF);
    heap
}

/// A thread that frees what it allocated, and ends.
fn leave_a_stack(heap: &NodeHeap<FailingMachine>, class: SizeClass) {
    let cache = heap.attach().expect("memory");
    let blocks: Vec<_> = (0..5).map(|_| heap.allocate_class(cache, class)).collect();
    for block in blocks {
        // SAFETY: allocated above, and freed once.
        unsafe { heap.free(cache, block) }.expect("a block in use");
    }
    heap.detach(cache);
}

/// Allocates blocks of `size` bytes, and frees one after two in three, until an allocation finds that its stack is
/// empty and nothing is left to pay for another; over and over.
fn count_gaps(size: usize, gaps: &[u32]) {
    let heap = heap();
    let class = class_of(size).expect("a class");
    leave_a_stack(&heap, class);
    let cache = heap.attach().expect("memory");
    assert!(!cache.take_class(class).is_null(), "an earlier thread left a stack");
    cache.meter();
    heap.keep(cache, class, 0);
    let (mut random, mut held, mut live) = (Random(size as u64), Vec::new(), BTreeSet::new());
    for gap in gaps {
        let (mut left, mut passed) = (*gap, 0);
        loop {
            let mut block = cache.take_class(class);
            if block.is_null() {
                if left == 0 {
                    break;
                }
                block = heap.allocate_metered(cache, class, &mut left);
            }
            assert!(!block.is_null() && live.insert(block.addr()), "{block:p} is handed out twice");
            held.push(block);
            passed += 1;
            if random.below(3) != 0 {
                let block = held.swap_remove(random.below(held.len()));
                live.remove(&block.addr());
                // SAFETY: allocated above, and freed once.
                assert!(unsafe { heap.give_metered(cache, block) }, "a block of its own");
            }
        }
        assert_eq!(passed, *gap, "of {size} bytes");
    }
    for block in held {
        // SAFETY: as above.
        unsafe { heap.free(cache, block) }.expect("a block in use");
    }
    heap.detach(cache);
    heap.purge(true);
    heap.check().expect("whole");
}

#[test]
fn an_allocation_that_finds_nothing_is_the_one_after_the_gap() {
    for size in [16, 100, 1000, 5000] {
        count_gaps(size, &[1, 2, 7, 1, 64, 65, 1000, 3, 300]);
    }
}

#[test]
fn misuse_is_no_block_of_its_own() {
    let heap = NodeHeap::new(FailingMachine::with_reservations(64 << 20));
    heap.set_key(0x0123_4567_89AB_CDEF);
    let cache = heap.attach().expect("memory");
    cache.meter();
    let block = heap.allocate(cache, 100);
    let outside = std::ptr::from_ref(&heap).cast_mut().cast::<u8>();
    // SAFETY: of the block nobody knows any more; the other two are refused.
    let freed = [block, block, outside].map(|it| unsafe { heap.give_metered(cache, it) });
    assert_eq!(freed, [true, false, false]);
}

/// A metered cache ends with an empty stack of which nothing was paid for; the next thread is not metered, and frees
/// first: a stack of no block was set aside.
#[test]
fn who_comes_after_a_metered_thread_may_free_first() {
    for size in [16, 48, 1000, 20_000] {
        let heap = heap();
        let cache = heap.attach().expect("memory");
        cache.meter();
        let block = heap.allocate_metered(cache, class_of(size).expect("a class"), &mut 1);
        heap.detach(cache);
        let next = heap.attach().expect("memory");
        // SAFETY: allocated above, and freed once.
        unsafe { heap.free(next, block) }.expect("a block");
        heap.detach(next);
        heap.purge(true);
        heap.check().expect("whole");
    }
}

/// Threads that are metered and such that are not, one after the other, in one cache.
#[test]
fn from_metered_to_not_and_back_nothing_is_lost() {
    let heap = heap();
    for size in [16, 32, 48, 1000] {
        let class = class_of(size).expect("a class");
        let (mut random, mut blocks) = (Random(size as u64), Vec::new());
        for round in 0..20u32 {
            let cache = heap.attach().expect("memory");
            if round % 2 == 0 {
                cache.meter();
                heap.keep(cache, class, 0);
            }
            for n in 0..3000 {
                let mut block = cache.take_class(class);
                if block.is_null() && cache.is_metered() {
                    block = heap.allocate_metered(cache, class, &mut (n % 7 + 1));
                } else if block.is_null() {
                    block = heap.allocate_class(cache, class);
                }
                blocks.push(block);
            }
            assert_eq!(blocks.iter().collect::<BTreeSet<_>>().len(), blocks.len());
            for _ in 0..if round == 19 { blocks.len() } else { blocks.len() * 2 / 3 } {
                let block = blocks.swap_remove(random.below(blocks.len()));
                // SAFETY: allocated above, and freed once.
                unsafe { heap.free(cache, block) }.expect("a block in use");
            }
            heap.detach(cache);
            heap.check().expect("whole");
        }
        heap.purge(true);
        assert_eq!(heap.usage().used.0, 1, "of {size} bytes");
    }
}
