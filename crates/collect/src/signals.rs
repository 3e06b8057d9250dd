//! Signals that reach a command while the program that it started runs.
//!
//! A terminal sends Ctrl-C to the whole foreground group, so the program has its own; one sent to the
//! command alone (`kill`) is meant for what it runs and is passed on. Either way the command stays
//! to say what came of it. What the caller had ignored stays ignored, here and in the program.
//!
//! Invariant: the handler only loads and stores atomics and calls `kill`.

use std::mem::zeroed;
use std::sync::atomic::{AtomicI32, Ordering};

/// The program, while it runs.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// The signal that came when no program was running; 0 for none.
static INTERRUPTED: AtomicI32 = AtomicI32::new(0);

const CAUGHT: [i32; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let child = CHILD.load(Ordering::SeqCst);
    if child == 0 {
        INTERRUPTED.store(signal, Ordering::SeqCst);
        return;
    }
    // SAFETY: the kernel hands a valid siginfo to a handler installed with SA_SIGINFO; kill may be
    // called in a handler, and the child is not reaped while CHILD names it.
    unsafe {
        if (*info).si_code <= 0 {
            libc::kill(child, signal);
        }
    }
}

extern "C" fn ignore(_signal: i32) {}

/// Catches what would end the command. Handlers, unlike ignored signals, do not reach the program.
pub fn catch() {
    for signal in CAUGHT {
        install(signal, handle as *const () as usize, libc::SA_SIGINFO | libc::SA_RESTART);
    }
    // A closed pipe or a file at its limit is an error to be told, not an end.
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        install(signal, ignore as *const () as usize, libc::SA_RESTART);
    }
}

fn install(signal: i32, handler: usize, flags: i32) {
    // SAFETY: all zero is a valid sigaction; the handlers are functions of the type that the flags
    // name and live for ever.
    unsafe {
        let mut old: libc::sigaction = zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut old);
        if old.sa_sigaction == libc::SIG_IGN {
            return;
        }
        let mut new: libc::sigaction = zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = flags;
        libc::sigaction(signal, &new, std::ptr::null_mut());
    }
}

/// Names the program that signals are for; 0 for none. One that came while it was being started is passed on.
pub fn pass_to(child: i32) {
    CHILD.store(child, Ordering::SeqCst);
    if child == 0 {
        return;
    }
    let early = INTERRUPTED.swap(0, Ordering::SeqCst);
    if early != 0 {
        // SAFETY: the child was not reaped yet.
        unsafe { libc::kill(child, early) };
    }
}

/// Whether a signal asked the command itself to stop.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst) != 0
}
