//! When the process begins and forks, and when a thread ends.

use super::thread::{Thread, WITHDRAWN, current, now};
use super::{connect, cxx, next, process, stacks, sys};
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

/// Runs before `main`, and before the constructors of the libraries loaded after us.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// Runs after the program's own functions of `atexit` and `main`.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// The key whose destructor tells that a thread ends, plus one; 0 before there is one.
static KEY: AtomicU32 = AtomicU32::new(0);

/// The key's value is which round of destructors comes next.
const FIRST_ROUND: usize = 1;
/// POSIX runs destructors again while values are set, at most this often.
const ROUNDS: usize = 4;

extern "C" fn begin() {
    next::find_all();
    cxx::find_all();
    stacks::find_all();
    let thread = current();
    // SAFETY: the thread's own words, for the length of the calls; pthread_atfork may allocate, and
    // then finds the thread busy.
    unsafe {
        (*thread).busy = true;
        let mut key = 0;
        if libc::pthread_key_create(&mut key, Some(on_thread_end)) == 0 {
            KEY.store(key + 1, Ordering::Relaxed);
        }
        libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child));
        (*thread).busy = false;
        // A process is part of the recording even if it never allocates.
        if process::ticket() == 0 {
            connect::open(&mut *thread, now());
        }
    }
}

extern "C" fn end() {
    connect::last();
}

/// Arranges to be told when this thread ends. May allocate.
pub fn watch() {
    let key = KEY.load(Ordering::Relaxed);
    if key != 0 {
        // SAFETY: the key exists, and its value is only a count.
        unsafe { libc::pthread_setspecific(key - 1, FIRST_ROUND as *const c_void) };
    }
}

/// Asks for another round until the last: other destructors still allocate and free.
unsafe extern "C" fn on_thread_end(round: *mut c_void) {
    let round = round as usize;
    let key = KEY.load(Ordering::Relaxed);
    // SAFETY: the key exists; the thread's own words.
    unsafe {
        if round < ROUNDS && key != 0 {
            libc::pthread_setspecific(key - 1, (round + 1) as *const c_void);
        } else {
            Thread::end(current(), now());
        }
    }
}

/// Runs before the handlers that were registered before ours: those may allocate, and so may a signal handler, which may
/// fork, too.
unsafe extern "C" fn before_fork() {
    let thread = current();
    // SAFETY: the thread's own words.
    unsafe {
        if (*thread).forking == 0 {
            process::fork_begins();
        }
        (*thread).forking = (*thread).forking.saturating_add(1);
        // From now on, every event says when it was (`slow.rs`).
        (*thread).ticket = WITHDRAWN;
        (*thread).fork_tick = now();
    }
}

unsafe extern "C" fn after_fork() {
    // SAFETY: the thread's own words.
    unsafe { leave_fork(current()) };
}

unsafe extern "C" fn in_child() {
    let thread = current();
    sys::close_inherited();
    // SAFETY: the thread's own words. Its number and the fork's tick are kept for the first message, unless a handler of
    // the program has sent it already.
    unsafe {
        if !process::has_begun() {
            process::forget();
            stacks::forget_locks();
            (*thread).leave_rings();
        }
        leave_fork(thread);
    }
}

/// A fork is over for this thread. What it interrupted, if it was called in a signal handler, goes on afterwards.
///
/// # Safety
/// `thread` is the calling thread's words and no reference to them is alive.
unsafe fn leave_fork(thread: *mut Thread) {
    // SAFETY: as the caller promises.
    unsafe {
        (*thread).forking = (*thread).forking.saturating_sub(1);
        if (*thread).forking == 0 {
            process::fork_ends();
        }
        if process::has_begun() {
            (*thread).fork_tick = if (*thread).forking > 0 { now() } else { 0 };
        }
        if !(*thread).busy && (*thread).resolving == 0 {
            (*thread).settle();
        }
    }
}
