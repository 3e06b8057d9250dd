//! A process forks while another thread is between any two instructions of the malloc, and the child has a whole heap.
//!
//! One thread plays two: it steps through a call of the first, and before each instruction a child is forked (a real one)
//! in which it is the second. Before the fork, the second allocates and frees, if it would not have to wait; after it, the
//! child mends the heap, allocates all that is free, and looks whether any of it is part of a block that somebody has.

use freehold_core::machine::Machine;
use freehold_core::malloc::{Cache, NodeHeap};
use freehold_os::Linux;
use freehold_stepper::{Moment, Stepper};
use freehold_testkit::skip;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const FIRST: u32 = 1;
const SECOND: u32 = 2;
/// Which thread the calling one plays.
static PLAYS: AtomicU32 = AtomicU32::new(FIRST);

/// Linux, but for who calls.
struct Stage;

// SAFETY: Linux does it.
unsafe impl Machine for Stage {
    fn page_size(&self) -> usize {
        Linux.page_size()
    }
    fn reserve(&self, len: usize, align: usize) -> *mut u8 {
        Linux.reserve(len, align)
    }
    unsafe fn release(&self, at: *mut u8, len: usize) {
        // SAFETY: the caller's.
        unsafe { Linux.release(at, len) };
    }
    unsafe fn commit(&self, at: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's.
        unsafe { Linux.commit(at, len) }
    }
    unsafe fn purge(&self, at: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's.
        unsafe { Linux.purge(at, len) }
    }
    unsafe fn relocate(&self, from: *mut u8, to: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's.
        unsafe { Linux.relocate(from, to, len) }
    }
    fn me(&self) -> u32 {
        PLAYS.load(Relaxed)
    }
}

/// A block in use: what it is filled with tells blocks apart.
#[derive(Clone, Copy, Debug)]
struct Used {
    at: *mut u8,
    len: usize,
    fill: u8,
}

impl Used {
    fn new(at: *mut u8, len: usize) -> Used {
        let used = Used { at, len, fill: (at.addr() >> 4).wrapping_mul(167) as u8 };
        // SAFETY: the block is ours and that long.
        unsafe { used.at.write_bytes(used.fill, len) };
        used
    }

    fn is_whole(self) -> bool {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }.iter().all(|&it| it == self.fill)
    }
}

/// What the threads allocate: classes of their own, one that eight threads share, and large blocks.
const SIZES: [usize; 5] = [16, 200, 1500, 9000, 100_000];
/// Blocks that the second thread takes just before it forks.
const TAKEN: usize = 40;
/// A child that takes longer hangs.
const SECONDS: u32 = 20;

/// What the second thread does between the first one's instruction and the fork.
#[derive(Clone, Copy, Debug)]
enum Act {
    Nothing,
    /// Takes and frees some blocks of each size.
    TakesSome,
    /// Takes blocks of each size until a slab has to be cut: also what the first thread has just given back.
    TakesAll,
}

const ACTS: [Act; 3] = [Act::Nothing, Act::TakesSome, Act::TakesAll];

struct World {
    heap: NodeHeap<Stage>,
    first: &'static Cache,
    second: &'static Cache,
    /// Blocks of the first thread and of the second, of each size.
    used: [Vec<Used>; 2],
    /// How many more the first thread has, which the test counts only.
    counted: u64,
}

impl World {
    fn new(limit: Option<usize>) -> World {
        let heap = NodeHeap::new(Stage);
        limit.inspect(|&bytes| heap.set_limit(bytes));
        heap.set_key(0x0123_4567_89AB_CDEF);
        heap.reserve_at_most(64 << 20);
        let caches: Vec<&Cache> = (0..8).map(|_| heap.attach().expect("memory")).collect();
        // SAFETY: caches live as long as the heap, whose memory nobody gives back.
        let [first, second] = [caches[0], caches[1]].map(|it| unsafe { &*std::ptr::from_ref(it) });
        let mut world = World { heap, first, second, used: [Vec::new(), Vec::new()], counted: 0 };
        for of in 0..2 {
            for len in SIZES {
                let blocks: Vec<_> =
                    (0..60.min(1_000_000 / len)).map(|_| world.take(of, len)).collect();
                // Every third goes again, so that stacks and bits hold something.
                for (at, used) in blocks.into_iter().enumerate() {
                    if at % 3 == 0 { world.free(of, used) } else { world.used[of].push(used) }
                }
            }
        }
        world
    }

