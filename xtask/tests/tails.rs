//! The longest calls of the malloc in a program of mixed sizes, some blocks of which another thread frees: in instructions
//! of the library as it ships, counted one by one by the processor's trap.
//!
//! Blocks of another thread that are freed in the order in which they were allocated are collected with few instructions,
//! without a look at what their owner writes. What is freed for another thread goes back a parcel at a time, never all parcels at once (13,728 instructions
//! here, and several lines of cache a block). What runs empty takes at most 64 blocks, and what goes back to
//! bits goes back to five words at a time, or sixteen for a slab that was cut.

use freehold_stepper::{Call, Stepper};
use std::ffi::{CString, c_void};
use std::sync::mpsc;

/// What the hot paths may take, the return included; they took 15 and 23 before blocks that leave a stack were checked and
/// wiped.
const HOT_MALLOC: u64 = 18;
const HOT_FREE: u64 = 25;
/// What the longest may take: as counted, and a tenth, for the code changes.
const REMOTE_FREE: u64 = 320;
/// Of blocks that the reserve has no room for, each going back to a word of its own, as the last of its slab (275 while
/// there is room).
const OWN_FREE: u64 = 1_930;
/// The longest cuts a slab, and repays with blocks of another size, the last of their slab (the gate was 1,900 before the reserve became a
/// share of what is in use: it is full more often now; 2,430 before stacks at rest repaid, too; and 2,750 before three stacks went
/// back abreast, which takes less time, for they wait for memory together).
const MALLOC: u64 = 3_300;
/// Of small blocks that the reserve has no room for, each going back to a word of its own (9,092 when 64 went back at once; 293
/// while there is room). 192 are those of a count for the purger, once in 256 KiB: whether the longest has them is chance.
const SCATTERED_FREE: u64 = 1_990;
/// The same while blocks of another size go back (11,206 when up to 127 went back at once, however far apart).
const MALLOC_WITH_DEBTS: u64 = 6_850;

/// What a free of another thread's block takes in the mean, when its neighbours were freed before it: as counted, and a
/// tenth.
const REMOTE_FREE_IN_ORDER: u64 = 121;

const LIVE: usize = 2_000;
/// Replacements before anything is counted, and replacements, and frees of another thread's blocks, that are.
const WARM: usize = 20_000;
const CALLS: usize = 2_000;

/// The functions of a library that is loaded beside the process's own malloc.
#[derive(Clone, Copy)]
struct Malloc {
    malloc: Call,
    free: Call,
}

impl Malloc {
    fn load() -> Malloc {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        let library = freehold_testkit::preload_library(folder);
        let path = CString::new(library.to_str().expect("a path of ours")).expect("no zero");
        // Whoever is stepped through cannot start a thread: the trap's flag would be the thread's, too.
        // SAFETY: no other thread of this process looks at the environment.
        unsafe { std::env::set_var("FREEHOLD_PURGE", "off") };
        // SAFETY: the library does nothing when it is loaded but look at the environment.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{} does not load", library.display());
        Malloc { malloc: find(handle, c"malloc"), free: find(handle, c"free") }
    }
}

fn find(handle: *mut c_void, name: &std::ffi::CStr) -> Call {
    // SAFETY: the handle is that of a library that is never closed.
    let at = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!at.is_null(), "the library lacks {name:?}");
    // SAFETY: a function of C that takes one word and gives one or none; it ignores the second.
    unsafe { std::mem::transmute::<*mut c_void, Call>(at) }
}

/// Numbers of which nothing is asked but that they are always the same and spread.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) as usize) % end
    }

    /// From 16 bytes to 8 KiB, each doubling as often as the next.
    fn size(&mut self) -> usize {
        let least = 16 << self.below(9);
        least + self.below(least)
    }
}

/// Blocks that another thread allocated with these sizes, in any order or in that of their allocation, and which lives as
/// long as what is given with them.
fn of_another_thread(
    malloc: Malloc,
    mut size: impl FnMut(&mut Draw) -> usize + Send + 'static,
    in_order: bool,
) -> (Vec<usize>, impl Sized) {
    let (send, receive) = mpsc::channel();
    let (keep, until) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let mut draw = Draw(7);
        // SAFETY: malloc may be called with any size.
        let blocks = (0..CALLS).map(|_| unsafe { (malloc.malloc)(size(&mut draw), 0) });
        let mut blocks: Vec<_> = blocks.collect();
        for at in (1..CALLS).rev().filter(|_| !in_order) {
            blocks.swap(at, draw.below(at + 1));
        }
        send.send(blocks).expect("the test waits");
        let _ = until.recv();
    });
    (receive.recv().expect("the thread sends"), keep)
}

/// How many instructions a free of another thread's block takes in the mean, if blocks are freed in order.
fn mean_in_order(malloc: Malloc, stepper: &mut Stepper) -> u64 {
    let (blocks, _keep) = of_another_thread(malloc, |draw| 16 + draw.below(497), true);
    let steps = blocks.iter().map(|&block| stepper.count(malloc.free, block, 0).1);
    steps.sum::<u64>() / CALLS as u64
}

