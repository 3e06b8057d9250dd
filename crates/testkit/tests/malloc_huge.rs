//! Huge pages are asked for where banks are going to be full, nowhere else, and no longer once a part is given back.

use freehold_core::malloc::units::{BANK, UNIT};
use freehold_core::malloc::{Cache, NodeHeap};
use freehold_core::size_class::{CLASSES, SizeClass};
use freehold_testkit::failing_machine::FailingMachine;

const MIB: usize = 1 << 20;

fn heap() -> NodeHeap<FailingMachine> {
    let heap = NodeHeap::new(FailingMachine::with_reservations(512 * MIB));
    heap.set_key(0x0123_4567_89AB_CDEF);
    heap
}

fn allocate(heap: &NodeHeap<FailingMachine>, cache: &Cache, size: usize) -> *mut u8 {
    let block = heap.allocate(cache, size);
    assert!(!block.is_null());
    block
}

/// Of each block, in order: whether its first bank is advised.
fn advised(
    heap: &NodeHeap<FailingMachine>,
    cache: &Cache,
    sizes: impl Iterator<Item = usize>,
) -> Vec<bool> {
    let blocks: Vec<_> = sizes.map(|size| allocate(heap, cache, size).addr()).collect();
    blocks.into_iter().map(|block| heap.machine().is_huge(block)).collect()
}

#[test]
fn whole_banks_of_blocks_from_8_mib_in_use() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let found = advised(&heap, cache, [2; 6].into_iter().map(|mib| mib * MIB));
    assert_eq!(found, [false, false, false, true, true, true]);
}

#[test]
fn not_the_last_bank_of_a_block_before_32_mib_are_in_use() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let ends = |size: usize| {
        let block = allocate(&heap, cache, size).addr();
        [block, block + size - 1].map(|address| heap.machine().is_huge(address))
    };
    assert_eq!(ends(11 * MIB), [true, false]);
    assert_eq!(ends(23 * MIB), [true, true]);
    assert_eq!(ends(65 * MIB), [false, false], "as long as that, a table perhaps");
}

#[test]
fn banks_of_a_thread_that_fills_its_slabs_from_12_mib_in_use() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let found = advised(&heap, cache, std::iter::repeat_n(1000, 20 * MIB / 1024));
    let first = found.iter().position(|huge| *huge).expect("some");
    assert!((11 * MIB..15 * MIB).contains(&(first * 1024)), "{first}");
    assert!(found[first..].iter().all(|huge| *huge));
}

#[test]
fn banks_of_a_thread_with_a_slab_of_each_class_while_half_of_what_is_in_use_is_its_slabs() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    SizeClass::all().for_each(|class| _ = allocate(&heap, cache, class.size()));
    // Half as many again, so less than two of a class.
    let slabs = CLASSES + CLASSES / 2;
    (0..CLASSES).for_each(|_| _ = allocate(&heap, cache, 32 * 1024));
    let mut banks: Vec<(usize, usize, bool)> = Vec::new();
    while heap.usage().used < 30 * MIB / UNIT {
        let block = allocate(&heap, cache, UNIT).addr();
        if banks.last().is_none_or(|(bank, ..)| *bank != block / BANK) {
            banks.push((block / BANK, heap.usage().used, heap.machine().is_huge(block)));
        }
    }
    // The first bank was opened by a slab.
    for (_, used, huge) in &banks[1..] {
        assert_eq!(*huge, (12 * MIB / UNIT..=2 * slabs).contains(used), "{banks:?}");
    }
    assert_eq!(banks.iter().filter(|(_, _, huge)| *huge).count(), 1, "{banks:?}");
}

#[test]
fn no_bank_of_threads_that_fill_no_slab_before_32_mib_are_in_use() {
    let heap = heap();
    let mut last = 0;
    // Each cuts a slab for every class of more than 1 KiB: 40 units.
    for thread in 0..16 {
        let cache = heap.attach().expect("memory");
        let sizes = (0..40).map(|step| (1024 + 128 * (step % 8)) << (step / 8));
        let found = advised(&heap, cache, sizes.map(|size| size.min(32 * 1024)));
        let used = heap.usage().used * UNIT;
        assert!(used >= 32 * MIB || found.iter().all(|huge| !huge), "{thread} at {used}");
        last = found.iter().filter(|huge| **huge).count();
    }
    assert!(last > 0, "beyond 32 MiB a bank more or less does not matter");
}

#[test]
fn no_bank_of_many_threads_with_a_slab_each() {
    let heap = heap();
    for _ in 0..1000 {
        let cache = heap.attach().expect("memory");
        assert_eq!(advised(&heap, cache, [100].into_iter()), [false]);
    }
    assert!(heap.usage().used * UNIT >= 60 * MIB);
}

#[test]
fn the_advice_ends_where_a_part_of_a_bank_is_given_back() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    allocate(&heap, cache, 30 * MIB);
    // The rest of the bank that the cache itself lies in.
    allocate(&heap, cache, BANK - UNIT);
    let block = allocate(&heap, cache, 2 * BANK);
    let half = allocate(&heap, cache, BANK / 2);
    assert!(heap.machine().is_huge(block.addr()) && heap.machine().is_huge(half.addr()));
    // Beside `half` in its bank, which stays in use.
    let beside = allocate(&heap, cache, BANK / 4);
    assert_eq!(beside.addr() / BANK, half.addr() / BANK);
    for free in [block, beside] {
        // SAFETY: allocated above, and freed once.
        unsafe { heap.free(cache, free) }.expect("a block");
    }
    heap.purge(true);
    assert!(!heap.machine().is_huge(half.addr()), "split, so that its part is free at once");
    assert!(heap.machine().is_huge(block.addr()), "wholly free: nothing was to be split");
}
