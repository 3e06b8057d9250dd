//! The malloc as this very test's global allocator: the harness, its threads and these collections.

use std::collections::{BTreeMap, HashMap};
use std::thread;

#[global_allocator]
static A: freehold::Freehold = freehold::Freehold;

#[repr(align(4096))]
struct Page([u8; 4096]);

#[test]
fn collections_work_in_threads() {
    let threads: Vec<_> = (0..4u64)
        .map(|seed| {
            thread::spawn(move || {
                let mut map = HashMap::new();
                let mut tree = BTreeMap::new();
                for number in 0..5000u64 {
                    map.insert(number * seed, vec![number; (number % 50) as usize]);
                    tree.insert(format!("{number}"), Box::new(number));
                }
                map.values().flatten().sum::<u64>() + tree.values().map(|v| **v).sum::<u64>()
            })
        })
        .collect();
    let sums: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(sums[1..].iter().filter(|&&sum| sum == sums[1]).count(), 3);
}

#[test]
fn alignments_hold_and_blocks_grow() {
    let pages: Vec<Box<Page>> = (0..50).map(|byte| Box::new(Page([byte; 4096]))).collect();
    for (byte, page) in pages.iter().enumerate() {
        assert!((&raw const **page).addr().is_multiple_of(4096));
        assert!(page.0.iter().all(|&found| found == byte as u8));
    }
    let mut grown: Vec<Page> = Vec::new();
    for byte in 0..200 {
        grown.push(Page([byte; 4096]));
    }
    assert!(grown.iter().enumerate().all(|(byte, page)| page.0[100] == byte as u8));
    assert_eq!(vec![0u8; 10 << 20].iter().map(|&b| b as u64).sum::<u64>(), 0);
}
