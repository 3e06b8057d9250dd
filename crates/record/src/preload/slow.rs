//! Everything but the hot path: a first event, a full ring, a new epoch, a C++ operator in progress,
//! an event that does not fit, and the end of the recording.
//!
//! Invariant: `busy` is set while a thread is in here, so that what the C library allocates on our
//! behalf is forwarded but not recorded, and nothing recurs.

use super::patience::Patience;
use super::stacks::{self, Caller};
use super::sys::Signals;
use super::thread::{NOTHING, Thread, WITHDRAWN, current, now};
use super::{connect, cxx, lifecycle, maps, next, process, sys};
use crate::packed::{
    Kind, MAP_GONE, Packed, SIZE_LIMIT, SLACK_LIMIT, SLACK_UNKNOWN, TICK_BITS, WIDE_SLACK_UNKNOWN,
};
use crate::ring_set::SLOTS;

/// Polls of a full ring before sleeping: about two microseconds.
const POLLS: u32 = 100;
/// One sleep for room.
const NAP_MS: i64 = 20;

/// Puts an event whatever it takes.
///
/// # Safety
/// Called by a hook, outside of any reference to the thread's words.
#[cold]
#[inline(never)]
pub unsafe fn emit(event: Packed, tick: u64, caller: Caller) {
    // SAFETY: as the caller promises.
    unsafe { emit_both(None, event, tick, caller) }
}

/// Puts an event whose size, slack or alignment may not fit. `usable` is what the allocator said.
///
/// # Safety
/// As [`emit`].
#[cold]
#[inline(never)]
pub unsafe fn emit_wide(
    kind: Kind,
    object: u64,
    size: u64,
    usable: u64,
    align: u64,
    (tick, caller): (u64, Caller),
) {
    let slack = match usable.checked_sub(size) {
        Some(slack) if object != 0 && slack < WIDE_SLACK_UNKNOWN => slack,
        _ => WIDE_SLACK_UNKNOWN,
    };
    let align_log2 = if align == 0 { 0 } else { align.trailing_zeros() as u8 };
    let fits = size < SIZE_LIMIT && align_log2 == 0;
    let narrow = match slack {
        WIDE_SLACK_UNKNOWN => Some(SLACK_UNKNOWN),
        slack => (slack < SLACK_LIMIT).then_some(slack),
    };
    let event = Packed::new(kind, object, narrow.unwrap_or(0), size, tick);
    let wide = (!fits || narrow.is_none()).then(|| Packed::wide(size, slack, align_log2));
    // SAFETY: as the caller promises.
    unsafe { emit_both(wide, event, tick, caller) }
}

/// Puts the two events of memory outside of malloc. A signal handler's, amid another event of its thread, are left out and
/// not counted: no event of malloc is missing, and samples show the memory.
///
/// # Safety
/// As [`emit`].
#[cold]
#[inline(never)]
pub unsafe fn emit_map([wide, map]: [Packed; 2], tick: u64, caller: Caller) {
    // SAFETY: as the caller promises; the thread's own words.
    unsafe {
        if !(*current()).busy {
            emit_both(Some(wide), map, tick, caller);
        }
    }
}

/// # Safety
/// As [`emit`].
unsafe fn emit_both(wide: Option<Packed>, event: Packed, tick: u64, caller: Caller) {
    let thread = current();
    // SAFETY: the thread's own words; references last for the calls in which they are made, and the
    // one call that may come back to a hook (`watch`) is outside of them and marked busy.
    unsafe {
        if process::ticket() == process::OVER || (*thread).resolving > 0 {
            return;
        }
        if (*thread).busy {
            process::lose_interrupting();
            return;
        }
        (*thread).busy = true;
        if let Some(event) = cxx::adapt(&mut *thread, wide, event)
            && ready(thread, tick)
        {
            put_all(&mut *thread, wide, event, tick, caller);
        }
        if (*thread).forking > 0 {
            // A handler of the program allocates before the child is made, which inherits what it does.
            (*thread).fork_tick = (*thread).fork_tick.max(tick + 1);
        }
        (*thread).settle();
        (*thread).busy = false;
    }
}

/// Gives the calling thread a ring if it has none and can have one, though it has nothing to tell yet.
#[cold]
pub fn prepare() {
    let thread = current();
    // SAFETY: the thread's own words, no reference to them is alive across the call, and they are busy meanwhile.
    unsafe {
        if process::ticket() == process::OVER || (*thread).resolving > 0 || (*thread).busy {
            return;
        }
        (*thread).busy = true;
        ready(thread, now());
        (*thread).settle();
        (*thread).busy = false;
    }
}

/// Makes sure that the thread has a ring. False if it cannot have one.
///
/// # Safety
/// `thread` is the calling thread's words, no reference to them is alive, and it is marked busy.
unsafe fn ready(thread: *mut Thread, tick: u64) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        let ticket = process::ticket();
        if ticket != 0 && (*thread).attached_to == ticket {
            return true;
        }
        stacks::find_all();
        // The parent is told whose malloc this is, which the constructor of that malloc may be too early for us to know.
        next::malloc();
        // No handler may fork amid this: its child would go on with the parent's sets.
        let signals = Signals::block();
        if process::ticket() == 0 && !connect::open(&mut *thread, tick) {
            return false;
        }
        let ticket = process::ticket();
        let is_new = (*thread).numbered_in != ticket;
        if is_new {
            (*thread).begin(ticket);
        }
        if !attach(&mut *thread) {
            process::lose_ringless();
            return false;
        }
        if is_new {
            // Where its stack lies.
            let stack = &raw const is_new as u64;
            let start = Packed::new(Kind::ThreadStart, stack, 0, 0, tick);
            put_all(&mut *thread, None, start, tick, Caller::NONE);
        }
        drop(signals);
        if is_new {
            lifecycle::watch();
        }
        true
    }
}

