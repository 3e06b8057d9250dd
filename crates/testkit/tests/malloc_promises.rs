//! Promises of the malloc that no other test would miss, each named after what breaks when it is not kept.

use freehold_core::malloc::units::UNIT;
use freehold_core::malloc::units::region::Region;
use freehold_core::malloc::{Cache, Misuse, NodeHeap};
use freehold_core::size_class::{SizeClass, class_of};
use freehold_testkit::failing_machine::FailingMachine;
use freehold_testkit::nodes::FakeNodes;

const MIB: usize = 1 << 20;

const KEY: usize = 0x0123_4567_89AB_CDEF;

fn heap_on(machine: FailingMachine) -> NodeHeap<FailingMachine> {
    let heap = NodeHeap::new(machine);
    heap.set_key(KEY);
    heap
}

fn heap() -> NodeHeap<FailingMachine> {
    heap_on(FailingMachine::with_reservations(256 * MIB))
}

/// Blocks of `size` bytes that make up `bytes`, each written to.
fn fill(heap: &NodeHeap<FailingMachine>, cache: &Cache, size: usize, bytes: usize) -> Vec<*mut u8> {
    let allocate = || {
        let block = heap.allocate(cache, size);
        assert!(!block.is_null());
        // SAFETY: the block is ours and that long.
        unsafe { block.write_bytes(0xAB, size) };
        block
    };
    std::iter::repeat_with(allocate).take(bytes / size).collect()
}

fn free(heap: &NodeHeap<FailingMachine>, cache: &Cache, blocks: impl IntoIterator<Item = *mut u8>) {
    for block in blocks {
        // SAFETY: allocated by the tests, and freed once.
        unsafe { heap.free(cache, block) }.expect("a block");
    }
}

fn class(size: usize) -> SizeClass {
    class_of(size).expect("a small size")
}

/// The counts of a depot are those of what is in it, also after the purger took all.
#[test]
fn what_the_purger_took_from_a_depot_is_not_counted_any_more() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let kept = fill(&heap, cache, 200, MIB);
    let freed = fill(&heap, cache, 200, 2 * MIB);
    free(&heap, cache, freed);
    assert!(heap.census().cached() > 512 << 10, "the depot is in use");
    heap.purge(true);
    let census = heap.census();
    assert_eq!(census.blocks(), kept.len() as u64);
    let cached = census.classes[class(200).index()].cached;
    assert!(cached <= 256, "{cached} blocks are said to be in a stack of at most 256");
}

/// A block whose header led from one magazine to the next is handed out without: its address and the key would be all that the
/// header is made of.
#[test]
fn memory_that_was_never_written_does_not_reveal_the_key() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let freed = fill(&heap, cache, 64, 64 * 2000);
    // SAFETY: whole blocks of ours.
    freed.iter().for_each(|block| unsafe { block.write_bytes(0, 64) });
    free(&heap, cache, freed);
    assert!(heap.census().cached() > 64 << 10, "the depot is in use");
    for _ in 0..2000 {
        let block = heap.allocate(cache, 64);
        // SAFETY: as above; the third word is the first that a free block does not use itself.
        let word = unsafe { block.cast::<usize>().add(2).read() };
        assert_eq!(word, 0, "{block:p} has {:x} left, and the key is {KEY:x}", word ^ block.addr());
    }
}

/// A page that was purged, came back into use and is free again, is purged again.
#[test]
fn a_page_is_purged_as_often_as_it_was_used() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let mut left = Vec::new();
    for _ in 0..3 {
        let blocks = fill(&heap, cache, 256, MIB);
        // One block of each slab stays, so that slabs stay.
        let (stays, goes): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|block| block.addr() % UNIT == 0);
        free(&heap, cache, goes);
        heap.purge(true);
        heap.purge(true);
        left.push(heap.machine().written_pages());
        free(&heap, cache, stays);
    }
    assert!(left[1] <= left[0] + 4 && left[2] <= left[0] + 4, "written pages: {left:?}");
}

