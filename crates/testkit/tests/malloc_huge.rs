//! Huge pages are asked for where banks are going to be full, nowhere else, and no longer once a part is given back.

use freehold_core::malloc::units::BANK;
use freehold_core::malloc::{Cache, NodeHeap};
use freehold_core::size_class::SizeClass;
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

/// Allocates until a slab has opened a bank that is advised: a block of that slab.
fn open_huge(heap: &NodeHeap<FailingMachine>, cache: &Cache) -> *mut u8 {
    let mut blocks = std::iter::repeat_with(|| allocate(heap, cache, 1000)).take(100 * MIB / 1000);
    blocks.find(|block| heap.machine().is_huge(block.addr())).expect("some")
}

#[test]
fn banks_of_a_thread_that_fills_its_slabs_from_64_mib_in_use() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let found = advised(&heap, cache, std::iter::repeat_n(1000, 80 * MIB / 1024));
    let first = found.iter().position(|huge| *huge).expect("some");
    assert!((63 * MIB..67 * MIB).contains(&(first * 1024)), "{first}");
    assert!(found[first..].iter().all(|huge| *huge));
}

#[test]
fn no_bank_of_a_block_that_may_be_a_table() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    open_huge(&heap, cache);
    assert_eq!(advised(&heap, cache, [2 * MIB, 30 * MIB, 70 * MIB].into_iter()), [false; 3]);
}

#[test]
fn no_bank_of_threads_that_fill_no_slab() {
    let heap = heap();
    // Each cuts a slab for every class of which threads share none, however many they are.
    for _ in 0..180 {
        let cache = heap.attach().expect("memory");
        let sizes = SizeClass::all().map(SizeClass::size).take_while(|&size| size < 128);
        assert!(advised(&heap, cache, sizes).iter().all(|huge| !huge));
    }
    assert!(heap.usage().used.bytes() >= 70 * MIB, "{:?}", heap.usage());
}

#[test]
fn no_bank_of_many_threads_with_a_slab_each() {
    let heap = heap();
    for _ in 0..1200 {
        let cache = heap.attach().expect("memory");
        assert_eq!(advised(&heap, cache, [100].into_iter()), [false]);
    }
    assert!(heap.usage().used.bytes() >= 70 * MIB, "{:?}", heap.usage());
}

#[test]
fn the_advice_ends_where_a_part_of_a_bank_is_given_back() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let first = open_huge(&heap, cache);
    // Beside the slab in its bank, where one of them stays in use.
    let [half, quarter] = [2, 4].map(|part| allocate(&heap, cache, BANK / part));
    assert!([half, quarter].iter().all(|block| block.addr() / BANK == first.addr() / BANK));
    // SAFETY: allocated above, and freed once.
    unsafe { heap.free(cache, quarter) }.expect("a block");
    heap.purge(true);
    assert!(!heap.machine().is_huge(half.addr()), "split, so that its part is free at once");
}

/// As above, and there is no slab in the bank any more, of which pages could be given back.
#[test]
fn the_advice_ends_where_only_runs_of_a_bank_are_given_back() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let first = open_huge(&heap, cache);
    let half = allocate(&heap, cache, BANK / 2);
    assert_eq!(half.addr() / BANK, first.addr() / BANK);
    // SAFETY: allocated above, and freed once.
    unsafe { heap.free(cache, first) }.expect("a block");
    heap.give_all(cache);
    assert!(heap.machine().is_huge(half.addr()), "nothing was given back yet");
    heap.purge(true);
    assert!(!heap.machine().is_huge(half.addr()), "split, so that its part is free at once");
}
