//! The model's pictures: what dlmalloc would do, block by block.

use super::*;
use freehold_blocks::align::Align;
use freehold_blocks::policy::Inspect;
use freehold_testkit::{ShadowHeap, SimRegion};

/// A heap in which used blocks of these gross lengths lie side by side, named from 0.
fn heap(len: usize, blocks: &[u64]) -> ShadowHeap<Dlmalloc> {
    let mut heap = ShadowHeap::<Dlmalloc>::new(SimRegion::new(len + 16)).expect("long enough");
    for (id, gross) in blocks.iter().enumerate() {
        assert_eq!(heap.alloc(id as u32, gross - 8, Align::ONE), Ok(true));
    }
    heap
}

#[test]
fn small_requests_share_what_is_left_of_one_block() {
    let mut heap = heap(4096, &[512, 64, 512, 64]);
    heap.free(0).unwrap();
    for id in 10..13 {
        heap.alloc(id, 40, Align::ONE).unwrap();
    }
    // The first 512 is split three times; the victim never went into a bin.
    assert_eq!(
        heap.picture(),
        "[used 48, used 48, used 48, free 368, used 64, used 512, used 64, free 2944]"
    );
    heap.verify().unwrap();
}

#[test]
fn an_exact_bin_comes_before_the_victim() {
    let mut heap = heap(4096, &[512, 64, 48, 64]);
    heap.free(0).unwrap();
    heap.alloc(10, 40, Align::ONE).unwrap();
    heap.free(2).unwrap();
    heap.alloc(11, 40, Align::ONE).unwrap();
    assert_eq!(heap.picture(), "[used 48, free 464, used 64, used 48, used 64, free 3408]");
}

#[test]
fn a_large_request_takes_the_best_fit_and_top_last() {
    let mut heap = heap(16384, &[2048, 64, 1024, 64, 1536, 64]);
    for id in [0, 2, 4] {
        heap.free(id).unwrap();
    }
    heap.alloc(10, 1000, Align::ONE).unwrap();
    heap.alloc(11, 1500, Align::ONE).unwrap();
    heap.alloc(12, 1500, Align::ONE).unwrap();
    heap.alloc(13, 1500, Align::ONE).unwrap();
    assert_eq!(
        heap.picture(),
        "[used 1520, free 528, used 64, used 1008, free 16, used 64, used 1520, free 16, used 64, used 1520, free 10064]"
            .replace("used 1008, free 16", "used 1024")
            .replace("used 1520, free 16", "used 1536")
    );
    heap.verify().unwrap();
}

#[test]
fn a_neighbour_of_the_victim_becomes_part_of_it() {
    let mut heap = heap(4096, &[512, 96, 512, 64]);
    heap.free(0).unwrap();
    heap.alloc(10, 40, Align::ONE).unwrap();
    heap.free(1).unwrap();
    assert_eq!(heap.policy().largest_free(), heap.blocks().last().unwrap().size);
    heap.alloc(11, 200, Align::ONE).unwrap();
    // 464 + 96 = 560 are the victim now: the 208 come from there, though 96 alone were too short.
    assert_eq!(heap.picture(), "[used 48, used 208, free 352, used 512, used 64, free 2912]");
}

/// A thousand blocks of many sizes, freed in a scrambled order: every trie and list is walked.
#[test]
fn tries_find_the_shortest_block_that_fits() {
    let sizes: Vec<u64> = (0..1000).map(|i| 256 + (i * 7919 % 5003) * 16).collect();
    let total: u64 = sizes.iter().sum::<u64>() + 1000 * 48;
    let mut heap = heap((total + 65536).next_multiple_of(16) as usize, &[]);
    for (id, gross) in sizes.iter().enumerate() {
        heap.alloc(2 * id as u32, gross - 8, Align::ONE).unwrap();
        heap.alloc(2 * id as u32 + 1, 24, Align::ONE).unwrap();
    }
    let mut free: Vec<u64> = Vec::new();
    for step in 0..900 {
        let id = step * 389 % 1000;
        heap.free(2 * id as u32).unwrap();
        free.push(sizes[id]);
    }
    heap.verify().unwrap();
    for step in 0..300_u64 {
        let size = 300 + step * 263 % 70_000;
        let need = (size + 8).next_multiple_of(16).max(32);
        let best = free.iter().copied().filter(|&gross| gross >= need).min();
        let Some(best) = best else { continue };
        let before = heap.blocks();
        assert!(heap.alloc(10_000 + step as u32, size, Align::ONE).unwrap());
        let after = heap.blocks();
        let gone = before.iter().find(|block| block.free && !after.contains(block)).unwrap();
        assert_eq!(gone.size, best, "request {size}");
        free.swap_remove(free.iter().position(|&gross| gross == best).unwrap());
        if best - need >= 32 {
            free.push(best - need);
        }
    }
    heap.verify().unwrap();
}