/// Of a page exactly the blocks that touch it must be free: those and no others.
#[test]
fn a_page_goes_back_when_the_blocks_that_touch_it_are_free_and_no_others() {
    for (size, page) in [(1024, 4096), (3072, 4096), (2048, 16 << 10), (5120, 16 << 10)] {
        let heap = heap_on(FailingMachine::with_reservations(64 * MIB).with_pages(page));
        let cache = heap.attach().expect("memory");
        let size = class(size).size();
        let mut blocks = fill(&heap, cache, size, 2 * UNIT);
        blocks.sort_unstable();
        let base = blocks[0].addr() / UNIT * UNIT;
        let start = base + page;
        let touches = |block: &*mut u8| block.addr() < start + page && block.addr() + size > start;
        free(&heap, cache, blocks.into_iter().filter(touches));
        // Its stacks become bits.
        heap.detach(cache);
        heap.purge(true);
        assert!(heap.machine().was_purged(start), "{size} bytes, pages of {page}");
        for other in (base..base + UNIT).step_by(page).filter(|&at| at != start) {
            assert!(!heap.machine().was_purged(other), "{size} bytes, pages of {page}");
        }
        heap.check().expect("whole");
    }
}

/// Pages that move stay on their node; a block that moves to another home is copied.
#[test]
fn a_long_block_moves_by_pages_within_its_home_only() {
    let two = FakeNodes::new(2);
    let heap = heap_on(FailingMachine::with_nodes(two));
    let nodes = heap.machine().fake_nodes().expect("two nodes");
    let cache = heap.attach().expect("memory");
    let grow = |block: *mut u8, size: usize| {
        // What lies behind it makes it move.
        assert!(!heap.allocate(cache, UNIT).is_null());
        // SAFETY: the block is ours.
        unsafe { heap.reallocate(cache, block, size) }.expect("a block")
    };
    let block = fill(&heap, cache, 2 * MIB - UNIT, 2 * MIB)[0];
    let block = grow(block, 3 * MIB);
    let within = heap.machine().relocated();
    assert!(within >= 2 * MIB - UNIT, "within its home it moves by pages");
    nodes.go_to(1);
    let block = grow(block, 5 * MIB);
    assert_eq!(heap.machine().relocated(), within, "to another home it is copied");
    assert_eq!(nodes.node_of(block.addr()), Some(1));
    // SAFETY: the block is ours, and this was written.
    assert!((0..2 * MIB - UNIT).all(|at| unsafe { block.add(at).read() } == 0xAB));
}

/// Memory that one size gave up serves another, before the heap grows.
#[test]
fn what_one_class_set_aside_goes_back_when_another_grows() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let blocks = fill(&heap, cache, 200, 8 * MIB);
    let full = heap.usage().used.0;
    free(&heap, cache, blocks);
    fill(&heap, cache, 500, 8 * MIB);
    let used = heap.usage().used.0;
    assert!(used < full * 5 / 4, "{used} units, {full} before");
}

/// Of blocks that were freed in random order a few keep all slabs of their class: also those in a stack that nobody uses.
#[test]
fn a_stack_at_rest_keeps_no_slabs_when_another_class_grows() {
    let grown = |first: usize| {
        let heap = heap();
        let cache = heap.attach().expect("memory");
        let blocks = fill(&heap, cache, 96, first);
        free(&heap, cache, (0..blocks.len()).map(|at| blocks[at * 100_003 % blocks.len()]));
        // In use all the while.
        let both = std::iter::repeat_with(|| {
            let brief = fill(&heap, cache, 200, 200);
            free(&heap, cache, brief);
            fill(&heap, cache, 500, 500)
        });
        both.take(16 * MIB / 500).for_each(drop);
        heap.check().expect("whole");
        heap.usage().used.0
    };
    assert_eq!(grown(2 * MIB), grown(96), "but the last one");
}

