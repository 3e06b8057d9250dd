//! libfreehold.so: malloc and its relatives for any program, by `LD_PRELOAD` or linking.
//!
//! ```text
//! malloc       what C11, C23, POSIX and glibc name, and what they say about errno and overflow
//! operators    every C++ operator new and delete
//! inspect      malloc_trim, mallinfo2, malloc_stats and the like
//! ```
//!
//! The names are exported with the feature `preload` only:
//! `cargo rustc -p freehold-capi --profile preload --features preload --crate-type cdylib`.
//! Invariant: no panic is reachable and nothing unwinds through here; start-up does nothing.
#![no_std]

pub mod inspect;
pub mod malloc;
pub mod operators;

/// Nothing here panics; if something did, the program would stop.
#[cfg(all(feature = "preload", not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
