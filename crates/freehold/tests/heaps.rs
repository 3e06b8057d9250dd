//! Heaps of one's own against the truth: what threads have is what a walk finds and statistics count; limits
//! refuse; an end ends everything.

use freehold::heap::Kind;
use freehold::stats::{Census, Stats};
use freehold::{Heap, HeapOptions};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// xorshift64: Marsaglia, "Xorshift RNGs" (2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as usize % end
    }

    fn size(&mut self) -> usize {
        match self.below(100) {
            0..80 => self.below(600),
            80..98 => self.below(30_000),
            _ => self.below(300_000),
        }
    }
}

/// Blocks that somebody has: address and the size asked for.
type Live = Mutex<BTreeMap<usize, usize>>;

fn block(at: usize) -> NonNull<u8> {
    NonNull::new(at as *mut u8).expect("no block is null")
}

/// One call of a random kind; blocks are anyone's.
fn call(heap: &Heap, live: &Live, random: &mut Random) {
    let taken = {
        let mut live = live.lock().unwrap();
        let from = random.0 as usize;
        let at = live.range(from..).next().or_else(|| live.iter().next()).map(|(&at, _)| at);
        at.filter(|_| random.below(100) < 48).and_then(|at| live.remove_entry(&at))
    };
    let new = match taken {
        Some((at, len)) if random.below(4) == 0 => {
            // SAFETY: the block was taken out of the map: it is ours.
            unsafe { assert_eq!(block(at).read(), len as u8, "{len} bytes at {at:#x}") };
            let len = random.size().max(1);
            // SAFETY: as above; the old address is forgotten.
            unsafe { heap.reallocate(block(at), len) }.map(|new| (new, len))
        }
        Some((at, len)) => {
            // SAFETY: as above.
            unsafe {
                assert_eq!(block(at).read(), len as u8, "{len} bytes at {at:#x}");
                heap.free(block(at));
            }
            return;
        }
        None => {
            let (len, align) = (random.size().max(1), 1 << random.below(13));
            let new = heap.allocate(len, align);
            assert!(new.is_none_or(|new| new.addr().get() % align == 0), "{len} at {align}");
            new.map(|new| (new, len))
        }
    };
    let (new, len) = new.expect("there is memory");
    // SAFETY: the block is ours.
    unsafe { new.write(len as u8) };
    assert_eq!(live.lock().unwrap().insert(new.addr().get(), len), None, "given out twice");
}

/// The heap's figures once they count so many blocks: free ones that are just being purged count as in use, for as long
/// as that takes.
fn census_of(heap: &Heap, blocks: usize, when: &str) -> Census {
    let mut census = heap.stats().census;
    for _ in 0..6_000 {
        if census.blocks() == blocks as u64 {
            return census;
        }
        thread::sleep(Duration::from_millis(10));
        census = heap.stats().census;
    }
    panic!("{when}: {} blocks for a minute, and there are {blocks}", census.blocks());
}