/// A thread sets aside 4 MiB, or a 64th of its slabs if that is more, however much it frees.
#[test]
fn what_is_set_aside_has_a_bound() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let blocks = fill(&heap, cache, 1000, 128 * MIB);
    free(&heap, cache, blocks.into_iter().step_by(2));
    let cached = heap.census().cached();
    assert!((4 * MIB as u64..5 * MIB as u64).contains(&cached), "{cached} bytes");
}

/// Blocks of 16 bytes have no room for a magazine's header: a block of 32 goes with them.
#[test]
fn the_smallest_blocks_are_set_aside_as_others_are() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let before = heap.usage().used.0;
    let blocks = fill(&heap, cache, 16, MIB / 2);
    let full = heap.usage().used.0;
    free(&heap, cache, blocks);
    let cached = heap.census().cached();
    assert!((MIB as u64 / 2..MIB as u64 * 5 / 8).contains(&cached), "{cached} bytes");
    let blocks = fill(&heap, cache, 16, MIB / 2);
    assert_eq!(heap.usage().used.0, full, "no new slab");
    free(&heap, cache, blocks);
    heap.check().expect("whole");
    // By another thread, all of them.
    heap.purge(true);
    let left = heap.census().cached();
    assert!(left <= 32 << 10, "{left} bytes in two stacks");
    heap.give_all(cache);
    assert_eq!((heap.census().cached(), heap.usage().used.0), (0, before));
    heap.check().expect("whole");
}

/// What goes back of 16-byte blocks while those of 32 grow needs heads, which are of 32 bytes: not those just refilled.
#[test]
fn heads_are_not_taken_from_a_stack_that_is_being_refilled() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let blocks = fill(&heap, cache, 16, 8 * MIB);
    // Scattered, each one once: their number is a power of two.
    free(&heap, cache, (0..blocks.len()).map(|at| blocks[at * 100_003 % blocks.len()]));
    fill(&heap, cache, 32, 16 * MIB);
    heap.check().expect("whole");
}

/// The nodes of a tree of `len` in the order in which it frees itself: children before their parent. They are numbered in the
/// order in which it was made.
fn children_first(root: usize, len: usize, visit: &mut impl FnMut(usize)) {
    if let Some(left) = len.checked_sub(1).map(|below| below / 2) {
        children_first(root + 1, left, visit);
        children_first(root + 1 + left, len - 1 - left, visit);
        visit(root);
    }
}

/// A program that makes a tree, frees it and makes it again, in a heap larger than its reserve, finds neighbours in neighbouring
/// blocks: depots, which turn the order round, and bits, which restore it, would mix a little more each time.
#[test]
fn blocks_that_lie_close_get_their_order_back() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let mut blocks = Vec::new();
    for _ in 0..8 {
        blocks = fill(&heap, cache, 64, 16 * MIB);
        let mut order = Vec::new();
        children_first(0, blocks.len(), &mut |node| order.push(blocks[node]));
        free(&heap, cache, order);
    }
    let neighbours = blocks.windows(2).filter(|two| two[0].addr() + 64 == two[1].addr()).count();
    assert!(neighbours * 4 > blocks.len() * 3, "{neighbours} of {}", blocks.len());
    heap.check().expect("whole");
}

/// What a round leaves is counted in bytes: by them the purger knows whether to come again.
#[test]
fn a_round_says_how_much_it_leaves() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let blocks = fill(&heap, cache, MIB, 4 * MIB);
    free(&heap, cache, blocks);
    let first = heap.purge(false);
    assert!(first.more, "{first:?}");
    assert_eq!(first.unsettled, heap.usage().dirty.bytes());
    assert!(first.bytes + first.unsettled >= 4 * MIB, "{first:?}");
}

/// So is what lies free in slabs: every second block of slabs that stay.
#[test]
fn a_round_says_how_much_it_leaves_in_slabs() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let blocks = fill(&heap, cache, 4000, 16 * MIB);
    free(&heap, cache, blocks.into_iter().step_by(2));
    let first = heap.purge(false);
    assert!(first.unsettled >= 6 * MIB, "{first:?}");
}