/// The longest malloc of a size that needs slab after slab while blocks of another one go back for them: all there are,
/// or one of eight.
fn longest_with_debts(malloc: Malloc, stepper: &mut Stepper) -> u64 {
    // What was freed of that size before.
    for _ in 0..8000 {
        // SAFETY: malloc may be called with any size.
        unsafe { (malloc.malloc)(1000, 0) };
    }
    let longest = [1, 8].map(|apart| {
        // SAFETY: malloc may be called with any size, and every block is freed once.
        unsafe {
            let blocks: Vec<usize> = (0..64 * 1024).map(|_| (malloc.malloc)(48, 0)).collect();
            blocks.iter().step_by(apart).for_each(|&block| _ = (malloc.free)(block, 0));
        }
        (0..CALLS / 2).map(|_| stepper.count(malloc.malloc, 1000, 0).1).max().unwrap_or(0)
    });
    println!("longest malloc while blocks of another size go back, of 1 and 8 one: {longest:?}");
    longest.into_iter().max().unwrap_or(0)
}

/// Frees as much as a thread sets aside, so that what is freed next goes back to bits.
fn fill_reserve(malloc: Malloc) {
    // SAFETY: malloc may be called with any size, and every block is freed once.
    unsafe {
        let blocks: Vec<usize> = (0..6000).map(|_| (malloc.malloc)(1000, 0)).collect();
        blocks.into_iter().for_each(|block| _ = (malloc.free)(block, 0));
    }
}

/// The longest free of blocks that cannot be set aside, of which no two lie in one word of bits.
fn longest_scattered(malloc: Malloc, stepper: &mut Stepper) -> u64 {
    // SAFETY: malloc may be called with any size.
    let blocks: Vec<_> = (0..64 * CALLS).map(|_| unsafe { (malloc.malloc)(16, 0) }).collect();
    fill_reserve(malloc);
    let scattered = blocks.iter().step_by(64);
    scattered.map(|&block| stepper.count(malloc.free, block, 0).1).max().unwrap_or(0)
}

fn no_call_takes_long() {
    let Some(mut stepper) = Stepper::new() else {
        return freehold_testkit::skip("no processor whose trap flag is known here");
    };
    let malloc = Malloc::load();
    let (remote, _keep) = of_another_thread(malloc, Draw::size, false);
    let mut draw = Draw(1);
    let mut live = vec![0; LIVE];
    for _ in 0..WARM {
        let at = draw.below(LIVE);
        // SAFETY: the block is null, or allocated below, and freed once.
        live[at] = unsafe {
            (malloc.free)(live[at], 0);
            (malloc.malloc)(draw.size(), 0)
        };
    }
    fill_reserve(malloc);
    let (mut worst_malloc, mut worst_own, mut worst_remote) = (0, 0, 0);
    for block in remote {
        let at = draw.below(LIVE);
        worst_own = worst_own.max(stepper.count(malloc.free, live[at], 0).1);
        let (block_of_ours, steps) = stepper.count(malloc.malloc, draw.size(), 0);
        live[at] = block_of_ours;
        worst_malloc = worst_malloc.max(steps);
        worst_remote = worst_remote.max(stepper.count(malloc.free, block, 0).1);
    }
    let in_order = mean_in_order(malloc, &mut stepper);
    let scattered = longest_scattered(malloc, &mut stepper);
    let with_debts = longest_with_debts(malloc, &mut stepper);
    println!("longest malloc {worst_malloc}, free {worst_own}, free of another's {worst_remote}");
    println!("longest free of small blocks that lie scattered: {scattered}");
    println!("a free of another's block, its neighbours freed before it: {in_order}");
    assert!(in_order <= REMOTE_FREE_IN_ORDER, "{in_order} for a free of another's, in order");
    assert!(worst_remote <= REMOTE_FREE, "{worst_remote} for a free of another thread's block");
    assert!(worst_own <= OWN_FREE, "{worst_own} for a free");
    assert!(worst_malloc <= MALLOC, "{worst_malloc} for a malloc");
    assert!(scattered <= SCATTERED_FREE, "{scattered} for a free of scattered small blocks");
    assert!(with_debts <= MALLOC_WITH_DEBTS, "{with_debts} for a malloc with debts");
}

/// What a malloc and a free take that find what they need: a block in the thread's stack, and room in it. Every size that the
/// hot path knows.
fn the_hot_paths_are_short() {
    let Some(mut stepper) = Stepper::new() else {
        return freehold_testkit::skip("no processor whose trap flag is known here");
    };
    let malloc = Malloc::load();
    for size in [1, 16, 40, 64, 100, 128, 250, 500, 1000, 1024] {
        // SAFETY: malloc may be called with any size, and what it answers is freed once.
        unsafe {
            let blocks: Vec<usize> = (0..4).map(|_| (malloc.malloc)(size, 0)).collect();
            blocks.into_iter().for_each(|block| _ = (malloc.free)(block, 0));
        }
        let (block, allocating) = stepper.count(malloc.malloc, size, 0);
        let (_, freeing) = stepper.count(malloc.free, block, 0);
        println!("{size} bytes: malloc {allocating}, free {freeing}");
        assert!(allocating <= HOT_MALLOC, "{allocating} instructions for a malloc of {size}");
        assert!(freeing <= HOT_FREE, "{freeing} instructions for a free of {size}");
    }
}

freehold_testkit::trials! {
    no_call_takes_long,
    the_hot_paths_are_short,
}
