//! Collections of other crates on a [`Heap`]: what they hold is what the heap counts, limits are errors, and the heap's end ends them.

use allocator_api2::alloc::{Allocator, Layout};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use freehold::{Heap, HeapOptions};
use hashbrown::{DefaultHashBuilder, HashMap};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;

fn heap(limit: Option<usize>) -> Heap {
    Heap::new(HeapOptions { limit, name: "collections" }).expect("memory")
}

fn blocks(heap: &Heap) -> usize {
    let mut blocks = 0;
    heap.walk(|_| blocks += 1);
    blocks
}

type Lists<'a> = HashMap<u64, Vec<u64, &'a Heap>, DefaultHashBuilder, &'a Heap>;

#[test]
fn a_map_of_lists_is_what_the_standard_library_says() {
    let heap = heap(None);
    let (mut ours, mut truth) = (Lists::new_in(&heap), BTreeMap::<u64, std::vec::Vec<u64>>::new());
    let mut seed = 1_u64;
    for step in 0..60_000 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let key = seed % 500;
        if seed.is_multiple_of(11) {
            let gone = ours.remove(&key).map(|list| list.to_vec());
            assert_eq!(gone, truth.remove(&key), "step {step}");
            continue;
        }
        ours.entry(key).or_insert_with(|| Vec::new_in(&heap)).push(seed);
        truth.entry(key).or_default().push(seed);
        if seed.is_multiple_of(7) {
            ours.get_mut(&key).unwrap().shrink_to_fit();
        }
    }
    let mut found: std::vec::Vec<_> =
        ours.iter().map(|(key, list)| (*key, list.to_vec())).collect();
    found.sort();
    assert_eq!(found, truth.into_iter().collect::<std::vec::Vec<_>>());
    assert_eq!(blocks(&heap), 1 + found.len(), "the table, and a block a list");
    drop(ours);
    assert_eq!(blocks(&heap), 0);
    heap.check().unwrap();
}

#[test]
fn a_limit_is_an_error_and_the_collection_stays() {
    let heap = heap(Some(1 << 20));
    let mut list = Vec::new_in(&heap);
    list.extend_from_slice(&[7_u8; 100_000]);
    assert!(list.try_reserve(4 << 20).is_err());
    assert!(list.len() == 100_000 && list.iter().all(|byte| *byte == 7));
    assert!(Box::<[u8; 2 << 20], _>::try_new_uninit_in(&heap).is_err());
    let mut map: HashMap<u64, u64, DefaultHashBuilder, &Heap> = HashMap::new_in(&heap);
    assert!(map.try_reserve(1 << 20).is_err());
    map.insert(1, 2);
    assert_eq!(map[&1], 2);
}

#[test]
fn objects_that_are_left_end_with_their_heap() {
    for _ in 0..200 {
        let heap = heap(None);
        let mut lists = ManuallyDrop::new(Lists::new_in(&heap));
        for key in 0..100 {
            let mut list = Vec::new_in(&heap);
            list.extend(0..key);
            lists.insert(key, list);
        }
        assert_eq!(lists.values().map(|list| list.len()).sum::<usize>(), 99 * 100 / 2);
        drop(heap);
    }
}

/// Every length and alignment through every call of the trait.
#[test]
fn the_trait_keeps_bytes_alignment_and_zeroes() {
    let heap = heap(None);
    let sizes = [0, 1, 15, 16, 100, 4096, 70_000];
    for (from, to) in sizes.iter().flat_map(|from| sizes.map(|to| (*from, to))) {
        for align in [1, 16, 64, 4096] {
            let layout = |size| Layout::from_size_align(size, align).unwrap();
            // SAFETY: each block is freed once, by the layout it has last, and used within its length.
            unsafe {
                let block = Allocator::allocate_zeroed(&heap, layout(from)).unwrap();
                assert!(block.as_ref().iter().all(|byte| *byte == 0));
                block.cast::<u8>().write_bytes(0xa5, from);
                let old = block.cast();
                let block = match to >= from {
                    true => heap.grow_zeroed(old, layout(from), layout(to)).unwrap(),
                    false => heap.shrink(old, layout(from), layout(to)).unwrap(),
                };
                assert_eq!((block.len(), block.cast::<u8>().addr().get() % align), (to, 0));
                let bytes = block.as_ref();
                let (kept, new) = bytes.split_at(from.min(to));
                assert!(kept.iter().all(|byte| *byte == 0xa5), "{from} to {to} at {align}");
                assert!(new.iter().all(|byte| *byte == 0), "{from} to {to} at {align}");
                heap.deallocate(block.cast(), layout(to));
            }
        }
    }
    assert_eq!(blocks(&heap), 0);
    heap.check().unwrap();
}
