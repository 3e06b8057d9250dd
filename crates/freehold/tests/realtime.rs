//! `RealTimeHeap`: blocks that are owned, threads that give back, memory that will not do; the example.

use freehold::realtime::{
    Align, Block, Misuse, Pages, RealTimeHeap, ReserveError, StrictHeap, Unfit,
};
use std::mem::MaybeUninit;

#[path = "../examples/periodic.rs"]
#[allow(dead_code, reason = "an example's main")]
mod periodic;

fn memory(len: usize) -> Vec<MaybeUninit<u8>> {
    vec![MaybeUninit::uninit(); len]
}

#[test]
fn a_block_is_as_long_as_asked_and_another_heaps_is_handed_back() {
    let (mut mine, mut other) = (memory(1 << 16), memory(1 << 16));
    let mut heap = RealTimeHeap::fast(&mut mine).expect("long enough");
    let mut foreign = RealTimeHeap::fast(&mut other).expect("long enough");
    let mut block = heap.malloc(100).expect("room");
    assert_eq!(block.len(), 100);
    block[99].write(7);
    assert_eq!(heap.resize_in_place(&mut block, 1000), Ok(true));
    assert_eq!(block.len(), 1000);
    let refused = foreign.free(block).expect_err("not of this heap");
    assert_eq!(refused.why, Misuse::Foreign);
    let refused = foreign.inbox().free(refused.block).expect_err("not of this heap");
    heap.free(refused.block).expect("of this one");
    heap.check().expect("whole");
    foreign.check().expect("whole");
    let page = Align::from_bytes(4096).expect("a power of two");
    let aligned = heap.malloc_aligned(10, page).expect("room");
    assert!(aligned.as_ptr().addr().is_multiple_of(4096));
}

#[test]
fn many_threads_give_back_while_the_owner_takes() {
    let mut mine = memory(1 << 20);
    let mut heap = RealTimeHeap::fast(&mut mine).expect("long enough");
    let inbox = heap.inbox();
    let mut blocks: [Vec<Block<'_>>; 4] = Default::default();
    for i in 0..4_000 {
        blocks[i % 4].push(heap.malloc(16 + i % 100).expect("room"));
    }
    std::thread::scope(|scope| {
        for blocks in blocks {
            scope.spawn(move || {
                blocks.into_iter().for_each(|block| inbox.free(block).expect("of this heap"));
            });
        }
        for _ in 0..2_000 {
            if let Some(block) = heap.malloc(64) {
                heap.free(block).expect("of this heap");
            }
        }
    });
    while heap.take_in() {}
    heap.check().expect("whole");
    assert!(heap.malloc(900_000).is_some(), "everything is free again");
}

#[test]
fn what_will_not_do_is_told_with_the_way_out() {
    let mut short = memory(100);
    let unfit = RealTimeHeap::fast(&mut short).map(drop).expect_err("too short");
    assert!(matches!(unfit, Unfit::TooShort { needed } if needed > 1000), "{unfit}");
    let mut some = memory(1 << 16);
    let odd = RealTimeHeap::strict(&mut some, 48).map(drop);
    assert_eq!(odd, Err(Unfit::SmallestBlock));
    let start = some.as_ptr().addr().next_multiple_of(16) - some.as_ptr().addr();
    let crooked = RealTimeHeap::fast(&mut some[start + 1..]).map(drop);
    assert_eq!(crooked, Err(Unfit::Misaligned { align: 16 }));
    let huge = RealTimeHeap::reserve_fast(usize::MAX / 2, Pages::Touched).map(drop);
    assert!(matches!(huge, Err(ReserveError::NoMemory { .. })));
    let absurd = RealTimeHeap::reserve_strict(u64::MAX, 1, 64, Pages::Touched).map(drop);
    assert!(matches!(absurd, Err(ReserveError::Unfit(Unfit::TooLong { .. }))));
}

#[test]
fn reserved_memory_of_what_is_enough_holds_what_may_live() {
    let (live, longest) = (1 << 16, 4096);
    let heap = RealTimeHeap::reserve_strict(live, longest, 64, Pages::Touched);
    let mut heap: RealTimeHeap<'_, StrictHeap> = heap.expect("some megabytes");
    let blocks: Vec<_> = (0..16).map(|_| heap.malloc(4096).expect("proved")).collect();
    for block in blocks {
        heap.free(block).expect("of this heap");
    }
    heap.check().expect("whole");
}

#[test]
fn the_example_runs() {
    periodic::play(200, 100).expect("it plays");
}
