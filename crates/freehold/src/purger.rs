//! The hidden thread that gives memory back while the program does something else, or nothing.
//!
//! A cold path that finds megabytes of freed memory starts it; it works in rounds
//! until a few of them in a row find nothing to do, and then ends. `FREEHOLD_PURGE=off` disables it.
//!
//! It may call only what giving pages back needs (`freehold_os::thread`), so an attacker who controls it gains nothing. It
//! never blocks a call that changes all threads of the program at once, or that requires a single thread: such a call runs while
//! there is no purger ([`pause`]). A forked child has none until it needs one.
//!
//! Invariant: the state is `AT_WORK` while there is a thread that will check [`NodeHeap::wants_purge`] again, or another
//! thread is about to start one.
//!
//! [`NodeHeap::wants_purge`]: freehold_core::malloc::NodeHeap::wants_purge

use crate::main_heap::HEAP;
use crate::{heaps, report};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use freehold_core::machine::Machine;
use freehold_core::rounds::Rounds;
use freehold_core::sync::Lock;
use freehold_os::copied;
use freehold_os::thread::{Room, confine};

/// Tenths of a second that a program waits for it to end, at most: on a machine where it does not get a processor. And where it
/// may be waiting itself, for a lock that the program's thread held when a signal came.
const FAREWELL: usize = 100;
const FAREWELL_WITH_LOCK: usize = 1;

const ABSENT: u32 = 0;
const AT_WORK: u32 = 1;

static STATE: AtomicU32 = AtomicU32::new(ABSENT);
static OFF: AtomicBool = AtomicBool::new(false);
static ROOM: Room = Room::new();
/// Held by who starts it, or forbids that.
static STARTING: Lock = Lock::new();
/// How many want that there is none; it sleeps on this word.
static PAUSES: AtomicU32 = AtomicU32::new(0);

/// Never start it.
pub(crate) fn switch_off() {
    OFF.store(true, Ordering::Relaxed);
}

/// Starts the purger if there is enough for it to do.
#[inline]
pub(crate) fn consider() {
    report::stop_if_late();
    if HEAP.wants_purge() {
        call();
    }
}

#[cold]
pub(crate) fn call() {
    if OFF.load(Ordering::Relaxed) {
        return HEAP.settled();
    }
    // Where the process was copied and nobody said so yet, the state is the other process's.
    copied::mend();
    if STATE.load(Ordering::Relaxed) == AT_WORK {
        return;
    }
    if STATE.swap(AT_WORK, Ordering::AcqRel) == ABSENT && !start() {
        STATE.store(ABSENT, Ordering::Release);
    }
}

/// Starts the thread, unless the last one is still leaving, or another call starts or pauses it: then the next free tries again.
fn start() -> bool {
    let machine = HEAP.machine();
    let started = STARTING.try_with(machine, || {
        if !ROOM.is_empty() || PAUSES.load(Ordering::Relaxed) != 0 {
            return false;
        }
        copied::notice(machine.page_size());
        // SAFETY: under the lock; `main` touches no thread-local storage.
        let started = unsafe { ROOM.spawn(main) };
        if !started {
            // Refused: not before as much again was freed.
            HEAP.settled();
        }
        started
    });
    started.unwrap_or(false)
}

/// In a forked child: the purger did not come along, and who was about to do something about it neither.
pub(crate) fn forget() {
    STARTING.disown(HEAP.machine());
    ROOM.vacate();
    PAUSES.store(0, Ordering::Relaxed);
    HEAP.hurry(false);
    STATE.store(ABSENT, Ordering::Relaxed);
}

/// As long as it lives there is no purger.
pub struct Pause(());

/// Ends the purger, if there is one, and waits until the kernel has removed it; none starts before the result is dropped. For
/// calls that change all threads of a program, or require a single one.
#[cold]
pub fn pause() -> Pause {
    copied::mend();
    let machine = HEAP.machine();
    // A signal handler may have interrupted who holds the lock.
    let mine = STARTING.is_mine(machine);
    if !mine {
        STARTING.lock(machine);
    }
    PAUSES.fetch_add(1, Ordering::AcqRel);
    if !mine {
        STARTING.unlock(machine);
    }
    HEAP.hurry(true);
    machine.wake(&PAUSES);
    let locked = HEAP.is_locked_here() || heaps::is_locked_here();
    ROOM.wait_until_forgotten(if locked { FAREWELL_WITH_LOCK } else { FAREWELL });
    Pause(())
}

impl Drop for Pause {
    fn drop(&mut self) {
        let less = |pauses: u32| pauses.checked_sub(1);
        // None left to take away: a signal handler forked meanwhile, and this is the child.
        let before = PAUSES.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        if before == Ok(1) {
            HEAP.hurry(false);
        }
    }
}

fn is_unwanted() -> bool {
    PAUSES.load(Ordering::Acquire) != 0
}

extern "C" fn main() {
    if !confine() {
        HEAP.settled();
        return STATE.store(ABSENT, Ordering::Release);
    }
    loop {
        work();
        HEAP.settled();
        STATE.store(ABSENT, Ordering::Release);
        // Who has freed much just now may have taken us for at work.
        let more = HEAP.wants_purge() && !is_unwanted();
        if !more || STATE.swap(AT_WORK, Ordering::AcqRel) != ABSENT {
            return;
        }
    }
}

fn work() {
    let (machine, mut rounds) = (HEAP.machine(), Rounds::default());
    while let Some(pause) = rounds.pause_ns(machine.decisions(), HEAP.usage().used)
        && !is_unwanted()
    {
        machine.sleep_on(&PAUSES, 0, Some(pause));
        let done = HEAP.purge(false);
        rounds.done(pause, heaps::purge() | done.more);
    }
}
