//! Forks take no lock and wait for nobody: whatever a parent's threads are in the middle of, the child's heaps pass `check`, give
//! memory and take it back, and what was allocated before is as it was.

use freehold::{Heap, HeapOptions, process};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};
use std::thread;

const CHURNERS: u64 = 3;
const FORKS: usize = 120;
const KEPT: usize = 400;
const POOL: usize = 64;
/// Seconds after which a child that hangs is ended by a signal.
const PATIENCE: u32 = 30;

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
            0..70 => self.below(600) + 1,
            70..95 => self.below(30_000) + 1,
            _ => self.below(600_000) + 1,
        }
    }
}

/// Blocks that any thread may take and free: most frees are of other threads' blocks.
static SHARED: [AtomicPtr<u8>; POOL] = [const { AtomicPtr::new(std::ptr::null_mut()) }; POOL];
static STOP: AtomicBool = AtomicBool::new(false);

fn exchange(block: *mut u8, random: &mut Random) {
    let old = SHARED[random.below(POOL)].swap(block, Relaxed);
    // SAFETY: whoever takes it out of the pool has it.
    unsafe { process::free(old) };
}

fn churn(seed: u64, heap: &Heap) {
    let mut random = Random(seed);
    let mut own = [std::ptr::null_mut(); 200];
    while !STOP.load(Relaxed) {
        let at = random.below(own.len());
        match random.below(8) {
            0 => exchange(process::allocate(random.size()), &mut random),
            // SAFETY: the block is ours.
            1 => own[at] = unsafe { process::reallocate(own[at], random.size()) },
            2 => {
                if let Some(block) = heap.allocate(random.size(), 16) {
                    // SAFETY: the block is ours.
                    unsafe { heap.free(block) };
                }
            }
            _ => {
                // SAFETY: the block is ours.
                unsafe { process::free(own[at]) };
                own[at] = process::allocate(random.size());
            }
        }
    }
    // SAFETY: the blocks are ours.
    own.into_iter().for_each(|block| unsafe { process::free(block) });
}

/// What a child finds wrong, as its exit status; 0 is nothing. Prints and panics need locks that other threads may have had.
fn child(kept: &[(*mut u8, usize)], heap: &Heap, seed: u64) -> i32 {
    if process::check().is_err() {
        return 10;
    }
    if heap.check().is_err() {
        return 11;
    }
    let mut random = Random(seed);
    let mut own = [std::ptr::null_mut::<u8>(); 500];
    for _ in 0..800 {
        let at = random.below(own.len());
        let size = random.size();
        // SAFETY: blocks are the child's, and as long as was asked for.
        unsafe {
            process::free(own[at]);
            own[at] = process::allocate(size);
            own[at].write_bytes(seed as u8, size);
        }
        exchange(process::allocate(random.size()), &mut random);
        let Some(block) = heap.allocate(size, 16) else { return 12 };
        // SAFETY: as above.
        unsafe { heap.free(block) };
    }
    for &(block, size) in kept {
        // SAFETY: the parent's blocks are the child's as well.
        let same =
            unsafe { std::slice::from_raw_parts(block, size) }.iter().all(|&b| b == size as u8);
        if !same {
            return 13;
        }
        // SAFETY: as above.
        unsafe { process::free(block) };
    }
    // SAFETY: as above.
    own.into_iter().for_each(|block| unsafe { process::free(block) });
    process::trim();
    if process::check().is_err() { 14 } else { 0 }
}

fn fork_and_look(kept: &[(*mut u8, usize)], heap: &Heap, seed: u64) -> i32 {
    // SAFETY: the child calls what may be called after a fork of threads, and ends.
    unsafe {
        let child_of_ours = libc::fork();
        if child_of_ours == 0 {
            libc::alarm(PATIENCE);
            libc::_exit(child(kept, heap, seed));
        }
        let mut status = -1;
        libc::waitpid(child_of_ours, &mut status, 0);
        status
    }
}

#[test]
fn a_child_finds_whole_heaps_whatever_other_threads_do() {
    let heap = Heap::new(HeapOptions { name: "shared", ..HeapOptions::default() }).expect("memory");
    let mut random = Random(99);
    let kept: Vec<_> = (0..KEPT)
        .map(|_| {
            let size = random.size();
            let block = process::allocate(size);
            // SAFETY: the block is ours and that long.
            unsafe { block.write_bytes(size as u8, size) };
            (block, size)
        })
        .collect();
    let statuses = thread::scope(|scope| {
        let heap = &heap;
        let spawn = |seed| scope.spawn(move || churn(seed * 7919, heap));
        let mut threads: Vec<_> = (1..=CHURNERS).map(spawn).collect();
        // Threads that come and go, and the memory that goes back meanwhile.
        threads.push(scope.spawn(|| {
            while !STOP.load(Relaxed) {
                thread::spawn(|| {
                    let blocks: Vec<_> = (1..500).map(|size| process::allocate(size * 9)).collect();
                    // SAFETY: the blocks are ours.
                    blocks.into_iter().for_each(|block| unsafe { process::free(block) });
                })
                .join()
                .expect("no panic");
                process::trim();
            }
        }));
        let statuses: Vec<_> =
            (1..=FORKS as u64).map(|seed| fork_and_look(&kept, heap, seed)).collect();
        STOP.store(true, Relaxed);
        // The scope alone does not wait until they have left their caches.
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        statuses
    });
    let broken: Vec<_> = statuses.iter().enumerate().filter(|(_, status)| **status != 0).collect();
    assert!(broken.is_empty(), "(fork, wait status): {broken:x?}");
    process::check().expect("the parent's heap is whole");
}
