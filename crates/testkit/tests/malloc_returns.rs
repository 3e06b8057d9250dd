//! When everything was freed next to nothing stays: neither what is known about banks, nor the rest of huge pages, nor
//! slabs that their owners have forgotten.

use freehold_core::malloc::units::{BANK, UNIT};
use freehold_core::malloc::{Cache, NodeHeap};
use freehold_core::size_class::SizeClass;
use freehold_testkit::failing_machine::FailingMachine;

const MIB: usize = 1 << 20;

fn heap() -> NodeHeap<FailingMachine> {
    let heap = NodeHeap::new(FailingMachine::with_reservations(512 * MIB));
    heap.set_key(0x0123_4567_89AB_CDEF);
    heap
}

fn fill(heap: &NodeHeap<FailingMachine>, cache: &Cache, size: usize, bytes: usize) -> Vec<*mut u8> {
    let blocks: Vec<_> = (0..bytes / size).map(|_| heap.allocate(cache, size)).collect();
    assert!(blocks.iter().all(|block| !block.is_null()));
    blocks
}

fn free(heap: &NodeHeap<FailingMachine>, cache: &Cache, blocks: impl IntoIterator<Item = *mut u8>) {
    for block in blocks {
        // SAFETY: allocated by the tests, and freed once.
        unsafe { heap.free(cache, block) }.expect("a block");
    }
}

/// Rounds of the purger until one finds nothing to do; how many that were.
fn rest(heap: &NodeHeap<FailingMachine>) -> usize {
    let rounds = (1..20).find(|_| {
        let done = heap.purge(false);
        done.bytes == 0 && done.unsettled == 0
    });
    rounds.expect("an end")
}

#[test]
fn of_banks_that_are_free_again_nothing_is_known() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    for _ in 0..2 {
        let blocks = fill(&heap, cache, 1000, 120 * MIB);
        let full = heap.machine().written_pages();
        free(&heap, cache, blocks);
        rest(&heap);
        let left = heap.machine().written_pages();
        // A record for each of 60 banks would be 60 already. What there is: the cache, the index, states of banks, tags,
        // and the last stacks, of a few blocks.
        assert!(left <= 30, "{left} of {full} pages");
        heap.check().expect("whole");
    }
}

#[test]
fn a_huge_page_of_which_a_part_is_given_back_goes_as_a_whole() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    while !heap.machine().is_huge(heap.allocate(cache, 1000).addr()) {}
    // Beside the slab that has opened the bank.
    let half = heap.allocate(cache, BANK / 2).addr();
    let beside = heap.allocate(cache, BANK / 4);
    let never_had = half / BANK * BANK + BANK - UNIT;
    assert!(heap.machine().is_huge(half) && beside.addr() / BANK == half / BANK);
    free(&heap, cache, [beside]);
    rest(&heap);
    assert!(heap.machine().was_purged(beside.addr()));
    assert!(heap.machine().was_purged(never_had), "resident, for the page was one");
    assert!(!heap.machine().was_purged(half));
    heap.check().expect("whole");
}

/// A block of 4 MiB with free memory behind it, and 16 MiB elsewhere that were freed.
fn block_beside_freed(heap: &NodeHeap<FailingMachine>, cache: &Cache) -> (*mut u8, *mut u8) {
    let freed = fill(heap, cache, 16 * MIB, 16 * MIB)[0];
    let block = fill(heap, cache, 4 * MIB, 4 * MIB)[0];
    // SAFETY: the block is ours.
    unsafe { block.write_bytes(0xAB, 4 * MIB) };
    free(heap, cache, [freed]);
    assert_eq!(heap.usage().dirty.bytes(), 16 * MIB);
    (block, freed)
}

/// `realloc`; the first 4 MiB hold what was written.
fn grow(heap: &NodeHeap<FailingMachine>, cache: &Cache, block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the block is ours.
    let block = unsafe { heap.reallocate(cache, block, size) }.expect("a block");
    // SAFETY: as above, and this was written.
    assert!((0..4 * MIB).all(|at| unsafe { block.add(at).read() } == 0xAB));
    heap.check().expect("whole");
    block
}

#[test]
fn a_block_that_grows_moves_to_memory_that_was_freed_and_leaves_none_behind() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let (block, freed) = block_beside_freed(&heap, cache);
    let grown = grow(&heap, cache, block, 8 * MIB);
    assert_eq!((grown, heap.machine().relocated()), (freed, 4 * MIB));
    assert_eq!(heap.usage().dirty.bytes(), 8 * MIB, "where it was, nothing is resident");
    // Less than a quarter is not worth it, nor is what would find no such place.
    assert_eq!(grow(&heap, cache, grown, 9 * MIB), grown);
    assert_eq!(grow(&heap, cache, grown, 30 * MIB), grown);
    free(&heap, cache, [grown]);
}

#[test]
fn a_block_whose_pages_cannot_move_leaves_them_to_be_given_back() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let (block, freed) = block_beside_freed(&heap, cache);
    heap.machine().refuse_next();
    assert_eq!(grow(&heap, cache, block, 8 * MIB), freed);
    assert_eq!(heap.machine().relocated(), 0);
    assert_eq!(heap.usage().dirty.bytes(), 12 * MIB);
}