    fn cache(&self, of: usize) -> &'static Cache {
        [self.first, self.second][of]
    }

    fn take(&self, of: usize, len: usize) -> Used {
        let at = self.heap.allocate(self.cache(of), len);
        assert!(!at.is_null());
        Used::new(at, len)
    }

    fn free(&self, of: usize, used: Used) {
        // SAFETY: ours, and freed once.
        unsafe { self.heap.free(self.cache(of), used.at) }.expect("a block");
    }

    /// What the second thread does before it forks, unless it would have to wait for the first.
    fn act(&self, act: Act, used: &mut Vec<Used>) {
        PLAYS.store(SECOND, Relaxed);
        for len in SIZES {
            let most = match act {
                Act::Nothing => 0,
                Act::TakesSome => TAKEN,
                Act::TakesAll => usize::MAX,
            };
            let before = self.heap.usage().used.0;
            let mut taken = Vec::new();
            while taken.len() < most && self.heap.usage().used.0 <= before {
                taken.push(self.take(1, len));
            }
            // Some wait in its stack when it forks.
            let waits = taken.split_off(taken.len() - taken.len().min(3));
            waits.into_iter().for_each(|it| self.free(1, it));
            used.extend(taken);
        }
        if let Act::TakesSome = act {
            // What it frees are its own blocks and the first thread's.
            for (of, len) in [0, 1].into_iter().flat_map(|of| SIZES.map(|len| (of, len))) {
                let is_one =
                    |it: &Used| it.len == len && self.used[of].iter().any(|mine| mine.at == it.at);
                if let Some(at) = used.iter().position(is_one) {
                    self.free(1, used.swap_remove(at));
                }
            }
        }
    }

    /// In the child: what is wrong with it.
    fn judge(&self, act: Act) -> Result<(), String> {
        let mut used: Vec<Used> = self.used.concat();
        if !self.heap.is_locked_here() {
            self.act(act, &mut used);
        }
        PLAYS.store(SECOND, Relaxed);
        self.heap.after_fork_in_child(|cache| std::ptr::eq(cache, self.second));
        self.heap.check()?;
        for len in SIZES {
            let before = self.heap.usage().used.0;
            while self.heap.usage().used.0 <= before + 2 * len.div_ceil(65536) {
                used.push(self.take(1, len));
            }
        }
        used.sort_by_key(|it| it.at);
        for pair in used.windows(2) {
            if pair[0].at.addr() + pair[0].len > pair[1].at.addr() {
                return Err(format!("{:x?} and {:x?} overlap", pair[0], pair[1]));
            }
        }
        if let Some(torn) = used.iter().find(|it| !it.is_whole()) {
            return Err(format!("somebody wrote to {torn:x?}"));
        }
        used.into_iter().for_each(|it| self.free(1, it));
        self.heap.give_all(self.second);
        self.heap.purge(true);
        self.heap.check()?;
        if let Some((misuse, at)) = self.heap.late_misuse() {
            return Err(format!("{misuse:?} of {at:?}, which nobody did"));
        }
        match self.heap.census().blocks().saturating_sub(self.counted) {
            0..=LOST => Ok(()),
            lost => Err(format!("{lost} blocks are lost")),
        }
    }
}

/// Blocks that the interrupted thread may have had in its registers: a full stack and its head.
const LOST: u64 = 257;

/// Steps through calls of the first thread, and forks between their instructions: the first time that a call of its kind
/// is there, once for each act.
struct Forks {
    stepper: Stepper,
    world: World,
    /// Forks at one in so many of these.
    one_in: usize,
    /// Where calls of a kind have been: the kind's name and the instruction's address.
    seen: HashSet<(&'static str, usize, u64)>,
    children: u64,
}

impl Forks {
    fn through<R>(
        &mut self,
        call_name: &'static str,
        len: usize,
        call: impl FnOnce(&World) -> R,
    ) -> R {
        let (world, one_in, seen) = (&self.world, self.one_in, &mut self.seen);
        let (mut wrong, mut children) = (None, 0);
        let mut fork = |step: u64, now: Moment| {
            if wrong.is_some() || !seen.insert((call_name, len, now.at)) {
                return;
            }
            for (at, act) in ACTS.into_iter().enumerate() {
                if (seen.len() * ACTS.len() + at).is_multiple_of(one_in) {
                    children += 1;
                    let name =
                        format!("{call_name} of {len} bytes, before instruction {step}, {act:?}");
                    wrong = wrong.take().or(fork_and_judge(&name, || world.judge(act)).err());
                }
            }
        };
        let given = self.stepper.visit_in(|| call(world), &mut fork);
        assert_eq!(wrong, None, "{call_name} of {len} bytes: the wait status of a child");
        self.children += children;
        given
    }
}

fn fork_and_judge(name: &str, judge: impl FnOnce() -> Result<(), String>) -> Result<(), i32> {
    // SAFETY: a child of its own, which calls nothing that the handler interrupts but the heap, and ends.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: ends a child that hangs.
            unsafe { libc::alarm(SECONDS) };
            let verdict = judge();
            if let Err(why) = &verdict {
                eprintln!("{name}: {why}");
            }
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(verdict.is_err())) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            if status == 0 { Ok(()) } else { Err(status) }
        }
    }
}

