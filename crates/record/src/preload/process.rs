//! What the process knows: its ring sets. One page that the kernel zeroes in a forked child.
//!
//! A child of `fork` has its parent's memory, and with it every thread-local ring pointer; writing
//! through one would mix two processes. So the rings are mapped `MADV_DONTFORK` and this page is
//! `MADV_WIPEONFORK`: in a child, however it was made, `ticket` is 0 and no thread's ticket is valid.
//! (Where the kernel knows neither, the handlers of `pthread_atfork` do the same for `fork`.)
//!
//! The lock lives here too: a child never inherits it taken. Its holder talks with the parent, its signals blocked, and
//! never waits for a thread of this process; so whoever waits for it, a fork among them, waits for system calls only.
//! **No fork holds it.** A fork is announced instead (`forks`), and a talk that could begin amid it waits a little, because
//! a child should not inherit the talk's descriptors. It does not wait for long: the fork may itself wait for a lock of
//! the C library that this very thread holds (a stream's, in `getline`). The child closes what it then inherits.
//!
//! Invariant: `sets[..count]` are mapped for as long as the process lives.

use super::sys::{self, Signals};
use super::thread::Thread;
use crate::ring::{CLOSED, Pen, RingHead};
use crate::ring_set::{HEAD_BYTES, RINGS, RingSet, SET_BYTES, SLOTS};
use core::ffi::c_void;
use core::mem::size_of;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The ticket of a process that does not record, and never will.
pub const OVER: u64 = 1;
/// Tickets from here on are those of recording processes: each has its own, so that no thread of a
/// child can hold one that was valid in its parent.
const FIRST: u64 = 2;

/// Most ring sets of a process: 4,096 threads alive at once. Further threads are not recorded.
const SETS: usize = 256;

#[repr(C, align(4096))]
struct Page {
    ticket: AtomicU64,
    /// 0 open, 1 taken, 2 taken and waited for.
    lock: AtomicU32,
    /// Threads numbered so far.
    threads: AtomicU32,
    count: AtomicU32,
    clock: AtomicU32,
    /// The kernel's number of the process that began here.
    pid: AtomicU32,
    /// Threads inside of a fork.
    forks: AtomicU32,
    sets: [AtomicPtr<RingSet>; SETS],
}

const PAGE_BYTES: usize = 4096;
const _: () = assert!(size_of::<Page>() == PAGE_BYTES);

static PAGE: Page = Page {
    ticket: AtomicU64::new(0),
    lock: AtomicU32::new(0),
    threads: AtomicU32::new(0),
    count: AtomicU32::new(0),
    clock: AtomicU32::new(0),
    pid: AtomicU32::new(0),
    forks: AtomicU32::new(0),
    sets: [const { AtomicPtr::new(core::ptr::null_mut()) }; SETS],
};

/// The number of this process in the recording. Not on the page: a forked child names its parent
/// by it.
pub static NUMBER: AtomicU32 = AtomicU32::new(crate::hello::NOBODY);

/// Its first ring set. Not on the page either: a child must know what it does not have.
static FIRST_SET: AtomicPtr<RingSet> = AtomicPtr::new(core::ptr::null_mut());

/// The process's ticket: 0 before the first event and in a forked child, [`OVER`] when
/// all is over.
#[inline(always)]
pub fn ticket() -> u64 {
    PAGE.ticket.load(Ordering::Relaxed)
}

/// Ends the recording of this process.
pub fn end() {
    PAGE.ticket.store(OVER, Ordering::Relaxed);
}

/// Begins it: at least one set is there.
pub fn begin(number: u32, clock: u32) {
    NUMBER.store(number, Ordering::Relaxed);
    PAGE.clock.store(clock, Ordering::Relaxed);
    PAGE.pid.store(sys::pid(), Ordering::Relaxed);
    PAGE.ticket.store(FIRST + u64::from(number), Ordering::Relaxed);
}

/// Whether ticks are the monotonic clock's.
pub fn is_monotonic() -> bool {
    PAGE.clock.load(Ordering::Relaxed) == crate::hello::CLOCK_MONOTONIC
}

/// Asks the kernel to zero the page in children. Once, early.
pub fn protect() {
    let page = (&raw const PAGE).cast_mut().cast::<c_void>();
    // SAFETY: the page holds nothing but `PAGE`, which is page-aligned and one page long.
    unsafe { sys::advise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) };
}

/// Whether this very process has begun: a handler of the program that allocates may run before ours in a child.
pub fn has_begun() -> bool {
    ticket() != 0 && PAGE.pid.load(Ordering::Relaxed) == sys::pid()
}

/// Does in a child of `fork` what the kernel should have done.
pub fn forget() {
    PAGE.ticket.store(0, Ordering::Relaxed);
    PAGE.threads.store(0, Ordering::Relaxed);
    PAGE.count.store(0, Ordering::Relaxed);
    PAGE.forks.store(0, Ordering::Relaxed);
    PAGE.lock.store(0, Ordering::Release);
}

/// Longest that a talk waits for forks, and that a fork waits for a talk.
const FORK_NAPS: u32 = 100;
const FORK_NAP_MS: i64 = 1;

/// A thread is about to fork. Waits for the talk that is under way, if there is one.
pub fn fork_begins() {
    PAGE.forks.fetch_add(1, Ordering::SeqCst);
    // A talk that was not seen here sees the fork (`talk` looks with the lock held): both orders are SeqCst.
    for _ in 0..FORK_NAPS {
        let held = PAGE.lock.load(Ordering::SeqCst);
        if held == 0 {
            return;
        }
        sys::wait(&PAGE.lock, held, FORK_NAP_MS);
    }
}

