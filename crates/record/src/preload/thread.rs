//! What a thread knows: its ring, its pen, and what it is in the middle of. The hot path is here.
//!
//! The words lie in initial-exec thread-local storage, written in assembly because `#[thread_local]`
//! is not stable and `std::thread_local!` in a shared library is a call (which may allocate).
//!
//! Invariant: `ticket` equals the process's ticket (see `process.rs`) only while this thread may put
//! events without further thought: it owns a ring of this very process, and no C++ operator is in
//! progress. All zero is the state of a new thread.

use super::stacks::{self, Caller};
use super::{process, slow};
use crate::packed::{Packed, TICK_BITS};
use crate::ring::{Pen, RingHead, Slot};
use crate::ring_set::SLOTS;
use core::arch::{asm, global_asm, x86_64::_rdtsc};
use core::mem::size_of;

/// The thread's words. All zero is valid.
#[repr(C, align(64))]
pub struct Thread {
    /// The process's ticket while the hot path may be taken; 0 in a new thread, else [`WITHDRAWN`].
    pub ticket: u64,
    pub pen: Pen,
    /// The tick's upper bits, as the ring's last Clock event told them.
    pub epoch: u64,
    pub ring: *const RingHead,
    pub slots: *const Slot,
    /// The ticket of the process that `ring` belongs to. `ticket` differs from it while a C++
    /// operator is in progress, and where the clock is not the processor's.
    pub attached_to: u64,
    /// The ticket of the process that `number` is valid in.
    pub numbered_in: u64,
    /// In the slow path already: what it allocates is not the program's.
    pub busy: bool,
    /// The thread's destructor has run for the last time.
    pub ended: bool,
    /// Its number.
    pub number: u32,
    /// Resolving the next allocator: allocations come from `next.rs`'s own reserve.
    pub resolving: u32,
    /// Which operator new is in progress: its event's kind, 0 for none.
    pub making: u8,
    /// Asking the next allocator for a usable size before the process has begun (`next.rs`).
    pub measuring: bool,
    /// How many forks it is inside of: more than one if a signal handler forks amid a fork.
    pub forking: u8,
    /// The size it was asked for.
    pub making_size: u64,
    /// The alignment it was asked for; 0 for none.
    pub making_align: u64,
    /// The address an event was put for while it is in progress; [`NOTHING`] before.
    pub made: u64,
    /// Where its frame lies: a call from above it means that it was left by an exception.
    pub making_frame: u64,
    /// The object that an operator delete in progress has put the event for.
    pub deleting: u64,
    /// While it forks, a moment after its last event: what lived then is what the child inherits. 0 outside of a fork.
    pub fork_tick: u64,
    /// Its call stacks.
    pub stacks: stacks::Own,
}

/// A ticket that no process has. It must not be 0, which the process's own is in a forked child; a
/// new thread's may, because its pen has no room.
pub const WITHDRAWN: u64 = u64::MAX;

/// [`Thread::made`] when nothing was made yet.
pub const NOTHING: u64 = u64::MAX;

const BYTES: usize = stacks::THREAD_BYTES;
const _: () = assert!(size_of::<Thread>() == BYTES);

global_asm!(
    ".pushsection .tbss.freehold_record_thread,\"awT\",@nobits",
    ".balign 64",
    ".hidden freehold_record_thread",
    ".globl freehold_record_thread",
    ".type freehold_record_thread,@tls_object",
    ".size freehold_record_thread,{bytes}",
    "freehold_record_thread:",
    ".zero {bytes}",
    ".popsection",
    bytes = const BYTES,
);

/// The calling thread's words.
#[inline(always)]
pub fn current() -> *mut Thread {
    let thread: *mut Thread;
    // SAFETY: the two instructions of an initial-exec access; the result is constant in a thread.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + freehold_record_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) thread,
            options(pure, readonly, nostack),
        );
    }
    thread
}

/// The time stamp counter. Not serialising, for that costs 13 ns a pair of events here; so a stamp can
/// be early by what the processor looks ahead (well under a microsecond), and the finisher must bear
/// an allocation that seems to come just before another thread's free of its address, or a free that
/// seems to come before the allocation.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: every x86-64 processor has it; where user code may not use it, the parent says so.
    unsafe { _rdtsc() }
}

/// Puts an event that fits, or does what it takes.
///
/// # Safety
/// Called by a hook, outside of any reference to the thread's words.
#[inline(always)]
pub unsafe fn emit(event: Packed, tick: u64, caller: Caller) {
    let thread = current();
    // SAFETY: the words are this thread's own, and no other reference to them is alive. With the
    // ticket valid, ring and slots point into a mapping of this process that is never unmapped.
    unsafe {
        let valid = (*thread).ticket == process::ticket();
        if valid & (*thread).pen.has_room() & (tick >> TICK_BITS == (*thread).epoch)
            && let Some(mark) = stacks::is_told(thread, &caller)
        {
            let slot = (*thread).slots.add((*thread).pen.position() as usize & (SLOTS - 1));
            (*thread).pen.put(&*(*thread).ring, &*slot, event);
            stacks::confirm(thread, mark);
        } else {
            slow::emit(event, tick, caller);
        }
    }
}