/// The census reads the states of banks some at a time; it misses none.
#[test]
fn the_census_counts_in_all_of_a_hundred_banks() {
    let heap = heap_on(FailingMachine::with_reservations(1024 * MIB));
    let cache = heap.attach().expect("memory");
    let blocks = fill(&heap, cache, MIB, 200 * MIB);
    assert_eq!(heap.census().large_blocks, 200);
    let (stays, goes) = blocks.split_at(150);
    free(&heap, cache, goes.iter().copied());
    let census = heap.census();
    assert_eq!(census.large_blocks, stays.len() as u64);
    assert_eq!(census.large_bytes, (stays.len() * MIB) as u64);
    assert!(census.held >= census.large_bytes && census.held < census.large_bytes + MIB as u64);
    assert_eq!(census.dirty, heap.usage().dirty.bytes() as u64);
}

/// Caches are counted apart by whether they have a thread.
#[test]
fn the_census_counts_caches() {
    let heap = heap();
    let caches: Vec<_> = (0..5).map(|_| heap.attach().expect("memory")).collect();
    let counts = |heap: &NodeHeap<FailingMachine>| {
        let census = heap.census();
        (census.caches, census.caches_idle)
    };
    assert_eq!(counts(&heap), (5, 0));
    for cache in &caches[..2] {
        heap.detach(cache);
    }
    assert_eq!(counts(&heap), (3, 2));
}

/// A free block's link that was overwritten leads to no block, and is told of.
#[test]
fn a_link_that_leads_into_a_block_is_not_followed() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let blocks = fill(&heap, cache, 200, 800);
    free(&heap, cache, blocks.iter().copied());
    let (last, before) = (blocks[3], blocks[2]);
    let inside = before.addr() + 8;
    // SAFETY: memory of the heap's; links are XORed with the key, so this one leads eight bytes further.
    unsafe { *last.cast::<usize>() ^= before.addr() ^ inside };
    assert_eq!(heap.late_misuse(), None);
    let again: Vec<_> = (0..4).map(|_| heap.allocate(cache, 200)).collect();
    assert_eq!(again[0], last);
    assert!(again.iter().all(|block| block.addr() != inside && !block.is_null()));
    assert_eq!(
        heap.late_misuse().map(|(kind, at)| (kind, at.addr())),
        Some((Misuse::Astray, inside))
    );
}

/// A check that finds nothing would make all the tests with one worthless.
#[test]
fn a_tag_that_is_not_its_slab_s_is_found_by_the_check() {
    let heap = heap();
    let cache = heap.attach().expect("memory");
    let blocks = [100, 200, 3 * UNIT].map(|size| fill(&heap, cache, size, size)[0]);
    let word = |at: usize| std::ptr::with_exposed_provenance_mut::<usize>(at);
    // SAFETY: the heap's first region lies there.
    let base = unsafe { word(heap.roots().regions + Region::LAYOUT.base as usize).read() };
    let tags = blocks.map(|block| word(base + (block.addr() - base) / UNIT * 8));
    // SAFETY: tags of units in use, which nobody else reads or writes now.
    let [small, other, large] = tags.map(|tag| unsafe { tag.read() });
    let check_with = |which: usize, tag: usize| {
        // SAFETY: as above.
        let before = unsafe { tags[which].replace(tag) };
        let found = heap.check();
        // SAFETY: as above.
        unsafe { tags[which].write(before) };
        found
    };
    assert_eq!(check_with(0, small), Ok(()));
    assert_eq!(check_with(0, other), Err("tag and slab disagree"));
    assert_eq!(check_with(1, large), Err("a slab has no tag"));
    assert_eq!(check_with(2, small), Err("a tagged slab is not alive"));
    assert_eq!(heap.check(), Ok(()));
    free(&heap, cache, blocks);
}
