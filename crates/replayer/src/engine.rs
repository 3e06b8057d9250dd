//! The loop: takes operations from a stream and calls the tested malloc.
//!
//! Compiled twice, with and without clocks and accounts, so that the timing run pays for neither.

use core::ffi::c_void;
use core::ptr;
use std::sync::OnceLock;

use freehold_replayer::{Kind, Op};

use crate::clock::ticks;
use crate::content::{Object, Touch};
use crate::phases::Phases;
use crate::plan::Plan;
use crate::run::{Pass, Settings};
use crate::slots::Slot;
use crate::sys::{Pages, table};
use crate::threads::{self, Yard};
use crate::timeline::{Account, Latencies, Timeline};

/// Everything the threads share.
pub struct World {
    /// What to do.
    pub plan: Plan,
    /// How to do it.
    pub settings: Settings,
    /// The objects.
    pub slots: &'static [Slot],
    /// One for each thread.
    pub accounts: &'static [Account],
    /// One for each thread; empty in the timing run.
    pub latencies: &'static [Latencies],
    /// Filled in the latency run.
    pub timeline: Timeline,
    /// What keeps threads in step.
    pub phases: Phases,
    /// The threads themselves.
    pub yard: Yard,
}

static WORLD: OnceLock<World> = OnceLock::new();

/// Makes the world; only the first call counts.
pub fn make_world(plan: Plan, settings: Settings) -> &'static World {
    WORLD.get_or_init(|| {
        let threads = plan.header.threads as usize;
        let measured = if settings.pass == Pass::Latency { threads } else { 0 };
        World {
            slots: table(plan.header.slots as usize, Pages::Now),
            accounts: table(threads, Pages::Now),
            latencies: table(measured, Pages::Lazily),
            timeline: Timeline::new(),
            phases: Phases::new(&plan.header),
            yard: Yard::new(threads),
            plan,
            settings,
        }
    })
}

/// The world, for threads started in it.
pub fn world() -> &'static World {
    WORLD.wait()
}

impl World {
    /// Does all of the stream that begins at `at`, as thread `thread`.
    pub fn run_stream(&'static self, thread: usize, at: usize) {
        let account = &self.accounts[thread];
        match self.latencies.get(thread) {
            Some(latencies) => Replay { world: self, account, latencies }.stream(at),
            None => Replay { world: self, account, latencies: () }.stream(at),
        }
    }
}

/// What is done around a call: nothing in the timing run.
trait Observe: Copy {
    const WATCHES: bool;
    fn around<R>(self, call: impl FnOnce() -> R) -> R;
}

impl Observe for () {
    const WATCHES: bool = false;

    #[inline(always)]
    fn around<R>(self, call: impl FnOnce() -> R) -> R {
        call()
    }
}

impl Observe for &Latencies {
    const WATCHES: bool = true;

    #[inline(always)]
    fn around<R>(self, call: impl FnOnce() -> R) -> R {
        let before = ticks();
        let result = call();
        self.count(ticks() - before);
        result
    }
}

/// One thread at work.
struct Replay<O> {
    world: &'static World,
    account: &'static Account,
    latencies: O,
}

impl<O: Observe> Replay<O> {
    fn stream(&self, mut at: usize) {
        let plan = &self.world.plan;
        loop {
            let op = plan.op(at);
            at += 1;
            match op.kind() {
                Some(Kind::Malloc) => self.allocate(op, malloc),
                Some(Kind::Free) => self.free(op),
                Some(Kind::Realloc) => {
                    self.reallocate(op, plan.op(at).size());
                    at += 1;
                }
                Some(Kind::Calloc) => self.allocate(op, calloc),
                Some(Kind::Aligned) => self.allocate(op, aligned),
                Some(Kind::Sample) => self.sample(op),
                Some(Kind::Jump) => at = op.size() as usize,
                Some(Kind::Phase) => self.world.phases.end(op),
                Some(Kind::Spawn) => threads::spawn(self.world, op),
                Some(Kind::Park) => threads::park(self.world),
                Some(Kind::End) => return,
                None => plan.unsound(at - 1, None),
            }
        }
    }

