//! Blocks move to fuller slabs, never to emptier ones, and what they leave becomes free units.

use freehold_core::malloc::{Cache, NodeHeap};
use freehold_core::size_class::class_of;
use freehold_testkit::failing_machine::FailingMachine;
use proptest::prelude::*;

struct World {
    heap: NodeHeap<FailingMachine>,
    blocks: Vec<(*mut u8, usize)>,
}

impl World {
    fn new() -> World {
        let heap = NodeHeap::new(FailingMachine::with_reservations(512 << 20));
        heap.set_key(0x0123_4567_89AB_CDEF);
        World { heap, blocks: Vec::new() }
    }

    fn caches(&self, len: usize) -> Vec<&Cache> {
        (0..len).map(|_| self.heap.attach().expect("memory")).collect()
    }

    fn fill(at: *mut u8, size: usize) {
        // SAFETY: the block is ours and that long.
        unsafe { at.write_bytes(at.addr() as u8 >> 4, size) };
    }

    /// Moves what is worth it; each move must go to a slab that is as full at least. How many moved.
    fn pack(
        heap: &NodeHeap<FailingMachine>,
        cache: &Cache,
        blocks: &mut [(*mut u8, usize)],
    ) -> usize {
        let mut moved = 0;
        for (at, size) in blocks {
            let found = heap.utilization(cache, *at).expect("a block");
            assert!(found.size >= *size && (1..=found.blocks).contains(&found.used));
            if found.target < found.used {
                continue;
            }
            let new = heap.allocate_packed(cache, class_of(*size).expect("a small block"));
            assert!(!new.is_null());
            assert_eq!(heap.utilization(cache, new).expect("a block").used, found.target + 1);
            // SAFETY: both are ours; the old one is given up.
            unsafe {
                new.copy_from_nonoverlapping(*at, *size);
                heap.free_packed(cache, *at).expect("a block");
                assert!(heap.free(cache, *at).is_err(), "freed twice");
            }
            *at = new;
            moved += 1;
        }
        moved
    }
}

/// A fifth of what eight threads, or one, allocated stays; then one thread packs.
fn packs(threads: usize, size: usize) {
    let world = World::new();
    let (heap, caches) = (&world.heap, world.caches(threads));
    let mut blocks = Vec::new();
    for at in 0..(6 << 20) / size {
        let block = heap.allocate(caches[at % threads], size);
        World::fill(block, size);
        blocks.push((block, size));
    }
    let mut kept = Vec::new();
    for (at, (block, _)) in blocks.into_iter().enumerate() {
        if at % 5 == 0 {
            kept.push((block, size));
        } else {
            // SAFETY: ours, and freed once.
            unsafe { heap.free(caches[at % threads], block) }.expect("a block");
        }
    }
    heap.purge(true);
    let before = heap.usage().used.0;
    // SAFETY: the blocks are ours.
    let contents: Vec<u8> = kept.iter().map(|&(at, _)| unsafe { at.read() }).collect();
    let rounds = (0..50).take_while(|_| World::pack(heap, caches[0], &mut kept) != 0).count();
    assert!(rounds < 50, "moving comes to an end");
    for (&(at, size), &fill) in kept.iter().zip(&contents) {
        // SAFETY: the block is ours and that long.
        let bytes = unsafe { std::slice::from_raw_parts(at, size) };
        assert!(bytes.iter().all(|&it| it == fill));
    }
    heap.check().expect("whole");
    caches.iter().for_each(|cache| heap.give_all(cache));
    heap.purge(true);
    heap.check().expect("whole");
    let after = heap.usage().used.0;
    assert!(before > 60 && after <= before / 3, "{before} units before, {after} after");
}

#[test]
fn a_fifth_of_a_heap_ends_in_a_third_of_its_slabs() {
    packs(1, 100);
    packs(1, 2000);
}

#[test]
fn so_do_blocks_of_slabs_that_threads_share() {
    packs(8, 2000);
}

#[test]
fn large_blocks_and_those_of_others_stay() {
    let world = World::new();
    let caches = world.caches(2);
    let heap = &world.heap;
    let large = heap.allocate(caches[0], 100_000);
    let theirs = heap.allocate(caches[1], 100);
    assert_eq!(
        heap.utilization(caches[0], large).map(|it| (it.blocks, it.used, it.target)),
        Ok((1, 1, 0))
    );
    assert_eq!(heap.utilization(caches[0], theirs).map(|it| it.target), Ok(0));
    // SAFETY: an address inside of a block, and freed ones: misuse, on purpose.
    unsafe {
        assert!(heap.utilization(caches[0], theirs.add(16)).is_err());
        heap.free_packed(caches[0], theirs).expect("a block");
        assert!(heap.utilization(caches[0], theirs).is_err());
        heap.free_packed(caches[0], large).expect("a block");
        assert!(heap.free_packed(caches[0], large).is_err());
    }
    heap.check().expect("whole");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever a program does between moves.
    #[test]
    fn moves_leave_a_whole_heap(
        steps in proptest::collection::vec((0_usize..4, 16_usize..5000, 0_usize..8), 1..400),
    ) {
        let mut world = World::new();
        let caches: Vec<*const Cache> = world.caches(8).into_iter().map(std::ptr::from_ref).collect();
        for (step, size, of) in steps {
            // SAFETY: caches live as long as the heap.
            let cache = unsafe { &*caches[of] };
            match step {
                0 | 1 => {
                    for size in [size, size / 2 + 16, size] {
                        let block = world.heap.allocate(cache, size);
                        World::fill(block, size);
                        world.blocks.push((block, size));
                    }
                }
                2 if !world.blocks.is_empty() => {
                    let (block, _) = world.blocks.swap_remove(size % world.blocks.len());
                    // SAFETY: ours, and freed once.
                    unsafe { world.heap.free(cache, block) }.expect("a block");
                }
                _ => {
                    World::pack(&world.heap, cache, &mut world.blocks);
                }
            }
        }
        world.heap.check().expect("whole");
    }
}
