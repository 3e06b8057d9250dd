//! Core files hold the banks that are in use and no others; a machine is told by few stretches, each a mapping.

use freehold_core::malloc::units::BANK;
use freehold_core::malloc::{Cache, NodeHeap};
use freehold_testkit::failing_machine::FailingMachine;

type Heap = NodeHeap<FailingMachine>;

fn heap(bytes: usize) -> Heap {
    let heap = NodeHeap::new(FailingMachine::with_reservations(bytes));
    heap.set_key(0x0123_4567_89AB_CDEF);
    heap
}

/// Blocks that fill a bank each, in the order of their addresses.
fn take(heap: &Heap, cache: &Cache, count: usize) -> Vec<*mut u8> {
    let mut blocks: Vec<_> = (0..count).map(|_| heap.allocate(cache, BANK)).collect();
    assert!(blocks.iter().all(|block| block.addr().is_multiple_of(BANK) && !block.is_null()));
    blocks.sort();
    blocks
}

fn free(heap: &Heap, cache: &Cache, block: *mut u8) {
    // SAFETY: allocated by the tests, and freed once.
    unsafe { heap.free(cache, block) }.expect("a block");
}

/// Frees the blocks whose place in the row `goes`, has everything purged that is free, and returns the others.
fn thin_out(
    heap: &Heap,
    cache: &Cache,
    blocks: Vec<*mut u8>,
    goes: impl Fn(usize) -> bool,
) -> (Vec<*mut u8>, Vec<*mut u8>) {
    let (gone, kept): (Vec<_>, Vec<_>) = blocks.iter().enumerate().partition(|(at, _)| goes(*at));
    let blocks = |row: Vec<(usize, &*mut u8)>| row.into_iter().map(|(_, block)| *block).collect();
    let (gone, kept): (Vec<_>, Vec<_>) = (blocks(gone), blocks(kept));
    gone.iter().for_each(|block| free(heap, cache, *block));
    heap.purge(true);
    heap.purge(true);
    heap.check().expect("whole");
    (gone, kept)
}

/// Whether the first and the last page of a bank are in core files; both or none.
fn is_dumped(heap: &Heap, block: *mut u8) -> bool {
    let [first, last] =
        [block.addr(), block.addr() + BANK - 1].map(|at| heap.machine().is_dumped(at));
    assert_eq!(first, last);
    first
}

#[test]
fn banks_in_use_are_in_core_files_and_free_ones_are_not() {
    let heap = heap(256 << 20);
    let cache = heap.attach().expect("memory");
    let small = heap.allocate(cache, 100);
    let blocks = take(&heap, cache, 40);
    assert!(heap.machine().is_dumped(small.addr()) && blocks.iter().all(|&b| is_dumped(&heap, b)));
    // A hole of three banks, one of one bank, and all from the 30th on.
    let (gone, kept) = thin_out(&heap, cache, blocks, |at| matches!(at, 5..8 | 20 | 30..));
    assert!(gone.iter().all(|&block| !is_dumped(&heap, block)));
    assert!(kept.iter().all(|&block| is_dumped(&heap, block)));
    let again = take(&heap, cache, 14);
    assert_eq!(again, gone, "the lowest first");
    assert!(again.iter().chain(&kept).all(|&block| is_dumped(&heap, block)));
    heap.check().expect("whole");
    thin_out(&heap, cache, again.into_iter().chain(kept).collect(), |_| true);
    // The small block's bank and the bookkeeping.
    assert!(heap.machine().is_dumped(small.addr()) && heap.machine().dumped_stretches() <= 4);
}

#[test]
fn holes_in_core_files_do_not_multiply() {
    let heap = heap(4 << 30);
    let cache = heap.attach().expect("memory");
    let blocks = take(&heap, cache, 600);
    let whole = heap.machine().dumped_stretches();
    // A heap of more than a GiB: holes of one bank stay in, those of three are left out.
    let (_, kept) = thin_out(&heap, cache, blocks, |at| at % 2 == 1 && at < 400);
    assert_eq!(heap.machine().dumped_stretches(), whole);
    let (gone, kept) = thin_out(&heap, cache, kept, |at| at % 2 == 1 && at < 200);
    assert!(gone.iter().all(|&block| !is_dumped(&heap, block)));
    assert_eq!(heap.machine().dumped_stretches(), whole + 100);
    // Every second bank is taken back: what is left of a hole is too short for one.
    for &block in kept.iter().take(20) {
        let next = heap.allocate_aligned(cache, BANK, 2 * BANK);
        assert!(!next.is_null() && is_dumped(&heap, next) && is_dumped(&heap, block));
        heap.check().expect("whole");
        assert!(heap.machine().dumped_stretches() <= whole + 100);
    }
}