#[test]
fn slabs_that_others_have_emptied_are_given_back_while_their_owner_rests() {
    let heap = heap();
    let (owner, other) = (heap.attach().expect("memory"), heap.attach().expect("memory"));
    let before = heap.usage().used.0;
    let blocks = fill(&heap, owner, 200, 4 * MIB);
    let full = heap.usage().used.0;
    assert!(full >= before + 64);
    free(&heap, other, blocks);
    heap.detach(other);
    heap.purge(false);
    assert_eq!(heap.usage().used.0, full, "not before they have rested for a round");
    rest(&heap);
    let after = heap.usage();
    assert!(after.used.0 <= before + 2, "{before} units, {full}, {after:?}");
    assert_eq!(after.dirty.0, 0);
    heap.check().expect("whole");
    // The owner goes on with what it has, and hears no news of slabs that are no more.
    let blocks = fill(&heap, owner, 200, 4 * MIB);
    assert_eq!(heap.usage().used.0.abs_diff(full), 0);
    free(&heap, owner, blocks);
    heap.check().expect("whole");
}

#[test]
fn stacks_of_a_thread_that_ends_go_to_the_next_or_back() {
    let heap = heap();
    let first = heap.attach().expect("memory");
    let used = heap.usage().used.0;
    let blocks = fill(&heap, first, 100, 3000);
    free(&heap, first, blocks.clone());
    heap.detach(first);
    assert_eq!(heap.census().blocks(), 0);
    let next = heap.attach().expect("memory");
    let first = next.take_small(100);
    assert!(!first.is_null(), "nothing is to be done before its first allocation");
    let mut again = fill(&heap, next, 100, 6400);
    again.push(first);
    assert!(blocks.iter().all(|block| again.contains(block)), "they were in its stacks");
    free(&heap, next, again);
    heap.detach(next);
    rest(&heap);
    assert_eq!(heap.usage().used.0, used);
    heap.check().expect("whole");
}

/// Without memory for another slab: they were turned into bits, and the request refused all the same.
#[test]
fn stacks_of_a_thread_that_ended_serve_when_memory_is_short() {
    let heap = heap();
    let (one, two) = (heap.attach().expect("memory"), heap.attach().expect("memory"));
    let blocks = fill(&heap, one, 1000, 320_000);
    heap.set_limit((heap.usage().used + heap.usage().dirty).bytes());
    free(&heap, one, blocks.into_iter().step_by(40));
    heap.detach(one);
    assert!(!heap.allocate(two, 1000).is_null());
}

/// Allocates and frees `bytes` of each of some classes.
fn use_some(heap: &NodeHeap<FailingMachine>, cache: &Cache, bytes: usize, classes: usize) {
    for class in SizeClass::all().take(classes) {
        let blocks = fill(heap, cache, class.size(), class.size().max(bytes));
        free(heap, cache, blocks);
    }
}

/// However little each of them leaves: no later call of theirs can tell.
#[test]
fn what_many_threads_leave_is_worth_a_round() {
    let heap = heap();
    let caches: Vec<_> = (0..200).map(|_| heap.attach().expect("memory")).collect();
    caches.iter().for_each(|cache| use_some(&heap, cache, 6000, 10));
    heap.settled();
    assert!(!heap.wants_purge());
    caches.into_iter().for_each(|cache| heap.detach(cache));
    assert!(heap.wants_purge());
    rest(&heap);
    assert!(heap.usage().used.0 <= 20, "{} units are in use", heap.usage().used.0);
}

/// What a thread frees and takes again is no news either, though a stack that it sets aside is as much as is counted at once.
#[test]
fn what_comes_and_goes_is_no_work_for_the_purger() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    for _ in 0..100 {
        let blocks = fill(&heap, cache, 60_000, 8 * 60_000);
        free(&heap, cache, blocks);
        assert!(!heap.wants_purge());
    }
}

/// What one leaves and the next takes is no news, however often.
#[test]
fn threads_one_after_the_other_are_no_work_for_the_purger() {
    let heap = heap();
    for _ in 0..2000 {
        let cache = heap.attach().expect("memory");
        use_some(&heap, cache, 2000, 30);
        heap.detach(cache);
        assert!(!heap.wants_purge());
    }
}

#[test]
fn a_slab_with_a_block_in_use_stays_its_owners() {
    let heap = heap();
    let (owner, other) = (heap.attach().expect("memory"), heap.attach().expect("memory"));
    let blocks = fill(&heap, owner, 1000, 4 * MIB);
    let (kept, freed): (Vec<_>, Vec<_>) =
        blocks.iter().enumerate().partition(|(number, _)| number % 64 == 0);
    free(&heap, other, freed.into_iter().map(|(_, block)| *block));
    heap.detach(other);
    let full = heap.usage().used.0;
    rest(&heap);
    assert_eq!(heap.usage().used.0, full);
    free(&heap, owner, kept.into_iter().map(|(_, block)| *block));
    rest(&heap);
    heap.check().expect("whole");
}

#[test]
fn a_thread_that_rests_keeps_one_stack_a_class_at_most() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    // One and a half stacks of 16 KiB each.
    let sizes: Vec<usize> = (8..40).map(|step| step * 32).collect();
    let blocks: Vec<_> =
        sizes.iter().flat_map(|size| fill(&heap, cache, *size, 24 << 10)).collect();
    free(&heap, cache, blocks);
    rest(&heap);
    let left = heap.machine().written_pages();
    // Two or three pages of each class; six were there.
    assert!(left <= 4 * sizes.len(), "{left} pages of {} classes", sizes.len());
    heap.check().expect("whole");
}
