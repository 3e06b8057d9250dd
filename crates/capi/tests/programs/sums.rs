//! Strings, trees and plain vectors, small and large; says how many bytes it asked for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static ASKED: AtomicUsize = AtomicUsize::new(0);

struct Counted;

// SAFETY: the system's, but for what is added up.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALL: Counted = Counted;

fn main() {
    let mut words = BTreeMap::new();
    let mut list = Vec::new();
    for i in 0..60_000 {
        words.insert(i * 7919 % 20_011, "x".repeat(20 + i % 300));
        list.push(vec![i as u8; 17 + i % 50]);
        if i % 3 == 0 {
            words.remove(&(i * 31 % 20_011));
        }
    }
    for i in 0..400 {
        drop(vec![i as u8; 50_000]);
    }
    println!("{}", ASKED.load(Relaxed));
}