/// Takes a ring, asking the parent for more where none is free.
fn attach(thread: &mut Thread) -> bool {
    if !process::try_take(thread) && !connect::more(thread) {
        return false;
    }
    thread.attached_to = process::ticket();
    thread.epoch = u64::MAX;
    true
}

/// Puts the event, with what it needs before it.
fn put_all(thread: &mut Thread, wide: Option<Packed>, event: Packed, tick: u64, caller: Caller) {
    let (event, tick) = if process::is_monotonic() {
        let tick = sys::monotonic_ns();
        (event.at(tick), tick)
    } else {
        (event, tick)
    };
    if tick >> TICK_BITS != thread.epoch {
        thread.epoch = tick >> TICK_BITS;
        if !put(thread, Packed::clock(tick)) {
            return;
        }
    }
    if stacks::tell(thread, &caller, put) && wide.is_none_or(|wide| put(thread, wide)) {
        put(thread, event);
    }
    if thread.ended {
        // A free of the C library after our last destructor: take a ring for it, and give it back. The drain has it for
        // the next one only when it was awake.
        thread.detach();
        connect::ring_doorbell();
    }
}

/// Puts one event, waiting for room. False if the recording is over.
#[inline(always)]
fn put(thread: &mut Thread, event: Packed) -> bool {
    if !thread.pen.has_room() && !make_room(thread) {
        return false;
    }
    // SAFETY: an attached thread's ring is mapped for as long as the process lives.
    unsafe {
        let slot = thread.slots.add(thread.pen.position() as usize & (SLOTS - 1));
        thread.pen.put(&*thread.ring, &*slot, event);
    }
    true
}

/// Waits until the ring has room. A parent that is dead, or does nothing for a minute, ends the
/// recording instead.
#[cold]
#[inline(never)]
fn make_room(thread: &mut Thread) -> bool {
    stacks::watch();
    // SAFETY: as in `put`.
    let ring = unsafe { &*thread.ring };
    let slots = SLOTS as u64;
    for _ in 0..POLLS {
        if thread.pen.refresh(ring, slots) {
            connect::ring_doorbell();
        }
        if thread.pen.has_room() {
            return true;
        }
        core::hint::spin_loop();
    }
    let mut patience = Patience::new();
    while ring.announce_wait(&mut thread.pen, slots) {
        connect::ring_doorbell();
        sys::wait(&ring.rare.0.waiting, 1, NAP_MS);
        if patience.is_over() {
            process::end();
            return false;
        }
    }
    true
}

impl Thread {
    /// A thread's first event in the process of this ticket.
    fn begin(&mut self, ticket: u64) {
        self.number = process::number_thread();
        self.numbered_in = ticket;
        self.ended = false;
        stacks::forget(self);
        // Amid a fork only where a signal handler's child goes on, or a handler of the program is first in a child.
        self.fork_tick = if self.forking > 0 { now() } else { 0 };
    }

    /// Gives the ring back to the parent.
    pub fn detach(&mut self) {
        if self.attached_to == process::ticket() {
            // SAFETY: as in `put`.
            unsafe { (*self.ring).close() };
        }
        self.attached_to = 0;
        self.ticket = WITHDRAWN;
    }

    /// In a child: the rings are the parent's.
    pub fn leave_rings(&mut self) {
        process::stand_in_for_rings(self.ring, &self.pen);
        self.attached_to = 0;
        self.ticket = WITHDRAWN;
        // What was interrupted is the parent's; the handler's own events are this process's.
        self.busy = false;
    }

    /// Allows the hot path where nothing speaks against it.
    pub fn settle(&mut self) {
        let quiet =
            self.making == 0 && self.deleting == 0 && self.forking == 0 && !process::is_monotonic();
        self.ticket = if quiet && self.attached_to != 0 { self.attached_to } else { WITHDRAWN };
    }

    /// The thread ends.
    ///
    /// # Safety
    /// `thread` is the calling thread's words and no reference to them is alive.
    pub unsafe fn end(thread: *mut Thread, tick: u64) {
        // SAFETY: as the caller promises.
        unsafe {
            if (*thread).attached_to != process::ticket() || (*thread).busy {
                return;
            }
            (*thread).busy = true;
            (*thread).ended = true;
            if let Some((at, bytes)) = stacks::give_back(&mut *thread) {
                maps::tell_own(&mut *thread, (at as u64, bytes as u64), MAP_GONE, put);
            }
            let end = Packed::new(Kind::ThreadEnd, 0, 0, 0, tick);
            put_all(&mut *thread, None, end, tick, Caller::NONE);
            (*thread).made = NOTHING;
            (*thread).busy = false;
        }
    }
}
