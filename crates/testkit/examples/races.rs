//! Threads that pass blocks to each other, for ThreadSanitizer: `cargo xtask soak --only sanitizer` builds this with it.
//!
//! The standard library is not instrumented there, so nothing of it orders the threads: blocks are passed through
//! atomics of this file, whose Release and Acquire are all that makes the next owner's reads follow the last owner's
//! writes. What the malloc itself needs, between a free here and an allocation there, it has to order on its own: both
//! write all of the block by plain stores, as does the allocator by its links, and a missing edge is a report.
//!
//! `races [CALLS]`: calls a thread, by default 100,000.

use freehold_core::malloc::{Cache, NodeHeap};
use freehold_os::Linux;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

const THREADS: u64 = 4;
const SHELVES: usize = 64;
/// Blocks that a thread keeps to itself.
const OWN: usize = 200;

static HEAP: NodeHeap<Linux> = NodeHeap::new(Linux);
static SHELVES_OF_ALL: [AtomicPtr<u64>; SHELVES] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SHELVES];

struct Random(u64);

impl Random {
    /// xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators" (2016).
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    /// Few classes, so that threads meet in the same slabs; now and then a large block.
    fn words(&mut self) -> usize {
        match self.below(100) {
            0..70 => 2 + self.below(4),
            70..98 => 30 + self.below(300),
            _ => 9_000 + self.below(20_000),
        }
    }
}

/// A new block: its length in words first, then words that say the same.
fn make(cache: &Cache, words: usize) -> *mut u64 {
    let block: *mut u64 = HEAP.allocate(cache, words * 8).cast();
    assert!(!block.is_null(), "memory is short");
    for at in 0..words {
        // SAFETY: the block is ours and has that many words.
        unsafe { block.add(at).write(words as u64) };
    }
    block
}

/// Reads all of a block, and frees it.
fn end(cache: &Cache, block: *mut u64) {
    if block.is_null() {
        return;
    }
    // SAFETY: whoever made the block wrote its words and gave it up to us alone.
    unsafe {
        let words = block.read();
        for at in 1..words as usize {
            assert_eq!(block.add(at).read(), words, "word {at} of {words}");
        }
        HEAP.free(cache, block.cast()).expect("a block that was given out");
    }
}

fn live(seed: u64, calls: usize) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut cache = HEAP.attach().expect("memory for a cache");
    let mut own = [ptr::null_mut(); OWN];
    for _ in 0..calls {
        match random.below(1000) {
            0..600 => {
                let place = random.below(OWN);
                end(cache, own[place]);
                own[place] = make(cache, random.words());
            }
            600..996 => {
                let mine = make(cache, random.words());
                let shelf = &SHELVES_OF_ALL[random.below(SHELVES)];
                end(cache, shelf.swap(mine, Ordering::AcqRel));
            }
            996..998 => {
                HEAP.purge(random.below(2) == 0);
            }
            _ => {
                HEAP.detach(cache);
                cache = HEAP.attach().expect("memory for a cache");
            }
        }
    }
    own.into_iter().for_each(|block| end(cache, block));
    HEAP.detach(cache);
}

fn main() {
    let calls = std::env::args().nth(1).map_or(100_000, |text| text.parse().expect("a number"));
    HEAP.set_key(0x0123_4567_89ab_cdef);
    let threads: Vec<_> =
        (1..=THREADS).map(|seed| std::thread::spawn(move || live(seed, calls))).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a thread that checks itself"));
    let cache = HEAP.attach().expect("memory for a cache");
    SHELVES_OF_ALL
        .iter()
        .for_each(|shelf| end(cache, shelf.swap(ptr::null_mut(), Ordering::AcqRel)));
    HEAP.detach(cache);
    HEAP.check().expect("a whole heap");
    println!("{THREADS} threads, {calls} calls each: whole");
}
