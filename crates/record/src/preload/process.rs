//! What the process knows: its ring sets. One page that the kernel zeroes in a forked child.
//!
//! A child of `fork` has its parent's memory, and with it every thread-local ring pointer; writing
//! through one would mix two processes. So the rings are mapped `MADV_DONTFORK` and this page is
//! `MADV_WIPEONFORK`: in a child, however it was made, `ticket` is 0 and no thread's ticket is valid.
//! (Where the kernel knows neither, the handlers of `pthread_atfork` do the same for `fork`.)
//!
//! The lock lives here too: a child never inherits it taken.
//!
//! Invariant: `sets[..count]` are mapped for as long as the process lives.

use super::sys;
use super::thread::Thread;
use crate::ring::{CLOSED, RingHead};
use crate::ring_set::{RINGS, RingSet, SET_BYTES, SLOTS};
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
    sets: [const { AtomicPtr::new(core::ptr::null_mut()) }; SETS],
};

/// The number of this process in the recording. Not on the page: a forked child names its parent
/// by it.
pub static NUMBER: AtomicU32 = AtomicU32::new(crate::hello::NOBODY);

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

/// Does in a child of `fork` what the kernel should have done.
pub fn forget() {
    PAGE.ticket.store(0, Ordering::Relaxed);
    PAGE.threads.store(0, Ordering::Relaxed);
    PAGE.count.store(0, Ordering::Relaxed);
    PAGE.lock.store(0, Ordering::Release);
}

/// Takes the lock of everything slow. Its holders make system calls but never wait for a thread of
/// this process.
pub fn lock() {
    if PAGE.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        return;
    }
    while PAGE.lock.swap(2, Ordering::Acquire) != 0 {
        sys::wait(&PAGE.lock, 2, 100);
    }
}

/// Gives it back.
pub fn unlock() {
    if PAGE.lock.swap(0, Ordering::Release) == 2 {
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
        PAGE.count.store(count as u32 + 1, Ordering::Release);
    }
}

fn set(index: usize) -> Option<&'static RingSet> {
    let place = PAGE.sets.get(index)?;
    // SAFETY: sets below the count are mapped for ever, and a RingSet is atomics only.
    unsafe { place.load(Ordering::Relaxed).as_ref() }
}

/// Whether the parent has ended the recording of this process.
pub fn is_stopped() -> bool {
    set(0).is_none_or(|set| set.stop.load(Ordering::Relaxed) != 0)
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
            thread.pen = crate::ring::Pen::start(head, SLOTS as u64);
            return true;
        }
    }
    false
}

const _: () = assert!(RINGS == 16);