    #[inline(always)]
    fn slot(&self, op: Op) -> &'static Slot {
        let slot = &self.world.slots[op.slot() as usize];
        slot.await_turn(op);
        slot
    }

    #[inline(always)]
    fn allocate(&self, op: Op, call: impl FnOnce(Op) -> *mut u8) {
        let slot = self.slot(op);
        let address = self.latencies.around(|| call(op));
        if address.is_null() {
            self.allocation_failed(op);
        } else {
            self.enliven(op, address);
        }
        slot.set_address(address);
        slot.pass_turn(op);
    }

    #[inline(always)]
    fn enliven(&self, op: Op, address: *mut u8) {
        let touch = self.world.settings.touch;
        let object = Object { address, size: op.size() as usize, slot: op.slot() };
        if O::WATCHES {
            self.account.born(op.size());
        }
        let checked = op.is_sampled() && touch != Touch::None;
        // SAFETY: malloc returned the object for this size, and no other thread learns of it before
        // this operation passes its turn.
        unsafe {
            if checked {
                object.check_fresh(op, op.kind() == Some(Kind::Calloc));
            }
            object.touch(0, touch);
            if checked {
                object.mark();
            }
        }
    }

    #[inline(always)]
    fn free(&self, op: Op) {
        let slot = self.slot(op);
        let address = slot.address();
        if address.is_null() {
            self.account.skipped();
        } else {
            self.check(op, op.size(), address);
            // SAFETY: the object is live: its slot holds it, and the slot is emptied here, in this
            // operation's turn.
            self.latencies.around(|| unsafe { libc::free(address.cast()) });
            if O::WATCHES {
                self.account.died(op.size());
            }
            slot.set_address(ptr::null_mut());
        }
        slot.pass_turn(op);
    }

    fn reallocate(&self, op: Op, old_size: u64) {
        let slot = self.slot(op);
        let old = slot.address();
        if old.is_null() {
            self.account.skipped();
        } else {
            self.check(op, old_size, old);
            // Never 0: glibc's realloc would free the object then, which the trace says lives on.
            let size = (op.size() as usize).max(1);
            // SAFETY: the object is live, and this turn is the only user of it.
            let new = self.latencies.around(|| unsafe { libc::realloc(old.cast(), size) });
            let new = new.cast::<u8>();
            if O::WATCHES {
                self.account.died(old_size);
            }
            if new.is_null() {
                self.give_up(old);
            } else {
                self.resized(op, new, old, old_size as usize);
            }
            slot.set_address(new);
        }
        slot.pass_turn(op);
    }

    fn resized(&self, op: Op, new: *mut u8, old: *mut u8, old_size: usize) {
        let touch = self.world.settings.touch;
        let object = Object { address: new, size: op.size() as usize, slot: op.slot() };
        if O::WATCHES {
            self.account.born(op.size());
        }
        // SAFETY: realloc returned the object for this size, and the turn is ours.
        unsafe {
            object.touch(old_size, touch);
            if op.is_sampled() && touch != Touch::None {
                object.check_moved(old, old_size);
                object.mark();
            }
        }
    }

    #[inline(always)]
    fn check(&self, op: Op, size: u64, address: *mut u8) {
        if op.is_sampled() && self.world.settings.touch != Touch::None {
            let object = Object { address, size: size as usize, slot: op.slot() };
            // SAFETY: the object is live and was marked with this size; the turn is ours.
            unsafe { object.check() };
        }
    }

    fn sample(&self, op: Op) {
        if O::WATCHES && op.position().is_multiple_of(self.world.plan.header.stride) {
            self.world.timeline.take(op, self.world.accounts);
        }
    }

    /// A request for nothing may be answered by null; any other null is a failure.
    #[cold]
    fn allocation_failed(&self, op: Op) {
        if op.size() > 0 {
            self.account.failed();
        }
    }

    /// A failed reallocation ends the object: what a program that copes would do with it is not in
    /// the trace, and its later sizes would be wrong.
    #[cold]
    fn give_up(&self, object: *mut u8) {
        self.account.failed();
        // SAFETY: a failed realloc leaves the object live.
        unsafe { libc::free(object.cast()) };
    }
}

#[inline(always)]
fn malloc(op: Op) -> *mut u8 {
    // SAFETY: malloc takes any size.
    unsafe { libc::malloc(op.size() as usize) }.cast()
}

fn calloc(op: Op) -> *mut u8 {
    // SAFETY: calloc takes any size.
    unsafe { libc::calloc(1, op.size() as usize) }.cast()
}

fn aligned(op: Op) -> *mut u8 {
    let alignment = (1usize << op.align_log2()).max(size_of::<usize>());
    let mut address: *mut c_void = ptr::null_mut();
    // SAFETY: `address` is live; the alignment is a power of two and at least a pointer's size.
    let error = unsafe { libc::posix_memalign(&raw mut address, alignment, op.size() as usize) };
    if error == 0 { address.cast() } else { ptr::null_mut() }
}