/// One in so many, so that the test takes half a minute; `FORKS_ONE_IN=1` asks for all (ten minutes, optimised).
const ONE_IN: usize = 541;
/// Calls of a kind and size: more than a stack holds.
fn rounds(len: usize) -> usize {
    if len < 64 { 300 } else { 200 }
}

fn a_child_is_whole_wherever_another_thread_was() {
    let Some(stepper) = Stepper::new() else {
        return skip("instructions are stepped through on x86-64 Linux only");
    };
    let one_in =
        std::env::var("FORKS_ONE_IN").ok().and_then(|it| it.parse().ok()).unwrap_or(ONE_IN);
    let mut forks =
        Forks { stepper, world: World::new(None), one_in, seen: HashSet::new(), children: 0 };
    for len in SIZES {
        let blocks: Vec<_> = (0..rounds(len))
            .map(|at| {
                forks.world.counted = at as u64;
                forks.through("malloc", len, |world| world.heap.allocate(world.first, len))
            })
            .collect();
        for (freed, at) in blocks.into_iter().enumerate() {
            forks.world.counted = (rounds(len) - 1 - freed) as u64;
            forks.through("free", len, |world| {
                // SAFETY: ours, and freed once.
                unsafe { world.heap.free(world.first, at) }.expect("a block");
            });
        }
        let others = &mut forks.world.used[1];
        let of_len: Vec<Used> = others.extract_if(.., |it| it.len == len).collect();
        for other in of_len {
            forks.through("free of another's", len, |world| world.free(0, other));
        }
        println!("{len} bytes: {} children so far", forks.children);
    }
}

/// A call of thousands of instructions forks before one in so many.
const STEPS: u64 = 16;

/// Forks before one in [`STEPS`] instructions of a call of the first thread, and judges each child, whose heap is whole.
fn between_instructions(
    world: &World,
    call: impl FnOnce(),
    judge: impl Fn() -> Result<(), String>,
) {
    let Some(mut stepper) = Stepper::new() else {
        return skip("instructions are stepped through on x86-64 Linux only");
    };
    let (mut seen, mut wrong) = (HashSet::new(), None);
    let mut fork = |step: u64, now: Moment| {
        if wrong.is_some() || !step.is_multiple_of(STEPS) || !seen.insert(now.at) {
            return;
        }
        let judge = || {
            PLAYS.store(SECOND, Relaxed);
            world.heap.after_fork_in_child(|cache| std::ptr::eq(cache, world.second));
            world.heap.check()?;
            judge()
        };
        wrong = fork_and_judge(&format!("before instruction {step}"), judge).err();
    };
    stepper.visit_in(call, &mut fork);
    assert_eq!(wrong, None, "the wait status of a child");
    assert!(seen.len() > 50, "{} instructions", seen.len());
}

fn a_child_knows_the_length_of_a_block_that_was_becoming_shorter() {
    let world = World::new(Some(16 << 20));
    let block = world.heap.allocate(world.first, 900_000);
    let shorten = || {
        // SAFETY: ours.
        let same = unsafe { world.heap.reallocate(world.first, block, 100_000) };
        assert_eq!(same, Ok(block));
    };
    between_instructions(&world, shorten, || {
        let size = world.heap.usable_size(block).map_err(|misuse| format!("{misuse:?}"))?;
        let others: Vec<_> = (0..40).map(|_| world.take(1, 100_000)).collect();
        let within = |it: &&Used| (block.addr()..block.addr() + size).contains(&it.at.addr());
        if let Some(other) = others.iter().find(within) {
            return Err(format!("{other:x?} lies in a block of {size} bytes at {block:?}"));
        }
        others.into_iter().chain(world.used.concat()).for_each(|it| world.free(1, it));
        // SAFETY: nobody uses it, and it is freed once.
        unsafe { world.heap.free(world.second, block) }.expect("a block");
        match world.heap.allocate(world.second, 17 << 20).is_null() {
            true => Ok(()),
            false => Err(format!("a block beyond the limit: {:?}", world.heap.usage())),
        }
    });
}

freehold_testkit::trials! {
    a_child_knows_the_length_of_a_block_that_was_becoming_shorter,
    a_child_is_whole_wherever_another_thread_was,
}
