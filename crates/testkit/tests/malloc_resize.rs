//! What a block that grows costs: how often it moves, and how much longer than asked for it is.

use freehold_core::malloc::NodeHeap;
use freehold_testkit::failing_machine::FailingMachine;

/// The lengths to which a block came by `steps`, each time it moved, and how long it is in the end.
fn moves(steps: impl Iterator<Item = usize>) -> (Vec<usize>, usize) {
    let heap = NodeHeap::new(FailingMachine::with_reservations(64 << 20));
    heap.set_key(0x0123_4567_89AB_CDEF);
    let cache = heap.attach().expect("a cache");
    let (mut block, mut moved) = (heap.allocate(cache, 1), Vec::new());
    for size in steps {
        // SAFETY: the block is the one that the last step left.
        let new = unsafe { heap.reallocate(cache, block, size) }.expect("a block");
        assert!(!new.is_null());
        if new != block {
            moved.push(size);
        }
        block = new;
    }
    let have = heap.usable_size(block).expect("a block");
    // SAFETY: as above, and freed once.
    unsafe { heap.free(cache, block) }.expect("a block");
    (moved, have)
}

#[test]
fn a_block_that_creeps_moves_with_every_third_class_and_is_not_half_as_long_again() {
    let (moved, have) = moves((16..=4096).step_by(16));
    // 47 classes lie in between.
    let expected = [32, 48, 64, 80, 128, 192, 272, 400, 592, 848, 1168, 1680, 2320, 3344];
    assert_eq!((moved, have), (expected.to_vec(), 4608));
}

#[test]
fn a_block_that_doubles_gets_what_it_asks_for() {
    for shift in 4..15 {
        assert_eq!(moves((4..=shift).map(|shift| 1 << shift)).1, 1 << shift);
    }
}