/// A walk and the statistics agree with what is live.
fn assert_told(heap: &Heap, live: &BTreeMap<usize, usize>) {
    let mut walked = BTreeMap::new();
    heap.walk(|block| {
        let known = live.get(&block.address);
        assert!(known.is_some_and(|&len| len <= block.size), "{block:?} is {known:?}");
        assert_eq!(block.kind == Kind::Large, block.size > 64 * 1024, "{block:?}");
        assert_eq!(walked.insert(block.address, block.size), None, "{block:?} twice");
    });
    assert_eq!(walked.len(), live.len(), "blocks were left out");
    let census = census_of(heap, live.len(), "after a walk");
    assert_eq!(census.in_use(), walked.values().sum::<usize>() as u64);
    assert_eq!(census.cached(), 0, "a walk empties the caches");
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn what_threads_have_is_what_is_told() {
    let heap = Heap::new(HeapOptions { limit: None, name: "told" }).expect("memory");
    let live = Live::default();
    for round in 1..=4u64 {
        thread::scope(|scope| {
            for number in 1..=4u64 {
                let (heap, live) = (&heap, &live);
                scope.spawn(move || {
                    let mut random =
                        Random((round * 16 + number).wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    (0..3000).for_each(|_| call(heap, live, &mut random));
                });
            }
        });
        // Before the walk, which empties the caches, the figures are as exact.
        let known = live.lock().unwrap();
        census_of(&heap, known.len(), &format!("round {round}"));
        assert_told(&heap, &known);
    }
    let left = std::mem::take(&mut *live.lock().unwrap());
    for &at in left.keys() {
        assert!(heap.owns(at as *const u8) && !heap.owns((at + 1) as *const u8));
        // SAFETY: nobody else has it.
        unsafe { heap.free(block(at)) };
        assert!(!heap.owns(at as *const u8));
    }
    assert_told(&heap, &BTreeMap::new());
    assert!(heap.trim() > 0 && heap.stats().census.dirty == 0);
}

/// The purger has free blocks while it gives their pages back: a walk meanwhile called them somebody's.
#[test]
fn a_walk_finds_no_block_that_is_being_purged() {
    const ROUNDS: usize = 100;
    let heap = Heap::new(HeapOptions { limit: None, name: "walked" }).expect("memory");
    let kept = heap.allocate(500, 16).expect("memory").addr().get();
    // Whoever holds it may have blocks of his own.
    let (others, is_over) = (Mutex::new(()), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let alone = others.lock();
                let blocks = [(); 2000].map(|()| heap.allocate(500, 16).expect("memory"));
                // SAFETY: they are ours, and forgotten.
                blocks.into_iter().for_each(|block| unsafe { heap.free(block) });
                drop(alone);
                heap.trim();
            }
            is_over.store(true, Relaxed);
        });
        while !is_over.load(Relaxed) {
            thread::yield_now();
            let _alone = others.lock();
            let mut found = Vec::new();
            heap.walk(|block| found.push(block.address));
            if found != [kept] {
                is_over.store(true, Relaxed);
                panic!("{} blocks where one is", found.len());
            }
        }
    });
}

#[test]
fn a_limit_holds_and_what_is_freed_can_be_had_again() {
    const LIMIT: usize = 4 << 20;
    let heap = Heap::new(HeapOptions { limit: Some(LIMIT), name: "limited" }).expect("memory");
    for size in [100, 3000, 40_000, 1 << 20] {
        let mut blocks = Vec::new();
        while let Some(block) = heap.allocate(size, 16) {
            blocks.push(block);
        }
        let bytes = blocks.len() * size;
        assert!((LIMIT / 2..=LIMIT).contains(&bytes), "{} blocks of {size}", blocks.len());
        assert!(heap.stats().census.held <= LIMIT as u64);
        // SAFETY: they are ours, and forgotten.
        blocks.into_iter().for_each(|block| unsafe { heap.free(block) });
    }
    assert!(heap.allocate_zeroed(usize::MAX).is_none() && heap.allocate(1, 1 << 40).is_none());
}

#[test]
fn statistics_list_the_heaps_that_live() {
    let names = || -> Vec<String> {
        let stats = Stats::take().expect("memory for a table");
        let heaps = stats.heaps().iter();
        heaps.map(|heap| String::from_utf8_lossy(heap.name.as_bytes()).into_owned()).collect()
    };
    let first = Heap::new(HeapOptions { limit: None, name: "listed 1" }).expect("memory");
    let second = Heap::new(HeapOptions { limit: Some(1 << 30), name: "listed 2" }).expect("memory");
    let listed = names();
    assert_eq!(listed[0], "main");
    assert!(listed.iter().any(|name| name == "listed 1"), "{listed:?}");
    drop(first);
    let listed = names();
    assert!(!listed.iter().any(|name| name == "listed 1"), "{listed:?}");
    assert!(listed.iter().any(|name| name == "listed 2"), "{listed:?}");
    assert_eq!(second.stats().limit, 1 << 30);
}