/// It has, in the parent or in a child that was forked amid it (where none was begun).
pub fn fork_ends() {
    let less = |forks: u32| forks.checked_sub(1);
    if PAGE.forks.fetch_update(Ordering::SeqCst, Ordering::Relaxed, less) == Ok(1) {
        sys::wake(&PAGE.forks);
    }
}

/// Does `work` with the lock of everything slow. Signals are blocked meanwhile, so that no handler can fork or wait
/// for what this thread holds.
pub fn talk<R>(thread: &mut Thread, work: impl FnOnce(&mut Thread) -> R) -> R {
    let mut naps = 0;
    let signals = loop {
        let signals = Signals::block();
        lock();
        let forks = PAGE.forks.load(Ordering::SeqCst);
        // A thread that forks itself talks before its child is made, or in the child.
        if forks == 0 || thread.forking > 0 || naps == FORK_NAPS {
            break signals;
        }
        unlock();
        drop(signals);
        naps += 1;
        sys::wait(&PAGE.forks, forks, FORK_NAP_MS);
    };
    let done = work(thread);
    unlock();
    drop(signals);
    done
}

fn lock() {
    if PAGE.lock.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
        return;
    }
    while PAGE.lock.swap(2, Ordering::SeqCst) != 0 {
        sys::wait(&PAGE.lock, 2, 100);
    }
}

fn unlock() {
    // A fork waits without saying so.
    if PAGE.lock.swap(0, Ordering::SeqCst) == 2 || PAGE.forks.load(Ordering::SeqCst) != 0 {
        sys::wake(&PAGE.lock);
    }
}

/// The number of a thread seen for the first time.
pub fn number_thread() -> u32 {
    PAGE.threads.fetch_add(1, Ordering::Relaxed)
}

/// How many sets there are.
pub fn sets() -> usize {
    // Acquire pairs with the Release in `add`: the pointers below the count are written.
    PAGE.count.load(Ordering::Acquire) as usize
}

/// Whether another set may be asked for.
pub fn may_grow() -> bool {
    sets() < SETS
}

/// Adds a set. With the lock held.
///
/// # Safety
/// `set` is a mapping of [`SET_BYTES`] bytes that is never unmapped.
pub unsafe fn add(set: *mut RingSet) {
    // SAFETY: our own mapping; a child must not have it.
    unsafe { sys::advise(set.cast(), SET_BYTES, libc::MADV_DONTFORK) };
    let count = sets();
    if let Some(place) = PAGE.sets.get(count) {
        place.store(set, Ordering::Relaxed);
        if count == 0 {
            FIRST_SET.store(set, Ordering::Relaxed);
        }
        PAGE.count.store(count as u32 + 1, Ordering::Release);
    }
}

fn set(index: usize) -> Option<&'static RingSet> {
    let place = PAGE.sets.get(index)?;
    // SAFETY: sets below the count are mapped for ever, and a RingSet is atomics only.
    unsafe { place.load(Ordering::Relaxed).as_ref() }
}

/// In a child of `fork` that has no sets yet: puts nothing in the place of the parent's first set and of the one that
/// `ring` lies in, or nowhere. They are not mapped here, but a child of a signal handler that returns goes on in the middle
/// of what the handler interrupted, which may be about to write there, or waits for room: the ring is empty where that pen
/// stands. (Rings are taken with signals blocked, so no other set is looked at then.)
pub fn stand_in_for_rings(ring: *const RingHead, pen: &Pen) {
    let own = ring.map_addr(|at| at & !(HEAD_BYTES - 1)).cast_mut().cast();
    for set in [FIRST_SET.load(Ordering::Relaxed).cast::<c_void>(), own] {
        // SAFETY: a set was mapped there in the parent, its heads in its first page; here nothing is.
        unsafe {
            if !set.is_null() && sys::fill(set, SET_BYTES) {
                sys::advise(set, SET_BYTES, libc::MADV_DONTFORK);
                if set == own {
                    (*ring).release(pen.position());
                }
            }
        }
    }
}

/// Whether the parent has ended the recording of this process. Not of one that has not begun: a child may go on where
/// its parent waited for room.
pub fn is_stopped() -> bool {
    ticket() != 0 && set(0).is_none_or(|set| set.stop.load(Ordering::Relaxed) != 0)
}

/// Counts an event that found no ring.
pub fn lose_ringless() {
    if let Some(set) = set(0) {
        set.ringless.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts an event of a signal handler that came amid another event of its thread.
pub fn lose_interrupting() {
    if let Some(set) = set(0) {
        set.interrupting.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a stack that was compared with a plain walk.
#[cfg(feature = "stacks")]
pub fn compared(same: bool) {
    if let Some(set) = set(0) {
        set.compared.fetch_add(1, Ordering::Relaxed);
        set.differing.fetch_add(u64::from(!same), Ordering::Relaxed);
    }
}

/// Whether there is a ring that is free as soon as the drain comes by.
pub fn has_closed_rings() -> bool {
    let is_closed = |head: &RingHead| head.state() == CLOSED;
    (0..sets()).filter_map(set).any(|set| set.heads.iter().any(is_closed))
}

/// Takes a free ring for the thread, newest set first (older ones are more likely taken).
pub fn try_take(thread: &mut Thread) -> bool {
    for index in (0..sets()).rev() {
        let Some(set) = set(index) else { continue };
        let free = set.heads.iter().position(|head| head.try_take(thread.number));
        if let Some(ring) = free
            && let Some(head) = set.heads.get(ring)
        {
            thread.ring = core::ptr::from_ref::<RingHead>(head);
            // SAFETY: a set is a mapping of SET_BYTES, and `ring` is below RINGS.
            thread.slots = unsafe { crate::ring_set::slots_of(set, ring) };
            thread.pen = Pen::start(head, SLOTS as u64);
            return true;
        }
    }
    false
}

const _: () = assert!(RINGS == 16);
