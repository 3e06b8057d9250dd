//! The library that is preloaded: hooks, and the little it takes to get their events out.
//!
//! ```text
//!   hooks.rs, cxx.rs,   what the program calls; what the next allocator is (next.rs) decides nothing
//!   maps.rs
//!         │ emit
//!         ▼
//!   thread.rs           the thread's own words: one comparison, two stores, done
//!         │ anything else
//!         ▼
//!   stacks              whose call it is (enabled.rs, or disabled.rs in the library without stacks)
//!         │
//!   slow.rs             no ring yet, a full ring (patience.rs), a new epoch, C++ in progress, recording over
//!         │
//!   process.rs          the process's ring sets; forgotten by the kernel when it forks
//!   connect.rs          the talk with the parent, in raw system calls (sys.rs), unless the program filters those (filtered.rs)
//! ```
//!
//! Invariants: no hook allocates, panics, unwinds or changes `errno`; whatever goes wrong ends the
//! recording of this process and nothing else.

// First, for its macros.
#[macro_use]
#[cfg_attr(feature = "stacks", path = "stacks/enabled.rs")]
#[cfg_attr(not(feature = "stacks"), path = "stacks/disabled.rs")]
mod stacks;

mod connect;
mod cxx;
mod filtered;
mod hooks;
mod lifecycle;
mod maps;
mod next;
mod patience;
mod process;
mod slow;
mod sys;
mod thread;

/// There is nothing to unwind to and nothing to print with; no hook can panic (a test of
/// `freehold record`, `no_hook_can_panic`, reads the library's symbols).
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: abort never returns and has no precondition.
    unsafe { libc::abort() }
}
