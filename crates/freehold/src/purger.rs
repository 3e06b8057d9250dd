//! The hidden thread that gives memory back while the program does something else, or nothing.
//!
//! It is started by whoever notices, on a cold path, that megabytes were freed; it works in rounds
//! until a few of them in a row find nothing to do, and then sleeps until called again. A forked
//! child has none until it needs one. `FREEHOLD_PURGE=off` does without.

use crate::heaps;
use crate::process::HEAP;
use crate::report;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use freehold_core::machine::Machine;
use freehold_os::thread::{Stack, drop_capabilities, spawn};

/// Between two rounds. Two rounds of rest make a page idle: one second, give or take.
const ROUND_NS: u64 = 400_000_000;
/// Units in use (32 GiB) for each of which a round waits so long: looking at them all costs about ten
/// nanoseconds each, and the purger shall take at most one hundredth of a processor.
const ROUND_UNITS: usize = 1 << 19;
/// Rounds without work before it sleeps.
const PATIENCE: u32 = 3;

const ABSENT: u32 = 0;
const AWAKE: u32 = 1;
const ASLEEP: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(ABSENT);
static OFF: AtomicBool = AtomicBool::new(false);
static STACK: Stack = Stack::new();

/// Never start it.
pub(crate) fn switch_off() {
    OFF.store(true, Ordering::Relaxed);
}

/// Starts or wakes the purger if there is enough for it to do.
#[inline]
pub(crate) fn consider() {
    report::stop_if_late();
    if HEAP.wants_purge() && STATE.load(Ordering::Relaxed) != AWAKE {
        call();
    }
}

#[cold]
pub(crate) fn call() {
    if OFF.load(Ordering::Relaxed) {
        return HEAP.settled();
    }
    match STATE.swap(AWAKE, Ordering::AcqRel) {
        ASLEEP => HEAP.machine().wake(&STATE),
        // SAFETY: the state says that nobody runs on the stack; `main` touches no TLS.
        ABSENT if !unsafe { spawn(&STACK, main) } => {
            switch_off();
            STATE.store(ABSENT, Ordering::Release);
        }
        _ => {}
    }
}

/// In a forked child: the purger did not come along.
pub(crate) fn forget() {
    STATE.store(ABSENT, Ordering::Relaxed);
}

extern "C" fn main() -> ! {
    drop_capabilities();
    loop {
        work();
        HEAP.settled();
        STATE.store(ASLEEP, Ordering::Release);
        while STATE.load(Ordering::Acquire) == ASLEEP {
            HEAP.machine().sleep_on(&STATE, ASLEEP, None);
        }
    }
}

fn work() {
    let never = AtomicU32::new(0);
    let mut idle = 0;
    while idle < PATIENCE {
        let rounds = 1 + HEAP.usage().used / ROUND_UNITS;
        HEAP.machine().sleep_on(&never, 0, Some(ROUND_NS * rounds as u64));
        let done = HEAP.purge(false);
        report::stop_if_late();
        let busy = heaps::purge() || done.bytes != 0 || done.unsettled;
        idle = if busy { 0 } else { idle + 1 };
    }
}
